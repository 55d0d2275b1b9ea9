"""A window whose user has decided nothing yet: paired by hand, not trusted, asked about agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from bascule.core.actions import CmdRun, FileRead, FileWrite
from bascule.core.errors import ConsentDenied, UntrustedWorkspace
from bascule.core.observations import Error
from bascule.link.socketio import SocketClient
from bascule.runtime.vscode import VSCodeRuntime
from tests.hub.serving import Client

from .code_server import CodeServer
from .driving import click_toast
from .rig import ADMIN, EditorWindow, Rig

_UNDECIDED = {
    "bascule.autoConnect": False,
    "bascule.consent": {},
    "bascule.hub": "",
    "bascule.tokenFile": "",
    "security.workspace.trust.enabled": True,
    "security.workspace.trust.startupPrompt": "never",
    "security.workspace.trust.banner": "never",
}


@pytest.fixture(scope="module")
def undecided(rig: Rig) -> Iterator[CodeServer]:
    server = rig.wait(rig.serve("undecided", _UNDECIDED))
    yield server
    rig.wait(rig.stop_serving(server))


@pytest.fixture(scope="module")
def paired(
    rig: Rig, undecided: CodeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EditorWindow]:
    """A window that was paired by the code its user typed."""
    folder = tmp_path_factory.mktemp("paired") / "cautious"
    folder.mkdir()
    window = rig.wait(_pair_by_code(rig, undecided, folder))
    yield window
    rig.wait(window.page.context.close())


@pytest.fixture(scope="module")
def trusted(rig: Rig, paired: EditorWindow) -> EditorWindow:
    """The same, once its user has trusted the workspace."""
    rig.wait(_trust(paired.page))
    return paired


@pytest.fixture
async def agent(rig: Rig, paired: EditorWindow) -> AsyncIterator[VSCodeRuntime]:
    async with VSCodeRuntime(rig.url, await rig.agent_token(), window=paired.id) as agent:
        yield agent


async def test_nothing_is_done_in_a_workspace_that_is_not_trusted(
    agent: VSCodeRuntime, paired: EditorWindow
) -> None:
    for action in (CmdRun("touch made"), FileWrite("made", ""), FileRead("made")):
        seen = await agent.act(action)
        assert isinstance(seen, Error)
        assert seen.error_id == UntrustedWorkspace.code
    assert not (paired.folder / "made").exists()


async def test_a_new_agent_is_asked_about_until_it_is_admitted(
    rig: Rig, agent: VSCodeRuntime, trusted: EditorWindow
) -> None:
    async def told(command: str, answer: str) -> None:
        await rig.on(click_toast(trusted.page, f"run {command}", answer))

    denied = asyncio.create_task(agent.run("touch made"))
    await told("touch made", "Deny")
    with pytest.raises(ConsentDenied):
        await denied
    assert not (trusted.folder / "made").exists()

    for word, answer in (("one", "Allow Once"), ("all", "Allow in This Workspace")):
        asked = asyncio.create_task(agent.run(f"echo {word}"))
        await told(f"echo {word}", answer)
        assert (await asked).content == f"{word}\n"
    assert (await agent.run("echo unasked")).content == "unasked\n"


async def test_an_admin_elsewhere_may_answer_for_the_user(
    rig: Rig, agent: VSCodeRuntime, trusted: EditorWindow
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
        # Each in words of its own: a question that reads as one before it takes that one's place.
        for answer in ("deny", "once"):
            waiting = asyncio.create_task(agent.act(CmdRun(f"echo {answer}")))
            question = await questions.get()
            assert question["window_id"] == trusted.id
            assert (question["kind"], question["summary"]) == ("run", f"run echo {answer}")
            reply = {"window_id": trusted.id, "id": question["id"], "answer": answer}
            await page.emit("approval.answered", reply)
            seen = await waiting
            assert (seen.content == f"{answer}\n") is (answer == "once")
        waiting = asyncio.create_task(agent.act(CmdRun("echo here")))
        question = await questions.get()
        await rig.on(click_toast(trusted.page, "run echo here", "Deny"))
        answered = await questions.get()
        assert (answered["id"], answered["answer"]) == (question["id"], "deny")
        await waiting


async def test_a_link_pairs_a_window_once_its_user_agrees(
    rig: Rig, undecided: CodeServer, tmp_path: Path
) -> None:
    folder = tmp_path / "linked"
    folder.mkdir()
    link = (await rig.on(_new_code(rig)))["link"]
    page = await rig.on(undecided.open(rig.browser, folder))
    try:
        await rig.on(_open_link(page, link))
        window = await rig.on(rig.registered(folder))
        assert window
    finally:
        await rig.on(page.context.close())


async def _pair_by_code(rig: Rig, server: CodeServer, folder: Path) -> EditorWindow:
    code = (await _new_code(rig))["code"]
    page = await server.open(rig.browser, folder)
    await page.locator(".statusbar-item[id*='bascule']").click()
    await _type(page, "Address of the hub", rig.line.url)
    await _type(page, "Pairing code", code)
    return EditorWindow(await rig.registered(folder), folder, page, server)


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


async def _run_command(page: Page, name: str) -> None:
    await page.keyboard.press("F1")
    box = page.locator(".quick-input-widget")
    await box.locator("input").first.fill(f">{name}")
    await box.get_by_role("option", name=name).first.click()


async def _trust(page: Page) -> None:
    await _run_command(page, "Workspaces: Manage Workspace Trust")
    await page.get_by_role("button", name="Trust", exact=True).click()
    await expect(page.get_by_text("You trust this folder")).to_be_visible()


async def _open_link(page: Page, link: str) -> None:
    await page.locator(".statusbar-item[id*='bascule']").wait_for()
    await _run_command(page, "Open URL")
    await _type(page, "URL to open", link)
    await page.get_by_role("button", name="Open", exact=True).click()
    await page.get_by_role("button", name="Connect", exact=True).click()
