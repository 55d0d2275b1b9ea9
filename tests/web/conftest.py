"""A hub with sessions, a window beside it, and its page in a real Chromium."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    ViewportSize,
    async_playwright,
    expect,
)

from bascule.hub.web.page import FILES
from tests.hub.serving import ADMIN
from tests.hub.sessions.serving import SessionHub, SessionsClient, open_session_hub

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or ""
PLAIN = Path(__file__).parents[1] / "chromium"
"""The same, with storage in frames as people have it."""
TIMEOUT = 60_000
"""Milliseconds: events end the waiting, this only ends a test that hangs."""
expect.set_options(timeout=2 * TIMEOUT)  # VS Code has much to start

FINDINGS: Sequence[Mapping[str, Any]] = (
    {"name": "bash", "state": "ok", "found": "5.2", "advice": ""},
    {"name": "tmux", "state": "limited", "found": "not found", "advice": "apt-get install tmux"},
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/web/" in item.path.as_posix():
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.browser)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(240))


@pytest.fixture
async def hub() -> AsyncIterator[SessionHub]:
    async with open_session_hub(checks=lambda: FINDINGS) as made:
        yield made


@pytest.fixture
async def admin(hub: SessionHub) -> AsyncIterator[SessionsClient]:
    async with SessionsClient(hub.url) as asker:
        yield asker


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    if not CHROMIUM:
        pytest.skip("there is no Chromium here; scripts/browser installs one")
    if not (FILES / "index.html").is_file():
        pytest.skip("the page is not built; scripts/web builds it")
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(
            executable_path=PLAIN, args=["--no-sandbox", "--disable-gpu"]
        )
        yield launched
        await launched.close()


class Screen:
    """Somebody's browser. What its console complains of is kept, and must be expected."""

    def __init__(self, context: BrowserContext, page: Page, url: str) -> None:
        self.context = context
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        page.set_default_timeout(TIMEOUT)
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    @classmethod
    @asynccontextmanager
    async def open(
        cls, browser: Browser, url: str, *, width: int = 1280, height: int = 800, **more: Any
    ) -> AsyncIterator[Self]:
        size: ViewportSize = {"width": width, "height": height}
        context = await browser.new_context(viewport=size, **more)
        try:
            yield cls(context, await context.new_page(), url)
        finally:
            await context.close()

    async def sign_in(self, where: str = "/") -> None:
        await self.page.goto(self.url + where)
        await self.page.get_by_label("Token").fill(ADMIN)
        await self.page.get_by_role("button", name="Sign in").click()
        # The answer to the form is a page that navigates to the wanted one by itself. A test that
        # went elsewhere before that one is there would be interrupted by it.
        await self.page.locator("meta[name=bascule-key]").wait_for(state="attached")

    async def go(self, label: str) -> None:
        await (
            self.page.get_by_role("navigation", name="Main")
            .get_by_role("link")
            .filter(has_text=label)
            .click()
        )

    async def tab(self, name: str) -> None:
        await self.page.get_by_role("tab", name=name).click()

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} ({message.location['url']})")


@pytest.fixture
async def screen(browser: Browser, hub: SessionHub) -> AsyncIterator[Screen]:
    async with Screen.open(browser, hub.url) as made:
        yield made
        assert made.complaints == []
