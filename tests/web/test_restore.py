"""An action is taken back from the timeline of the hub's page."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import expect

from bascule.core.actions import CmdRun
from bascule.runtime.vscode import VSCodeRuntime
from tests.hub.sessions.serving import SessionHub, SessionsClient

from .conftest import TIMEOUT, Screen

expect.set_options(timeout=TIMEOUT)


async def test_a_person_sees_files_and_conflicts_before_an_action_is_restored(
    screen: Screen, admin: SessionsClient
) -> None:
    session = await admin.ready({"name": "work"})
    await admin.run(session, "echo one > kept; echo one > lost")
    await admin.run(session, "rm lost; echo agent > kept; echo agent > made")
    page = screen.page
    await screen.sign_in(f"/sessions/{session}")
    await screen.tab("Terminal")
    await page.locator(".xterm-screen").wait_for()
    await page.keyboard.type("echo mine > kept; echo $((40 + 2)) typed\n")
    await expect(page.locator(".xterm-rows")).to_contain_text("42 typed")

    await screen.tab("Timeline")
    await page.locator(".row-head").nth(1).click()
    await page.get_by_role("button", name="Restore…").click()
    section = page.locator(".restore")
    await expect(section).to_contain_text("Will be restored")
    await expect(section.get_by_role("listitem")).to_have_text(
        ["lost", "made", "kept: it was changed since"]
    )
    assert await admin.run(session, "ls -1") == "kept\nmade\n"
    await section.get_by_role("button", name="Restore", exact=True).click()
    await expect(section.get_by_role("heading")).to_have_text(["Restored", "Removed", "Left alone"])

    assert await admin.run(session, "cat kept lost; ls -1") == "mine\none\nkept\nlost\n"


async def test_an_action_in_a_window_is_restored_from_its_timeline(
    screen: Screen, hub: SessionHub, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "lost").write_text("one")
    page = screen.page
    async with hub.fake_window(folder, checkpoints=tmp_path / "store") as window:
        async with VSCodeRuntime(hub.url, hub.agent, window=window.id) as agent:
            await agent.act(CmdRun("rm lost; echo agent > made"))
        await screen.sign_in(f"/windows/{window.id}")
        await page.locator(".row-head").first.click()
        await page.get_by_role("button", name="Restore…").click()
        section = page.locator(".restore")
        await expect(section.get_by_role("listitem")).to_have_text(["lost", "made"])
        assert (folder / "made").exists()
        await section.get_by_role("button", name="Restore", exact=True).click()
        await expect(section.get_by_role("heading")).to_have_text(["Restored", "Removed"])
    assert [each.name for each in folder.iterdir()] == ["lost"]
