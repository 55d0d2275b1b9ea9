"""Browsing in a VS Code window: read in a headless page beside it, shown in its simple browser."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from bascule.core.observations import BrowserOutput
from bascule.runtime.vscode import VSCodeRuntime
from tests.sandbox.browser.conftest import bid
from tests.sandbox.browser.pages import PageServer, serving_pages

from .rig import EditorWindow, Rig


@pytest.fixture(scope="module")
def pages() -> Iterator[PageServer]:
    with serving_pages() as server:
        yield server


async def test_a_page_is_read_and_shown(runtime: VSCodeRuntime, pages: PageServer) -> None:
    seen = await runtime.browse(f"{pages.url}/next")

    assert isinstance(seen, BrowserOutput)
    assert "# Next page" in seen.content
    assert seen.screenshot.startswith("data:image/png")
    # Once by the page beside, once by the window.
    assert await asyncio.to_thread(pages.wait_for, "/next", 2, 30)


async def test_browse_actions_run_in_the_page_shown_in_vs_code(
    rig: Rig, vscode_window: EditorWindow, runtime: VSCodeRuntime, pages: PageServer
) -> None:
    page = await runtime.browse_interactive(f"goto('{pages.url}/form')")
    assert isinstance(page, BrowserOutput)
    after = await runtime.browse_interactive(f"click('{bid(page, 'Press')}')")

    assert isinstance(after, BrowserOutput)
    assert "Pressed 1" in after.content
    # A window knows that it has a browser some time after it came.
    async with VSCodeRuntime(rig.url, await rig.agent_token(), window=vscode_window.id) as later:
        assert {"browse", "browse_interactive"} <= later.capabilities


async def test_pages_do_not_reach_the_hub(rig: Rig, runtime: VSCodeRuntime) -> None:
    for hub in (rig.relay.url, rig.relay.url.replace("127.0.0.1", "localhost")):
        seen = await runtime.browse(hub)
        assert isinstance(seen, BrowserOutput)
        assert "kept from the browser" in seen.last_browser_action_error


async def test_the_browser_shows_only_files_of_the_workspace(
    vscode_window: EditorWindow, runtime: VSCodeRuntime, tmp_path: Path
) -> None:
    (vscode_window.folder / "note.txt").write_text("in the workspace")
    (tmp_path / "secret.txt").write_text("outside of it")
    inside = await runtime.browse(f"{vscode_window.folder}/note.txt")
    outside = await runtime.browse(f"{tmp_path}/secret.txt")

    assert "in the workspace" in inside.content
    assert "outside of it" not in outside.content
