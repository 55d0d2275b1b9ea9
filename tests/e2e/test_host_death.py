"""An extension host that dies is restarted by VS Code, but not for ever; then people are needed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from bascule.core.editor_actions import OpenFile
from bascule.core.errors import LinkError, NoWindow
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


async def test_agents_are_advised_to_reload_a_window_whose_host_is_not_restarted(
    rig: Rig, tmp_path: Path
) -> None:
    server = await rig.on(rig.serve("dying", {}))
    window = await rig.on(rig.open_window(tmp_path / "dying", server=server))
    token = await rig.agent_token()
    try:
        async with VSCodeRuntime(rig.url, token, window=window.id, patience=0.5) as agent:
            while await _is_restarted(rig, window, killed=await _host_of(agent)):
                pass
            with pytest.raises(LinkError, match="reload it"):
                await agent.read("anything")
        late = VSCodeRuntime(rig.url, token, window=window.id, patience=0.5)
        with pytest.raises(NoWindow, match=r"dying.*reload the window"):
            await late.connect()
        await rig.on(window.page.reload())
        await rig.on(rig.status(window.id, "healthy"))
        async with VSCodeRuntime(rig.url, token, window=window.id) as agent:
            assert (await agent.run("echo back")).content == "back\n"
    finally:
        await rig.on(window.page.context.close())
        await rig.on(rig.stop_serving(server))


async def _host_of(agent: VSCodeRuntime) -> int:
    """The process of the extension host that the agent's commands run below."""
    host = int((await agent.run("echo $PPID")).content)
    assert "extensionHost" in Path(f"/proc/{host}/cmdline").read_text()
    return host


async def _is_restarted(rig: Rig, window: EditorWindow, *, killed: int) -> bool:
    """Kill the host. True: VS Code has started another; False: it says that it gives up."""
    number = await rig.on(rig.host_number(window.id))
    os.kill(killed, signal.SIGKILL)
    await rig.on(rig.status(window.id, "gone"))
    given_up = window.page.locator(".notification-toast", has_text="terminated unexpectedly")
    back = asyncio.ensure_future(rig.on(rig.newer_host(window.id, number)))
    gone = asyncio.ensure_future(rig.on(given_up.wait_for()))
    done, rest = await asyncio.wait({back, gone}, return_when=asyncio.FIRST_COMPLETED)
    for each in rest:
        each.cancel()
    await asyncio.gather(*done)
    return back in done
