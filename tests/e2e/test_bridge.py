"""Scripts and the real window they were started from.

A terminal is opened by its command in the window; what its variables say makes the test itself
another client of that run, beside the scripts that are typed into it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import FrameLocator, Page, expect

import vscode_bridge as vscode
from bascule.bridge import BridgeClient, Endpoint, RunTransport
from bascule.bridge.hub import HubTransport
from vscode_bridge import aio

from .code_server import CodeServer
from .driving import answer_question, click_toast, open_question, question, run_command
from .rig import EditorWindow, Rig

MODEL = Path(__file__).parent / "model"
SOURCES = Path(__file__).parents[2] / "src"
EXAMPLES = Path(__file__).parents[2] / "examples"
_OPEN_TERMINAL = "Bascule: Open Bridged Terminal"
_RUNNER = """#!{python}
import json, os, sys, vscode_bridge
said = {{"argv": sys.argv[1:], "cwd": os.getcwd(), "chat": vscode_bridge.chat("What is 2+2?")}}
with open(os.environ["TOLD"], "w") as told:
    json.dump(said, told)
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bridged")


@pytest.fixture(scope="module")
def told(directory: Path) -> Path:
    """A pipe that programs in the window write to: reading waits for them."""
    pipe = directory / "told"
    os.mkfifo(pipe)
    return pipe


@pytest.fixture(scope="module")
def server(rig: Rig, directory: Path, told: Path) -> Iterator[CodeServer]:
    runner = directory / "runner"
    runner.write_text(_RUNNER.format(python=sys.executable))
    runner.chmod(0o700)
    settings = {
        "bascule.python": str(runner),
        "bascule.allowedCommands": ["workbench.action.*", "undo", "evolve.runNet"],
        "evolve.runBridge.allowedCommands": ["testmodel.*", "workbench.action.closeAllEditors"],
        "chat.disableAIFeatures": True,
    }
    environment = {"TOLD": str(told), "PYTHONPATH": str(SOURCES)}
    server = rig.wait(rig.serve("bridged", settings, environment, [MODEL]))
    yield server
    rig.wait(rig.stop_serving(server))


@pytest.fixture(scope="module")
def window(rig: Rig, server: CodeServer, directory: Path) -> Iterator[EditorWindow]:
    window = rig.wait(rig.open_window(directory / "workspace", server=server))
    yield window
    rig.wait(window.page.context.close())


@pytest.fixture(scope="module")
def endpoint(rig: Rig, window: EditorWindow, told: Path) -> Endpoint:
    """Of a bridged terminal that stays open."""
    return rig.wait(_open_terminal(window.page, told))


@pytest.fixture
async def bridge(rig: Rig, endpoint: Endpoint, window: EditorWindow) -> AsyncIterator[BridgeClient]:
    bridge = BridgeClient(RunTransport(endpoint))
    vscode.use(bridge)
    yield bridge
    await aio.execute_command("workbench.action.closeAllEditors")
    vscode.use(None)
    await asyncio.to_thread(bridge.close)


@pytest.fixture
def page(window: EditorWindow) -> Page:
    return window.page


async def test_a_script_in_the_terminal_reaches_the_window(
    rig: Rig, endpoint: Endpoint, window: EditorWindow, told: Path
) -> None:
    script = window.folder / "hello.py"
    script.write_text(
        "import json, os, vscode_bridge\n"
        "vscode_bridge.show_message('Hello from a script')\n"
        "said = {'chat': vscode_bridge.chat('What is 20 + 22?'),\n"
        "        'environment': [name for name in os.environ if 'BRIDGE' in name]}\n"
        "json.dump(said, open(os.environ['TOLD'], 'w'))\n"
    )
    reading = asyncio.create_task(asyncio.to_thread(told.read_text))

    await rig.on(_type_in_terminal(window.page, f"{sys.executable} hello.py"))

    assert json.loads(await reading) == {"chat": "42", "environment": []}
    toast = window.page.locator(".notification-toast", has_text="Hello from a script")
    await rig.on(expect(toast).to_be_visible())


async def test_an_example_shows_its_problems_in_the_window(
    rig: Rig, bridge: BridgeClient, window: EditorWindow, told: Path
) -> None:
    file = window.folder / "todo.py"
    file.write_text("# TODO: less\n")
    reading = asyncio.create_task(asyncio.to_thread(told.read_text))

    await rig.on(
        _type_in_terminal(window.page, f"{sys.executable} {EXAMPLES / 'find_todos.py'} > $TOLD")
    )

    assert (await reading).startswith("1 TODOs in ")
    (problem,) = await aio.diagnostics.get(file)
    assert (problem.message, problem.line, problem.severity) == ("# TODO: less", 1, "information")


async def test_chat_answers_streams_keeps_history_and_reports_refusals(
    bridge: BridgeClient,
) -> None:
    reply = await aio.chat("What is 2+2?", system="You add")
    assert (reply, reply.model) == ("4", "adder")
    again = await aio.chat("And before?", conversation_id=reply.conversation_id)
    assert again == "You said: You add | What is 2+2? | 4"
    history = await aio.get_chat_history(reply.conversation_id, 2)
    assert [each["role"] for each in history] == ["user", "assistant"]

    stream = aio.chat("Count", stream=True, model="test")
    assert "".join([piece async for piece in stream]) == stream.reply == "one two three"
    assert [model.id for model in await aio.chat_models()] == ["adder"]

    with pytest.raises(vscode.ChatUnavailable, match="no language model 'gpt'; it has: adder"):
        await aio.chat("?", model="gpt")
    with pytest.raises(vscode.ChatBlocked, match="I will not"):
        await aio.chat("Refuse")
    with pytest.raises(vscode.BridgeTimeout):
        await aio.chat("Never stop", timeout=0.2)


async def test_without_a_language_model_the_error_says_so_and_nothing_else_breaks(
    bridge: BridgeClient,
) -> None:
    await aio.execute_command("testmodel.present", False)
    try:
        with pytest.raises(vscode.ChatUnavailable, match="This window has no language model"):
            await aio.chat("What is 2+2?")
        assert await aio.chat_models() == []
        assert await aio.is_available()
    finally:
        await aio.execute_command("testmodel.present", True)
    assert await aio.chat("What is 1+1?") == "2"


async def test_a_message_waits_until_a_button_is_clicked(
    rig: Rig, bridge: BridgeClient, page: Page
) -> None:
    asking = asyncio.ensure_future(aio.show_message("Which?", "warning", buttons=["This", "That"]))
    await rig.on(click_toast(page, "Which?", "That"))
    assert await asking == "That"

    for button, answer in (("Sure", True), ("Cancel", False)):
        asking_yes = asyncio.ensure_future(aio.confirm("Really?", yes="Sure"))
        dialog = page.locator(".monaco-dialog-box", has_text="Really?")
        await rig.on(_click(dialog.get_by_role("button", name=button)))
        assert await asking_yes is answer


async def test_questions_are_answered_or_dismissed(
    rig: Rig, bridge: BridgeClient, page: Page
) -> None:
    asking = asyncio.ensure_future(aio.input_box("Your name", value="A", pattern="[A-Z][a-z]+"))
    await rig.on(_fill(page, "Your name", "ann"))
    await rig.on(_enter(page))
    await rig.on(_fill(page, "The value must match", "Ann"))
    await rig.on(_enter(page))
    assert await asking == "Ann"

    picking = asyncio.ensure_future(aio.quick_pick(["one", "two"], title="Pick one"))
    await rig.on(_fill(page, "Pick one", "two"))
    await rig.on(_enter(page))
    assert await picking == "two"

    dismissing = asyncio.ensure_future(aio.quick_pick(["one"], title="Not now"))
    await rig.on(_fill(page, "Not now", ""))
    await rig.on(page.keyboard.press("Escape"))
    assert await dismissing is None


async def test_a_question_without_a_waiting_caller_is_closed(
    rig: Rig, bridge: BridgeClient, page: Page
) -> None:
    with pytest.raises(vscode.BridgeTimeout):
        await aio.input_box("Too late", timeout=1)

    box = page.locator(".quick-input-widget", has_text="Too late")
    await rig.on(expect(box).to_be_hidden())


async def test_cancelling_progress_ends_the_work(
    rig: Rig, bridge: BridgeClient, page: Page
) -> None:
    async def work() -> None:
        async with aio.progress("Long work", total=10) as bar:
            await bar.update("at the first", advance=1)
            await asyncio.Event().wait()

    working = asyncio.create_task(work())
    await rig.on(click_toast(page, "at the first", "Cancel"))

    with pytest.raises(vscode.BridgeCancelled, match="Long work"):
        await working


async def test_files_are_shown_at_their_line_and_selections_read(
    rig: Rig, bridge: BridgeClient, window: EditorWindow
) -> None:
    file = window.folder / "lines.txt"
    file.write_text("one\ntwo\nthree\n")

    await aio.open_file(file, 2, 3)
    seen = await aio.active_editor()

    assert seen is not None
    assert (seen.path, seen.text, seen.is_dirty) == (str(file), "one\ntwo\nthree\n", False)
    assert seen.selection.start == vscode.Position(2, 3)
    await rig.on(window.page.keyboard.press("Shift+Home"))
    await aio.execute_command("testmodel.settle")
    selected = await aio.selection()
    assert selected is not None
    assert selected.text == "tw"
    with pytest.raises(vscode.BridgeFailed, match="missing"):
        await aio.open_file(window.folder / "missing.txt")


async def test_a_diff_shows_a_file_beside_a_text(
    rig: Rig, bridge: BridgeClient, window: EditorWindow
) -> None:
    file = window.folder / "old.txt"
    file.write_text("the old words\n")

    await aio.diff(file, "the new words\n", "Old and new")

    tab = window.page.locator(".tab", has_text="Old and new")
    await rig.on(expect(tab).to_be_visible())
    modified = window.page.locator(".diff-editor-wrapper, .monaco-diff-editor .modified")
    await rig.on(expect(modified.first).to_contain_text("the new words"))


SCRIPT = "A script in the bridged terminal"


async def test_bridge_edits_ask_first_and_are_undone_in_one_step(
    rig: Rig, bridge: BridgeClient, window: EditorWindow
) -> None:
    file, made = window.folder / "edited.txt", window.folder / "made.txt"
    file.write_text("one\ntwo\nthree\n")
    await aio.open_file(file)
    edits = [
        vscode.Edit(file, "ONE", vscode.Position(1, 1), vscode.Position(1, 4)),
        vscode.Edit(file, "THREE", vscode.Position(3, 1), vscode.Position(3, 6)),
    ]

    refused = asyncio.ensure_future(aio.apply_edit(edits, label="shout"))
    await rig.on(open_question(window.page, SCRIPT))
    for shown in (str(file), "│ shout", '"text": "ONE"'):
        await rig.on(expect(question(window.page)).to_contain_text(shown, use_inner_text=True))
    await rig.on(answer_question(window.page, "Deny"))
    with pytest.raises(vscode.NotAllowed):
        await refused

    allowed = asyncio.ensure_future(aio.apply_edit(edits))
    await rig.on(open_question(window.page, SCRIPT))
    await rig.on(answer_question(window.page, "Allow for This Run"))
    assert await allowed is True
    seen = await aio.active_editor()
    assert seen is not None
    assert (seen.text, seen.is_dirty) == ("ONE\ntwo\nTHREE\n", True)
    with pytest.raises(vscode.BridgeFailed, match="has not saved"):
        await aio.apply_edit(vscode.Edit(file, "all new"))

    await rig.on(window.page.keyboard.press("Control+z"))
    await aio.execute_command("testmodel.settle")
    undone = await aio.active_editor()
    assert undone is not None
    assert undone.text == "one\ntwo\nthree\n"

    assert await aio.apply_edit(vscode.Edit(made, "fresh\n"), save=True)
    assert made.read_text() == "fresh\n"


async def test_problems_and_output_are_shown(
    rig: Rig, bridge: BridgeClient, window: EditorWindow
) -> None:
    file = window.folder / "wrong.txt"
    file.write_text("wrong\n")

    await aio.diagnostics.set(file, [vscode.Diagnostic("This is wrong", 1, severity="warning")])
    (problem,) = await aio.diagnostics.get(file)
    assert (problem.message, problem.severity, problem.line) == ("This is wrong", "warning", 1)
    await aio.diagnostics.clear()
    assert await aio.diagnostics.get(file) == []

    channel = aio.output("My build")
    await channel.print("built", 3, "things")
    await channel.show()
    # What is in it is not looked at: this VS Code lacks the library that writes such logs.
    chosen = window.page.locator(".part.panel .monaco-select-box").first
    await rig.on(expect(chosen).to_contain_text("My build"))


async def test_a_form_is_filled_in_and_sent_or_closed(
    rig: Rig, bridge: BridgeClient, page: Page
) -> None:
    schema = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "title": "Name"},
            "age": {"type": "integer", "title": "Age"},
            "colour": {"enum": ["red", "blue"], "title": "Colour"},
            "agree": {"type": "boolean", "title": "I agree"},
        },
    }

    async def fill(form: FrameLocator) -> None:
        await form.get_by_label("Name").fill("Ann")
        await form.get_by_label("Age").fill("41")
        await form.get_by_label("Colour").select_option("blue")
        await form.get_by_label("I agree").check()
        await form.get_by_role("button", name="Submit").click()

    filling = asyncio.ensure_future(aio.form(schema, title="Who are you?"))
    frame = page.frame_locator("iframe.webview").frame_locator("iframe")
    await rig.on(fill(frame))
    assert await filling == {"name": "Ann", "age": 41, "colour": "blue", "agree": True}

    closing = asyncio.ensure_future(aio.form(schema, title="Who are you?"))
    await rig.on(_click(frame.get_by_role("button", name="Cancel")))
    assert await closing is None


async def test_commands_ask_unless_the_settings_allow_them(
    rig: Rig, bridge: BridgeClient, page: Page
) -> None:
    command = "workbench.action.toggleSidebarVisibility"
    denied = asyncio.ensure_future(aio.execute_command(command, "an argument"))
    await rig.on(open_question(page, SCRIPT))
    for shown in (command, "an argument"):
        await rig.on(expect(question(page)).to_contain_text(shown, use_inner_text=True))
    await rig.on(answer_question(page, "Deny"))
    with pytest.raises(vscode.NotAllowed, match="did not allow"):
        await denied
    with pytest.raises(vscode.CommandFailed, match="not found"):
        await aio.execute_command("testmodel.nothing")


async def test_a_net_is_run_with_its_path_as_one_argument(
    rig: Rig, bridge: BridgeClient, window: EditorWindow, told: Path
) -> None:
    file = window.folder / "a 'net' $(touch hacked); #.evolve.yaml"
    file.write_text("pnml: {}\n")
    reading = asyncio.create_task(asyncio.to_thread(told.read_text))

    await aio.open_file(file)
    await rig.on(run_command(window.page, "Evolve: Run Net"))

    said = json.loads(await reading)
    assert said["argv"][:4] == ["-m", "bascule", "run", "--trace"]
    assert said["argv"][5:] == [str(file)]
    assert said["cwd"] == str(window.folder)
    assert said["chat"] == "4"
    assert not (window.folder / "hacked").exists()


async def test_a_remote_program_reaches_the_window_through_the_hub(
    rig: Rig, window: EditorWindow
) -> None:
    token = await rig.agent_token()
    bridge = BridgeClient(HubTransport(rig.url, token, window=window.id))
    vscode.use(bridge)
    try:
        stream = aio.chat("Count", stream=True)
        assert "".join([piece async for piece in stream]) == "one two three"
        with pytest.raises(vscode.ChatUnavailable, match="no language model 'gpt'") as caught:
            await aio.chat("?", model="gpt")
        assert caught.value.detail == {"models": ["adder"]}

        async with aio.progress("Far work") as bar:
            await bar.update("half way")
            toast = window.page.locator(".notification-toast", has_text="half way")
            await rig.on(expect(toast).to_be_visible())
        await rig.on(expect(toast).to_be_hidden())
    finally:
        vscode.use(None)
        await asyncio.to_thread(bridge.close)


async def test_the_bridge_token_is_revoked_when_its_terminal_closes(
    rig: Rig, window: EditorWindow, told: Path, endpoint: Endpoint
) -> None:
    """After all others: it closes the newest terminal, which is its own."""
    own = await rig.on(_open_terminal(window.page, told))
    bridge = BridgeClient(RunTransport(own))
    assert await asyncio.to_thread(bridge.is_available)

    await rig.on(_type_in_terminal(window.page, "exit"))
    await asyncio.to_thread(_until_refused, own)

    await asyncio.to_thread(bridge.close)
    other = BridgeClient(RunTransport(endpoint))
    assert await asyncio.to_thread(other.is_available)
    await asyncio.to_thread(other.close)


def _until_refused(endpoint: Endpoint) -> None:
    """The window is told of the end of a terminal; we are not, but we are cut off."""
    bridge = BridgeClient(RunTransport(endpoint))
    waiting = bridge.begin("vscode/inputBox", {"prompt": "Held until the end"})
    with pytest.raises((vscode.BridgeRefused, vscode.BridgeUnavailable)):
        waiting.result(30)
    bridge.close()


async def _open_terminal(page: Page, told: Path) -> Endpoint:
    await run_command(page, _OPEN_TERMINAL)
    # What is typed before goes to the terminal that was there.
    rows = page.locator(".terminal-wrapper.active .xterm-rows")
    await expect(rows).to_have_text(re.compile(r"^[^$#]*[$#]\s*$"))
    reading = asyncio.create_task(asyncio.to_thread(told.read_text))
    names = ("ADDR", "TOKEN", "SESSION")
    values = "\\n".join(f"$EVOLVE_RUN_BRIDGE_{name}" for name in names)
    await _type_in_terminal(page, f'printf "{values}" > $TOLD')
    address, token, session = (await reading).split("\n")
    return Endpoint(address, token, session)


async def _type_in_terminal(page: Page, line: str) -> None:
    terminal = page.locator(".terminal-wrapper.active")
    await expect(terminal.locator(".xterm-rows, .xterm-screen").first).to_be_visible()
    await terminal.locator("textarea.xterm-helper-textarea").focus()
    await page.keyboard.type(line)
    await page.keyboard.press("Enter")


async def _fill(page: Page, prompt: str, text: str) -> None:
    box = page.locator(".quick-input-widget")
    await expect(box).to_contain_text(prompt)
    await box.locator("input").first.fill(text)


async def _enter(page: Page) -> None:
    await page.keyboard.press("Enter")


async def _click(button: Any) -> None:
    await button.click()
