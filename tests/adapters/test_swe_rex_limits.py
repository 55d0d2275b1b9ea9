"""An agent that sends SWE-ReX requests cannot stall the hub or take all of its memory."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable
from typing import TypeVar

import httpx
import pytest

from bascule.adapters.swe_rex import SweRexMount
from bascule.adapters.swe_rex._text import decoded, json_response
from tests.hub.serving import ADMIN
from tests.hub.sessions.serving import SessionsClient, open_session_hub

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

T = TypeVar("T")
SLOTS = 32


async def with_turns(work: Awaitable[T]) -> tuple[T, int]:
    """The result, and how often the event loop ran other tasks meanwhile."""
    task, turns = asyncio.ensure_future(work), 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    return task.result(), turns


async def test_random_bytes_are_decoded_while_the_event_loop_goes_on() -> None:
    data = os.urandom(4 << 20)
    text, turns = await with_turns(decoded(data, errors="backslashreplace"))
    assert text == data.decode(errors="backslashreplace")
    assert turns > 20  # one call of the codec would leave it one turn or two
    response, turns = await with_turns(json_response({"stdout": text, "exit_code": None}))
    assert json.loads(bytes(response.body)) == {"stdout": text, "exit_code": None}
    assert turns > 1
    with pytest.raises(LookupError, match="not a text encoding"):
        await decoded(b"x" * (1 << 17), encoding="zlib")


async def test_requests_over_the_limit_wait_and_shells_stay_usable() -> None:
    async with (
        open_session_hub(mounts=(SweRexMount,)) as hub,
        SessionsClient(hub.url) as admin,
    ):
        session = await admin.ready()
        await admin.run(session, "mkdir begun")
        headers = {"Authorization": f"Bearer {ADMIN}"}
        address = f"{hub.url}/swerex/{session}"
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=None) as http:
            body = {
                "command": "touch begun/$$; until [ -e end ]; do sleep 0.2; done",
                "shell": True,
            }
            programs = [
                asyncio.create_task(http.post("/execute", json=body)) for _ in range(SLOTS + 8)
            ]
            begun = f"until [ $(ls begun | wc -l) -ge {SLOTS} ]; do sleep 0.1; done"
            await admin.run(session, begun)
            created = await http.post("/create_session", json={})
            assert created.status_code == 200, created.text
            shell = {"command": "ls begun | wc -l", "action_type": "bash"}
            counted = await http.post("/run_in_session", json=shell)
            assert int(counted.json()["output"]) == SLOTS
            await admin.run(session, "touch end")
            answers = await asyncio.gather(*programs)
            assert {each.json()["exit_code"] for each in answers} == {0}
