"""Files are viewed by their address, although the server itself has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from .running import launch_in, running

pytestmark = [pytest.mark.slow, pytest.mark.browser]


async def test_the_agents_browser_can_open_files_at_view(tmp_path: Path) -> None:
    async with running(launch_in(tmp_path)) as session:
        (session.workspace / "note.txt").write_text("written here")
        view = (await session.get("/capabilities"))["view"]
        for address in (f"{view}?path={session.workspace}/note.txt", "/etc/hostname"):
            action = {"action": "browse", "args": {"url": address}}
            status, seen = await session.post("/execute_action", {"action": action})
            assert status == 200
            assert not seen["extras"]["error"], seen
            if address.startswith("http"):
                assert "written here" in seen["content"]
        listed = await session.get("/session/ports")

    assert listed["ports"] == []  # the browser's own are nobody's app
