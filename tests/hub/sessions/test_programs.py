"""Programs with pipes in sessions: whose they are, and what outlives which process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from bascule.core.errors import RemoteError, SandboxUnreachable
from bascule.core.programs import Program
from bascule.hub import Identity
from bascule.hub.database.address import database_address
from bascule.hub.database.store import SqlStore
from bascule.runtime import CloudRuntime
from bascule.runtime.remote import RemoteRuntime
from bascule.runtime.spawn.plain import RECORD
from tests.contracts.programs import ended, printed, sh, until

from .serving import SessionsClient, open_session_hub

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_FAMILY = sh("(setsid sleep 1000 & echo $!); sleep 1000 & echo $!; echo $$; exec sleep 1000")
"""A program, a child, and a child that left its session and its parents; prints their pids."""


async def _family(program: Program) -> list[int]:
    seen = b""
    async for piece in program.output():
        seen += piece.data
        if seen.count(b"\n") == 3:
            break
    return [int(line) for line in seen.split()]


async def test_programs_belong_to_their_owner_and_starts_are_audited_and_recorded() -> None:
    async with open_session_hub() as hub, SessionsClient(hub.url) as admin:
        token = await hub.token("mine", "agent", owner="me")
        async with CloudRuntime(hub.url, token) as mine:
            program = await mine.start_program(sh("echo 'a secret'; cat"), env={"WORD": "x"})
            await until(program, b"secret")
            other = await hub.token("other", "agent", owner="other")
            url = f"{hub.url}/sandbox/{mine.session_id}"
            stranger = RemoteRuntime(url, other)
            with pytest.raises(SandboxUnreachable, match="You have no session"):
                await stranger.start_program(["true"])
            with pytest.raises(SandboxUnreachable, match="You have no session"):
                await stranger.list_programs()
            with pytest.raises(SandboxUnreachable, match="You have no session"):
                await stranger.find_program(program.id)
            await stranger.aclose()
            nobody = RemoteRuntime(url, "wrong")
            with pytest.raises(RemoteError, match="401"):
                await nobody.start_program(["true"])
            await nobody.aclose()

            # Code in the hub's process starts programs as an identity.
            who = Identity(name="mine", owner="me", scope="agent")
            inside = hub.hub.session(who, mine.session_id)
            await inside.connect()
            echo = await inside.start_program(["echo", "a b"])
            assert (await printed(echo))["stdout"] == b"a b\n"
            assert {each.id for each in await inside.list_programs()} == {program.id, echo.id}
            assert await (await inside.find_program(program.id)).kill() < 0

            secret = await inside.start_program(
                sh('echo "$KEY"'), secret_env={"KEY": "not to be recorded"}
            )
            assert (await printed(secret))["stdout"] == b"not to be recorded\n"

            rows = await admin.must("GET", f"/api/audit?session_id={mine.session_id}")
            acts = [row for row in rows if row["verb"] == "act"]
            assert [(row["who"], row["detail"]["action"]) for row in acts] == [
                ("mine", "program"),
                ("mine", "program"),
                ("mine", "program"),
            ]
            assert {"argv": "echo 'a b'"} in [row["detail"]["args"] for row in acts]
            where = f"/api/sessions/{mine.session_id}/timeline.jsonl"
            text = await admin.must("GET", where)
            assert b"not to be recorded" not in text
            lines = text.splitlines()
            events = [json.loads(line) for line in lines]
            commands = [
                event["args"]["command"] for event in events if event.get("action") == "run"
            ]
            assert commands == [
                "WORD=x /bin/sh -c 'echo '\"'\"'a secret'\"'\"'; cat'",
                "echo 'a b'",
                "KEY='***' /bin/sh -c 'echo \"$KEY\"'",
            ]
            ends = {
                event["extras"]["command"]: event["extras"]["metadata"]["exit_code"]
                for event in events
                if event.get("observation") == "run"
            }
            assert ends == {commands[0]: -signal.SIGTERM, commands[1]: 0, commands[2]: 0}


async def test_programs_survive_a_hub_restart_unless_their_token_was_revoked() -> None:
    async with open_session_hub() as hub:
        lasting = await hub.token("lasting", "agent", owner="admin")
        short = await hub.token("short", "agent", owner="admin")
        async with CloudRuntime(hub.url, lasting) as runtime:
            session = runtime.session_id
            kept = await runtime.start_program(["cat"])
        async with CloudRuntime(hub.url, short, session_id=session) as runtime:
            revoked = (await (await runtime.start_program(["cat"])).status()).pid
        await hub.stop()
        async with SqlStore(database_address("", hub.directory)) as store:
            await store.open()
            assert await store.remove_token("short")
        await hub.start()
        await ended(revoked)
        async with CloudRuntime(hub.url, lasting, session_id=session) as runtime:
            program = await runtime.find_program(kept.id)
            await program.write(b"still here")
            await until(program, b"still here")
            pid = (await program.status()).pid
        assert await hub.hub.tokens.revoke("lasting")
        await ended(pid)


@pytest.mark.parametrize("victims", ["server", "server and keeper"])
async def test_no_process_of_a_program_is_left_after_kill_minus_nine(victims: str) -> None:
    async with open_session_hub() as hub, CloudRuntime(hub.url, hub.agent) as runtime:
        pids = await _family(await runtime.start_program(_FAMILY))
        server = json.loads((hub.directory / "run" / runtime.session_id / RECORD).read_text())[
            "pid"
        ]
        keepers = [pid for pid in _children(server) if b"_keeper_main" in _command_of(pid)]
        assert keepers
        if victims != "server":
            for pid in keepers:
                os.kill(pid, signal.SIGSTOP)  # so that it cannot end anything any longer
        os.kill(server, signal.SIGKILL)
        if victims != "server":
            for pid in keepers:
                os.kill(pid, signal.SIGKILL)
        await asyncio.gather(*map(ended, pids))


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for each in found for word in each.read_text().split()]


def _command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
