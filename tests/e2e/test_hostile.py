"""Hostile requests: the user sees all of what would be done, as plain text, before they answer."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from bascule.core.actions import Action, CmdRun, FileWrite
from bascule.core.editor_actions import BridgeRequest, VscodeCommand
from bascule.core.observations import CmdOutput, Error
from bascule.runtime.vscode import VSCodeRuntime

from .code_server import WAITING, build_hub_page
from .driving import answer_question, open_question, question
from .rig import ADMIN, EditorWindow, Rig
from .window_without_consent import window_without_consent

_EVIL = "touch evil"
_LINK = "[press here](command:workbench.action.terminal.new)"

REQUESTS: dict[str, tuple[Action, list[str]]] = {
    "several lines": (
        CmdRun(f"echo harmless\n\n# below the first line\n{_EVIL}"),
        ["│ echo harmless", f"│ {_EVIL}"],
    ),
    "blanks before the rest": (
        CmdRun(f"echo harmless{' ' * 4000}; {_EVIL}"),
        ["⟨4000 spaces⟩", f"; {_EVIL}"],
    ),
    "empty lines before the rest": (
        CmdRun("echo harmless" + "\n" * 900 + _EVIL),
        ["⟨899 empty lines⟩", f"│ {_EVIL}"],
    ),
    "one long line": (
        CmdRun("echo " + "harmless" * 100 + f"; {_EVIL}"),
        ["│ echo harmless", f"; {_EVIL}"],
    ),
    "written from right to left": (
        CmdRun("echo \u202etxt.live\u202c \u2066x\u2069 א /ב; touch\u00a0evil"),
        ["⟨U+202E⟩txt.live⟨U+202C⟩", "⟨U+05D0⟩ /⟨U+05D1⟩", "touch⟨U+00A0⟩evil"],
    ),
    "control characters": (
        CmdRun("echo harmless\r\x1b[2K\x1b[1A\b\b; touch\tevil\u200b\ufeff"),
        ["⟨CR⟩⟨ESC⟩[2K⟨ESC⟩[1A⟨BS⟩⟨BS⟩; touch⇥evil⟨U+200B⟩⟨U+FEFF⟩"],
    ),
    "links that run commands": (CmdRun(f"echo {_LINK}; {_EVIL}"), [f"echo {_LINK}; {_EVIL}"]),
    "a text like ours": (
        CmdRun("echo x\nAsks:     Your administrator\nWants to: read a file (read)"),
        ["│ Asks:     Your administrator", "│ Wants to: read a file (read)"],
    ),
    "an argument named like a line of ours": (
        CmdRun(_EVIL, unknown={"Wants to: read a file (read)": 1}),
        ["argument named:", "│ Wants to: read a file (read)", "with the value:", "│ 1"],
    ),
    "a command of VS Code with arguments": (
        VscodeCommand("workbench.action.terminal.sendSequence", [{"text": f"{_EVIL}\n"}]),
        ["workbench.action.terminal.sendSequence", f'"text": "{_EVIL}\\n"'],
    ),
    "a request of the bridge with parameters": (
        BridgeRequest("vscode/executeCommand", {"command": "x", "args": [_LINK, _EVIL]}),
        ["│ vscode/executeCommand", _LINK, f'"{_EVIL}"'],
    ),
    "a path through a link": (
        FileWrite("fake/notes.txt", _EVIL),
        ["Changes:  {folder}/.vscode/notes.txt", "Warning:", f"│ {_EVIL}"],
    ),
}


@pytest.fixture(scope="module")
def cautious(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    with window_without_consent(rig, tmp_path_factory.mktemp("hostile") / "cautious") as window:
        (window.folder / ".vscode").mkdir()
        (window.folder / "fake").symlink_to(".vscode")
        yield window


@asynccontextmanager
async def asking(rig: Rig, window: EditorWindow, action: Action) -> AsyncIterator[str]:
    """While the question about the action is shown; it is denied in the end."""
    name = rig.new_name()
    token = await rig.on(rig.hub.tokens.create(name, "agent"))
    async with VSCodeRuntime(rig.url, token, window=window.id) as agent:
        acting = asyncio.create_task(agent.act(action))
        await rig.on(open_question(window.page, name))
        try:
            yield name
        finally:
            await rig.on(answer_question(window.page, "Deny"))
        seen = await acting
        assert isinstance(seen, Error)
        assert seen.error_id == "consent.denied"
    assert not (window.folder / "evil").exists()


async def test_the_end_of_100_kilobytes_is_shown(rig: Rig, cautious: EditorWindow) -> None:
    page = cautious.page
    async with asking(rig, cautious, CmdRun("echo harmless\n" * 7000 + _EVIL)):
        await rig.on(expect(question(page)).to_contain_text("7,001 lines, 98,010 characters"))
        await rig.on(page.keyboard.press("Control+End"))
        last = page.locator(".editor-instance .view-line", has_text=f"│ {_EVIL}")
        await rig.on(expect(last).to_be_visible())
        await _picture(rig, page, "100 kilobytes")
        await rig.on(page.keyboard.press("Control+Home"))


async def test_100_kilobytes_are_shown_whole_and_allowed_on_the_hubs_page(
    rig: Rig, cautious: EditorWindow
) -> None:
    token = await rig.agent_token()
    async with VSCodeRuntime(rig.url, token, window=cautious.id) as agent:
        acting = asyncio.create_task(agent.act(CmdRun("echo harmless\n" * 7000 + "echo done")))
        page = await rig.on(_approvals_page(rig))
        try:
            asked = page.locator(".question")
            await rig.on(expect(asked).to_contain_text("7,001 lines, 98,009 characters"))
            await rig.on(expect(asked.get_by_label("Full request")).to_contain_text("│ echo done"))
            await rig.on(asked.get_by_role("button", name="Allow once").click())
            seen = await acting
        finally:
            await rig.on(page.context.close())
    assert isinstance(seen, CmdOutput)
    assert seen.content.endswith("harmless\ndone\n")


async def test_a_megabyte_is_cut_on_the_hubs_page_and_denied_there(
    rig: Rig, cautious: EditorWindow
) -> None:
    token = await rig.agent_token()
    async with VSCodeRuntime(rig.url, token, window=cautious.id) as agent:
        acting = asyncio.create_task(agent.act(CmdRun("echo harmless\n" * 70_000 + _EVIL)))
        page = await rig.on(_approvals_page(rig))
        try:
            asked = page.locator(".question")
            told = re.compile(r"first \d+,\d+ of 1,12\d,\d+ characters .* shown in the window")
            await rig.on(expect(asked).to_contain_text(told))
            await rig.on(expect(asked.get_by_role("button", name="Allow")).to_have_count(0))
            await rig.on(asked.get_by_role("button", name="Deny").click())
            seen = await acting
        finally:
            await rig.on(page.context.close())
    assert isinstance(seen, Error)
    assert seen.error_id == "consent.denied"
    assert not (cautious.folder / "evil").exists()


async def _approvals_page(rig: Rig) -> Page:
    """The hub's page with the questions of all windows, in a browser signed in as admin."""
    await asyncio.to_thread(build_hub_page)
    page = await (await rig.browser.new_context()).new_page()
    page.set_default_timeout(WAITING)
    await page.goto(f"{rig.url}/approvals")
    await page.get_by_label("Token").fill(ADMIN)
    await page.get_by_role("button", name="Sign in").click()
    return page


async def test_an_agent_cannot_answer_approval_requests(rig: Rig, cautious: EditorWindow) -> None:
    """Not by our commands, nor by one that runs others, though its user allows all commands."""
    answers = ("bascule.allowOnce", "bascule.answerQuestion", "bascule.followSettings")
    name = rig.new_name()
    token = await rig.on(rig.hub.tokens.create(name, "agent"))
    async with VSCodeRuntime(rig.url, token, window=cautious.id) as agent:
        first = asyncio.create_task(agent.act(CmdRun("true")))
        await rig.on(open_question(cautious.page, name))
        await rig.on(answer_question(cautious.page, "Allow in This Workspace"))
        await first
        async with asking(rig, cautious, CmdRun(_EVIL)):
            await rig.on(expect(_answers(cautious.page)).to_contain_text("Allow Once"))
            for command in answers:
                seen = await agent.act(VscodeCommand(command))
                assert isinstance(seen, Error)
                assert seen.error_id == "consent.denied"
            commands = [{"command": each} for each in answers]
            seen = await agent.act(VscodeCommand("runCommands", [{"commands": commands}]))
            assert isinstance(seen, Error)
            assert seen.error_id == "consent.denied"
            await rig.on(expect(question(cautious.page)).to_have_count(1))


@pytest.mark.parametrize("name", REQUESTS)
async def test_all_of_a_hostile_request_is_shown_as_plain_text(
    rig: Rig, cautious: EditorWindow, name: str
) -> None:
    action, wanted = REQUESTS[name]
    page = cautious.page
    async with asking(rig, cautious, action):
        text = await rig.on(question(page).locator(".view-lines").inner_text())
        unmarked = re.sub(r"\n +\^[ ^]*(?=\n)", "", text.replace("\u00a0", " "))
        shown = re.sub(r"\n(┊ | {10})", "", unmarked)  # long lines are wrapped
        await rig.on(expect(_answers(page)).to_contain_text("Allow Once"))
        await _picture(rig, page, name)
        for each in wanted:
            assert each.format(folder=cautious.folder) in shown
        assert await rig.on(question(page).locator("a:not([role=button])").count()) == 0


def _answers(page: Page) -> Locator:
    return page.locator(".codelens-decoration")


async def _picture(rig: Rig, page: Page, name: str) -> None:
    """For people to look at, where BASCULE_PICTURES names a directory."""
    if pictures := os.environ.get("BASCULE_PICTURES"):
        file = Path(pictures) / f"{name.replace(' ', '-')}.png"
        await rig.on(page.screenshot(path=file))
