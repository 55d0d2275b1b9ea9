"""Agent frameworks with their own back ends for E2B, unmodified, in isolated sessions of a hub."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bascule.adapters.e2b import E2BMount
from tests.hub.sessions.serving import SessionHub, open_local_session_hub

from .running import run_client

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub() -> AsyncIterator[SessionHub]:
    if shutil.which("bwrap") is None:
        pytest.skip("isolated sessions need bubblewrap")
    async with open_local_session_hub(mounts=(E2BMount,)) as made:
        yield made


@pytest.mark.parametrize("program", ["use_openai_agents.py", "use_smolagents.py"])
async def test_a_framework_works_in_a_sandbox(hub: SessionHub, program: str) -> None:
    assert await run_client(hub, program) == "passed\n"


async def test_the_workspace_is_the_home_directory_that_clients_expect(hub: SessionHub) -> None:
    assert await run_client(hub, "use_home.py") == "passed\n"
