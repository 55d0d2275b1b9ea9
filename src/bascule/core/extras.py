"""Optional parts of the installation: the packages of each extra, and how to install it.

The wheel alone has the client, `LocalRuntime` and the command line. Everything else is an extra in
pyproject.toml. Code that imports a package of an extra converts `ModuleNotFoundError` to
`MissingExtra` with `missing_extra`. The command line does so for all its commands.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from .errors import MissingExtra

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "sandbox": ("uvicorn", "starlette", "uvloop", "psutil", "prometheus_client", "multipart"),
    "hub": (
        *("fastapi", "sqlalchemy", "alembic", "aiosqlite", "asyncpg", "pydantic"),
        *("socketio", "engineio", "aiohttp"),
    ),
    "ipython": ("ipykernel", "jupyter_client"),
    "browser": ("playwright", "pypdfium2"),
    "nets": ("ruamel", "defusedxml", "debugpy"),
    "mcp": ("mcp", "anyio", "jsonschema"),
    "docker": ("aiodocker",),
    "oidc": ("jwt", "cryptography"),
    "traces": ("opentelemetry",),
}
"""The top-level modules of each extra. A module is listed once, for its main extra."""

_PURPOSES: Final[Mapping[str, str]] = {
    "sandbox": "Serving a sandbox over HTTP",
    "hub": "Running a hub, or acting in its VS Code windows,",
    "ipython": "Running IPython cells",
    "browser": "Browsing",
    "nets": "Loading and debugging Petri nets",
    "mcp": "Serving MCP clients",
    "docker": "Starting sandboxes in containers",
    "oidc": "Signing in with OpenID Connect",
    "traces": "Exporting traces",
}


def missing_extra(error: ModuleNotFoundError) -> ModuleNotFoundError | MissingExtra:
    """The error to raise for `error`: `MissingExtra` if an extra has the module, else `error`."""
    module = (error.name or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules:
            return _missing_extra_error(extra, module)
    return error


def require_extra(extra: str) -> None:
    """Raise `MissingExtra` unless all modules of `extra` can be found. Imports none of them."""
    for module in EXTRAS[extra]:
        if find_spec(module) is None:
            raise _missing_extra_error(extra, module)


def install_command(extra: str) -> str:
    """The command that installs `extra` into the environment of the running Bascule."""
    # Imported here: nearly every program imports this module, and few need these.
    import json
    import shlex
    from importlib.metadata import PackageNotFoundError, distribution

    requirement = f"bascule[{extra}]"
    try:
        text = distribution("bascule").read_text("direct_url.json")
    except PackageNotFoundError:  # run from a source tree
        text = None
    source = json.loads(text) if text else {}
    if source.get("dir_info", {}).get("editable"):
        options = ["--editable", f"{source['url'].removeprefix('file://')}[{extra}]"]
    else:
        options = [f"{requirement} @ {source['url']}" if source else requirement]
    return shlex.join([sys.executable, "-m", "pip", "install", *options])


def _missing_extra_error(extra: str, module: str) -> MissingExtra:
    return MissingExtra(
        f"{_PURPOSES[extra]} needs the extra `{extra}` of Bascule, because the package {module} is "
        f"not installed; install it with: {install_command(extra)}",
        extra=extra,
    )
