"""VS Code windows that know Python: with a language server and a debugger, without a marketplace.

The extension in `python_extension` starts basedpyright and debugpy, which
`scripts/language-servers` installs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.language_servers import servers_directory

from .rig import EditorWindow, Rig

EXTENSION = Path(__file__).parent / "python_extension"
_PYRIGHT = json.dumps({"typeCheckingMode": "standard"})


async def open_python_window(
    rig: Rig, name: str, folder: Path, files: Mapping[str, str], settings: Mapping[str, Any]
) -> EditorWindow:
    """Runs on the rig's loop. The window has its own VS Code, `name` is that of its data.

    `files` are written first, so that the language server finds them in its workspace. Skips the
    test if the language server is not installed.
    """
    for path, content in {"pyrightconfig.json": _PYRIGHT, **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    told = {"debug.openDebug": "neverOpen", **settings}
    server = await rig.serve(name, told, _environment(), [EXTENSION])
    return await rig.open_window(folder, server=server)


async def close_window(rig: Rig, window: EditorWindow) -> None:
    """Runs on the rig's loop. Closes the window and its VS Code."""
    await window.page.context.close()
    await rig.stop_serving(window.server)


def _environment() -> dict[str, str]:
    programs = servers_directory()
    if programs is None:
        pytest.skip("no language servers are installed; scripts/language-servers installs them")
    home = programs.parent
    (pyright,) = home.glob("python/lib/*/site-packages/basedpyright/langserver.index.js")
    return {
        "TESTS_PYRIGHT": str(pyright),
        "TESTS_DEBUGPY_PYTHON": str(home / "python/bin/python"),
        "TESTS_NODE_MODULES": str(home / "node_modules"),
    }
