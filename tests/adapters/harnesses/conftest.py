"""Run by tests/adapters/test_harnesses.py in an environment that has the harnesses, with the hub of
that test in BASCULE_HUB and BASCULE_TOKEN."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from bascule.link.sessions import HubSession, SessionCalls

if find_spec("inspect_ai") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    # Without these, the harnesses ask the network while they are imported.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["MSWEA_SILENT_STARTUP"] = "1"


@pytest.fixture
def project() -> Path:
    return Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def nothing_blocks_the_loop() -> None:
    """Off here: the harnesses block their event loops."""


@pytest.fixture
def hub_sessions() -> list[HubSession]:
    return sessions()


def sessions() -> list[HubSession]:
    """The sessions of the hub."""

    async def listed() -> list[HubSession]:
        async with SessionCalls(os.environ["BASCULE_HUB"], os.environ["BASCULE_TOKEN"]) as calls:
            return [*await calls.sessions()]

    return asyncio.run(listed())


@pytest.fixture
def no_session_is_left() -> Iterator[None]:
    before = {each.id for each in sessions()}
    yield
    assert {each.id for each in sessions()} == before
