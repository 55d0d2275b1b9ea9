"""Agents of each kind use language features, debugger, tests and notebooks of one real window."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession
from playwright.async_api import Page, expect

from bascule.core.actions import FileRead
from bascule.runtime.vscode import VSCodeRuntime
from tests.adapters.environment import openhands_python
from tests.adapters.mcp.clients import code_of, over_http, text_of

from .driving import run_command
from .python_window import close_window, open_python_window
from .rig import EditorWindow, Rig

_GUIDE = (Path(__file__).parents[2] / "docs/guides/agent-skills.md").read_text()
_BLOCKS = re.findall(r"^```python\n(.*?)^```$", _GUIDE, re.MULTILINE | re.DOTALL)
_FILES = dict(zip(("prices.py", "bill.py", "test_bill.py"), _BLOCKS, strict=False))
_PROGRAMS = _BLOCKS[len(_FILES) :]
_INVOICE = {
    "rates.py": "def tax(net, rate):\n    return net + rate\n",
    "invoice.py": "from rates import tax\n\nprint(tax(100, 0.25))\n",
    "quarter.py": "from rates import tax\n\nTOTAL = sum(tax(net, 0.25) for net in (1, 2, 3))\n",
}


@pytest.fixture(scope="module")
def window(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    folder = tmp_path_factory.mktemp("skills") / "skills"
    command = {"name": "pytest", "command": f"{sys.executable} -m pytest", "results": "pytest"}
    settings = {"bascule.testCommands": [command]}
    files = {**_FILES, **_INVOICE}
    window = rig.wait(open_python_window(rig, "skills", folder, files, settings))
    yield window
    rig.wait(close_window(rig, window))


async def test_an_mcp_client_finds_debugs_and_tests(rig: Rig, window: EditorWindow) -> None:
    folder = window.folder
    spot = {"path": "prices.py", "line": 4, "symbol": "price"}
    program = {"type": "debugpy", "program": f"{folder}/bill.py", "console": "internalConsole"}
    async with over_http(f"{rig.url}/mcp", await rig.agent_token()) as client:
        await client.call_tool("use_window", {"window": window.id})
        assert f"{folder}/bill.py:7" in await _told(client, "references", **spot)
        assert "def price" in await _told(client, "hover", path="bill.py", line=7, symbol="price")
        assert await _code(client, "hover", **{**spot, "symbol": "cost"}) == "symbol.not_found"
        assert await _code(client, "rename_symbol", **spot, new_name="price") == "edit.invalid"
        assert await _code(client, "format", path="missing.py") == "path.not_found"
        assert await _code(client, "debug_continue") == "debug.no_session"
        assert await _code(client, "debug_start", name="Main") == "debug.no_configuration"

        point = {"line": 7, "condition": "name == 'cheese'"}
        assert "(if name == 'cheese')" in await _told(
            client, "set_breakpoints", path="bill.py", add=[point]
        )
        stopped = await client.call_tool("debug_start", {"configuration": program})
        assert stopped.structuredContent is not None
        assert (stopped.structuredContent["state"], stopped.structuredContent["line"]) == (
            "stopped",
            7,
        )
        assert "> 7:         total += price(name, count)" in text_of(stopped)
        assert "in price" in await _told(client, "debug_step", step="into")
        assert await _told(client, "debug_evaluate", expression="PRICES[name] * count") == (
            "PRICES[name] * count = 8.4 (float)"
        )
        assert await _code(client, "debug_evaluate", expression="cost") == "debug.failed"
        assert "count = 3" in await _told(client, "debug_set_variable", name="count", value="3")
        assert "count = 3" in await _told(client, "debug_state")
        await _told(client, "set_breakpoints", clear=True)
        assert "10.7" in await _told(client, "debug_continue")
        assert await _code(client, "debug_stop") == "debug.no_session"

        assert "test_bill.py::test_price" in await _told(client, "list_tests")
        assert "2 failed" in await _told(client, "run_tests", path="test_bill.py")
        assert await _code(client, "run_tests", path="missing.py") == "path.not_found"
        assert await _code(client, "read_cells", path="bill.py") == "notebook.invalid"


@pytest.mark.parametrize("program", _PROGRAMS, ids=re.findall("^## (.*)$", _GUIDE, re.M)[1:])
async def test_a_story_of_the_guide_does_what_it_says(
    rig: Rig, window: EditorWindow, tmp_path: Path, program: str
) -> None:
    promised = re.findall(r"print\(.*\)  # (.*)$", program, re.MULTILINE)
    assert promised

    assert (await _output(rig, window, tmp_path, "-c", program)).splitlines() == promised


async def test_an_openhands_agent_finds_a_bug_and_renames_and_one_undo_takes_it_back(
    rig: Rig, window: EditorWindow, tmp_path: Path, project: Path
) -> None:
    python = openhands_python(project, "v1")
    script = str(project / "tests/e2e/openhands_debugs.py")
    output = await _output(rig, window, tmp_path, script, str(window.folder), python=python)
    wrong, _, stopped, value, out, ended, _, unknown, renamed, ran = json.loads(
        output.splitlines()[-1]
    )

    assert "There is no launch configuration 'Nothing'" in wrong
    assert stopped.startswith(f"Stopped by breakpoint at {window.folder}/rates.py:2 in tax")
    assert value == "net * rate = 25.0 (float)"
    assert f"{window.folder}/invoice.py:3" in out.splitlines()[0]
    assert ended.startswith("'Agent' has ended")
    assert "'nothing' is not a whole word in line 1" in unknown
    assert renamed.startswith("Renamed 'tax' to 'tax_of': 5 lines in 3 files")
    assert ran.startswith("25.0\n")
    files = [window.folder / name for name in _INVOICE]
    after = [file.read_text() for file in files]
    async with VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id) as agent:
        await agent.open_file("quarter.py", preview=False)
        await rig.on(_undo(window.page, "quarter.py"))
        async with asyncio.timeout(60):
            for file, text in zip(files, after, strict=True):
                before = text.replace("tax_of", "tax")
                while (await agent.act(FileRead(str(file)))).content != before:
                    await asyncio.sleep(0.05)
    await rig.on(run_command(window.page, "File: Save All Files"))
    await rig.on(expect(window.page.locator(".tab.dirty")).to_have_count(0))
    assert files[0].read_text() == "def tax(net, rate):\n    return net * rate\n"


async def _undo(page: Page, name: str) -> None:
    await page.locator(f'.monaco-editor[data-uri$="{name}"] .view-lines').first.click()
    await page.keyboard.press("Control+z")


async def _told(client: ClientSession, tool: str, /, **arguments: Any) -> str:
    seen = await client.call_tool(tool, arguments)
    assert not seen.isError, text_of(seen)
    return text_of(seen)


async def _code(client: ClientSession, tool: str, /, **arguments: Any) -> str:
    return code_of(await client.call_tool(tool, arguments))


async def _output(
    rig: Rig, window: EditorWindow, cwd: Path, *arguments: str, python: str = sys.executable
) -> str:
    """What a program prints that acts in the window by the variables of its environment."""
    project = Path(__file__).parents[2]
    ours = {
        "BASCULE_HUB": rig.url,
        "BASCULE_TOKEN": await rig.agent_token(),
        "BASCULE_WINDOW": str(window.id),
        "PYTHONPATH": f"{project / 'src'}{os.pathsep}{project}",
        # Without it OpenHands asks the network for prices while it is imported.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENHANDS_SUPPRESS_BANNER": "1",
    }
    process = await asyncio.create_subprocess_exec(
        *(python, *arguments),
        cwd=cwd,
        env={**os.environ, **ours},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output.decode()
