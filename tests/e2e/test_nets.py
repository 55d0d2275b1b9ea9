"""Nets in a real window: written, checked, drawn, run and debugged."""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import FrameLocator, Page, expect

from bascule.core.editor_actions import VscodeCommand
from bascule.runtime.vscode import VSCodeRuntime
from tests.debug.client import validate

from .code_server import CodeServer
from .driving import go_to_line, run_command, shows_after
from .relay import Relay, relaying
from .rig import EditorWindow, Rig
from .test_bridge import EXAMPLES, MODEL, SOURCES

INTEROP = "VsCodeInterop.evolve.yaml"
SAID = ("Message sent to VS Code", "The model says: 4")
ASKED = [
    ("vscode/showMessage", {"message": "Transition t1 fired!", "level": "info"}),
    ("vscode/chat", {"message": "What is 2+2?"}),
]

SUMS = """\
pnml:
  net:
    - id: sums
      page:
        - id: main
          place:
            - id: numbers
              marking: [20, 21]
            - id: doubled
          transition:
            - id: double
              arcs: [{source: numbers}, {target: doubled}]
              inscriptions:
                - id: twice
                  code: |
                    number = token
                    result = 2 * number
                    return result
"""
RESULT = 17

_LEVELS = [f"&a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
ALIAS_BOMB = f"[&a0 [1], {', '.join(_LEVELS)}]"
"""A list of 9 to the power of 9 values, once its aliases are followed."""

_PYTHON = """#!/bin/sh
# The Python of nets, which are led to a relay instead of the window's own server.
[ -z "$EVOLVE_RUN_BRIDGE_ADDR" ] || export EVOLVE_RUN_BRIDGE_ADDR=ws://127.0.0.1:{port}/
exec {python} "$@"
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nets")


@pytest.fixture(scope="module")
def relay(rig: Rig, unused_tcp_port_factory: Any) -> Iterator[tuple[Relay, int]]:
    """And the port it expects the window's server at."""
    stack, port = AsyncExitStack(), unused_tcp_port_factory()
    relay = rig.wait(stack.enter_async_context(relaying(port)))
    yield relay, port
    rig.wait(stack.aclose())


@pytest.fixture(scope="module")
def server(rig: Rig, directory: Path, relay: tuple[Relay, int]) -> Iterator[CodeServer]:
    python = directory / "python"
    python.write_text(_PYTHON.format(port=relay[0].port, python=sys.executable))
    python.chmod(0o700)
    settings = {
        "bascule.python": str(python),
        "bascule.allowedCommands": ["workbench.*", "testmodel.*", "notifications.*"],
        "evolve.runBridge.port": relay[1],
        "chat.disableAIFeatures": True,
        "debug.openDebug": "openOnDebugBreak",
    }
    server = rig.wait(rig.serve("nets", settings, {"PYTHONPATH": str(SOURCES)}, [MODEL]))
    yield server
    rig.wait(rig.stop_serving(server))


@pytest.fixture(scope="module")
def window(rig: Rig, server: CodeServer, directory: Path) -> Iterator[EditorWindow]:
    folder = directory / "workspace"
    folder.mkdir()
    shutil.copy(EXAMPLES / INTEROP, folder)
    window = rig.wait(rig.open_window(folder, server=server))
    yield window
    rig.wait(window.page.context.close())


@pytest.fixture
async def agent(rig: Rig, window: EditorWindow) -> AsyncIterator[VSCodeRuntime]:
    """Sees what a page does not show; leaves the window tidy."""
    async with VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id) as agent:
        yield agent
        await _command(agent, "endAll")
        for command in (
            "workbench.action.revertAndCloseActiveEditor",
            "workbench.action.closeAllEditors",
            "notifications.clearAll",
        ):
            await agent.act(VscodeCommand(command))


@pytest.fixture
def page(window: EditorWindow) -> Page:
    return window.page


async def test_a_running_net_reaches_its_window(
    rig: Rig, agent: VSCodeRuntime, window: EditorWindow, page: Page, relay: tuple[Relay, int]
) -> None:
    relay[0].clear()
    await _open(agent, window.folder / INTEROP)

    await rig.on(run_command(page, "Evolve: Run Net"))

    await rig.on(expect(_toast(page, "Transition t1 fired!")).to_be_visible())
    await rig.on(_prints(page, *SAID, "vscode_interop_demo: completed after 1 firing"))
    assert await _command(agent, "taskStatus") == 0
    assert _calls(relay[0].asked) == ASKED
    assert [each["success"] for each in relay[0].answered] == [True, True]
    await rig.on(shows_after(page, {"- id: p2": "1"}))


async def test_a_debugged_net_reaches_its_window(
    rig: Rig, agent: VSCodeRuntime, window: EditorWindow, page: Page, relay: tuple[Relay, int]
) -> None:
    relay[0].clear()
    await _command(agent, "debugged")
    await _open(agent, window.folder / INTEROP)

    await rig.on(run_command(page, "Evolve: Debug Net"))

    await rig.on(expect(_toast(page, "Transition t1 fired!")).to_be_visible())
    await rig.on(_logs(page, *SAID, "vscode_interop_demo: completed after 1 firing", "p2 [1]"))
    said = await _debugged(agent)
    asked = [each["body"] for each in said if each.get("event") == "customRequest"]
    answers = [
        each["arguments"]
        for each in said
        if each["type"] == "request" and each["command"] == "customRequestResponse"
    ]
    assert _calls(asked) == ASKED
    assert [each["success"] for each in answers] == [True, True]
    assert relay[0].asked == []
    await rig.on(shows_after(page, {"- id: p2": "1"}))


@pytest.mark.parametrize("way", ["Run", "Debug"])
async def test_without_a_language_model_the_net_says_so_and_completes(
    rig: Rig, agent: VSCodeRuntime, window: EditorWindow, page: Page, way: str
) -> None:
    told = "Bridge not available: This window has no language model"
    await _command(agent, "present", False)
    try:
        await _open(agent, window.folder / INTEROP)
        await rig.on(run_command(page, f"Evolve: {way} Net"))
        shows = _prints if way == "Run" else _logs
        await rig.on(shows(page, SAID[0], told, "completed after 1 firing"))
        if way == "Run":
            assert await _command(agent, "taskStatus") == 0
    finally:
        await _command(agent, "present", True)


@pytest.mark.parametrize(
    ("net", "words", "status"),
    [
        (INTEROP, "Bridge not available: No VS Code window to talk to", 0),
        ("asks.evolve.yaml", "raised BridgeUnavailable: No VS Code window to talk to", 1),
    ],
)
async def test_with_the_bridge_disabled_a_net_says_so_and_completes_as_documented(
    rig: Rig,
    agent: VSCodeRuntime,
    window: EditorWindow,
    page: Page,
    net: str,
    words: str,
    status: int,
) -> None:
    (window.folder / "asks.evolve.yaml").write_text(
        SUMS.replace("token", "vscode_bridge.chat('?')")
    )
    await _command(agent, "set", "evolve.runBridge.enabled", False)
    try:
        await _open(agent, window.folder / net)
        await rig.on(run_command(page, "Evolve: Run Net"))
        await rig.on(_prints(page, words))
        assert await _command(agent, "taskStatus") == status
    finally:
        await _command(agent, "set", "evolve.runBridge.enabled", True)


async def test_a_debug_session_halts_inside_the_yaml_and_continues(
    rig: Rig, agent: VSCodeRuntime, window: EditorWindow, page: Page
) -> None:
    await _command(agent, "debugged")
    net, other = window.folder / "sums.evolve.yaml", window.folder / "other.py"
    net.write_text(SUMS)
    other.write_text("print()\n")
    await _command(agent, "addBreakpoint", str(other), 1)
    await _open(agent, net)
    await rig.on(go_to_line(page, RESULT))
    await rig.on(page.keyboard.press("F9"))

    await rig.on(run_command(page, "Evolve: Debug Net"))
    await rig.on(_is_halted(page, RESULT))
    await _expand_locals(rig, agent, page)
    await rig.on(expect(_variable(page, "number")).to_contain_text("20"))
    await rig.on(shows_after(page, {"- id: numbers": "20, 21"}))
    await rig.on(page.keyboard.press("F10"))
    await rig.on(_is_halted(page, RESULT + 1))
    await rig.on(expect(_variable(page, "result")).to_contain_text("40"))
    await rig.on(page.keyboard.press("F5"))
    await rig.on(expect(_variable(page, "number")).to_contain_text("21"))
    await rig.on(shows_after(page, {"- id: numbers": "21", "- id: doubled": "40"}))
    await rig.on(page.keyboard.press("F5"))

    await rig.on(_logs(page, "sums: completed after 2 firings", "doubled [40, 42]"))
    await rig.on(shows_after(page, {"- id: doubled": "40, 42"}))
    kept = sorted(await _command(agent, "breakpoints"))
    assert kept == [[str(other), 1, True], [str(net), RESULT, True]]
    said = [each["command"] for each in await _debugged(agent) if each["type"] == "response"]
    assert {"setBreakpoints", "stackTrace", "scopes", "variables", "next", "continue"} <= {*said}


async def test_problems_of_a_net_are_shown_while_typing(
    rig: Rig, agent: VSCodeRuntime, window: EditorWindow, page: Page
) -> None:
    net = window.folder / "typed.evolve.yaml"
    net.write_text(SUMS.replace("{source: numbers}", "{source: numbres}"))
    await _open(agent, net)
    error = page.locator(".squiggly-error")
    await rig.on(expect(error).to_be_visible())

    await rig.on(run_command(page, "View: Focus Problems"))
    problems = page.locator(".markers-panel")
    await rig.on(expect(problems).to_contain_text("numbres"))
    await rig.on(_replace(page, "numbres", "numbers"))

    await rig.on(expect(problems).not_to_contain_text("numbres"))
    assert "numbres" in net.read_text()


@pytest.mark.parametrize(
    ("name", "typed", "told"),
    [
        ("aliases", ALIAS_BOMB, "Aliases (*name) repeat more than 100,000 values"),
        ("tokens", "4000000000", "4,000,000,000 tokens; a marking has at most 1,000,000"),
        ("depth", "[" * 200 + "]" * 200, "Lists and mappings are nested more than 100 levels deep"),
        ("digits", f"[{'9' * 1500}]", "The number has 1,500 digits"),
    ],
)
async def test_a_net_that_would_hang_the_check_is_answered_while_typing(
    rig: Rig,
    agent: VSCodeRuntime,
    window: EditorWindow,
    page: Page,
    name: str,
    typed: str,
    told: str,
) -> None:
    net = window.folder / f"{name}.evolve.yaml"
    net.write_text(SUMS.replace("[20, 21]", "[unlit]"))
    await _open(agent, net)
    await rig.on(run_command(page, "View: Focus Problems"))
    problems = page.locator(".markers-panel")

    await rig.on(_replace(page, "[unlit]", typed))
    await rig.on(expect(problems).to_contain_text(told))
    await rig.on(page.keyboard.press("Control+z"))
    await rig.on(expect(problems).not_to_contain_text(told))


async def test_keys_are_completed(
    rig: Rig, agent: VSCodeRuntime, window: EditorWindow, page: Page
) -> None:
    net = window.folder / "completed.evolve.yaml"
    net.write_text(SUMS.replace("- id: doubled\n", f"- id: doubled\n{' ' * 14}fin\n"))
    await _open(agent, net)
    await rig.on(go_to_line(page, 10))
    await rig.on(page.keyboard.press("End"))

    await rig.on(page.keyboard.press("Control+Space"))
    offered = page.locator(".suggest-widget .monaco-list-row", has_text="final")
    await rig.on(expect(offered).to_be_visible())
    await rig.on(offered.click())

    await rig.on(expect(page.locator(".editor-instance .view-lines")).to_contain_text("final:"))


async def test_the_drawing_follows_the_text_and_the_run(
    rig: Rig, agent: VSCodeRuntime, window: EditorWindow, page: Page
) -> None:
    net = window.folder / "drawn.evolve.yaml"
    net.write_text(SUMS)
    await _open(agent, net)
    await rig.on(page.locator(".codelens-decoration a", has_text="Draw").click())
    drawing = page.frame_locator("iframe.webview").frame_locator("iframe")
    await rig.on(_holds(drawing, {"numbers": "20, 21", "doubled": ""}))

    await rig.on(_replace(page, "id: doubled", "id: twofold"))
    await rig.on(expect(drawing.locator("#note")).to_be_visible())
    await rig.on(page.keyboard.press("Control+z"))
    await rig.on(expect(drawing.locator("#note")).to_be_hidden())

    await rig.on(page.locator(".codelens-decoration a", has_text="Run").click())
    await rig.on(_holds(drawing, {"numbers": "", "doubled": "40, 42"}))
    assert await _command(agent, "taskStatus") == 0
    fired = drawing.locator(".transition.fired")
    await rig.on(expect(fired).to_have_attribute("data-id", "double"))

    await rig.on(drawing.locator("[data-id=doubled] .shape").click())
    caret = page.locator("#status\\.editor\\.selection")
    await rig.on(expect(caret).to_contain_text("Ln 9,"))


async def _open(agent: VSCodeRuntime, file: Path) -> None:
    """In an editor that has the keyboard."""
    await _command(agent, "open", str(file))


async def _command(agent: VSCodeRuntime, name: str, *arguments: Any) -> Any:
    """One of the test extension's; its result."""
    seen: Any = await agent.act(VscodeCommand(f"testmodel.{name}", arguments))
    return seen.result


async def _debugged(agent: VSCodeRuntime) -> list[dict[str, Any]]:
    """What was said in debug sessions; all that the adapter said is valid by the protocol."""
    said: list[dict[str, Any]] = await _command(agent, "debugged")
    for message in said:
        if message["type"] != "request":
            validate(message)
    return said


def _calls(asked: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """What was asked for, without timeouts."""
    return [
        (each["type"], {k: v for k, v in each["params"].items() if k in ("message", "level")})
        for each in asked
        if "params" in each and each["type"].startswith("vscode/")
    ]


def _toast(page: Page, text: str) -> Any:
    return page.locator(".notification-toast", has_text=text)


async def _prints(page: Page, *texts: str) -> None:
    rows = page.locator(".terminal-wrapper.active .xterm-rows")
    for text in texts:
        await expect(rows).to_contain_text(text)


async def _logs(page: Page, *texts: str) -> None:
    console = page.locator(".repl")
    for text in texts:
        await expect(console).to_contain_text(text)


async def _is_halted(page: Page, line: int) -> None:
    await expect(page.locator(".debug-toolbar")).to_be_visible()
    await expect(page.locator(".debug-top-stack-frame-line").first).to_be_visible()
    await expect(page.locator("#status\\.editor\\.selection")).to_contain_text(f"Ln {line},")


async def _expand_locals(rig: Rig, agent: VSCodeRuntime, page: Page) -> None:
    """VS Code does so by itself, except where the view was opened only by the halt."""
    first = page.locator(".debug-variables .monaco-list-row").first
    await rig.on(expect(first).to_contain_text("Locals"))
    await agent.act(VscodeCommand("workbench.debug.action.focusVariablesView"))
    await rig.on(page.keyboard.press("Home"))
    await rig.on(page.keyboard.press("ArrowRight"))
    await rig.on(expect(first).to_have_attribute("aria-expanded", "true"))


def _variable(page: Page, name: str) -> Any:
    return page.locator(".debug-variables .expression", has_text=name).first


async def _replace(page: Page, old: str, new: str) -> None:
    """In the active editor, by the keys of its find widget."""
    await page.locator(".editor-instance .view-lines").first.click()
    await page.keyboard.press("Control+h")
    widget = page.locator(".find-widget.visible")
    await widget.locator(".find-part textarea").fill(old)
    await widget.locator(".replace-part textarea").fill(new)
    await page.keyboard.press("Control+Alt+Enter")
    await page.keyboard.press("Escape")


async def _holds(drawing: FrameLocator, tokens: dict[str, str]) -> None:
    for place, text in tokens.items():
        shown = drawing.locator(f".place[data-id={place}] .tokens")
        await expect(shown).to_have_text(text)
