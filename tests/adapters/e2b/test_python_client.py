"""E2B's own clients for Python, unmodified, with sandboxes of a hub."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bascule.adapters.e2b import E2BMount
from tests.hub.sessions.serving import SessionHub, open_session_hub

from .running import run_client

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub() -> AsyncIterator[SessionHub]:
    async with open_session_hub(mounts=(E2BMount,), max_egress="off") as made:
        yield made


async def test_commands_files_watchers_and_terminals(hub: SessionHub) -> None:
    names = ("commands", "background", "files", "large_file", "watch", "terminal")
    printed = await run_client(hub, "use_python.py", *names)
    assert printed.split() == [word for name in names for word in ("passed", name)]


async def test_cells_of_the_code_interpreter_return_rich_results(hub: SessionHub) -> None:
    assert await run_client(hub, "use_python.py", "code") == "passed code\n"


async def test_sandboxes_are_listed_paused_connected_and_expire(hub: SessionHub) -> None:
    printed = await run_client(hub, "use_python.py", "lifecycle", "settings")
    assert printed == "passed lifecycle\npassed settings\n"
