"""Rules for commands apply to sandboxes of E2B's clients, and lifetimes survive the hub."""

from __future__ import annotations

import json
import struct
import time
from typing import Any

import httpx
import pytest

from bascule.adapters.e2b import E2BMount
from bascule.core.sessions import SessionExpiry
from tests.hub.sessions.serving import SessionHub, open_session_hub

from .test_hostile_requests import STREAM, create, envelope

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def client(hub: SessionHub) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"{hub.url}/e2b", timeout=120)


async def test_what_needs_approval_does_not_happen_unasked() -> None:
    settings = {"rules_default": "ask", "question_timeout": 0.1}
    async with open_session_hub(mounts=(E2BMount,), **settings) as hub, client(hub) as http:
        made = await create(http, hub.agent)
        headers = {"E2b-Sandbox-Id": made["sandboxID"], "X-Access-Token": made["envdAccessToken"]}
        command = {"process": {"cmd": "touch", "args": ["made"]}}
        started = await http.post(
            "/process.Process/Start",
            content=envelope(command),
            headers={**headers, "Content-Type": STREAM},
        )
        size = struct.unpack("!I", started.content[1:5])[0]
        assert json.loads(started.content[5 : 5 + size])["error"]["code"] == "permission_denied"

        cell = await http.post("/execute", json={"code": "open('made', 'w')"}, headers=headers)
        lines = [json.loads(each) for each in cell.text.splitlines()]
        assert [each["type"] for each in lines] == ["error", "end_of_execution"]
        assert "needs approval" in lines[0]["value"]

        raw = {**headers, "Content-Type": "application/octet-stream"}
        hook = await http.post("/files?path=.git/hooks/pre-commit", content=b"x", headers=raw)
        assert hook.status_code == 403
        assert "needs approval" in hook.json()["message"]
        plain = await http.post("/files?path=plain", content=b"x", headers=raw)
        assert plain.status_code == 200
        moved = await http.post(
            "/filesystem.Filesystem/Move",
            json={"source": "plain", "destination": ".git/hooks/pre-commit"},
            headers=headers,
        )
        assert moved.json()["code"] == "permission_denied"
        listed = await http.post(
            "/filesystem.Filesystem/ListDir", json={"path": ".", "depth": 5}, headers=headers
        )
        assert [each["name"] for each in listed.json()["entries"]] == ["plain"]


async def test_a_lifetime_prolonged_at_its_end_keeps_the_sandbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_session_hub(mounts=(E2BMount,)) as hub, client(hub) as http:
        sandbox = hub.session((await create(http, hub.agent))["sandboxID"])
        sessions = hub.hub.sessions
        expiries, audit = sessions._expiries, sessions._table.audit
        assert expiries is not None

        async def audit_and_prolong(*args: Any, **detail: Any) -> None:
            await audit(*args, **detail)
            later = SessionExpiry(at=time.time() + 9000, action="remove")
            await expiries.set_expiry(sandbox, later)

        monkeypatch.setattr(sessions._table, "audit", audit_and_prolong)
        monkeypatch.setattr(expiries, "_clock", lambda: time.time() + 7200)
        await expiries._end_lifetime(sandbox)
        row = sessions.find(sandbox)
        assert row is not None
        assert (row.is_being_removed, row.state) == (False, "ready")


async def test_a_lifetime_ends_although_the_hub_was_restarted() -> None:
    async with open_session_hub(mounts=(E2BMount,)) as hub:
        async with client(hub) as http:
            short = (await create(http, hub.agent))["sandboxID"]
            paused = (await create(http, hub.agent, autoPause=True))["sandboxID"]
            for each in (short, paused):
                expired = await http.post(
                    f"/sandboxes/{each}/timeout",
                    json={"timeout": 1},
                    headers={"X-API-KEY": hub.agent},
                )
                assert expired.status_code == 204
        await hub.stop()
        await hub.start()
        async for _ in hub.hub.sessions.events(hub.session(short)):
            pass  # until the session is removed
        async for event in hub.hub.sessions.events(hub.session(paused)):
            if event is not None and event.data.get("state") == "paused":
                break
        assert hub.hub.sessions.find(hub.session(short)) is None
