"""Opens VS Code in a real browser, signed in with a token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bascule.sandbox.browser.settings import BrowserSettings, find_chromium, why_no_browser

from .checks import CheckFailed
from .session_checks import FILE

if TYPE_CHECKING:
    from playwright.async_api import WebSocket

_TIMEOUT_MS: Final = 90_000.0
"""Milliseconds for VS Code to show the workspace, including its first start."""


class NoBrowser(Exception):
    """No usable browser on this machine; the message says what is missing."""


async def draw(address: str, token: str) -> str:
    """Open VS Code in Chromium and wait for the session's file. Raises `CheckFailed` or
    `NoBrowser`."""
    settings = BrowserSettings()
    chromium = find_chromium(settings)
    if chromium is None:
        raise NoBrowser(why_no_browser(settings))
    from playwright.async_api import Error, async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            # The check of TLS has already verified the certificate with this machine's trust store.
            page = await browser.new_page(ignore_https_errors=True)
            failures: list[str] = []
            page.on("websocket", lambda websocket: _listen(websocket, failures))
            try:
                await page.goto(address)
                file, token_field = (
                    page.get_by_role("treeitem", name=FILE),
                    page.get_by_label("Token"),
                )
                await file.or_(token_field).first.wait_for(timeout=_TIMEOUT_MS)
                if await token_field.is_visible():
                    await token_field.fill(token)
                    await page.get_by_role("button", name="Sign in").click()
                await file.wait_for(timeout=_TIMEOUT_MS)
            except Error as error:
                raise _page_failure(page.url, error.message, failures) from error
        finally:
            await browser.close()
    return "opens in Chromium and shows the session's file"


def _listen(websocket: WebSocket, failures: list[str]) -> None:
    # A lambda, because Playwright sets an attribute on the handler, and a bound method of a list
    # does not allow that.
    websocket.on("socketerror", lambda message: failures.append(message))


def _page_failure(where: str, message: str, failures: list[str]) -> CheckFailed:
    if "ERR_TOO_MANY_REDIRECTS" in message:
        return CheckFailed(
            f"the browser is in a redirect loop at {where}",
            "the reverse proxy changes paths or cookies; `bascule nginx` writes a "
            "correct configuration",
        )
    if failures:
        return CheckFailed(
            f"VS Code does not open: its WebSocket fails ({failures[0]})",
            "the reverse proxy must pass on the headers Upgrade and Connection below /vscode/",
        )
    return CheckFailed(
        f"VS Code does not open at {where}: {message.splitlines()[0]}",
        "look in `bascule session logs` and in the reverse proxy's log",
    )
