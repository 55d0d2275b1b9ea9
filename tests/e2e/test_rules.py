"""Rules for commands in a window: what is asked, what an answer stores, and what no rule allows."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.async_api import Page, expect

from bascule.core.actions import CmdRun, IPythonRun
from bascule.core.errors import DeniedByRule
from bascule.core.observations import Error
from bascule.runtime.vscode import VSCodeRuntime
from tests.hub.serving import Client

from .driving import answer_question, open_question, question, run_command
from .rig import EditorWindow, Rig
from .window_without_consent import NO_CONSENT


@pytest.fixture(scope="module")
def rules_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("config") / "bascule" / "rules.toml"
    file.parent.mkdir()
    return file


@pytest.fixture(scope="module")
def window(
    rig: Rig, rules_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EditorWindow]:
    environment = {"XDG_CONFIG_HOME": str(rules_file.parents[1])}
    server = rig.wait(rig.serve("rules", NO_CONSENT, environment))
    folder = tmp_path_factory.mktemp("ruled") / "workspace"
    window = rig.wait(rig.open_window(folder, server=server))
    yield window
    rig.wait(window.page.context.close())
    rig.wait(rig.stop_serving(server))


@dataclass(frozen=True)
class Agent:
    """An agent that nobody has admitted."""

    name: str
    token: str
    runtime: VSCodeRuntime


@pytest.fixture
async def agent(rig: Rig, window: EditorWindow, rules_file: Path) -> AsyncIterator[Agent]:
    """In a window without rules."""
    rules_file.unlink(missing_ok=True)
    name = rig.new_name()
    token = await rig.on(rig.hub.tokens.create(name, "agent"))
    async with VSCodeRuntime(rig.url, token, window=window.id) as runtime:
        yield Agent(name, token, runtime)


async def _asked(rig: Rig, page: Page, agent: Agent, answer: str) -> str:
    """Answers the agent's question, and returns its text without blanks at the ends of lines."""
    await rig.on(open_question(page, agent.name))
    shown = await rig.on(question(page).locator(".view-lines").inner_text())
    await rig.on(answer_question(page, answer))
    return shown.replace("\N{NO-BREAK SPACE}", " ")


async def test_answering_always_stores_a_rule_so_the_same_command_no_longer_asks(
    rig: Rig, agent: Agent, window: EditorWindow, rules_file: Path
) -> None:
    rules_file.write_text("# my own rules\n")
    page, runtime = window.page, agent.runtime
    asked = asyncio.create_task(runtime.run("printf 'a\tb\n'; cat /dev/null && ls -d . > out.txt"))
    await rig.on(open_question(page, agent.name))
    shown = await rig.on(question(page).locator(".view-lines").inner_text())
    shown = shown.replace("\N{NO-BREAK SPACE}", " ")
    assert re.search(r"│ printf 'a⇥b\n +\^+\n│ '; cat /dev/null && ls -d \. > out\.txt", shown)
    assert "No rule matches." in shown
    await rig.on(answer_question(page, "Always for: printf, cat, ls"))
    assert "a\tb" in (await asked).content

    assert (await runtime.run("printf again | cat; ls -d .")).content == "again.\n"
    stored = rules_file.read_text()
    assert stored.startswith("# my own rules\n")
    assert f'agent = "{agent.name}"' in stored

    async with Client(rig.url, token=agent.token) as caller:  # another way in, the same verdict
        target = f"/api/vscode/instance/{window.id}/actions"
        event = {"id": str(uuid4()), "action": "run", "args": {"command": "cat out.txt"}}
        status, seen = await caller.ask("POST", target, event)
        assert (status, seen["content"]) == (200, ".\n")


async def test_rules_are_listed_with_what_they_allowed_and_can_be_removed(
    rig: Rig, agent: Agent, window: EditorWindow, rules_file: Path
) -> None:
    rules_file.write_text('[[allow]]\nrun = ["pwd"]\n\n[[deny]]\nrun = ["git push"]\n')
    page = window.page
    for _ in range(2):
        await agent.runtime.run("pwd")
    await rig.on(run_command(page, "Bascule: Show Rules for Commands"))
    row = page.locator(".quick-input-list .monaco-list-row", has_text="allow pwd")
    await rig.on(expect(row).to_contain_text("decided 2 commands since this window opened"))
    await rig.on(row.hover())
    await rig.on(row.get_by_role("button", name="Remove This Rule").click())
    await rig.on(page.get_by_role("button", name="Remove", exact=True).click())
    left = page.locator(".quick-input-list .monaco-list-row")
    await rig.on(expect(left).to_have_count(2))
    await rig.on(page.keyboard.press("Escape"))
    assert rules_file.read_text() == '\n[[deny]]\nrun = ["git push"]\n'
    asked = asyncio.create_task(agent.runtime.run("pwd"))
    await _asked(rig, page, agent, "Allow Once")
    await asked


async def test_a_deny_rule_refuses_with_its_reason_and_without_a_question(
    rig: Rig, agent: Agent, window: EditorWindow, rules_file: Path
) -> None:
    rules_file.write_text('[[deny]]\nrun = ["git push"]\nwhy = "Push yourself"\n')
    for command in ("git push", "cd . && /usr/bin/git push origin main", "bash -c 'git push'"):
        seen = await agent.runtime.act(CmdRun(command))
        assert isinstance(seen, Error)
        assert seen.error_id == DeniedByRule.code
        assert f"'git push' ({rules_file}:1) denies it: Push yourself" in seen.content


async def test_a_function_with_the_name_of_an_allowed_command_asks(
    rig: Rig, agent: Agent, window: EditorWindow, rules_file: Path
) -> None:
    rules_file.write_text('[[allow]]\nrun = ["git diff"]\n')
    runtime, page = agent.runtime, window.page
    defining = asyncio.create_task(runtime.run("git() { touch made-by-function; }"))
    await _asked(rig, page, agent, "Allow Once")
    await defining
    asked = asyncio.create_task(runtime.act(CmdRun("git diff")))
    assert "In this shell it is a function." in await _asked(rig, page, agent, "Deny")
    assert isinstance(await asked, Error)
    assert not (window.folder / "made-by-function").exists()
    clean = await runtime.act(CmdRun("git diff", shell="another"))
    assert "not a git repository" in clean.content.lower()


async def test_redirections_are_judged_where_the_shell_and_links_really_lead(
    rig: Rig, agent: Agent, window: EditorWindow, rules_file: Path, tmp_path: Path
) -> None:
    rules_file.write_text('[[allow]]\nrun = ["echo"]\n')
    runtime, page, folder = agent.runtime, window.page, window.folder
    (folder / ".git/hooks").mkdir(parents=True)
    (folder / "link").symlink_to(".git/hooks")
    (folder / "away").symlink_to(tmp_path)
    await runtime.run("echo x > fine; cd link")  # in the workspace, so both are allowed
    for command, target in (
        ("echo x > pre-commit", ".git/hooks/pre-commit"),
        ("echo x > ../config", ".git/config"),
        (f"cd {folder} && echo x > away/file", str(tmp_path / "file")),
    ):
        asked = asyncio.create_task(runtime.act(CmdRun(command)))
        shown = await _asked(rig, page, agent, "Deny")
        assert target in re.sub(r"\s", "", shown)
        assert isinstance(await asked, Error)
    assert (folder / "fine").exists()
    assert not (folder / ".git/config").exists()


async def test_workspace_rules_can_deny_but_not_allow(
    rig: Rig, agent: Agent, window: EditorWindow
) -> None:
    page, file = window.page, window.folder / ".vscode/bascule-rules.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text('[[allow]]\nrun = ["whoami"]\n[[deny]]\nrun = ["npm publish"]\n')
    try:
        asked = asyncio.create_task(agent.runtime.act(CmdRun("whoami")))
        await _asked(rig, page, agent, "Deny")
        assert isinstance(await asked, Error)
        told = page.locator(".notification-toast", has_text="a workspace can only add")
        await rig.on(expect(told).to_have_count(1))
        seen = await agent.runtime.act(CmdRun("npm publish"))
        assert isinstance(seen, Error)
        assert "bascule-rules.toml:3) denies it" in seen.content
    finally:
        file.unlink()


async def test_a_command_rule_allows_no_program_input_and_no_other_action_kind(
    rig: Rig, agent: Agent, window: EditorWindow, rules_file: Path
) -> None:
    rules_file.write_text('[[allow]]\nrun = ["cat"]\n')
    runtime, page = agent.runtime, window.page
    running = asyncio.create_task(runtime.act(CmdRun("cat", blocking=True)))
    typed = asyncio.create_task(runtime.act(CmdRun("cat", is_input=True)))
    await _asked(rig, page, agent, "Allow Once")
    await typed
    ended = asyncio.create_task(runtime.act(CmdRun("C-d", is_input=True)))
    await _asked(rig, page, agent, "Allow Once")
    await ended
    assert "cat" in (await running).content
    cell = asyncio.create_task(runtime.act(IPythonRun("cat")))
    await _asked(rig, page, agent, "Deny")
    assert isinstance(await cell, Error)


async def test_an_invalid_rule_file_makes_every_command_ask_and_says_why(
    rig: Rig, agent: Agent, window: EditorWindow, rules_file: Path
) -> None:
    rules_file.write_text('[[allow]]\nrun = ["true"]\nyess = []\n')
    asked = asyncio.create_task(agent.runtime.run("true"))
    shown = await _asked(rig, window.page, agent, "Allow Once")
    await asked
    assert "there is no `yess`" in " ".join(shown.split())
    rules_file.write_text('[[allow]]\nrun = ["true"]\n')
    await agent.runtime.run("true")
