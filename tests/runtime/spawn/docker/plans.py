"""Plans of sessions, outside of the suite that makes its own."""

from __future__ import annotations

import secrets
from typing import Any

from bascule.core.sessions import SandboxPlan, new_session_id
from bascule.runtime.spawn.docker import DockerSettings


def new_plan(settings: DockerSettings, **given: Any) -> SandboxPlan:
    session_id = new_session_id()
    return SandboxPlan(
        session_id=session_id,
        directory=settings.sessions_dir / session_id,
        run_dir=settings.run_dir / session_id,
        key=secrets.token_hex(),
        **given,
    )
