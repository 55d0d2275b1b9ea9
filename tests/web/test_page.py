"""The hub's page in a real browser, from the sign-in to a session's end."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from playwright.async_api import Browser, Page, expect

from bascule.core.windows import WindowId
from bascule.hub.web.viewer import Viewer
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.testing.window import FakeWindow
from bascule.wire import from_json
from tests.hub.serving import ADMIN, Client
from tests.hub.sessions.serving import SessionHub, SessionsClient

from .conftest import Screen

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"


async def ensure_usable_by_all(screen: Screen, *, besides: str = "nothing-is-left-out") -> None:
    """What axe-core finds that would keep somebody out; our policy lets it run from outside."""
    source = await asyncio.to_thread(AXE.read_text)
    devtools = await screen.context.new_cdp_session(screen.page)
    await devtools.send("Runtime.evaluate", {"expression": source})
    run = f"axe.run({{exclude: [['{besides}']]}}, {{resultTypes: ['violations']}})"
    found = await screen.page.evaluate(
        f"{run}.then(({{violations}}) => violations.map(v => ({{impact: v.impact, id: v.id, "
        "where: v.nodes.map(n => n.target.join(' ') + ' ' + n.failureSummary).slice(0, 3)})))"
    )
    assert [each for each in found if each["impact"] in ("serious", "critical")] == []


async def on_screen(page: Page, text: str) -> None:
    await expect(page.locator(".xterm-rows")).to_contain_text(text)


async def test_a_session_is_created_from_the_form_used_and_removed(
    screen: Screen, admin: SessionsClient
) -> None:
    page = screen.page
    await page.goto(screen.url)
    await page.get_by_label("Token").fill("not a token")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_text("unknown or has expired")).to_be_visible()
    screen.complaints.clear()  # Chromium's own words for the 401
    await page.get_by_label("Token").fill(ADMIN)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="No sessions yet")).to_be_visible()
    await ensure_usable_by_all(screen)

    await page.get_by_role("button", name="Start a session").click()
    await page.get_by_label("Name", exact=True).fill("first")
    await ensure_usable_by_all(screen)
    await page.get_by_role("button", name="Start", exact=True).click()
    await expect(page.locator("h1")).to_contain_text("first ready")
    session = page.url.rpartition("/")[2]

    # A command is seen while it runs, and after.
    go_on = "read -t 200 < <(tail -f go_on)"
    running = asyncio.create_task(admin.run(session, f"touch go_on; echo be\\gun; {go_on}; false"))
    row = page.locator(".row-head").first
    await expect(row).to_contain_text("run")
    await row.click()
    await expect(page.get_by_label("Output")).to_contain_text("begun")
    await expect(page.get_by_label("running")).to_be_visible()

    # The terminal is bash in the same workspace.
    await screen.tab("Terminal")
    await page.locator(".xterm-screen").wait_for()
    await page.keyboard.type("echo 'let it' >> go_on; echo $((40 + 2)) typed\n")
    await on_screen(page, "42 typed")
    await running
    await screen.tab("Timeline")
    await expect(page.locator(".row-head").first).to_contain_text("exit 1")
    await page.locator(".row-head").first.click()
    await expect(page.get_by_label("Output")).to_contain_text("begun")
    await ensure_usable_by_all(screen)

    # Its files, hostile ones too, are text or pictures and never more.
    hostile = "<img src=x onerror=fetch('/ran')>"
    svg = "<svg xmlns='http://www.w3.org/2000/svg'><script>fetch('/ran')</script></svg>"
    await admin.run(session, f"""printf %s "{hostile}" > '{hostile.replace("/", "_")}.html'""")
    await admin.run(session, f'printf %s "{svg}" > picture.svg; mkdir folder')
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await screen.tab("Files")
    await page.get_by_role("button", name=re.compile("onerror")).click()
    await expect(page.get_by_label("File content")).to_have_text(hostile)
    await page.get_by_role("button", name="picture.svg").click()
    await expect(page.locator("img.picture")).to_be_visible()
    await page.get_by_role("button", name="folder").click()
    await expect(page.get_by_text("This folder is empty")).to_be_visible()
    await ensure_usable_by_all(screen)
    assert not [url for url in asked if url.endswith("/ran")]

    # An app it starts is offered, and opens in a place of its own.
    await admin.run(session, "(python3 -m http.server --bind 127.0.0.1 0 >/dev/null 2>&1 &)")
    app = page.get_by_role("link", name=re.compile("App :"))
    async with screen.context.expect_page() as opening:
        await app.click()
    opened = await opening.value
    await expect(opened.locator("body")).to_contain_text("picture.svg")
    assert f"/apps/{session}-" in opened.url
    await opened.close()

    # Pause, resume, stop, delete.
    for button, state in (("Pause", "paused"), ("Resume", "ready"), ("Stop", "stopped")):
        await page.get_by_role("button", name=button).click()
        await expect(page.locator("h1")).to_contain_text(f"first {state}")

    # What it did is still there, and can be taken away.
    await screen.tab("Timeline")
    await expect(page.locator(".row-head").last).to_contain_text("http.server")
    events = await downloaded(page)
    assert "http.server" in events[-2]["args"]["command"]
    assert events[-1]["cause"] == events[-2]["id"]
    await screen.go("Sessions")
    await page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("cannot be undone")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_role("link", name="first")).to_be_visible()
    await page.get_by_role("button", name="Delete").click()
    await dialog.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name="No sessions yet")).to_be_visible()


async def downloaded(page: Page) -> list[Any]:
    """The events of the file that the timeline's button gives."""
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Download").click()
    file = await (await saving.value).path()
    return [from_json(line) for line in file.read_bytes().splitlines()]


async def test_the_rules_of_a_session_show_who_made_them_and_what_they_decided(
    screen: Screen, hub: SessionHub, admin: SessionsClient
) -> None:
    page = screen.page
    rules = hub.directory / "rules.toml"
    await asyncio.to_thread(rules.write_text, '[[allow]]\nrun = ["echo"]\nwhy = "It prints"\n')
    session = await admin.ready({"name": "mine"})
    await admin.run(session, "echo '<b>1</b>'")
    await screen.sign_in("/approvals")
    listed = page.locator(".rules")
    await expect(listed).to_contain_text(f"Rule of the hub, {rules}:1")
    await expect(listed).not_to_contain_text("command")
    await page.get_by_label("What they decided in").select_option("mine")
    await expect(listed).to_contain_text("allowed 1 command, the last")
    await expect(listed.locator("code").last).to_have_text("echo '<b>1</b>'")
    await ensure_usable_by_all(screen)


async def test_the_page_shows_windows_their_actions_and_their_questions(
    screen: Screen, hub: SessionHub, tmp_path: Path
) -> None:
    page = screen.page
    answers: asyncio.Queue[Any] = asyncio.Queue()

    async def answered(data: Any) -> None:
        answers.put_nowait(data)

    rules = hub.directory / "rules.toml"
    await asyncio.to_thread(
        rules.write_text, '[[deny]]\nrun = ["git push"]\nwhy = "Push yourself"\n'
    )
    await screen.sign_in("/windows")
    await page.get_by_role("button", name="Get a code").click()
    code = (await page.locator(".code").inner_text()).replace(" ", "")
    async with Client(hub.url, token="") as anybody:
        _, paired = await anybody.ask("POST", f"/api/vscode/pair/{code}")
    settings = SandboxSettings(shells=ShellSettings(working_dir=tmp_path))
    window = FakeWindow(hub.url, paired["token"], settings, name="my project")
    window._socket._handlers = {**window._socket._handlers, "approval.answered": answered}
    async with window, Client(hub.url, token=hub.agent) as agent:
        await window.connect()
        await expect(page.get_by_role("dialog")).to_contain_text("my project is connected")
        await page.get_by_role("button", name="Done").click()
        await expect(page.locator(".card")).to_contain_text("healthy")
        await expect(page.locator(".card")).to_contain_text(str(tmp_path))
        await ensure_usable_by_all(screen)

        await page.get_by_role("link", name="my project").click()
        await expect(page.get_by_text("No actions yet")).to_be_visible()
        event = {"id": str(uuid4()), "action": "run", "args": {"command": "echo in the window"}}
        await agent.ask("POST", f"/api/vscode/instance/{window.id}/actions", event)
        await expect(page.locator(".row-head")).to_contain_text("echo in the window")
        await expect(page.locator(".row-head")).to_contain_text("agent")

        # One can act there oneself, and look at its files.
        await page.get_by_label("Command to run").fill("echo made by hand > note.txt")
        await page.keyboard.press("Enter")
        await expect(page.locator(".row-head").last).to_contain_text("made by hand")
        await expect(page.locator(".row-head").last).to_contain_text("ms")
        await screen.tab("Files")
        await page.get_by_role("button", name="note.txt").click()
        await expect(page.get_by_label("File content")).to_contain_text("made by hand")
        await screen.tab("Timeline")
        assert (await downloaded(page))[0]["args"]["command"] == "echo in the window"

        question = {"cause": "a", "agent": "helper", "kind": "run", "summary": "run make"}
        for name, word in (("Allow once", "once"), ("Deny", "deny"), ("Always allow", "workspace")):
            await window._socket.emit("approval.requested", {"id": word, **question})
            await expect(page.locator(".side .count")).to_have_text("1")
            await page.get_by_role("button", name=name).click()
            assert await answers.get() == {"id": word, "answer": word, "by": "admin"}
            await expect(page.locator(".side .count")).to_have_count(0)

        # A command that rules ask about shows its parts, and the rules that one may add.
        ruled: dict[str, Any] = {**question, "detail": "git log && make"}
        ruled["choices"] = ["once", "always", "deny"]
        ruled["parts"] = [
            {"text": "git log", "verdict": "allow", "reason": "a rule allows `git log`"},
            {"text": "make", "verdict": "ask", "reason": "no rule allows it"},
        ]
        ruled["proposals"] = [{"rule": ["make"], "text": "make"}]
        await window._socket.emit("approval.requested", {"id": "ruled", **ruled})
        await expect(page.locator(".part-allow code")).to_have_text("git log")
        await expect(page.locator(".part-ask")).to_contain_text("no rule allows it")
        await expect(page.locator(".question")).to_contain_text("adds the rule make for this agent")
        await expect(page.get_by_role("button", name="in this workspace")).to_have_count(0)
        await page.get_by_role("button", name="Always, for these words").click()
        assert await answers.get() == {"id": "ruled", "answer": "always", "by": "admin"}

        # What is not shown whole is not allowed from here.
        cut = {**question, "detail": "│ make", "is_whole": False, "warnings": ["Look twice."]}
        cut["detail_length"] = 300_000
        await window._socket.emit("approval.requested", {"id": "cut", **cut})
        for text in ("Look twice.", "│ make", "first 6 of 300,000 characters"):
            await expect(page.locator(".question")).to_contain_text(text)
        await expect(page.get_by_role("button", name="Allow once")).to_have_count(0)
        await page.get_by_role("button", name="Deny").click()
        assert await answers.get() == {"id": "cut", "answer": "deny", "by": "admin"}

        # Answered in the window, it is asked nowhere any more.
        await window._socket.emit("approval.requested", {"id": "w", **question})
        await screen.go("Approvals")
        await expect(page.get_by_text("run make")).to_be_visible()
        await expect(page.locator(".rules")).to_contain_text("git push for all agents")
        await expect(page.locator(".rules")).to_contain_text("Push yourself")
        await ensure_usable_by_all(screen)
        await window._socket.emit("approval.answered", {"id": "w", "answer": "once", "by": "ann"})
        await expect(page.get_by_text("No pending approvals")).to_be_visible()
    await screen.go("Health")
    await expect(page.get_by_text("apt-get install tmux")).to_be_visible()
    await ensure_usable_by_all(screen)


async def test_the_page_reconnects_after_a_hub_restart(
    screen: Screen, hub: SessionHub, admin: SessionsClient
) -> None:
    page = screen.page
    session = await admin.ready({"name": "lasting", "secrets": {"WORD": "hunter-two"}})
    await screen.sign_in(f"/sessions/{session}")
    await admin.run(session, "echo before $WORD")
    await expect(page.locator(".row-head")).to_contain_text("echo before")
    await page.locator(".row-head").click()
    await expect(page.get_by_label("Output")).to_have_text("before ***\n")
    await screen.tab("Terminal")
    await page.locator(".xterm-screen").wait_for()
    await page.keyboard.type("kept=still; echo rea''dy\n")
    await on_screen(page, "ready")
    await hub.stop()
    await expect(page.get_by_text("The hub does not answer")).to_be_visible()
    await hub.start()
    await expect(page.get_by_text("The hub does not answer")).to_have_count(0)
    await page.locator(".xterm-helper-textarea").focus()
    await page.keyboard.type("echo $kept here\n")
    await on_screen(page, "still here")
    async with SessionsClient(hub.url) as again:
        await again.run(session, "echo after")
    await screen.tab("Timeline")
    await expect(page.locator(".row-head")).to_have_count(2)
    await expect(page.locator(".row-head").nth(1)).to_contain_text("echo after")
    screen.complaints[:] = [each for each in screen.complaints if "WebSocket" not in each]
    screen.complaints[:] = [each for each in screen.complaints if "ERR_CONNECTION" not in each]


async def test_keys_typed_before_a_terminal_is_open_reach_it(
    screen: Screen, admin: SessionsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await admin.ready({})
    may_open = asyncio.Event()
    open_terminal = Viewer.open_terminal

    async def open_later(*arguments: Any, **options: Any) -> object:
        await may_open.wait()
        return await open_terminal(*arguments, **options)

    monkeypatch.setattr(Viewer, "open_terminal", open_later)
    page = screen.page
    await screen.sign_in(f"/sessions/{session}")
    await screen.tab("Terminal")
    await page.locator(".xterm-screen").wait_for()
    await page.keyboard.type("echo $((40 + 2)) typed\n")
    may_open.set()
    await on_screen(page, "42 typed")


async def test_twenty_thousand_actions_render_few_rows_and_are_searchable(
    screen: Screen, hub: SessionHub, tmp_path: Path
) -> None:
    page = screen.page
    async with hub.fake_window(tmp_path) as window:
        await screen.sign_in(f"/windows/{window.id}")
        await expect(page.get_by_text("No actions yet")).to_be_visible()
        timelines = hub.hub._sockets.timelines
        record = await timelines.of(WindowId(window.id))
        for start in range(0, 20_000, 1000):
            for number in range(start, start + 1000):
                cause = f"id-{number}"
                args = {"command": f"echo {number}"}
                event = {"id": cause, "action": "run", "args": args}
                timelines.record_action(record, WindowId(window.id), event, "agent")
                seen = {"id": f"{cause}-seen", "cause": cause, "observation": "run"}
                extras = {"command": args["command"], "metadata": {"exit_code": 0}}
                timelines.record_observation(
                    WindowId(window.id), {**seen, "content": f"{number}\n", "extras": extras}
                )
            await expect(page.locator(".tally")).to_have_text(f"{start + 1000} actions")
        assert await page.locator(".rows *").count() < 1000
        assert await page.locator(".row").count() < 100
        await expect(page.locator(".row-head").last).to_contain_text("echo 19999")
        frames = await page.evaluate(SCROLL)
        assert sorted(frames)[int(len(frames) * 0.95)] < 500, sorted(frames)[-5:]
        await page.get_by_placeholder("Search").fill("echo 12345")
        await expect(page.locator(".row-head")).to_have_count(1)
        await page.locator(".row-head").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("Output")).to_contain_text("12345")


SCROLL = """async () => {
  const box = document.querySelector('.rows');
  const frames = [];
  let before = performance.now();
  for (let i = 0; i < 60; i += 1) {
    box.scrollTop = (i / 60) * box.scrollHeight;
    await new Promise(requestAnimationFrame);
    frames.push(performance.now() - before);
    before = performance.now();
  }
  return frames;
}"""


@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_on_a_phone_no_content_is_cut_off(
    browser: Browser, hub: SessionHub, admin: SessionsClient, colours: Any
) -> None:
    session = await admin.ready({"name": "a session with a name that is longer than a phone"})
    await admin.run(session, "echo " + "wide " * 100)
    size = {"width": 360, "height": 720}
    async with Screen.open(browser, hub.url, **size, color_scheme=colours) as screen:
        await screen.sign_in()
        page = screen.page
        for label in ("Sessions", "Windows", "Approvals", "Health"):
            await screen.go(label)
            await expect(page.get_by_role("heading", level=1)).to_have_text(label)
            assert await page.evaluate("document.documentElement.scrollWidth") == 360
            await ensure_usable_by_all(screen)
        await screen.go("Sessions")
        await page.get_by_role("link", name="a session").click()
        await page.locator(".row-head").click()
        await expect(page.get_by_label("Output")).to_contain_text("wide")
        assert await page.evaluate("document.documentElement.scrollWidth") == 360
        await ensure_usable_by_all(screen)
        assert screen.complaints == []
