"""What the hub makes of a sandbox's report about rules: another program may have sent it."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bascule.core.errors import MessageTooLarge, SandboxUnreachable
from bascule.hub.sessions.masking import Mask
from bascule.hub.sessions.rules_in_use import RuleInUse, rules_in_use
from bascule.hub.sessions.sandbox_client import SandboxClient
from bascule.hub.sessions.sandbox_messages import RuleUses, parse_message
from bascule.hub.sessions.session_rules import HubRule

HUBS = [
    HubRule("allow", "git log", "", "", "rules.toml:1"),
    HubRule("allow", "make", "helper", "ann allowed it", "rules.toml:4"),
    HubRule("deny", "touch", "another", "", "rules.toml:9"),
]
USE = {"verdict": "allow", "rule": "git log", "owner": "person", "count": 2, "last_time": 5.0}


def merged(*uses: dict[str, Any], mask: Mask | None = None) -> list[RuleInUse]:
    found = parse_message(RuleUses, {"rules": list(uses)}).rules
    return list(rules_in_use(HUBS, found, agent="helper", mask=mask or Mask(())))


def test_counts_are_added_to_the_hubs_rules_for_the_agent() -> None:
    first, second = merged({**USE, "last_command": "git log -1"})
    assert (first.rule, first.made_by, first.count, first.last_time) == ("git log", "hub", 2, 5.0)
    assert first.last_command == "git log -1"
    assert (second.rule, second.agent, second.count) == ("make", "helper", 0)


def test_the_counts_of_a_session_that_does_not_run_are_unknown() -> None:
    found = rules_in_use(HUBS, None, agent="other", mask=Mask(()))
    assert [(each.rule, each.count) for each in found] == [("git log", None)]


def test_a_session_report_cannot_add_or_allow_hub_rules() -> None:
    found = merged(
        {**USE, "rule": "rm", "why": "admin allowed it", "origin": "rules.toml:2"},
        {**USE, "rule": "curl", "owner": "workspace"},
        {**USE, "verdict": "deny"},
        {**USE, "verdict": "deny", "rule": "touch"},
        {**USE, "verdict": "ask", "rule": "date", "owner": "workspace", "origin": "w.toml:1"},
    )
    assert [(each.made_by, each.verdict, each.rule, each.count) for each in found] == [
        ("hub", "allow", "git log", 0),
        ("hub", "allow", "make", 0),
        ("workspace", "ask", "date", 2),
    ]


def test_a_session_report_cannot_change_the_texts_of_hub_rules() -> None:
    first = merged({**USE, "why": "forged", "origin": "forged:1", "made_by": "x", "agent": "y"})[0]
    assert (first.why, first.origin, first.made_by, first.agent) == ("", "rules.toml:1", "hub", "")


def test_session_texts_are_truncated_and_invisible_characters_escaped() -> None:
    hostile = "\x1b[2J\u202e" + "x" * 4000
    workspace = {**USE, "verdict": "deny", "owner": "workspace", "rule": hostile}
    found = merged({**workspace, "why": hostile, "origin": hostile, "last_command": hostile})[-1]
    for text in (found.rule, found.why, found.origin, found.last_command):
        assert text.startswith("<U+001B>[2J<U+202E>xxx")
        assert len(text) <= 300


@pytest.mark.parametrize("at", [0, 250, 290])
def test_a_secret_is_masked_even_at_a_truncation_point(at: int) -> None:
    secret = "-----BEGIN\x01KEY-----" + "k3y" * 600
    mask = Mask([secret])
    sent = (" " * at + secret + " tail")[:300]
    shown = merged({**USE, "last_command": sent}, mask=mask)[0].last_command
    assert shown == " " * at + "***"
    longer = merged({**USE, "last_command": " " * at + secret}, mask=mask)[0].last_command
    assert longer == shown


def test_text_that_only_resembles_a_secret_stays() -> None:
    mask = Mask(["aaaab", "other-secret"])
    assert mask.cut_text("aaaaaaaaac aaaa c") == "aaaaaaaaac aaaa c"
    assert mask.cut_text("x aaaaab other-s") == "x a*** ***"
    assert mask.cut_text("oth") == "oth"
    assert Mask(()).cut_text("aaaa") == "aaaa"


@asynccontextmanager
async def impostor(answer: bytes) -> AsyncIterator[SandboxClient]:
    """A program in the place of a sandbox that gives this answer to everything."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)
        writer.close()

    with tempfile.TemporaryDirectory(prefix="bsc-") as place:
        socket = Path(place, "s.sock")
        async with (
            await asyncio.start_unix_server(serve, socket),
            SandboxClient(socket, "key", uid=None, max_reply=1 << 20) as client,
        ):
            yield client


def answer(*uses: object) -> bytes:
    return json.dumps({"rules": list(uses)}).encode()


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"[]",
        b"not JSON",
        b'{"rules": null}',
        b'{"rules": [[]]}',
        answer({**USE, "verdict": "always"}),
        answer({**USE, "owner": "hub"}),
        answer({**USE, "count": -1}),
        answer({**USE, "count": 1 << 40}),
        answer({**USE, "count": "many"}),
        answer({**USE, "last_time": 1e300}),
        answer({**USE, "last_time": -5}),
        answer({**USE, "last_time": 1}).replace(b": 1}", b": NaN}"),
        answer({**USE, "rule": ["git", "log"]}),
        answer({**USE, "rule": "x" * 5000}),
        answer({**USE, "last_command": "x" * 5000}),
        answer(*[USE] * 201),
        b'{"rules": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
async def test_an_invalid_report_is_an_error(told: bytes) -> None:
    async with impostor(told) as client:
        with pytest.raises(SandboxUnreachable, match="invalid answer"):
            await client.rule_uses()


async def test_reading_an_endless_report_is_aborted() -> None:
    async with impostor(answer() + b" " * (2 << 20)) as client:
        with pytest.raises(MessageTooLarge):
            await client.rule_uses()
