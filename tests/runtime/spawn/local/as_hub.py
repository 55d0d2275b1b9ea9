"""A hub without rights, as a program: starts a session, uses it, leaves. See `test_rights.py`.

Run as root it starts its warden and then drops its rights; else it is told where a warden is.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from pathlib import Path

from bascule.core.sessions import SandboxPlan, SessionId
from bascule.runtime.remote import RemoteRuntime
from bascule.runtime.spawn.local import LocalSettings, LocalSpawner, start_warden


async def be_hub(settings: LocalSettings, warden: socket.socket | Path, session_id: str) -> None:
    directory = settings.sessions_dir / session_id
    directory.mkdir()
    plan = SandboxPlan(
        session_id=SessionId(session_id),
        directory=directory,
        run_dir=settings.run_dir / session_id,
        key="a-key",
    )
    async with LocalSpawner(settings, warden=warden) as spawner:
        await spawner.open()
        started = await spawner.start(plan)
        path = plan.run_dir / "sandbox.sock"
        async with RemoteRuntime("http://localhost", plan.key, socket_path=path) as runtime:
            seen = await runtime.run("id -u; touch mine")
        told: dict[str, object] = {"hub": os.getuid(), "uid": started.uid, "seen": seen.content}
        told["sockets"] = sorted(each.name for each in plan.run_dir.iterdir())
        await spawner.stop(plan.session_id)
        await spawner.remove(directory)
        told["left"] = directory.exists() or plan.run_dir.exists()
    sys.stdout.write(json.dumps(told))


def main() -> None:
    settings = LocalSettings.from_json(sys.stdin.buffer.readline())
    warden: socket.socket | Path
    if os.geteuid() == 0:
        assert settings.hub_uid is not None
        warden = start_warden(settings)
        os.setgroups([])
        os.setresgid(settings.hub_uid, settings.hub_uid, settings.hub_uid)
        os.setresuid(settings.hub_uid, settings.hub_uid, settings.hub_uid)
    else:
        warden = Path(sys.argv[2])
    asyncio.run(be_hub(settings, warden, sys.argv[1]))


if __name__ == "__main__":
    main()
