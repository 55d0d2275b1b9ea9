"""An extension host that dies is restarted by VS Code, but not for ever; then people are needed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from bascule.core.actions import OpenFile
from bascule.core.errors import LinkError
from bascule.core.observations import Error
from bascule.runtime.vscode import VSCodeRuntime

from .rig import EditorWindow, Rig


async def test_a_file_that_is_not_there_cannot_be_opened(
    runtime: VSCodeRuntime, vscode_window: EditorWindow
) -> None:
    for path, code in (("missing.txt", "path.not_found"), (".", "path.is_directory")):
        seen = await runtime.act(OpenFile(path))
        assert isinstance(seen, Error)
        assert seen.error_id == code
    assert not (vscode_window.folder / "missing.txt").exists()


async def test_the_hub_says_to_reload_a_window_whose_host_died_for_good(
    rig: Rig, tmp_path: Path
) -> None:
    server = await rig.on(rig.serve("dying", {}))
    window = await rig.on(rig.open_window(tmp_path / "dying", server=server))
    try:
        token = await rig.agent_token()
        async with VSCodeRuntime(rig.url, token, window=window.id, patience=0.5) as agent:
            seen = await agent.run("echo $PPID")
            killed = int(seen.content)
            assert "extensionHost" in Path(f"/proc/{killed}/cmdline").read_text()
            os.kill(killed, signal.SIGKILL)
            await rig.on(rig.status(window.id, "gone"))
            with pytest.raises(LinkError, match="reload the window"):
                await agent.read("anything")
    finally:
        await rig.on(window.page.context.close())
        await rig.on(rig.stop_serving(server))
