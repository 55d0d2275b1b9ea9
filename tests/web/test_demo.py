"""The demo in a real VS Code, from the empty page until nothing of it is left."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, FrameLocator, Page, expect

from bascule.core.errors import WindowGone, WindowUnhealthy
from bascule.core.sessions import SessionId
from tests.e2e.session_ground import installed_vscode
from tests.hub.sessions.serving import SessionHub, SessionsClient, open_session_hub

from .conftest import Screen
from .test_page import ensure_usable_by_all

pytestmark = [pytest.mark.editor, pytest.mark.timeout(600)]


@pytest.fixture
async def hub() -> AsyncIterator[SessionHub]:
    vscode = await asyncio.to_thread(installed_vscode)
    async with open_session_hub(vscode=vscode, probe_timeout=20.0) as made:
        yield made


def editor(page: Page) -> FrameLocator:
    return page.frame_locator("iframe")


async def goes_on(page: Page, told: str) -> None:
    """Somebody has seen enough of this step."""
    await page.get_by_role("button", name="Skip the pause").click()
    await expect(page.get_by_role("region", name="The demo")).to_contain_text(told)


def newest_host(hub: SessionHub) -> int:
    """The number of the extension host that gets the actions of the only window."""
    registry = hub.hub._registry
    return registry.active_host(registry.windows()[0].id).number


async def until_another_host(hub: SessionHub, number: int) -> None:
    """An action that is sent to the host of the page before a reload may end with that host."""
    while True:
        change = hub.hub._sockets.next_change()
        try:
            if newest_host(hub) > number:
                return
        except (WindowGone, WindowUnhealthy):
            pass
        await change


async def test_an_agent_works_in_vs_code_while_a_user_watches(
    screen: Screen, hub: SessionHub, admin: SessionsClient
) -> None:
    page = screen.page
    hub.hub.demos.pause = 600.0
    await screen.sign_in()
    await expect(page.get_by_role("button", name="Start a session")).to_be_visible()
    await ensure_usable_by_all(screen)
    await page.get_by_role("button", name="Watch a demo").click()
    await page.wait_for_url("**/watch/*")
    session = page.url.rpartition("/")[2]
    steps = page.get_by_role("region", name="The demo").get_by_role("listitem")
    await expect(steps.filter(has_text="writes a program")).to_have_attribute(
        "aria-current", "step"
    )
    await expect(editor(page).get_by_role("tab", name="bill.py")).to_be_visible()
    await goes_on(page, "forgets a comma")
    await goes_on(page, "asks a person whether the agent may run")
    await expect(editor(page).locator(".notification-toast")).to_contain_text("Demo agent")
    await goes_on(page, "JSONDecodeError")
    await expect(editor(page).locator('[id="status.problems"]')).to_contain_text("1")
    await goes_on(page, "Expected comma")
    await goes_on(page, "fixes it")
    await ensure_usable_by_all(screen, besides="iframe")

    # The agent's run is not the page's: loaded again, the page finds it.
    await expect(page.locator('.row:not([data-state="running"])')).to_have_count(5)
    before = newest_host(hub)
    await page.reload()
    await expect(steps.filter(has_text="fixes it")).to_have_attribute("aria-current", "step")
    await until_another_host(hub, before)
    # VS Code is drawn. Which view its side bar shows after a reload is VS Code's choice.
    await expect(editor(page).locator('[id="status.problems"]')).to_be_visible()
    hub.hub.demos.pause = 0.0
    await goes_on(page, "got a deleted file back")
    await expect(steps.filter(has_text="14.70")).to_have_count(1)
    await expect(steps.filter(has_text="New rule for this agent: wc")).to_have_count(1)
    await expect(steps.filter(has_text="undone: - cake")).to_have_count(1)
    await expect(steps.filter(has_text="restored: bascule-demo/shopping.md")).to_have_count(1)
    await expect(page.get_by_text("16 actions")).to_be_visible()
    assert (await admin.must("GET", "/api/demo"))["phase"] == "done"
    names = (await admin.must("GET", f"/api/sessions/{session}/files"))["names"]
    assert "bascule-demo/" in names
    kept = hub.directory / "sessions" / session
    written = (kept / "workspace/bascule-demo/shopping.md").read_text()
    assert written.endswith("\n- two loaves of bread\n- cheese\n- apples\n")
    [rule] = tomllib.loads((kept / "home/.config/bascule/rules.toml").read_text())["allow"]
    assert (rule["run"], rule["agent"]) == (["wc"], "Demo agent")

    await page.get_by_role("button", name="Play again").click()
    await expect(page.get_by_text("32 actions")).to_be_visible()
    await expect(steps.filter(has_text="got a deleted file back")).to_be_visible()
    await expect(steps.filter(has_text="VS Code does not ask")).to_have_count(1)  # the rule stays
    await page.get_by_role("button", name="Clean up").click()
    await expect(page.get_by_role("heading", name="No sessions yet")).to_be_visible()
    assert await admin.must("GET", "/api/demo") is None
    assert await admin.must("GET", "/api/sessions") == []
    screen.complaints[:] = [each for each in screen.complaints if not of_vscode(each)]


async def test_a_demo_ends_with_its_session_and_can_be_restarted(
    screen: Screen, hub: SessionHub, admin: SessionsClient
) -> None:
    """Nobody looks: it waits, at no cost, until its session is gone or somebody comes."""
    begun = await admin.must("POST", "/api/demo")
    assert (await admin.must("POST", "/api/demo"))["session_id"] == begun["session_id"]
    assert begun["url"] == f"{hub.url}/watch/{begun['session_id']}"
    await admin.reaches(begun["session_id"], "ready")
    await admin.must("DELETE", f"/api/sessions/{begun['session_id']}")
    assert await admin.must("GET", "/api/demo") is None
    assert not hub.hub.demos._runs
    status, answer = await admin.ask("POST", "/api/demo/skip")
    assert (status, answer["code"]) == (404, "session.not_found")


async def test_vs_code_opens_from_the_page_on_the_sessions_files(
    browser: Browser, hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready({"name": "mine"})
    await admin.run(session, "echo hello > greeting.txt")
    async with Screen.open(browser, hub.url) as screen:
        await screen.sign_in()
        async with screen.context.expect_page() as opening:
            await screen.page.get_by_role("link", name="VS Code", exact=True).click()
        opened = await opening.value
        await opened.wait_for_url(f"**/vscode/{session}/**")  # redirects lead there
        await expect(opened.get_by_role("treeitem", name="greeting.txt")).to_be_visible()
        await opened.close()
        await screen.page.get_by_role("link", name="VS Code beside the timeline").click()
        shown = editor(screen.page)
        await expect(shown.get_by_role("treeitem", name="greeting.txt")).to_be_visible()
        await screen.page.set_viewport_size({"width": 360, "height": 720})
        assert await screen.page.evaluate("document.documentElement.scrollWidth") == 360
        await ensure_usable_by_all(screen, besides="iframe")
    assert hub.hub.sessions.is_running_or_paused(SessionId(session))


def of_vscode(complaint: str) -> bool:
    """What VS Code itself has to say in its console is not ours to mend."""
    return "/vscode/" in complaint
