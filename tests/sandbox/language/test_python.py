"""Language actions in a sandbox, with Python's language server, through each way to a sandbox."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bascule.core.editor_actions import Diagnostics, LanguageLookup, RenameSymbol
from bascule.core.editor_observations import LanguageFound
from bascule.core.errors import (
    ActionTimedOut,
    ConsentDenied,
    LanguageServerFailed,
    MissingTool,
    NoSuchSymbol,
    NotSupported,
    PathOutsideRoots,
)
from bascule.core.observations import Error
from bascule.runtime import LocalRuntime, SyncRuntime
from bascule.runtime.language_verbs import LanguageVerbs
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from tests.contracts.runtime import gone
from tests.language_servers import path_with_servers
from tests.runtime.test_remote import Served

pytestmark = pytest.mark.slow

_FILES = {
    "shapes.py": """\
class Square:
    def __init__(self, side: float) -> None:
        self.side = side

    def area(self) -> float:
        return self.side * self.side


def total(shapes: list[Square]) -> float:
    return sum(shape.area() for shape in shapes)
""",
    "report.py": "from shapes import Square, total\n\nprint(total([Square(1)]))\n",
    "tests/test_shapes.py": "from shapes import total\n\nassert total([]) == 0\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name, content in _FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def _settings(folder: Path, path: str | None = None) -> SandboxSettings:
    env = {**os.environ, "PATH": path_with_servers() if path is None else path}
    return SandboxSettings(shells=ShellSettings(working_dir=folder, env=env), roots=(folder,))


async def test_python_language_actions_work_in_a_remote_sandbox(folder: Path) -> None:
    async with Served(_settings(folder)) as agent:
        assert {"language", "rename_symbol", "language:python"} < agent.capabilities
        # Not only the open file, although the server has just been started.
        found = await agent.references("shapes.py", 9, "total")
        places = {(Path(item["path"]).name, item["line"]) for item in found.items}
        assert places == {
            ("shapes.py", 9),
            *(("report.py", 1), ("report.py", 3)),
            *(("test_shapes.py", 1), ("test_shapes.py", 3)),
        }
        assert found.waited > 0
        assert "still starting" in (found.note or "")
        hover = await agent.hover("report.py", 3, "total")
        assert "def total(shapes: list[Square]) -> float" in hover.content
        callers = await agent.call_hierarchy("shapes.py", 5, "area")
        assert f"{folder}/shapes.py:9: function total" in callers.content
        symbols = await agent.symbols("shapes.py")
        assert [(item["name"], item["container"]) for item in symbols.items][:2] == [
            ("Square", ""),
            ("__init__", "Square"),
        ]

        await agent.write("wrong.py", "from shapes import total\n\ntext: str = total([])\n")
        problems = await agent.diagnostics(settle=True, severity="error")
        assert problems.settled
        assert [(Path(item["path"]).name, item["line"]) for item in problems.items] == [
            ("wrong.py", 3)
        ]
        await agent.write("wrong.py", "from shapes import total\n\nnumber: float = total([])\n")
        assert (
            await agent.diagnostics("wrong.py", severity="error", settle=True)
        ).content == "No problems"

        done = await agent.rename_symbol("shapes.py", 9, "total", "sum_of_areas")
        assert {Path(each["path"]).name for each in done.files} == {
            *("shapes.py", "report.py", "test_shapes.py", "wrong.py"),
        }
        assert (await agent.run("python3 tests/test_shapes.py", cwd=str(folder))).exit_code != 0
        run = await agent.run("PYTHONPATH=. python3 tests/test_shapes.py && python3 report.py")
        assert run.content == "1\n"
        with pytest.raises(NotSupported, match="does not format files"):
            await agent.format("shapes.py")
        with pytest.raises(PathOutsideRoots):
            await agent.hover("/etc/passwd", 1, "root")


async def test_a_start_survives_a_timeout_and_a_crashed_server_is_started_again(
    folder: Path,
) -> None:
    async with LocalRuntime(settings=_settings(folder)) as agent:
        with pytest.raises(ActionTimedOut, match=r"within 0\.05 seconds.*that continues"):
            await agent.references("shapes.py", 9, "total", timeout=0.05)
        assert (await agent.references("shapes.py", 9, "total")).total == 5
        pids = _servers(folder)
        assert pids
        asking = asyncio.create_task(_asked_until_it_fails(agent))
        await asyncio.sleep(0)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        error = await asking
        assert isinstance(error, LanguageServerFailed)
        assert "the next action starts it again" in error.message
        again = await agent.references("shapes.py", 9, "total")
        assert (again.total, again.waited > 0) == (5, True)


async def test_a_killed_sandbox_leaves_no_language_server(folder: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from bascule.runtime import LocalRuntime\n"
        "async def main():\n"
        "    async with LocalRuntime(sys.argv[1]) as agent:\n"
        "        print((await agent.references('shapes.py', 9, 'total')).total, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, str(folder)),
        env={**os.environ, "PATH": path_with_servers()},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"5\n"
    servers = _servers(folder)
    assert servers
    process.kill()
    await process.wait()
    for pid in servers:
        await gone(pid)


async def test_rules_apply_to_starting_a_language_server_and_to_its_edits(folder: Path) -> None:
    tool = folder / ".vscode/tool.py"
    tool.parent.mkdir()
    tool.write_text("from shapes import total\n\ntotal([])\n")
    rules = folder.parent / "rules.toml"
    rules.write_text('[[allow]]\nrun = ["ls"]\n')
    async with LocalRuntime(settings=_settings(folder), rules=rules) as agent:
        with pytest.raises(ConsentDenied, match="basedpyright-langserver --stdio"):
            await agent.references("shapes.py", 9, "total")

    rules.write_text('[[allow]]\nrun = ["basedpyright-langserver"]\n')
    async with LocalRuntime(settings=_settings(folder), rules=rules) as agent:
        await agent.hover(".vscode/tool.py", 3, "total")
        with pytest.raises(ConsentDenied, match=r"\.vscode/tool\.py"):
            await agent.rename_symbol("shapes.py", 9, "total", "sum_of_areas")
        for name, content in _FILES.items():
            assert (folder / name).read_text() == content
        await agent.rename_symbol("shapes.py", 5, "area", "size")
        assert "shape.size()" in (folder / "shapes.py").read_text()


async def test_a_missing_server_is_named_with_the_command_that_installs_it(
    folder: Path, tmp_path: Path
) -> None:
    async with LocalRuntime(settings=_settings(folder, path="/usr/bin:/bin")) as agent:
        assert not {"language", "rename_symbol", "language:python"} & agent.capabilities
        with pytest.raises(MissingTool, match="Install it: pip install basedpyright"):
            await agent.definition("report.py", 3, "total")
        nothing = await agent.act(Diagnostics())
        assert "no language server runs yet" in (nothing.note or "")


async def test_a_server_that_cannot_start_shows_its_output(folder: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "basedpyright-langserver").write_text(
        "#!/bin/sh\necho no such option >&2\nexit 3\n"
    )
    (programs / "basedpyright-langserver").chmod(0o755)
    settings = _settings(folder, path=f"{programs}:/usr/bin:/bin")
    async with LocalRuntime(settings=settings) as agent:
        for _ in range(2):
            with pytest.raises(LanguageServerFailed, match=r"(?s)status 3.*no such option"):
                await agent.definition("report.py", 3, "total")


def test_language_actions_work_in_sync_code(folder: Path) -> None:
    with SyncRuntime(LocalRuntime(settings=_settings(folder))) as agent:
        with pytest.raises(NoSuchSymbol):
            agent.definition("report.py", 3, "missing")
        seen = agent.act(RenameSymbol("report.py", 3, "missing", "other"))
        assert isinstance(seen, Error)
        assert seen.error_id == "symbol.not_found"


async def _asked_until_it_fails(agent: LanguageVerbs) -> LanguageServerFailed | None:
    while True:
        found = await agent.act(LanguageLookup("references", "shapes.py", 9, "total"))
        if not isinstance(found, LanguageFound):
            assert isinstance(found, Error)
            return LanguageServerFailed(found.content)


def _servers(folder: Path) -> list[int]:
    """The processes of the language server that work in the folder."""
    found = []
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            argv = (directory / "cmdline").read_bytes().split(b"\0")
            is_here = Path(os.readlink(directory / "cwd")) == folder
        except OSError:
            continue
        if is_here and any(b"basedpyright" in word for word in argv):
            found.append(int(directory.name))
    return found
