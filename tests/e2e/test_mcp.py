"""VS Code's own agents are offered our tools."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.async_api import Page, expect

from .driving import run_command
from .rig import EditorWindow, Rig


@pytest.fixture
def window(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    """Of somebody who has not switched VS Code's agents off."""
    server = rig.wait(rig.serve("agents", {"chat.disableAIFeatures": False}))
    folder = tmp_path_factory.mktemp("agents") / "workspace"
    window = rig.wait(rig.open_window(folder, server=server))
    yield window
    rig.wait(window.page.context.close())
    rig.wait(rig.stop_serving(server))


async def test_the_hub_is_an_mcp_server_of_the_window_once_the_user_gives_a_token(
    rig: Rig, window: EditorWindow
) -> None:
    token = await rig.agent_token()

    async def start(page: Page) -> None:
        box = page.locator(".quick-input-widget")
        await run_command(page, "MCP: List Servers")
        await box.get_by_role("option", name="Bascule").click()
        await box.get_by_role("option", name="Start Server").click()
        await expect(box).to_contain_text("Agent token for")
        await box.locator("input").first.fill("wrong")
        await page.keyboard.press("Enter")
        await expect(box).to_contain_text("The hub does not know this token")
        await box.locator("input").first.fill(token)
        await page.keyboard.press("Enter")
        log = page.locator(".panel .view-line", has_text="Discovered")  # which VS Code shows now
        await expect(log).to_have_text(re.compile(r"Discovered\s\d+\stools"))

    await rig.on(start(window.page))
