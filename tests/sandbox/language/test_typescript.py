"""Language actions in a sandbox, with typescript-language-server."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from bascule.core.editor_observations import CodeChanged
from bascule.core.errors import EditInvalid, ExecutionError, NotSupported
from bascule.runtime import LocalRuntime
from bascule.runtime.language_verbs import LanguageVerbs
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from tests.contracts.language import LanguageSuite
from tests.language_files import FILES, write_files
from tests.language_servers import path_with_servers

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language") / "typed"
    write_files(folder)
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[LanguageVerbs]:
    shells = ShellSettings(working_dir=folder, env={**os.environ, "PATH": path_with_servers()})
    settings = SandboxSettings(
        shells=shells,
        roots=(folder,),
        checkpoints=tmp_path_factory.mktemp("checkpoints"),
    )
    async with LocalRuntime(settings=settings) as runtime:
        yield runtime


@pytest.mark.asyncio(loop_scope="module")
class TestSandbox(LanguageSuite):
    """All tests use one server, because its start takes seconds."""

    async def test_capabilities_name_the_languages(self, agent: LanguageVerbs) -> None:
        names = {"language", "rename_symbol", "diagnostics", "language:typescript"}
        assert names < agent.capabilities

    async def test_a_rename_changes_three_files_and_a_restore_takes_it_back(
        self, agent: LanguageVerbs, folder: Path
    ) -> None:
        files = [folder / f"undone/{name}.ts" for name in ("one", "two", "three")]
        before = [file.read_text() for file in files]

        done = await agent.rename_symbol("undone/one.ts", 1, "first", "initial")

        assert isinstance(done, CodeChanged)
        assert [file.read_text() for file in files] == [
            text.replace("first", "initial") for text in before
        ]
        assert done.content.startswith("Renamed 'first' to 'initial': 5 lines in 3 files\n")
        assert f"{files[0]}:1: export function initial(): number {{" in done.content
        assert {each["path"]: list(each["lines"]) for each in done.files} == {
            str(files[0]): [1],
            str(files[1]): [1, 2],
            str(files[2]): [1, 2],
        }
        for line in ("-export const three = first() + 2;", "+export const three = initial() + 2;"):
            assert line in done.diff.splitlines()

        newest = (await agent.checkpoints()).items[-1]
        assert newest["title"].startswith("Rename first")
        await agent.restore(newest["id"])
        assert [file.read_text() for file in files] == before
        found = await agent.references("undone/one.ts", 1, "first")
        assert found.total == 5

    async def test_each_file_of_a_rename_can_be_undone(
        self, agent: LanguageVerbs, folder: Path
    ) -> None:
        await agent.rename_symbol("dirty/one.ts", 1, "shared", "common")
        for name in ("dirty/one.ts", "dirty/two.ts"):
            await agent.edit(name, "undo_edit")
            assert (folder / name).read_text() == FILES[name]

    async def test_a_rename_that_cannot_be_done_changes_nothing(
        self, agent: LanguageVerbs, folder: Path
    ) -> None:
        with pytest.raises(EditInvalid, match="already has"):
            await agent.rename_symbol("main.ts", 4, "total", "total")
        with pytest.raises(EditInvalid, match="empty"):
            await agent.rename_symbol("main.ts", 4, "total", " ")
        with pytest.raises(ExecutionError, match="cannot rename 'console'"):
            await agent.rename_symbol("main.ts", 4, "console", "terminal")
        assert (folder / "main.ts").read_text() == FILES["main.ts"]

    async def test_the_language_server_sees_files_that_commands_write_and_remove(
        self, agent: LanguageVerbs
    ) -> None:
        command = "printf 'import { total } from \"./shapes\";\\ntotal([]);\\n' > written.ts"
        await agent.run(command)
        assert (await agent.references("shapes.ts", 13, "total")).total == 10
        await agent.run("echo '// gone' > written.ts")
        assert (await agent.references("shapes.ts", 13, "total")).total == 8
        await agent.run("mkdir more; mv written.ts more/; cp main.ts more/main2.ts")
        await agent.run("sed -i s,./shapes,../shapes,\\;s,./report,../report, more/main2.ts")
        assert (await agent.references("shapes.ts", 13, "total")).total == 10
        await agent.run("rm -r more")
        assert (await agent.references("shapes.ts", 13, "total")).total == 8

    async def test_a_language_without_a_server_is_named(self, agent: LanguageVerbs) -> None:
        with pytest.raises(NotSupported, match=r"No language server is known for .*notes\.txt"):
            await agent.definition("notes.txt", 1, "area")
