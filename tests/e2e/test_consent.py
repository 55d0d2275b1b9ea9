"""A window whose user has decided nothing yet: paired by hand, not trusted, asked about agents."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from playwright.async_api import Locator, Page, expect

from bascule.core.actions import CmdRun, FileRead, FileWrite, RemoveDir
from bascule.core.errors import ConsentDenied, UntrustedWorkspace
from bascule.core.observations import Error, FileWritten
from bascule.link.socketio import SocketClient
from bascule.runtime.vscode import VSCodeRuntime
from tests.hub.serving import Client

from .code_server import CodeServer
from .driving import answer_question, open_question, question, run_command
from .rig import ADMIN, EditorWindow, Rig

_NO_CONSENT = {
    "bascule.autoConnect": False,
    "bascule.consent": {},
    "bascule.hub": "",
    "bascule.tokenFile": "",
    "security.workspace.trust.enabled": True,
    "security.workspace.trust.startupPrompt": "never",
    "security.workspace.trust.banner": "never",
}


@pytest.fixture(scope="module")
def server_without_consent(rig: Rig) -> Iterator[CodeServer]:
    server = rig.wait(rig.serve("server_without_consent", _NO_CONSENT))
    yield server
    rig.wait(rig.stop_serving(server))


@pytest.fixture(scope="module")
def paired(
    rig: Rig, server_without_consent: CodeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EditorWindow]:
    """A window that was paired by the code its user typed."""
    folder = tmp_path_factory.mktemp("paired") / "cautious"
    folder.mkdir()
    window = rig.wait(_pair_by_code(rig, server_without_consent, folder))
    yield window
    rig.wait(window.page.context.close())


@pytest.fixture(scope="module")
def trusted(rig: Rig, paired: EditorWindow) -> EditorWindow:
    """The same, once its user has trusted the workspace."""
    rig.wait(_trust(paired.page))
    return paired


@dataclass(frozen=True)
class Agent:
    """An agent nobody has seen before, and the name people see."""

    name: str
    runtime: VSCodeRuntime


@pytest.fixture
async def agent(rig: Rig, paired: EditorWindow) -> AsyncIterator[Agent]:
    async with _agent(rig, paired) as agent:
        yield agent


@asynccontextmanager
async def _agent(rig: Rig, window: EditorWindow, name: str = "") -> AsyncIterator[Agent]:
    name = name or rig.new_name()
    token = await rig.on(rig.hub.tokens.create(name, "agent"))
    async with VSCodeRuntime(rig.url, token, window=window.id) as runtime:
        yield Agent(name, runtime)


async def _answer(rig: Rig, window: EditorWindow, agent: Agent, answer: str) -> None:
    await rig.on(open_question(window.page, agent.name))
    await rig.on(answer_question(window.page, answer))


async def _admit(rig: Rig, window: EditorWindow, agent: Agent) -> None:
    """The user allows the agent everything in this workspace."""
    asked = asyncio.create_task(agent.runtime.run("true"))
    await _answer(rig, window, agent, "Allow in This Workspace")
    await asked


async def test_nothing_is_done_in_a_workspace_that_is_not_trusted(
    rig: Rig, agent: Agent, paired: EditorWindow
) -> None:
    """The status bar says so before anybody acts, and the user hears that somebody was refused."""
    page = paired.page
    await rig.on(expect(_status(page)).to_contain_text("Bascule: restricted"))
    for action in (CmdRun("touch made"), FileWrite("made", ""), FileRead("made")):
        seen = await agent.runtime.act(action)
        assert isinstance(seen, Error)
        assert seen.error_id == UntrustedWorkspace.code
    assert not (paired.folder / "made").exists()
    told = page.locator(".notification-toast", has_text=f"action from {agent.name}")
    await rig.on(expect(told).to_have_count(1))
    await rig.on(expect(told).to_contain_text("this workspace is not trusted"))


async def test_the_status_bar_says_when_the_workspace_is_trusted(
    rig: Rig, trusted: EditorWindow
) -> None:
    label = re.compile("Agents can act in this window")
    await rig.on(expect(_status(trusted.page)).to_have_attribute("aria-label", label))


async def test_a_new_agent_needs_consent_until_it_is_admitted(
    rig: Rig, agent: Agent, trusted: EditorWindow
) -> None:
    runtime = agent.runtime
    denied = asyncio.create_task(runtime.run("touch made"))
    await _answer(rig, trusted, agent, "Deny")
    with pytest.raises(ConsentDenied):
        await denied
    assert not (trusted.folder / "made").exists()

    for word, answer in (("one", "Allow Once"), ("all", "Allow in This Workspace")):
        asked = asyncio.create_task(runtime.run(f"echo {word}"))
        await _answer(rig, trusted, agent, answer)
        assert (await asked).content == f"{word}\n"
    assert (await runtime.run("echo unasked")).content == "unasked\n"


async def test_a_new_token_with_an_admitted_name_needs_consent(
    rig: Rig, trusted: EditorWindow
) -> None:
    name = rig.new_name()
    async with _agent(rig, trusted, name) as first:
        asked = asyncio.create_task(first.runtime.run("secret=kept"))
        await _answer(rig, trusted, first, "Allow in This Workspace")
        await asked
    assert await rig.on(rig.hub.tokens.revoke(name))
    async with _agent(rig, trusted, name) as second:
        asked = asyncio.create_task(second.runtime.run("echo [$secret]"))
        await _answer(rig, trusted, second, "Allow Once")
        assert (await asked).content == "[]\n"  # nor has it the other's shell


@pytest.mark.parametrize("way", ["cd", "link", "dangling link"])
async def test_protected_files_need_consent_through_any_path(
    rig: Rig, agent: Agent, trusted: EditorWindow, way: str
) -> None:
    """Though the agent was admitted for all it does."""
    runtime = agent.runtime
    folder = trusted.folder / way.replace(" ", "-")
    (folder / ".vscode").mkdir(parents=True)
    asked = asyncio.create_task(runtime.run(f"cd {folder}"))
    await _answer(rig, trusted, agent, "Allow in This Workspace")
    await asked
    file = "tasks.json"
    if way == "cd":
        await runtime.run("cd .vscode")
    elif way == "link":
        await runtime.run("ln -s .vscode fake")
        file = "fake/tasks.json"
    else:
        await runtime.run("ln -s .vscode/tasks.json notes.txt")
        file = "notes.txt"
    writing = asyncio.create_task(runtime.act(FileWrite(file, "evil")))
    await rig.on(open_question(trusted.page, agent.name))
    shown = await rig.on(question(trusted.page).locator(".view-lines").inner_text())
    assert f"Changes:{folder}/.vscode/tasks.json" in re.sub(r"\s", "", shown)
    await rig.on(answer_question(trusted.page, "Deny"))
    seen = await writing
    assert isinstance(seen, Error)
    assert seen.error_id == ConsentDenied.code
    assert not (folder / ".vscode/tasks.json").exists()


async def test_files_that_run_code_automatically_need_consent_from_admitted_agents_too(
    rig: Rig, agent: Agent, trusted: EditorWindow
) -> None:
    await _admit(rig, trusted, agent)
    for path in (".git/hooks/pre-commit", ".husky/pre-commit", ".envrc", "all.code-workspace"):
        writing = asyncio.create_task(agent.runtime.act(FileWrite(path, "evil")))
        await _answer(rig, trusted, agent, "Deny")
        seen = await writing
        assert isinstance(seen, Error)
        assert seen.error_id == ConsentDenied.code
        assert not (trusted.folder / path).exists()
    await agent.runtime.write("notes.txt", "harmless")


async def test_removing_a_directory_tree_needs_consent_from_admitted_agents_too(
    rig: Rig, agent: Agent, trusted: EditorWindow
) -> None:
    await _admit(rig, trusted, agent)
    kept = trusted.folder / "tree/inner/kept.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text("kept\n")
    removing = asyncio.create_task(agent.runtime.act(RemoveDir("tree", recursive=True)))
    await _answer(rig, trusted, agent, "Deny")
    seen = await removing
    assert isinstance(seen, Error)
    assert seen.error_id == ConsentDenied.code
    assert kept.read_text() == "kept\n"
    removing = asyncio.create_task(agent.runtime.act(RemoveDir("tree", recursive=True)))
    await _answer(rig, trusted, agent, "Allow Once")
    await removing
    assert not (trusted.folder / "tree").exists()


async def test_a_file_is_written_to_the_path_the_user_was_asked_about(
    rig: Rig, agent: Agent, trusted: EditorWindow
) -> None:
    """A command that was allowed before changes the agent's directory while the user reads."""
    runtime = agent.runtime
    os.mkfifo(trusted.folder / "gate")
    (trusted.folder / ".git").mkdir()
    moving = asyncio.create_task(runtime.run("read line < gate; cd .git", blocking=True))
    await _answer(rig, trusted, agent, "Allow Once")
    writing = asyncio.create_task(runtime.act(FileWrite("config", "mine")))
    await rig.on(open_question(trusted.page, agent.name))
    await asyncio.to_thread((trusted.folder / "gate").write_text, "go\n")
    await moving
    await rig.on(answer_question(trusted.page, "Allow Once"))
    seen = await writing
    assert isinstance(seen, FileWritten), seen
    assert (trusted.folder / "config").read_text().strip() == "mine"
    assert not (trusted.folder / ".git/config").exists()


async def test_a_file_is_not_written_through_a_symlink_made_after_the_question(
    rig: Rig, agent: Agent, trusted: EditorWindow
) -> None:
    there, elsewhere = trusted.folder / "there", trusted.folder / "elsewhere"
    there.mkdir()
    elsewhere.mkdir()
    writing = asyncio.create_task(agent.runtime.act(FileWrite("there/config", "mine")))
    await rig.on(open_question(trusted.page, agent.name))
    there.rmdir()
    there.symlink_to(elsewhere)
    await rig.on(answer_question(trusted.page, "Allow Once"))
    seen = await writing
    assert isinstance(seen, Error), seen
    assert seen.error_id == ConsentDenied.code
    assert not (elsewhere / "config").exists()


async def test_an_open_question_blocks_no_other_agent_and_can_be_answered_late(
    rig: Rig, agent: Agent, trusted: EditorWindow
) -> None:
    """The user closes the question, another agent works on, and the status bar brings it back."""
    page = trusted.page
    async with _agent(rig, trusted) as other:
        await _admit(rig, trusted, other)
        waiting = asyncio.create_task(agent.runtime.run("echo late"))
        await rig.on(open_question(page, agent.name))
        await rig.on(run_command(page, "View: Close Editor"))
        await rig.on(expect(question(page)).to_have_count(0))
        assert (await other.runtime.run("echo meanwhile")).content == "meanwhile\n"

        asking = asyncio.create_task(other.runtime.act(FileWrite(".envrc", "evil")))
        await rig.on(expect(_status(page)).to_contain_text("Bascule: 2 questions"))
        await rig.on(_status(page).click())
        await rig.on(_pick(page, agent.name))
        await rig.on(expect(question(page)).to_contain_text("echo late", use_inner_text=True))
        await rig.on(answer_question(page, "Allow Once"))
        assert (await waiting).content == "late\n"

        await rig.on(expect(_status(page)).to_contain_text("Bascule: 1 question"))
        await rig.on(_status(page).click())
        await rig.on(answer_question(page, "Deny"))
        assert isinstance(await asking, Error)
    await rig.on(expect(_status(page)).not_to_contain_text("question"))


async def test_a_question_is_withdrawn_when_its_agent_disconnects(
    rig: Rig, agent: Agent, trusted: EditorWindow
) -> None:
    page = trusted.page
    waiting = asyncio.create_task(agent.runtime.run("touch made"))
    await rig.on(open_question(page, agent.name))
    await agent.runtime.aclose()
    with suppress(Exception):  # how it is told of its own end is not tested here
        await waiting
    await rig.on(expect(question(page)).to_have_count(0))
    notice = page.locator(".notification-toast", has_text=f"{agent.name} asks")
    await rig.on(expect(notice).to_have_count(0))
    await rig.on(expect(_status(page)).not_to_contain_text("question"))
    assert rig.hub._sockets.approvals.pending() == []
    assert not (trusted.folder / "made").exists()


async def test_a_question_is_withdrawn_when_its_http_caller_disconnects(
    rig: Rig, trusted: EditorWindow
) -> None:
    page, name = trusted.page, rig.new_name()
    token = await rig.on(rig.hub.tokens.create(name, "agent"))
    event = {"id": str(uuid4()), "action": "run", "args": {"command": "touch made"}}
    async with Client(rig.url, token=token) as caller:
        target = f"/api/vscode/instance/{trusted.id}/actions"
        asking = asyncio.create_task(caller.ask("POST", target, event))
        await rig.on(open_question(page, name))
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
    await rig.on(expect(question(page)).to_have_count(0))
    await rig.on(expect(_status(page)).not_to_contain_text("question"))
    assert rig.hub._sockets.approvals.pending() == []
    assert not (trusted.folder / "made").exists()


async def test_a_restarted_hub_learns_of_open_questions(
    rig: Rig, agent: Agent, trusted: EditorWindow
) -> None:
    waiting = asyncio.create_task(agent.runtime.run("echo kept"))
    await rig.on(open_question(trusted.page, agent.name))
    (before,) = rig.hub._sockets.approvals.pending()
    await rig.on(rig.restart_hub())
    await rig.on(_question_on(rig))
    (after,) = rig.hub._sockets.approvals.pending()
    assert after == before
    await rig.on(rig.hub._sockets.answer(trusted.id, str(after["id"]), "once", by="somebody"))
    assert (await waiting).content == "kept\n"
    await rig.on(expect(question(trusted.page)).to_have_count(0))


async def test_an_admin_elsewhere_may_answer_for_the_user(
    rig: Rig, agent: Agent, trusted: EditorWindow
) -> None:
    questions: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()

    async def asked(question: Mapping[str, Any]) -> None:
        questions.put_nowait(question)

    page = SocketClient(
        rig.url,
        ADMIN,
        namespace="/runtime",
        client="a page",
        handlers={"approval.requested": asked, "approval.answered": asked},
    )
    async with page:
        await page.connect()
        for answer in ("deny", "once"):
            waiting = asyncio.create_task(agent.runtime.act(CmdRun(f"echo {answer}\necho more")))
            question = await questions.get()
            assert question["window_id"] == trusted.id
            told = question["kind"], question["summary"]
            assert told == ("run", f"run echo {answer} ⏎ echo more")
            marks = "  ^^^^^^^^^\n"  # under the parts that ask
            assert f"│ echo {answer}\n{marks}│ echo more\n{marks}" in question["detail"]
            assert question["proposals"] == [{"rule": ["echo"], "text": "echo"}]
            assert question["choices"] == ["once", "always", "workspace", "deny"]
            reply = {"window_id": trusted.id, "id": question["id"], "answer": answer}
            await page.emit("approval.answered", reply)
            seen = await waiting
            assert (seen.content == f"{answer}\nmore\n") is (answer == "once")
        waiting = asyncio.create_task(agent.runtime.act(CmdRun("echo here")))
        question = await questions.get()
        await _answer(rig, trusted, agent, "Deny")
        answered = await questions.get()
        assert (answered["id"], answered["answer"]) == (question["id"], "deny")
        await waiting


async def test_a_paired_window_is_connected_again_after_a_reload_until_it_is_disconnected(
    rig: Rig, trusted: EditorWindow
) -> None:
    await rig.on(rig.reload(trusted))
    number = await rig.on(rig.host_number(trusted.id))
    await rig.on(run_command(trusted.page, "Bascule: Disconnect"))
    await rig.on(rig.status(trusted.id, "gone"))
    await rig.on(_reload_window(trusted.page))
    label = re.compile("Not connected")
    await rig.on(expect(_status(trusted.page)).to_have_attribute("aria-label", label))
    await rig.on(_connect(trusted.page))  # its token is kept: no code is needed
    await rig.on(rig.newer_host(trusted.id, number))


async def test_a_link_pairs_a_window_once_its_user_agrees(
    rig: Rig, server_without_consent: CodeServer, tmp_path: Path
) -> None:
    folder = tmp_path / "linked"
    folder.mkdir()
    link = (await rig.on(_new_code(rig)))["link"]
    page = await rig.on(server_without_consent.open(rig.browser, folder))
    try:
        await rig.on(_open_link(page, link))
        window = await rig.on(rig.registered(folder))
        assert window
    finally:
        await rig.on(page.context.close())


async def _pair_by_code(rig: Rig, server: CodeServer, folder: Path) -> EditorWindow:
    """Without a scheme in the address, and with a wrong code first, which leaves no message."""
    code = (await _new_code(rig))["code"]
    page = await server.open(rig.browser, folder)
    await _status(page).click()
    await _type(page, "Address of the hub", rig.relay.url.replace("http://127.0.0.1", "localhost"))
    await _type(page, "Pairing code", "WRONGONE")
    await _type(page, "is wrong", code)
    await _pick(page, "Yes, whenever this workspace is opened")
    connected = page.locator(".notification-toast", has_text="Bascule: connected to")
    await expect(connected).to_be_visible()
    await expect(page.locator(".notification-toast")).to_have_count(1)
    return EditorWindow(await rig.registered(folder), folder, page, server)


async def _reload_window(page: Page) -> None:
    """By VS Code's own command, which first writes what extensions stored.

    A browser's reload would lose what they stored in the 100 ms before it.
    """
    async with page.expect_event("load"):
        await run_command(page, "Developer: Reload Window")


async def _connect(page: Page) -> None:
    """To the hub that it was paired with, whose address is there to be confirmed."""
    await run_command(page, "Bascule: Connect to a Hub")
    await expect(page.locator(".quick-input-widget")).to_contain_text("Address of the hub")
    await page.keyboard.press("Enter")
    await _pick(page, "No, this time only")


def _status(page: Page) -> Locator:
    return page.locator(".statusbar-item[id*='bascule']")


async def _pick(page: Page, option: str) -> None:
    await page.locator(".quick-input-widget").get_by_role("option", name=option).click()


async def _question_on(rig: Rig) -> None:
    """Returns once the hub knows of a question."""
    known = asyncio.Event()
    rig.hub._sockets._changes.subscribe(lambda *_: known.set())
    while not rig.hub._sockets.approvals.pending():
        await known.wait()
        known.clear()


async def _new_code(rig: Rig) -> Mapping[str, str]:
    async with Client(rig.hub.url, token=ADMIN) as admin:
        status, said = await admin.ask("POST", "/api/vscode/pair")
        assert status == 200
        answer: Mapping[str, str] = said
        return answer


async def _type(page: Page, prompt: str, text: str) -> None:
    box = page.locator(".quick-input-widget")
    await expect(box).to_contain_text(prompt)
    await box.locator("input").first.fill(text)
    await page.keyboard.press("Enter")


async def _trust(page: Page) -> None:
    await run_command(page, "Workspaces: Manage Workspace Trust")
    await page.get_by_role("button", name="Trust", exact=True).click()
    await expect(page.get_by_text("You trust this folder")).to_be_visible()


async def _open_link(page: Page, link: str) -> None:
    await _status(page).wait_for()
    await run_command(page, "Open URL")
    await _type(page, "URL to open", link)
    await page.get_by_role("button", name="Open", exact=True).click()
    await page.get_by_role("button", name="Connect", exact=True).click()
