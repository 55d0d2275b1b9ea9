"""A token that is revoked ends what its agent does in a window."""

from __future__ import annotations

import asyncio

import pytest

from bascule.core.errors import AccessDenied
from bascule.runtime.vscode import VSCodeRuntime
from tests.contracts.runtime import Seen, gone

from .rig import EditorWindow, Rig


async def test_a_running_command_is_interrupted_and_the_next_one_refused(
    rig: Rig, vscode_window: EditorWindow
) -> None:
    name, folder = rig.new_name(), vscode_window.folder
    token = await rig.on(rig.hub.tokens.create(name, "agent"))
    command = "bash -c 'echo $$ > program; echo up; exec sleep 600'; touch late"
    async with VSCodeRuntime(rig.url, token, window=vscode_window.id) as agent:
        seen = Seen()
        running = asyncio.create_task(agent.run(command, blocking=True, on_progress=seen))
        await seen.wait_for(b"up")
        assert await rig.on(rig.hub.tokens.revoke(name))
        with pytest.raises(AccessDenied):
            await running
        await gone(int((folder / "program").read_text()))
        with pytest.raises(AccessDenied):
            await agent.run("touch late")
    assert not (folder / "late").exists()
