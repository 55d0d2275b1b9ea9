"""`bascule acp` in a session, with a scripted agent: what passes, what it answers, how it ends."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bascule.runtime import CloudRuntime
from tests.contracts.programs import ended
from tests.hub.sessions.serving import SessionHub, SessionsClient, open_session_hub

from .client import SCRIPTED_AGENT, AcpClient, is_alive, open_client, refuse

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="module"),
]

CWD = "/home/someone/project"
"""The client's directory, which does not exist in the session."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub() -> AsyncIterator[SessionHub]:
    async with open_session_hub() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime(hub: SessionHub) -> AsyncIterator[CloudRuntime]:
    async with CloudRuntime(hub.url, hub.agent) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(hub: SessionHub, runtime: CloudRuntime) -> AsyncIterator[AcpClient]:
    async with open_client(
        *("--session", runtime.session_id, "--env", "KEY"),
        hub=hub.url,
        token=hub.agent,
        KEY="not to be recorded",
    ) as opened:
        await opened.begin(CWD)
        yield opened


async def workspace(runtime: CloudRuntime) -> str:
    return (await runtime.run("pwd")).content.strip()


async def test_the_agent_runs_in_the_session_with_mapped_paths(
    client: AcpClient, runtime: CloudRuntime
) -> None:
    root = await workspace(runtime)
    (described,) = await client.steps({"describe": 1})
    assert described["cwd"] == described["opened"]["cwd"] == root
    assert described["env"]["KEY"] == "not to be recorded"
    assert described["capabilities"]["fs"] == {"readTextFile": True, "writeTextFile": True}
    assert described["capabilities"]["terminal"] is True
    location = {"path": f"{root}/src/a.py", "line": 3}
    diff = {"type": "diff", "path": f"{root}/src/a.py", "oldText": root, "newText": "b"}
    await client.steps(
        {
            "update": {
                "sessionUpdate": "tool_call",
                "toolCallId": "1",
                "title": root,
                "locations": [location, {"path": "/etc/hosts"}],
                "content": [diff],
                "rawInput": {"path": root},
                "_meta": {"path": root},
            }
        }
    )
    shown = next(each for each in client.updates if each["sessionUpdate"] == "tool_call")
    assert shown["locations"] == [{"path": f"{CWD}/src/a.py", "line": 3}, {"path": "/etc/hosts"}]
    assert shown["content"] == [{**diff, "path": f"{CWD}/src/a.py"}]
    assert (shown["title"], shown["rawInput"], shown["_meta"]) == (
        root,
        {"path": root},
        {"path": root},
    )


async def test_files_are_read_and_written_exactly(client: AcpClient, runtime: CloudRuntime) -> None:
    root = await workspace(runtime)
    for text in ("one\ntwo\nthree\n", "one\ntwo", "", "é\r\nü\r\n", "no newline after this"):
        path = f"{root}/sub/file-{len(text)}.txt"
        write = {"ask": "fs/write_text_file", "params": {"path": path, "content": text}}
        read = {"ask": "fs/read_text_file", "params": {"path": path}}
        written, found = await client.steps(write, read)
        assert (written, found) == ({}, {"content": text})
        other = f"other {text}"
        written, found = await client.steps(
            {"ask": "fs/write_text_file", "params": {"path": path, "content": other}}, read
        )
        assert (written, found) == ({}, {"content": other})
    lines = {"path": f"{root}/sub/lines", "content": "1\n2\n3\n4\n"}
    found = await client.steps(
        {"ask": "fs/write_text_file", "params": lines},
        {"ask": "fs/read_text_file", "params": {"path": lines["path"], "line": 2, "limit": 2}},
        {"ask": "fs/read_text_file", "params": {"path": lines["path"], "line": 9}},
        {"ask": "fs/read_text_file", "params": {"path": f"{root}/none"}},
    )
    assert found[1] == {"content": "2\n3\n"}
    assert found[2] == {"content": ""}
    assert found[3]["error"]["code"] == -32002
    assert "Resource not found" in found[3]["error"]["message"]


async def test_files_outside_of_the_workspace_are_refused(
    client: AcpClient, runtime: CloudRuntime
) -> None:
    root = await workspace(runtime)
    for path in ("/etc/passwd", f"{root}/../x", f"{root}x/y", "relative", 7, f"{root}/a\0b"):
        read, written = await client.steps(
            {"ask": "fs/read_text_file", "params": {"path": path}},
            {"ask": "fs/write_text_file", "params": {"path": path, "content": "x"}},
        )
        assert read["error"]["code"] == written["error"]["code"] == -32602, path


async def test_a_terminal_has_exact_output_and_an_exit_code(client: AcpClient) -> None:
    script = "printf 'a\\n'; printf 'b\\n' >&2; echo $WORD; exit 3"
    env = [{"name": "WORD", "value": "x y"}]
    create = {"command": "sh", "args": ["-c", script], "env": env}
    (opened,) = await client.steps({"ask": "terminal/create", "params": create})
    name = {"terminalId": opened["terminalId"]}
    ended, output, released, gone = await client.steps(
        {"ask": "terminal/wait_for_exit", "params": name},
        {"ask": "terminal/output", "params": name},
        {"ask": "terminal/release", "params": name},
        {"ask": "terminal/output", "params": name},
    )
    assert ended == {"exitCode": 3, "signal": None}
    assert output == {"output": "a\nb\nx y\n", "truncated": False, "exitStatus": ended}
    assert released == {}
    assert gone["error"]["code"] == -32602


async def test_a_terminal_keeps_the_newest_output_and_can_be_killed(client: AcpClient) -> None:
    line = {"command": "printf éé; printf 1234 && exec sleep 1000", "outputByteLimit": 5}
    (opened,) = await client.steps({"ask": "terminal/create", "params": line})
    name = {"terminalId": opened["terminalId"]}
    output: dict[str, Any] = {}
    while output.get("output") != "1234":  # the é before it is cut
        (output,) = await client.steps({"ask": "terminal/output", "params": name})
    assert output["truncated"] is True
    assert "exitStatus" not in output
    killed, over = await client.steps(
        {"ask": "terminal/kill", "params": name},
        {"ask": "terminal/wait_for_exit", "params": name},
    )
    assert killed == {}
    assert over == {"exitCode": None, "signal": "SIGTERM"}
    (missing,) = await client.steps(
        {"ask": "terminal/create", "params": {"command": "no-such-program"}}
    )
    assert "no-such-program" in missing["error"]["message"]


async def test_unknown_methods_and_fields_pass_unchanged(client: AcpClient) -> None:
    params = {"_meta": {"a": [1, 2.50, "ü", None]}, "unknown": {"x": "\ud800"}}
    assert await client.result("echo", params) == params
    assert (await client.ask("no/such", {}))["error"]["code"] == -32601
    client.notifications.clear()
    body = {"jsonrpc": "2.0", "method": "_auth/status_update", "params": params, "_x": 1.50}
    await client.steps({"raw": json.dumps(body) + "   "}, {"ask": "craft/drainMidTurnQueue"})
    assert client.notifications == [body]
    assert json.dumps(body).encode() + b"   \n" in client.lines
    assert client.requests[-1]["method"] == "craft/drainMidTurnQueue"
    assert client.texts()[-1] == json.dumps(
        {"error": {"code": -32601, "message": "craft/drainMidTurnQueue is not known here"}}
    )


async def test_what_is_no_message_ends_nothing(client: AcpClient) -> None:
    client.stray.clear()
    for line in (b"no json", b"[]", b'{"id": 1.5, "method": "x"}', b'{"id": true}', b"NaN"):
        await client.send_raw(line + b"\n")
    await client.send_raw(b"[" * 100_000 + b"\n")
    await client.send({"id": "never asked", "result": {}})
    await client.steps({"raw": "Loading model…"}, {"raw": '{"jsonrpc":"2.0","id":77,"result":1}'})
    codes = [each["error"]["code"] for each in client.stray]
    assert codes == [-32700, -32600, -32600, -32600, -32700, -32700]
    assert all(each["id"] is None for each in client.stray)


async def test_nothing_of_a_secret_is_recorded(hub: SessionHub, client: AcpClient) -> None:
    await client.steps({"describe": 1})  # prints it
    async with SessionsClient(hub.url) as admin:
        (session,) = await admin.must("GET", "/api/sessions")
        where = f"/api/sessions/{session['id']}/timeline.jsonl"
        record = await admin.must("GET", where)
        audit = json.dumps(await admin.must("GET", "/api/audit"))
    assert b"KEY='***'" in record
    assert b"not to be recorded" not in record
    assert "not to be recorded" not in audit


async def test_a_second_session_of_the_client_has_its_own_paths(client: AcpClient) -> None:
    other = await client.result("session/new", {"cwd": "/other", "mcpServers": []})
    loaded = {"sessionId": "old", "cwd": "/old/place", "mcpServers": []}
    assert await client.result("session/load", loaded) == {}
    (described,) = await client.steps({"describe": 1})
    assert other["sessionId"] != client.session
    assert described["opened"]["cwd"] == described["cwd"]


# The end ----------------------------------------------------------------------------------------


async def _family(client: AcpClient) -> list[int]:
    (made,) = await client.steps({"child": ["setsid", "sleep", "1000"]})
    name = {"command": "sleep", "args": ["1000"]}
    await client.steps({"ask": "terminal/create", "params": name})
    pids: list[int] = made["pids"]
    return pids


@pytest.mark.parametrize("how", ["the client leaves", "kill the proxy", "SIGTERM", "SIGHUP"])
async def test_the_agent_and_its_children_end_with_the_client(
    how: str, hub: SessionHub, runtime: CloudRuntime
) -> None:
    async with open_client("--session", runtime.session_id, hub=hub.url, token=hub.agent) as client:
        await client.begin(CWD)
        pids = await _family(client)
        programs = [each for each in await runtime.list_programs() if each.is_running]
        if how == "the client leaves":
            assert await client.end() == 0
        elif how in signal.Signals.__members__:
            client.process.send_signal(signal.Signals[how])
            assert await client.process.wait() == 128 + signal.Signals[how]
        else:
            client.process.send_signal(signal.SIGKILL)
        await asyncio.gather(*map(ended, pids))
        for each in programs:
            if each.argv[0] == "sleep":
                await (await runtime.find_program(each.id)).wait()


async def test_the_client_learns_that_the_agent_has_ended(
    hub: SessionHub, runtime: CloudRuntime
) -> None:
    async with open_client("--session", runtime.session_id, hub=hub.url, token=hub.agent) as client:
        await client.begin(CWD)
        prompt = [{"type": "text", "text": json.dumps([{"exit": 7}])}]
        params = {"sessionId": client.session, "prompt": prompt}
        answer = await client.ask("session/prompt", params)
        assert "The agent ended before it answered" in answer["error"]["message"]
        await client.ended
        assert await client.process.wait() == 7


async def test_a_message_that_is_too_long_ends_the_conversation_with_an_error(
    hub: SessionHub, runtime: CloudRuntime
) -> None:
    async with open_client("--session", runtime.session_id, hub=hub.url, token=hub.agent) as client:
        await client.begin(CWD)
        (made,) = await client.steps({"child": ["sleep", "1000"]})
        piece = b"x" * (1 << 20)
        try:
            for _ in range(200):
                await client.send_raw(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it ended before it had read everything
        await client.ended
        assert await client.process.wait() == 2
        assert "longer than 33,554,432 bytes" in client.stray[-1]["error"]["message"]
        await asyncio.gather(*map(ended, made["pids"]))


# Whose session ------------------------------------------------------------------------------------


async def test_sessions_of_others_and_wrong_arguments_are_refused(
    hub: SessionHub, runtime: CloudRuntime, tmp_path: Path
) -> None:
    stranger = await hub.token("stranger", "agent", owner="stranger")
    for arguments, token, status in (
        (("--session", runtime.session_id), stranger, 2),
        (("--session", runtime.session_id), "wrong", 2),
        ((), hub.agent, 2),
        (("--session", "x", "--new"), hub.agent, 2),
        (("--session", runtime.session_id, "--env", "NO_SUCH_NAME"), hub.agent, 2),
    ):
        async with open_client(*arguments, hub=hub.url, token=token, cwd=tmp_path) as client:
            await client.ended
            assert await client.process.wait() == status
            assert client.lines == []
    async with open_client(
        *("--session", runtime.session_id), hub=hub.url, token=hub.agent, agent=["no-such-agent"]
    ) as client:
        await client.ended
        assert await client.process.wait() == 2


async def test_new_creates_a_session_for_the_agent(hub: SessionHub) -> None:
    async with open_client(
        *("--new", "--name", "made here"), hub=hub.url, token=hub.agent, answer=refuse
    ) as client:
        await client.begin(CWD)
        (described,) = await client.steps({"describe": 1})
        assert described["opened"]["cwd"] == described["cwd"]
        (made,) = await client.steps({"child": ["sleep", "1000"]})
    async with SessionsClient(hub.url) as admin:
        names = [each["name"] for each in await admin.must("GET", "/api/sessions")]
    assert "made here" in names
    assert SCRIPTED_AGENT
    assert not any(map(is_alive, made["pids"]))
