"""Changes of agents in a window are reviewed on the hub's page."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser, expect

from tests.hub.sessions.serving import SessionHub, SessionsClient

from .conftest import TIMEOUT, Screen
from .test_page import ensure_usable_by_all

expect.set_options(timeout=TIMEOUT)

BEFORE = "1\n2\n3"
AFTER = "one\n2\nthree"
HOSTILE = "<img src=x onerror=alert(1)>\x1b[2J\u202e"


async def test_a_person_keeps_and_undoes_changes_of_agents_in_a_window(
    screen: Screen, hub: SessionHub, tmp_path: Path
) -> None:
    page = screen.page
    async with hub.fake_window(tmp_path) as window:
        await screen.sign_in(f"/windows/{window.id}")
        await expect(page.get_by_text("No actions yet")).to_be_visible()
        review = page.get_by_role("region", name="Changes to review")
        await expect(review).to_have_count(0)

        # The list is live.
        window.review.wrote("a.py", BEFORE, AFTER)
        await expect(review).to_contain_text("helper 1 file, 2 changes, +2 −2")
        window.review.wrote("b.py", BEFORE, AFTER, agent="other")
        window.review.wrote("c.py", BEFORE, HOSTILE, agent="other")
        await expect(review).to_contain_text("other 2 files")
        first = review.get_by_role("listitem", name="a.py")
        await first.get_by_role("button", name="Show lines").click()
        await expect(first.locator(".diff").first).to_have_text("- 1\n+ one\n")
        await ensure_usable_by_all(screen)

        # One change is kept, the other one undone.
        await first.get_by_role("button", name="Keep change").first.click()
        await expect(first).to_contain_text("1 change, +1 −1")
        await expect(first.locator(".diff")).to_have_count(0)
        await first.get_by_role("button", name="Undo", exact=True).click()
        await expect(first).to_have_count(0)
        assert window.review.text("a.py") == "one\n2\n3"

        # Names and lines are text, whatever they contain.
        third = review.get_by_role("listitem", name="c.py")
        await third.get_by_role("button", name="Show lines").click()
        await expect(third.locator(".diff")).to_contain_text("<img src=x onerror=alert(1)>\\x1b")
        await third.get_by_role("button", name="Keep", exact=True).click()
        await expect(third).to_have_count(0)

        # An answer about an old text is refused. The window has not sent its new list yet.
        window.review.files["b.py"].text = ["another"]
        await review.get_by_role("button", name="Keep all").click()
        await expect(review.get_by_role("alert")).to_contain_text("has changed since this was")
        window.review.wrote("b.py", BEFORE, "another", agent="other")
        await expect(review).to_contain_text("1 change, +1 −3")
        await review.get_by_role("button", name="Undo all…").click()
        await review.get_by_role("button", name="Undo all changes in 1 file").click()
        await expect(review).to_have_count(0)
        assert window.review.text("b.py") == BEFORE
        # The browser itself reports the refused call.
        screen.complaints[:] = [each for each in screen.complaints if "409" not in each]


async def test_a_sessions_changes_are_on_its_page_and_agents_do_not_see_them(
    browser: Browser, screen: Screen, hub: SessionHub, admin: SessionsClient, tmp_path: Path
) -> None:
    session = await admin.ready({"name": "work"})
    token = await hub.token("inside", "session", owner="admin", session_id=session)
    async with (
        hub.fake_window(tmp_path, token=token) as window,
        Screen.open(browser, hub.url) as other,
    ):
        await screen.sign_in(f"/sessions/{session}")
        received: list[str | bytes] = []
        other.page.on(
            "websocket",
            lambda each: each.on("framereceived", lambda frame: received.append(frame)),
        )
        await other.page.goto(f"{hub.url}/windows/{window.id}")
        await other.page.get_by_label("Token").fill(hub.agent)
        await other.page.get_by_role("button", name="Sign in").click()
        await expect(other.page.get_by_text("No actions yet")).to_be_visible()

        window.review.wrote("a.py", BEFORE, AFTER)

        review = screen.page.get_by_role("region", name="Changes to review")
        await expect(review.get_by_role("listitem", name="a.py")).to_be_visible()
        # This was sent after the news about the changes.
        await other.page.get_by_label("Command to run").fill("echo later")
        await other.page.keyboard.press("Enter")
        await expect(other.page.locator(".row-head")).to_contain_text("echo later")
        await expect(other.page.get_by_text("a.py")).to_have_count(0)
        assert any("echo later" in str(each) for each in received)
        assert not any('["review"' in str(each) for each in received)
        assert other.complaints == []
