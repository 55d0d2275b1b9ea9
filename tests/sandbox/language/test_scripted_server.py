"""What a sandbox does with answers, edits and waits of a language server, by a scripted server."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from bascule.core.errors import ConsentDenied, EditInvalid, InvalidRange
from bascule.runtime import LocalRuntime
from bascule.sandbox.command_gate import CommandGate
from bascule.sandbox.command_questions import ApprovalAnswer, CommandQuestion
from bascule.sandbox.language import asking, documents
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings

from .scripted_server import ScriptedServer

_TEXT = "one = 1\ntwo = 2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.go").write_text(_TEXT)
    return folder


@pytest.fixture
def server(tmp_path: Path) -> ScriptedServer:
    return ScriptedServer(tmp_path)


def _sandbox(folder: Path, server: ScriptedServer, rules: str | None = None) -> LocalRuntime:
    env = {**os.environ, "PATH": f"{server.programs}:/usr/bin:/bin"}
    settings = SandboxSettings(shells=ShellSettings(working_dir=folder, env=env), roots=(folder,))
    if rules is None:
        return LocalRuntime(settings=settings)
    file = folder.parent / "rules.toml"
    file.write_text(rules)
    return LocalRuntime(settings=settings, rules=file)


async def test_a_command_that_hangs_or_fails_after_the_edit_does_not_hide_the_edit(
    folder: Path, server: ScriptedServer
) -> None:
    async with _sandbox(folder, server) as agent:
        done = await agent.apply_code_action("a.go", 1, "fail")
        assert (folder / "a.go").read_text() == "ONE = 1\ntwo = 2\n"
        assert [each["lines"] for each in done.files] == [[1]]
        assert "Its edit was made, but its command fail failed" in (done.note or "")
        assert "it failed" in (done.note or "")

        (folder / "a.go").write_text(_TEXT)
        done = await agent.apply_code_action("a.go", 1, "hang", timeout=1)
        assert (folder / "a.go").read_text() == "ONE = 1\ntwo = 2\n"
        assert [each["lines"] for each in done.files] == [[1]]
        assert "Its edit was made, but its command hang did not end in time" in (done.note or "")


async def test_several_edits_of_a_command_are_made_together_or_not_at_all(
    folder: Path, server: ScriptedServer
) -> None:
    async with _sandbox(folder, server) as agent:
        done = await agent.apply_code_action("a.go", 1, "two edits")
        assert (folder / "a.go").read_text() == "FIRST = 1\nSECOND = 2\n"
        assert [each["lines"] for each in done.files] == [[1, 2]]
        with pytest.raises(EditInvalid):
            await agent.apply_code_action("a.go", 1, "overlap")
        assert (folder / "a.go").read_text() == "FIRST = 1\nSECOND = 2\n"


# Questions about the start ----------------------------------------------------------------

_STRICT = '[[allow]]\nrun = ["ls"]\n'


async def test_the_time_of_a_person_does_not_count_without_a_timeout(
    folder: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "DEFAULT_TIMEOUT", 4.0)

    async def slow(question: CommandQuestion) -> ApprovalAnswer:
        await asyncio.sleep(4.1)  # longer than the limit of the action
        return "once"

    async with _sandbox(folder, server, _STRICT) as agent:
        _gate(agent).ask = slow
        found = await agent.hover("a.go", 1, "one")
        assert found.content == "hovered"
        assert found.waited < 4


async def test_a_question_that_nobody_answers_is_named_at_the_end_of_the_timeout(
    folder: Path, server: ScriptedServer
) -> None:
    async def nobody(question: CommandQuestion) -> ApprovalAnswer:
        await asyncio.Event().wait()
        raise AssertionError("it is cancelled")

    async with _sandbox(folder, server, _STRICT) as agent:
        _gate(agent).ask = nobody
        with pytest.raises(ConsentDenied, match="nobody answered within 1 seconds"):
            await agent.hover("a.go", 1, "one", timeout=1)
        await agent.write("b.go", _TEXT)
        with pytest.raises(ConsentDenied, match="nobody answered within 1 seconds"):
            await agent.diagnostics(timeout=1)


async def test_a_person_who_refuses_a_server_is_asked_once_for_all_files(
    folder: Path, server: ScriptedServer
) -> None:
    asked: list[str] = []

    async def refuse(question: CommandQuestion) -> ApprovalAnswer:
        asked.append(question.text)
        return "deny"

    async with _sandbox(folder, server, _STRICT) as agent:
        _gate(agent).ask = refuse
        for name in ("a.go", "b.go"):
            await agent.write(name, _TEXT)
        found = await agent.diagnostics()
        assert asked == ["gopls"]
        assert "Files were not checked: A person refused this: `gopls`" in (found.note or "")


def _gate(agent: LocalRuntime) -> CommandGate:
    gate = agent._inner._sandbox.gate  # type: ignore[union-attr]
    assert gate is not None
    return gate


# Ranges and documents ---------------------------------------------------------------------


async def test_negative_offsets_and_limits_are_refused(
    folder: Path, server: ScriptedServer
) -> None:
    async with _sandbox(folder, server) as agent:
        for asked, text in (
            (agent.references("a.go", 1, "one", offset=-1), "-1 and 100"),
            (agent.references("a.go", 1, "one", limit=-2), "0 and -2"),
            (agent.symbols("a.go", limit=-3), "`limit`.*-3"),
            (agent.diagnostics("a.go", limit=-4), "`limit`.*-4"),
        ):
            with pytest.raises(InvalidRange, match=text):
                await asked


async def test_the_documents_used_least_recently_are_closed(
    folder: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "MAX_OPEN", 2)
    for name in ("b.go", "c.go"):
        (folder / name).write_text(_TEXT)
    async with _sandbox(folder, server) as agent:
        for name in ("a.go", "b.go", "a.go", "c.go", "b.go"):
            assert (await agent.hover(name, 1, "one")).content == "hovered"
    assert server.received("textDocument/didOpen") == ["a.go", "b.go", "c.go", "b.go"]
    assert server.received("textDocument/didClose") == ["b.go", "a.go"]
