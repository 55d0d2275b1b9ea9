"""A real VS Code and a browser, for commands that need them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright, expect

from bascule.sandbox.vscode.installation import Installation
from tests.e2e.code_server import CHROMIUM, WAITING, build_extension, install_editor

expect.set_options(timeout=WAITING)


@pytest.fixture(scope="session")
def vscode() -> tuple[Installation, Path]:
    """Installed and built, as `make editor` does; the server and our extension."""
    return Installation(install_editor()), build_extension()


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    """A tab of a browser nobody has used before."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        page = await browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(WAITING)
        yield page
        await browser.close()
