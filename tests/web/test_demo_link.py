""" "Watch a demo" beside a session's VS Code: one click starts it."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.async_api import Route, expect

from tests.hub.sessions.serving import SessionsClient

from .conftest import Screen


async def test_one_click_beside_vs_code_starts_the_demo(
    screen: Screen, admin: SessionsClient
) -> None:
    session = await admin.ready({"name": "mine"})
    await screen.page.route("**/vscode/**", _nothing)  # whatever it shows there
    await screen.sign_in(f"/watch/{session}")
    await screen.page.get_by_role("link", name="Watch a demo").click()
    await screen.page.wait_for_url(lambda url: "/watch/" in url and session not in url)

    demo = await admin.must("GET", "/api/demo")
    assert urlsplit(screen.page.url).path == urlsplit(demo["url"]).path
    screen.complaints.clear()  # of VS Code, which is not there


async def test_a_link_on_another_site_starts_nothing(screen: Screen, admin: SessionsClient) -> None:
    await screen.sign_in()
    await screen.page.goto(f"{screen.url}/demo#play")  # typed or linked to: no referrer of ours
    await expect(screen.page.get_by_role("button", name="Watch a demo")).to_be_visible()

    assert await admin.must("GET", "/api/demo") is None
    assert await admin.must("GET", "/api/sessions") == []


async def _nothing(route: Route) -> None:
    await route.fulfill(body="", content_type="text/html")
