"""E2B's own clients for JavaScript, unmodified, with a sandbox of a hub."""

from __future__ import annotations

import pytest

from bascule.adapters.e2b import E2BMount
from tests.hub.sessions.serving import open_session_hub

from .running import run_client

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def test_the_javascript_clients_use_all_parts_of_a_sandbox() -> None:
    async with open_session_hub(mounts=(E2BMount,)) as hub:
        assert await run_client(hub, "use_javascript.mjs") == "passed\n"
