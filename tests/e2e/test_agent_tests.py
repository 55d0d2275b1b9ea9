"""Test commands in a real window, with pytest and Vitest."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bascule.core.errors import (
    ActionCancelled,
    ActionTimedOut,
    InvalidAction,
    NoSuchPath,
    NoSuchTest,
    NoTestCommand,
    NoTestResults,
    PathOutsideRoots,
)
from bascule.runtime.vscode import VSCodeRuntime
from tests.adapters.mcp.clients import over_http, text_of
from tests.contracts.runtime import gone

from .driving import clear_toast, run_command
from .rig import EditorWindow, Rig

_PROJECT = Path(__file__).parents[2]
_FILES = {
    "conftest.py": "",
    "pytest.ini": "[pytest]\naddopts = -v\n",
    "tests/test_sums.py": """\
import pytest


class TestSums:
    @pytest.mark.parametrize("n", [1, 2])
    def test_adds(self, n):
        assert n + 1 == 2


def test_passes():
    pass


@pytest.mark.skip(reason="later")
def test_skipped():
    pass
""",
    "slow/test_waits.py": """\
import os, time


def test_waits():
    open("pid", "w").write(str(os.getpid()))
    time.sleep(600)
""",
    "slow/test_crashes.py": "import os\n\n\ndef test_crashes():\n    os.abort()\n",
    "sums.test.js": """\
import { describe, expect, it } from "vitest";

describe("sums", () => {
  it("adds (one)", () => expect(1 + 1).toBe(2));
  it("fails", () => {
    expect(1 + 1).toBe(3);
  });
});
""",
}
_COMMANDS = [
    {"name": "pytest", "command": f"{sys.executable} -m pytest", "results": "pytest"},
    {
        "name": "vitest",
        "command": "node node_modules/vitest/vitest.mjs run --reporter=json",
        "results": "vitest",
    },
    {"name": "missing", "command": "no-such-program --all", "results": "junit"},
    {"name": "silent", "command": "echo nothing to see", "results": "junit"},
]


@pytest.fixture(scope="module")
def window(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    folder = tmp_path_factory.mktemp("programs") / "programs"
    for name, content in _FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    (folder / "node_modules").symlink_to(_PROJECT / "extension/node_modules")
    settings = {"bascule.testCommands": _COMMANDS}
    server = rig.wait(rig.serve("programs", settings))
    window = rig.wait(rig.open_window(folder, server=server))
    yield window
    rig.wait(window.page.context.close())
    rig.wait(rig.stop_serving(server))


@pytest.fixture
async def agent(rig: Rig, window: EditorWindow) -> AsyncIterator[VSCodeRuntime]:
    async with VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id) as runtime:
        yield runtime


@pytest.fixture
def folder(window: EditorWindow) -> Path:
    return window.folder


async def test_tests_of_pytest_are_listed_run_and_run_again(
    agent: VSCodeRuntime, folder: Path
) -> None:
    file = folder / "tests/test_sums.py"
    adds = "tests/test_sums.py::TestSums::test_adds"
    listed = await agent.list_tests("tests")
    assert listed.content.splitlines() == [
        f"{adds}[1] ({file}:6)",
        f"{adds}[2] ({file}:6)",
        f"tests/test_sums.py::test_passes ({file}:10)",
        f"tests/test_sums.py::test_skipped ({file}:15)",
    ]
    assert list(listed.names) == ["pytest", "vitest", "missing", "silent"]

    done = await agent.run_tests("tests")

    assert (done.exit_code, dict(done.counts)) == (
        1,
        {"passed": 2, "failed": 1, "error": 0, "skipped": 1},
    )
    lines = done.content.splitlines()
    assert lines[0].startswith("1 failed, 1 skipped, 2 passed in ")
    assert lines[1] == f"FAILED {adds}[2] ({file}:7)"
    assert f"SKIPPED tests/test_sums.py::test_skipped ({file}:14): later" in lines
    assert not any("test_passes" in line for line in lines)
    failed, *others = done.items
    assert (failed["outcome"], failed["path"], failed["line"]) == ("failed", str(file), 7)
    assert "assert (2 + 1) == 2" in failed["message"]
    assert len(others) == 3

    again = await agent.run_tests(failed=True)
    assert [item["id"] for item in again.items] == [f"{adds}[2]"]
    file.write_text(file.read_text().replace("n + 1 == 2", "n + 1 > 1"))
    repaired = await agent.run_tests(failed=True)
    assert (repaired.exit_code, repaired.counts["passed"]) == (0, 1)
    with pytest.raises(NoSuchTest, match="no test failed"):
        await agent.run_tests(failed=True)

    one = await agent.run_tests(tests=["tests/test_sums.py::test_passes"])
    assert [item["id"] for item in one.items] == ["tests/test_sums.py::test_passes"]


async def test_tests_of_vitest_are_listed_and_run(agent: VSCodeRuntime, folder: Path) -> None:
    listed = await agent.list_tests("sums.test.js")
    assert listed.content.splitlines() == [
        f"sums.test.js::sums > adds (one) ({folder}/sums.test.js:4)",
        f"sums.test.js::sums > fails ({folder}/sums.test.js:5)",
    ]
    assert (folder / "sums.test.js").read_text() == _FILES["sums.test.js"]
    done = await agent.run_tests("sums.test.js", limit=1)
    assert (done.total, done.truncated, len(done.items)) == (2, True, 1)
    (failed,) = done.items
    assert (failed["id"], failed["line"]) == ("sums.test.js::sums > fails", 6)
    assert "expected 2 to be 3" in done.content
    assert done.note == "1 more of 2: test_results with offset 1"
    rest = await agent.test_results(offset=1)
    assert [item["id"] for item in rest.items] == ["sums.test.js::sums > adds (one)"]
    one = await agent.run_tests(tests=["sums.test.js::sums > adds (one)"])
    assert (one.exit_code, dict(one.counts)["passed"], one.total) == (0, 1, 1)
    with pytest.raises(NoSuchTest, match="No test fits"):
        await agent.run_tests(tests=["sums.test.js::sums > nothing"])


async def test_impossible_test_runs_return_clear_errors(agent: VSCodeRuntime) -> None:
    with pytest.raises(NoSuchTest, match="not run tests"):
        await agent.test_results()
    with pytest.raises(NoSuchTest, match=r"(?s)No test fits.*not found: .*test_nothing"):
        await agent.run_tests(tests=["tests/test_sums.py::test_nothing"])
    with pytest.raises(NoSuchPath):
        await agent.run_tests("tests/nothing.py")
    with pytest.raises(PathOutsideRoots):
        await agent.run_tests("/etc")
    with pytest.raises(NoTestCommand, match=r"(?s)Name one of the test commands; .*silent"):
        await agent.run_tests()
    with pytest.raises(NoTestCommand, match="no test command 'nothing'; there are: pytest"):
        await agent.run_tests(name="nothing")
    with pytest.raises(NoTestCommand, match="'silent' can only run all of its tests"):
        await agent.run_tests("tests", name="silent")
    with pytest.raises(NoTestResults, match=r"(?s)code 127 .*program: command not found"):
        await agent.run_tests(name="missing")
    with pytest.raises(NoTestResults, match=r"(?s)printed no results; .*nothing to see"):
        await agent.run_tests(name="silent")
    with pytest.raises(NoTestResults, match="exit code 134"):
        await agent.run_tests("slow/test_crashes.py")
    with pytest.raises(InvalidAction, match="only one of"):
        await agent.run_tests("tests", failed=True)
    with pytest.raises(ActionTimedOut, match=r"did not end within 0\.1 seconds"):
        await agent.run_tests("slow/test_waits.py", timeout=0.1)


async def test_stopping_everything_ends_the_tests(
    rig: Rig, window: EditorWindow, agent: VSCodeRuntime, folder: Path
) -> None:
    running = asyncio.create_task(agent.run_tests("slow/test_waits.py"))
    pid = await _number_in(folder / "pid")

    await rig.on(run_command(window.page, "Bascule: Stop Everything Agents Do Here"))

    with pytest.raises(ActionCancelled):
        await running
    await gone(pid)
    await rig.on(clear_toast(window.page, "Bascule: stopped"))
    await rig.on(run_command(window.page, "Bascule: Apply the Consent Settings Again"))
    await rig.on(clear_toast(window.page, "the setting bascule.consent applies again"))


async def test_an_mcp_client_runs_tests(rig: Rig, window: EditorWindow) -> None:
    async with over_http(f"{rig.url}/mcp", await rig.agent_token()) as client:
        await client.call_tool("use_window", {"window": window.id})
        ran = await client.call_tool("run_tests", {"path": "tests"})
        found = await client.call_tool("test_results", {"outcome": "skipped"})
    assert not ran.isError, text_of(ran)
    assert "1 skipped, " in text_of(ran)
    assert found.structuredContent is not None
    assert [item["line"] for item in found.structuredContent["items"]] == [14]


async def _number_in(file: Path) -> int:
    async with asyncio.timeout(60):
        while not (file.exists() and file.read_text()):
            await asyncio.sleep(0.05)
    return int(file.read_text())
