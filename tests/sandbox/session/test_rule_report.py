"""`/session/rules`: what the rules of a session decided, for the hub only."""

from __future__ import annotations

from pathlib import Path

import pytest

from bascule.rules import CommandVerdict, Rules
from bascule.sandbox.command_rules import CommandRules
from bascule.wire import to_json
from tests.sandbox.serving import decoded

from .running import launch_in, running

pytestmark = pytest.mark.slow


async def test_a_session_reports_its_rules_and_their_decision_counts(tmp_path: Path) -> None:
    rules = CommandRules(
        rules=Rules.of(allow=[["echo"]], deny=[["touch"]]), default=CommandVerdict.ALLOW
    )
    async with running(launch_in(tmp_path)) as session:
        assert await session.get("/session/rules") == {"rules": []}
        body = to_json(rules.as_json())
        status, said = decoded(await session.client.request("PUT", "/session/rules", body=body))
        assert status == 200, said
        await session.act("echo 1")
        await session.act("touch made")
        await session.act("touch again")
        report = (await session.get("/session/rules"))["rules"]
        found = [(each["verdict"], each["rule"], each["owner"], each["count"]) for each in report]
        assert found == [("deny", "touch", "person", 2), ("allow", "echo", "person", 1)]
        assert report[0]["last_command"] == "touch again"

        through_proxy = {"X-Forwarded-For": "192.0.2.1"}
        status, said = decoded(
            await session.client.request("GET", "/session/rules", headers=through_proxy)
        )
        assert (status, said["error"]["code"]) == (403, "access.denied")
