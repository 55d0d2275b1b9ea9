"""Language actions of a sandbox, by the official MCP client."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bascule.adapters.mcp import SingleTarget
from bascule.core.contracts import Runtime
from bascule.runtime import LocalRuntime
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from tests.language_servers import path_with_servers

from .clients import at, call, code_of, names_of, text_of


@pytest.mark.slow
async def test_a_sandbox_offers_the_language_actions(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n")
    (tmp_path / "main.py").write_text("from sums import add\n\nprint(add(1, 2))\n")
    env = {**os.environ, "PATH": path_with_servers()}
    shells = ShellSettings(working_dir=tmp_path, env=env)
    runtime = LocalRuntime(settings=SandboxSettings(shells=shells, roots=(tmp_path,)))

    async def opened() -> Runtime:
        await runtime.connect()
        return runtime

    async with at(SingleTarget(opened)) as client:
        names = names_of(await client.list_tools())
        assert {"references", "rename_symbol", "diagnostics"} <= names
        assert not {"open_file", "ask_user", "vscode_command"} & names
        place = {"path": "sums.py", "line": 1, "symbol": "add"}
        found = await call(client, "references", **place)
        assert f"{tmp_path}/main.py:3: print(add(1, 2))" in text_of(found)
        assert found.structuredContent is not None
        assert found.structuredContent["total"] == 3
        missing = await call(client, "hover", **{**place, "symbol": "subtract"})
        assert code_of(missing) == "symbol.not_found"
        done = await call(client, "rename_symbol", **place, new_name="plus")
        assert text_of(done).startswith("Renamed 'add' to 'plus': 3 lines in 2 files")
        await call(client, "write_file", path="main.py", content="from sums import add\n")
        problems = await call(client, "diagnostics", severity="error")
        assert 'main.py:1:18: error: "add" is unknown import symbol' in text_of(problems)
