"""A person reviews what agents changed, change by change, in a real window."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from bascule.core.actions import CmdRun, FileRead
from bascule.core.editor_actions import OpenFile, VscodeCommand
from bascule.core.errors import EditConflict
from bascule.hub.review_messages import ReviewAnswerBody, ReviewFile
from bascule.runtime.vscode import VSCodeRuntime

from .driving import clear_toast, go_to_line, run_command
from .rig import EditorWindow, Rig

_BEFORE = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"
_AFTER = "one\nTWO\nthree\nfour\nadded\nfive\nsix\neight\n"
"""A changed line, an added line and a removed line."""
_ENDS: dict[str, Callable[[str], str]] = {
    "LF": lambda text: text,
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "no final newline": lambda text: text.removesuffix("\n"),
}
_AT_THE_END = [
    (b"one\ntwo", b"one\ntwo\n"),
    (b"one\ntwo\n", b"one\ntwo"),
    (b"one\r\ntwo\r\n", b"one"),
    (b"one", b"one\ntwo"),
    (b"", b"one\n"),
]
_FILES = {
    ".gitignore": b"ignored/\n",
    **{f"three-{len(name)}.txt": ends(_BEFORE).encode() for name, ends in _ENDS.items()},
    **{f"end-{number}.txt": before for number, (before, _) in enumerate(_AT_THE_END)},
    **{
        f"{name}.txt": _BEFORE.encode()
        for name in (
            "reloaded",
            "typed",
            "peeked",
            "stale-Keep",
            "stale-Undo",
            "keys",
            "first",
            "second",
            "hub",
            "saving",
        )
    },
    "changed.sh": b"one\r\ntwo\r\n",
    "gone.sh": b"echo \xff\xe9\n",
}
"""Written before the window opens: what a command changes is known only if it was seen before."""
_HOLD_REPLIES = """
const management = new WeakSet();
const textOf = (data) => typeof data === "string" ? data : new TextDecoder().decode(data);
window.heldReplies = {
  after: "", isHolding: false, waiting: [],
  release() {
    this.isHolding = false;
    for (const deliver of this.waiting.splice(0)) deliver();
  },
};
window.WebSocket = class extends WebSocket {
  send(data) {
    const { after } = heldReplies, text = textOf(data);
    if (/"desiredConnectionType":1\\b/.test(text)) management.add(this);
    if (after && management.has(this) && text.includes(after))
      Object.assign(heldReplies, { after: "", isHolding: true });
    super.send(data);
  }
  addEventListener(kind, listener, ...rest) {
    if (kind !== "message") return super.addEventListener(kind, listener, ...rest);
    super.addEventListener(kind, (event) => {
      if (heldReplies.isHolding && management.has(this))
        heldReplies.waiting.push(() => listener.call(this, event));
      else listener.call(this, event);
    }, ...rest);
  }
};
"""
"""Runs in the page. Holds what VS Code's server replies about files from the moment when the page
sends a message that contains the text `after`."""


@pytest.fixture(scope="module")
def reviewed(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    folder = tmp_path_factory.mktemp("review") / "reviewed"
    folder.mkdir()
    for name, content in _FILES.items():
        (folder / name).write_bytes(content)
    (folder / "gone.sh").chmod(0o750)
    window = rig.wait(rig.open_window(folder, script=_HOLD_REPLIES))
    yield window
    rig.wait(window.page.context.close())


@pytest.fixture
async def agent(rig: Rig, reviewed: EditorWindow) -> AsyncIterator[VSCodeRuntime]:
    """An agent of its own. Afterwards nothing is left to review and no editor is open."""
    token = await rig.agent_token()
    async with VSCodeRuntime(rig.url, token, window=reviewed.id) as runtime:
        yield runtime
    await rig.on(_settle(reviewed.page))


@pytest.mark.parametrize("ends", _ENDS)
async def test_a_change_is_kept_and_ctrl_z_reverts_the_undo_of_another(
    rig: Rig, reviewed: EditorWindow, agent: VSCodeRuntime, ends: str
) -> None:
    page, file = reviewed.page, reviewed.folder / f"three-{len(ends)}.txt"
    before, after = (_ENDS[ends](text).encode() for text in (_BEFORE, _AFTER))
    await _rewrite(agent, file, after)
    await rig.on(expect(_lens(page, "Keep")).to_have_count(3))
    await rig.on(expect(_lens(page, "Undo (1 line deleted)")).to_have_count(1))

    await rig.on(_lens(page, "Keep").first.click())
    await rig.on(expect(_lens(page, "Keep")).to_have_count(2))
    assert file.read_bytes() == after
    await rig.on(_lens(page, "Undo").first.click())  # the added line
    await rig.on(expect(_lens(page, "Keep")).to_have_count(1))
    undone = after.replace(b"added\r\n" if ends == "CRLF" else b"added\n", b"")
    assert await _holds(file, undone)

    await rig.on(_focus(page, file.name))
    await rig.on(page.keyboard.press("Control+z"))
    await rig.on(expect(_lens(page, "Keep")).to_have_count(2))
    assert (await agent.act(FileRead(str(file)))).content.encode() == after
    await rig.on(page.keyboard.press("Control+Shift+z"))
    await rig.on(expect(_lens(page, "Keep")).to_have_count(1))

    await rig.on(_lens(page, "Undo (1 line deleted)").click())
    await rig.on(expect(_lens(page, "Keep")).to_have_count(0))
    by_hand = before.replace(b"two", b"TWO")
    assert (await agent.act(FileRead(str(file)))).content.encode() == by_hand
    await rig.on(_save(page, file.name))
    assert await _holds(file, by_hand)


@pytest.mark.parametrize("number", range(len(_AT_THE_END)))
async def test_changes_at_the_end_of_a_file_are_undone_exactly(
    rig: Rig, reviewed: EditorWindow, agent: VSCodeRuntime, number: int
) -> None:
    page, file = reviewed.page, reviewed.folder / f"end-{number}.txt"
    before, after = _AT_THE_END[number]
    await _rewrite(agent, file, after)
    await rig.on(_lens(page, "Undo").first.click())
    await rig.on(expect(_lens(page, "Undo")).to_have_count(0))
    assert await _holds(file, before)


async def test_pending_changes_survive_a_reload_of_the_window(
    rig: Rig, reviewed: EditorWindow, agent: VSCodeRuntime
) -> None:
    page, file = reviewed.page, reviewed.folder / "reloaded.txt"
    await _rewrite(agent, file, _AFTER.encode())
    await rig.on(_lens(page, "Keep").first.click())
    await rig.on(expect(_lens(page, "Keep")).to_have_count(2))

    await rig.on(rig.reload(reviewed))

    await agent.act(OpenFile(str(file), preview=False))
    await rig.on(expect(_lens(page, "Keep")).to_have_count(2))
    await rig.on(_lens(page, "Undo (1 line deleted)").click())
    await rig.on(expect(_lens(page, "Keep")).to_have_count(1))
    assert await _holds(file, _AFTER.replace("eight", "seven\neight").encode())


async def test_ctrl_z_while_a_file_is_saved_leaves_the_same_text_in_editor_and_file(
    rig: Rig, reviewed: EditorWindow, agent: VSCodeRuntime
) -> None:
    """VS Code takes the text for saved that it had before the save."""
    page, file = reviewed.page, reviewed.folder / "saving.txt"
    await _rewrite(agent, file, _AFTER.encode())
    await rig.on(expect(_lens(page, "Keep")).to_have_count(3))

    await rig.on(page.evaluate("heldReplies.after = 'TWO'"))
    await rig.on(_lens(page, "Undo").nth(1).click())  # the added line
    assert await _holds(file, _AFTER.replace("added\n", "").encode())
    await rig.on(expect(_lens(page, "Keep")).to_have_count(2))
    assert await rig.on(page.evaluate("heldReplies.isHolding"))
    await rig.on(_focus(page, file.name))
    await rig.on(page.keyboard.press("Control+z"))
    await rig.on(expect(_lens(page, "Keep")).to_have_count(3))
    reading = asyncio.create_task(agent.act(FileRead(str(file))))
    await rig.on(page.evaluate("heldReplies.release()"))

    assert (await reading).content == _AFTER
    assert await _holds(file, _AFTER.encode())
    await rig.on(expect(page.locator(".tab.dirty", has_text=file.name)).to_have_count(0))


async def test_text_typed_by_the_user_is_not_part_of_the_review(
    rig: Rig, reviewed: EditorWindow, agent: VSCodeRuntime
) -> None:
    page, file = reviewed.page, reviewed.folder / "typed.txt"
    await _rewrite(agent, file, _AFTER.encode())
    await rig.on(expect(_lens(page, "Keep")).to_have_count(3))
    await rig.on(_type_at(page, file.name, 1, "mine: "))
    await rig.on(expect(_lens(page, "Keep")).to_have_count(3))
    # Inside of a change of the agent: both are one change.
    await rig.on(_type_at(page, file.name, 2, "mine too: "))
    await rig.on(expect(_lens(page, "Keep")).to_have_count(3))

    await rig.on(run_command(page, "Bascule: Undo Agent Changes of This File"))
    await rig.on(expect(_lens(page, "Keep")).to_have_count(0))
    read = (await agent.act(FileRead(str(file)))).content
    assert read == "mine: " + _BEFORE
    assert file.read_text() == _AFTER  # what the person has not saved is not saved for them
    await rig.on(_save(page, file.name))
    assert await _holds(file, read.encode())


async def test_buttons_of_the_peek_view_keep_and_undo(
    rig: Rig, reviewed: EditorWindow, agent: VSCodeRuntime
) -> None:
    page, file = reviewed.page, reviewed.folder / "peeked.txt"
    await _rewrite(agent, file, _AFTER.encode())
    await rig.on(_peek(page, file.name, 1))
    await asyncio.sleep(1)  # it refuses within a second of the agent's change
    await rig.on(_peek_button(page, "Keep This Change").click())
    await rig.on(expect(_lens(page, "Keep")).to_have_count(2))
    await rig.on(_peek(page, file.name, 3))
    await rig.on(_peek_button(page, "Undo This Change").click())
    await rig.on(expect(_lens(page, "Keep")).to_have_count(1))
    assert await _holds(file, _AFTER.replace("added\n", "").encode())


@pytest.mark.parametrize("button", ["Keep", "Undo"])
async def test_keeping_or_undoing_a_stale_change_is_rejected_with_a_message(
    rig: Rig, reviewed: EditorWindow, agent: VSCodeRuntime, button: str
) -> None:
    """The peek view keeps old line numbers while it has the focus."""
    page, file = reviewed.page, reviewed.folder / f"stale-{button}.txt"
    await _rewrite(agent, file, _AFTER.encode())
    await rig.on(_peek(page, file.name, 3))
    await rig.on(_peeked_line(page, "five").click())
    newer = "new\nmore\n" + _AFTER
    await _rewrite(agent, file, newer.encode())  # returns once the editor shows it
    await asyncio.sleep(1.5)  # so that the line numbers decide, not the time
    await rig.on(_peek_button(page, f"{button} This Change").click())
    await rig.on(clear_toast(page, f"{file.name} has changed since this was shown"))
    assert (await agent.act(FileRead(str(file)))).content == newer
    await rig.on(_focus(page, file.name))
    await rig.on(page.keyboard.press("Control+Home"))
    await rig.on(expect(_lens(page, "Keep")).to_have_count(4))


async def test_changes_are_reviewed_by_keyboard(
    rig: Rig, reviewed: EditorWindow, agent: VSCodeRuntime
) -> None:
    page, file = reviewed.page, reviewed.folder / "keys.txt"
    await _rewrite(agent, file, _AFTER.encode())
    await rig.on(expect(_lens(page, "Keep")).to_have_count(3))
    await rig.on(_focus(page, file.name))
    await rig.on(go_to_line(page, 1))
    selection = page.locator("#status\\.editor\\.selection")
    for line in (2, 5, 8, 2):
        await rig.on(page.keyboard.press("Control+Alt+n"))
        await rig.on(expect(selection).to_contain_text(f"Ln {line},"))
    await rig.on(page.keyboard.press("Control+Alt+k"))
    await rig.on(expect(_lens(page, "Keep")).to_have_count(2))
    await rig.on(page.keyboard.press("Control+Alt+p"))
    await rig.on(expect(selection).to_contain_text("Ln 8,"))
    await rig.on(page.keyboard.press("Control+Alt+u"))
    await rig.on(expect(_lens(page, "Keep")).to_have_count(1))
    assert await _holds(file, _AFTER.replace("eight", "seven\neight").encode())
    await rig.on(go_to_line(page, 1))
    await rig.on(page.keyboard.press("Control+Alt+k"))
    await rig.on(clear_toast(page, "There is no change of an agent at the cursor"))


async def test_files_that_a_command_changed_created_or_removed_are_restored(
    rig: Rig, reviewed: EditorWindow, agent: VSCodeRuntime
) -> None:
    page, folder = reviewed.page, reviewed.folder
    changed, gone, made = (folder / name for name in ("changed.sh", "gone.sh", "made.txt"))
    command = (
        "sed -i s/two/TWO/ changed.sh; rm gone.sh; echo made > made.txt;"
        " mkdir ignored; echo built > ignored/output.txt"
    )
    await agent.act(CmdRun(command))
    await rig.on(run_command(page, "Source Control: Focus on Changes View"))
    rows = page.locator(".scm-view .monaco-list-row .resource")
    for name in ("changed.sh", "gone.sh", "made.txt"):
        await rig.on(expect(rows.filter(has_text=name)).to_have_count(1))
    await rig.on(expect(rows).to_have_count(3))

    await rig.on(run_command(page, "Bascule: Undo All Agent Changes"))
    await rig.on(page.locator(".monaco-dialog-box").get_by_role("button", name="Undo").click())
    await rig.on(expect(rows).to_have_count(0))
    assert await _holds(changed, b"one\r\ntwo\r\n")
    assert gone.read_bytes() == b"echo \xff\xe9\n"
    assert gone.stat().st_mode & 0o777 == 0o750
    assert not made.exists()
    assert (folder / "ignored/output.txt").exists()

    told = (await agent.act(CmdRun("true"))).note or ""
    for what in ("changed.sh", "the removal of gone.sh", "the new file made.txt"):
        assert what in told
    assert (await agent.act(CmdRun("true"))).note is None


async def test_source_control_has_a_group_for_each_agent_and_a_view_of_all_changes(
    rig: Rig, reviewed: EditorWindow, agent: VSCodeRuntime
) -> None:
    page, folder = reviewed.page, reviewed.folder
    await _rewrite(agent, folder / "first.txt", _AFTER.encode())
    async with VSCodeRuntime(rig.url, await rig.agent_token(), window=reviewed.id) as other:
        await _rewrite(other, folder / "second.txt", _AFTER.encode())
    await rig.on(run_command(page, "Source Control: Focus on Changes View"))
    scm = page.locator(".scm-view")
    await rig.on(expect(scm.locator(".resource-group")).to_have_count(2))

    await rig.on(run_command(page, "Bascule: Show All Agent Changes"))
    await rig.on(expect(page.locator(".tab", has_text="Agent changes (2 files)")).to_be_visible())
    row = scm.locator(".monaco-list-row", has_text="first.txt")
    await rig.on(row.hover())
    await rig.on(row.get_by_role("button", name="Keep Agent Changes of This File").click())
    await rig.on(expect(scm.locator(".resource-group")).to_have_count(1))
    assert (folder / "first.txt").read_text() == _AFTER
    group = scm.locator(".monaco-list-row", has=page.locator(".resource-group"))
    await rig.on(group.hover())
    await rig.on(group.get_by_role("button", name="Keep All Agent Changes").click())
    await rig.on(expect(scm.locator(".resource-group")).to_have_count(0))


async def test_changes_are_kept_and_undone_from_the_hub(
    rig: Rig, reviewed: EditorWindow, agent: VSCodeRuntime
) -> None:
    """As its page does. The window publishes its list and decides on each answer."""
    file = reviewed.folder / "hub.txt"
    await _rewrite(agent, file, _AFTER.encode())
    first = await rig.on(_listed(rig, reviewed, file.name, hunks=3))
    assert (first.change, first.added, first.removed) == ("changed", 2, 2)
    reviews = rig.hub._sockets.reviews
    shown = await rig.on(reviews.show(reviewed.id, first.id, first.version))
    assert [(each.removed, each.added) for each in shown.hunks] == [
        (["two"], ["TWO"]),
        ([], ["added"]),
        (["seven"], []),
    ]

    await rig.on(_answer(rig, reviewed, "keep", first, hunk=0))
    second = await rig.on(_listed(rig, reviewed, file.name, hunks=2))
    await rig.on(expect(_lens(reviewed.page, "Keep")).to_have_count(2))
    await rig.on(_answer(rig, reviewed, "undo", second, hunk=0))
    third = await rig.on(_listed(rig, reviewed, file.name, hunks=1))
    undone = _AFTER.replace("added\n", "").encode()
    assert await _holds(file, undone)

    for answer in ("keep", "undo"):
        with pytest.raises(EditConflict, match=r"hub\.txt has changed since this was shown"):
            await rig.on(_answer(rig, reviewed, answer, first))
    assert file.read_bytes() == undone
    await rig.on(_answer(rig, reviewed, "undo", third))
    assert await _holds(file, _BEFORE.replace("two", "TWO").encode())

    made = reviewed.folder / "made-for-hub.txt"
    await agent.write(str(made), "made\n")
    created = await rig.on(_listed(rig, reviewed, made.name, hunks=1))
    assert created.change == "created"
    await rig.on(_answer(rig, reviewed, "undo", created))
    assert not made.exists()
    told = (await agent.act(CmdRun("true"))).note or ""
    assert "the new file made-for-hub.txt" in told


async def test_nothing_is_marked_when_the_review_is_off_and_agents_never_review(
    rig: Rig, tmp_path: Path
) -> None:
    settings = {"bascule.review": False, "bascule.allowedCommands": ["*"]}
    server = await rig.on(rig.serve("unreviewed", settings))
    window = await rig.on(rig.open_window(tmp_path / "unreviewed", server=server))
    try:
        token = await rig.agent_token()
        file = window.folder / "free.txt"
        file.write_text(_BEFORE)
        async with VSCodeRuntime(rig.url, token, window=window.id) as agent:
            await _rewrite(agent, file, _AFTER.encode())
            for command in ("bascule.keepAll", "bascule.undoAtCursor"):
                refused = await agent.act(VscodeCommand(command))
                assert "Only the user may" in refused.content
        shown = window.page.locator(f'.monaco-editor[data-uri$="{file.name}"] .view-line')
        await rig.on(expect(shown.nth(1)).to_have_text("TWO"))
        await rig.on(run_command(window.page, "Source Control: Focus on Changes View"))
        await rig.on(expect(window.page.locator(".scm-view, .pane-body").first).to_be_visible())
        await rig.on(expect(_lens(window.page, "Keep")).to_have_count(0))
        await rig.on(expect(window.page.locator(".scm-view .resource-group")).to_have_count(0))
    finally:
        await rig.on(window.page.context.close())
        await rig.on(rig.stop_serving(server))


async def _listed(rig: Rig, window: EditorWindow, name: str, *, hunks: int) -> ReviewFile:
    """The file in the hub's list, as soon as it has so many hunks there."""
    sockets, news = rig.hub._sockets, asyncio.Event()
    stop = sockets._changes.subscribe(lambda *_: news.set())
    try:
        while True:
            for file in sockets.reviews.of(window.id).files:
                if (file.name, file.hunks) == (name, hunks):
                    return file
            await news.wait()
            news.clear()
    finally:
        stop()


async def _answer(
    rig: Rig, window: EditorWindow, answer: str, file: ReviewFile, *, hunk: int | None = None
) -> None:
    target = {"file": file.id, "version": file.version, "hunk": hunk}
    body = ReviewAnswerBody.model_validate({"answer": answer, "files": [target]})
    await rig.hub._sockets.reviews.answer(window.id, body, by="ann")


async def _rewrite(agent: VSCodeRuntime, file: Path, text: bytes) -> None:
    """By an action, which ends every file with a newline, or else by a command. Shows the file."""
    if text.endswith(b"\n"):
        await agent.write(str(file), text.decode())
    else:
        await agent.act(CmdRun(f"printf {text.decode()!r} > {file}"))
    assert file.read_bytes() == text
    await agent.act(OpenFile(str(file), preview=False))


async def _holds(file: Path, wanted: bytes) -> bool:
    """Whether the file has these bytes, at the latest after a while."""
    for _ in range(200):
        if file.read_bytes() == wanted:
            return True
        await asyncio.sleep(0.05)
    return file.read_bytes() == wanted


def _lens(page: Page, text: str) -> Locator:
    return page.locator(".codelens-decoration a", has_text=text)


def _peek_button(page: Page, name: str) -> Locator:
    return page.locator(f"a.action-label[aria-label*='{name}']")


def _peeked_line(page: Page, text: str) -> Locator:
    """A line of the peek view; the editor with the text before is there too, but hidden."""
    return page.locator(".zone-widget .editor.modified .view-line", has_text=text)


async def _focus(page: Page, name: str) -> None:
    await page.locator(f'.monaco-editor[data-uri$="{name}"] .view-lines').first.click()


async def _type_at(page: Page, name: str, line: int, text: str) -> None:
    await _focus(page, name)
    await go_to_line(page, line)
    await page.keyboard.type(text)
    shown = page.locator(f'.monaco-editor[data-uri$="{name}"] .view-line', has_text=text.strip())
    await expect(shown.first).to_be_visible()


async def _save(page: Page, name: str) -> None:
    await _focus(page, name)
    await page.keyboard.press("Control+s")
    await expect(page.locator(".tab.dirty", has_text=name)).to_have_count(0)


async def _peek(page: Page, name: str, line: int) -> None:
    """Open the first change after the line."""
    await expect(_lens(page, "Keep").first).to_be_visible()
    await _focus(page, name)
    await go_to_line(page, line)
    await expect(page.locator(".dirty-diff-glyph").first).to_be_visible()
    await page.keyboard.press("Alt+F3")
    await expect(_peek_button(page, "Keep This Change")).to_be_visible()


async def _settle(page: Page) -> None:
    """Keep what is left to review and close all editors."""
    await page.keyboard.press("Escape")
    await page.keyboard.press("F1")
    box = page.locator(".quick-input-widget")
    await box.locator("input").first.fill(">Bascule: Keep All Agent Changes")
    # The command exists only while there are changes. Otherwise VS Code lists similar commands.
    keep_all = box.get_by_role("option", name="Bascule: Keep All Agent Changes")
    await expect(keep_all.or_(box.get_by_text("similar commands")).first).to_be_visible()
    await (keep_all.first.click() if await keep_all.count() else page.keyboard.press("Escape"))
    await run_command(page, "View: Close All Editors")
