"""The action server over real sockets: what OpenHands' clients expect, and what they do not."""

from __future__ import annotations

import asyncio
import io
import os
import random
import socket
import time
import zipfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bascule.core.errors import InvalidSetting
from bascule.link.http import target
from bascule.sandbox.server.server import SandboxServer
from bascule.sandbox.settings import SandboxSettings, ServerSettings
from bascule.wire import from_json, to_json
from bascule.wire.parcel import MEDIA_TYPE, unpack
from tests.contracts.runtime import gone
from tests.sandbox.serving import KEY, Client, raw, serving


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SandboxServer]:
    async with serving(tmp_path) as server:
        yield server


@pytest.fixture
async def client(server: SandboxServer) -> AsyncIterator[Client]:
    async with Client(server.url) as client:
        yield client


def run(command: str, **event: Any) -> dict[str, Any]:
    return {"action": {"action": "run", "args": {"command": command}, **event}}


# Starting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["", " padded ", "líne", "two\nlines"])
def test_the_server_does_not_start_without_a_valid_key(key: str) -> None:
    with pytest.raises(InvalidSetting):
        SandboxServer(ServerSettings(key=key))


def test_the_key_is_not_in_reprs() -> None:
    assert KEY not in repr(ServerSettings(key=KEY))


async def test_a_port_in_use_is_named_in_the_error(server: SandboxServer) -> None:
    taken = int(server.url.rpartition(":")[2])
    with pytest.raises(InvalidSetting, match=rf"{taken}: .* in use\. Port 0 chooses a free port"):
        async with SandboxServer(ServerSettings(key=KEY, port=taken)):
            pass


@pytest.mark.parametrize(
    ("host", "advice"),
    [("192.0.2.1", "does not have the address"), ("x" * 64, "cannot resolve the name")],
)
async def test_an_address_of_another_machine_is_named_in_the_error(host: str, advice: str) -> None:
    with pytest.raises(InvalidSetting, match=rf"listen on {host}:0: .*{advice}"):
        async with SandboxServer(ServerSettings(key=KEY, host=host)):
            pass


async def test_the_server_listens_on_ipv6(tmp_path: Path) -> None:
    async with serving(tmp_path, host="::1") as server, Client(server.url) as client:
        assert server.url.startswith("http://[::1]:")
        assert await client.get("/alive") == (200, {"status": "ok"})


# What OpenHands' clients expect -------------------------------------------------------------


async def test_alive_and_server_info_need_no_key(server: SandboxServer) -> None:
    async with Client(server.url, key="") as stranger:
        assert await stranger.get("/alive") == (200, {"status": "ok"})
        status, info = await stranger.get("/server_info")
        assert status == 200
        assert set(info) == {"uptime", "idle_time", "resources"}
        assert set(info["resources"]) == {"cpu_percent", "memory", "disk", "io"}
        assert (await stranger.get("/capabilities"))[0] == 403


async def test_idle_time_starts_again_with_an_action(client: Client) -> None:
    _, before = await client.get("/server_info")
    await client.act("run", command="true")
    _, after = await client.get("/server_info")
    assert 0 <= after["idle_time"] < after["uptime"] - before["uptime"]


async def test_a_client_with_integer_ids_gets_the_openhands_envelope(client: Client) -> None:
    status, seen = await client.post("/execute_action", run("echo hi", id=7))
    assert status == 200
    assert (seen["observation"], seen["content"], seen["cause"]) == ("run", "hi\n", 7)
    assert seen["success"] is True
    assert not {"id", "timestamp", "source"} & set(seen)


async def test_a_client_without_ids_gets_no_ids(client: Client) -> None:
    seen = await client.act("run", command="false")
    assert not {"id", "timestamp", "source", "cause"} & set(seen)
    assert seen["success"] is False


async def test_a_bascule_client_gets_the_full_envelope(client: Client) -> None:
    _, seen = await client.post("/execute_action", run("true", id="an-id"))
    assert seen["cause"] == "an-id"
    assert {"id", "timestamp", "source"} <= set(seen)


async def test_integer_ids_of_two_clients_may_be_the_same(
    server: SandboxServer, client: Client
) -> None:
    async with Client(server.url) as other:
        answers = await asyncio.gather(
            client.post("/execute_action", run("sleep 0.05; echo one", id=1)),
            other.post(
                "/execute_action",
                {
                    "action": {
                        "action": "run",
                        "args": {"command": "echo two", "shell": "b"},
                        "id": 1,
                    }
                },
            ),
        )
    assert [answer["content"] for _, answer in answers] == ["one\n", "two\n"]


async def test_large_content_is_sent_outside_the_json_event_on_request(client: Client) -> None:
    whole = "".join(f"{n} ü\n" for n in range(1, 30_001))
    args = {"command": "seq -f '%.0f ü' 1 30000", "output_limit": 0}
    body = to_json({"action": {"action": "run", "args": args, "id": "an-id"}})
    answers = []
    for headers in ({"Accept": MEDIA_TYPE}, {}):
        reply = await client.request("POST", "/execute_action", body=body, headers=headers)
        is_parcel = reply.headers["content-type"] == MEDIA_TYPE
        answers.append((unpack if is_parcel else from_json)(reply.body))
        assert is_parcel == bool(headers)
    assert [answer["content"] for answer in answers] == [whole, whole]
    assert set(answers[0]) == set(answers[1])


async def test_small_content_is_always_sent_inside_the_json_event(client: Client) -> None:
    body = to_json(run("echo hi"))
    headers = {"Accept": MEDIA_TYPE}
    reply = await client.request("POST", "/execute_action", body=body, headers=headers)
    assert from_json(reply.body)["content"] == "hi\n"


async def test_an_unknown_kind_is_an_observation_that_names_it(client: Client) -> None:
    seen = await client.act("teleport")
    assert (seen["observation"], seen["extras"]["error_id"]) == ("error", "action.unknown_kind")
    assert "teleport" in seen["content"]


@pytest.mark.parametrize("kind", ["call_tool_mcp", "think"])
async def test_an_unavailable_action_is_answered_with_an_error_observation(
    client: Client, kind: str
) -> None:
    args = {"call_tool_mcp": {"name": "x"}}
    event = {"action": kind, "args": args.get(kind, {})}
    _, seen = await client.post("/execute_action", {"action": event})
    assert (seen["observation"], seen["extras"]["error_id"]) == ("error", "capability.missing")


async def test_files_are_listed_directories_first(client: Client, tmp_path: Path) -> None:
    for name in ("b", "A", ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / "z").mkdir()
    assert await client.post("/list_files", {}) == (200, ["z/", ".hidden", "A", "b"])
    assert await client.post("/list_files", {"path": str(tmp_path / "z")}) == (200, [])
    assert await client.post("/list_files", {"path": "/missing"}) == (200, [])
    assert (await client.post("/list_files", ["x"]))[0] == 400


def form(name: str, data: bytes, *, field: str = "file") -> tuple[dict[str, str], bytes]:
    head = f'Content-Disposition: form-data; name="{field}"; filename="{name}"'
    body = b"--edge\r\n%b\r\n\r\n%b\r\n--edge--\r\n" % (head.encode(), data)
    return {"Content-Type": "multipart/form-data; boundary=edge"}, body


def zipped(**files: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return held.getvalue()


async def test_a_file_is_uploaded_as_a_form(client: Client, tmp_path: Path) -> None:
    headers, body = form("note.txt", b"text")
    where = target("/upload_file", destination=str(tmp_path / "new"), recursive="false")
    reply = await client.request("POST", where, body=body, headers=headers)
    assert from_json(reply.body) == {
        "filename": "note.txt",
        "destination": str(tmp_path / "new"),
        "recursive": False,
    }
    assert (tmp_path / "new/note.txt").read_text() == "text"


async def test_a_zip_is_unpacked_when_asked(client: Client, tmp_path: Path) -> None:
    headers, body = form("tree.zip", zipped(**{"tree/a": "1", "tree/b/c": "2"}))
    where = target("/upload_file", destination=str(tmp_path), recursive="true")
    assert (await client.request("POST", where, body=body, headers=headers)).status == 200
    assert (tmp_path / "tree/b/c").read_text() == "2"


@pytest.mark.parametrize(
    ("query", "name", "field", "status", "code"),
    [
        ({"destination": "relative"}, "a", "file", 400, "path.invalid"),
        ({"destination": "/tmp", "recursive": "true"}, "a.txt", "file", 400, "request.invalid"),
        ({"destination": "/tmp", "recursive": "maybe"}, "a.txt", "file", 400, "request.invalid"),
        ({"destination": "/tmp"}, "a", "other", 400, "request.invalid"),
        ({"destination": "/tmp"}, "..", "file", 400, "path.invalid"),
        ({"destination": "/dev/null"}, "a", "file", 400, "path.not_directory"),
        ({"destination": "/tmp", "recursive": "true"}, "a.zip", "file", 400, "archive.invalid"),
    ],
)
async def test_an_invalid_upload_is_rejected(
    client: Client, query: dict[str, str], name: str, field: str, status: int, code: str
) -> None:
    headers, body = form(name, b"text", field=field)
    where = target("/upload_file", **query)
    reply = await client.request("POST", where, body=body, headers=headers)
    assert (reply.status, from_json(reply.body)["error"]["code"]) == (status, code)


async def test_a_directory_is_downloaded_as_a_zip(client: Client, tmp_path: Path) -> None:
    (tmp_path / "tree/empty").mkdir(parents=True)
    (tmp_path / "tree/a").write_text("text")
    reply = await client.request("GET", target("/download_files", path=str(tmp_path / "tree")))
    assert reply.headers["content-type"] == "application/zip"
    assert 'filename="tree.zip"' in reply.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(reply.body)) as archive:
        assert sorted(archive.namelist()) == ["a", "empty/"]


async def test_a_file_is_downloaded_as_a_zip_or_unchanged(client: Client, tmp_path: Path) -> None:
    (tmp_path / "näme").write_bytes(b"\0text")
    where = target("/download_files", path=str(tmp_path / "näme"))
    with zipfile.ZipFile(io.BytesIO((await client.request("GET", where)).body)) as archive:
        assert archive.read("näme") == b"\0text"
    reply = await client.request("GET", where + "&raw=true")
    assert reply.body == b"\0text"
    assert reply.headers["content-length"] == "5"
    assert "filename*=UTF-8''n%C3%A4me" in reply.headers["content-disposition"]


@pytest.mark.parametrize(
    ("path", "code"), [("/missing", "path.not_found"), ("relative", "path.invalid")]
)
async def test_a_download_without_an_existing_path_returns_400(
    client: Client, path: str, code: str
) -> None:
    status, body = await client.get(target("/download_files", path=path))
    assert (status, body["error"]["code"]) == (400, code)


async def test_a_file_is_viewed_as_a_page_without_scripts(client: Client, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("<script>alert(1)</script>")
    (tmp_path / "dot.png").write_bytes(b"\x89PNG")
    note = await client.request("GET", target("/view", path=f"{tmp_path}/note.txt"))
    _, picture = await client.get(target("/view", path=f"{tmp_path}/dot.png"))

    assert b"<title>File Viewer - note.txt</title>" in note.body
    assert b"&lt;script&gt;" in note.body
    assert "default-src 'none'" in note.headers["content-security-policy"]
    assert b"data:image/png;base64,iVBORw==" in picture
    assert (await client.get("/view?path=/missing.png"))[1]["error"]["code"] == "path.not_found"
    assert (await client.get("/view?path=relative.png"))[1]["error"]["code"] == "path.invalid"


async def test_unimplemented_endpoints_say_so(client: Client) -> None:
    assert await client.get("/vscode/connection_token") == (200, {"token": None})
    status, body = await client.post("/update_mcp_server", [{"name": "a", "command": "b"}])
    assert status == 200
    assert "none was started" in body["router_error_log"]
    assert (await client.post("/update_mcp_server", []))[1]["router_error_log"] == ""
    assert (await client.post("/update_mcp_server", {"name": "a"}))[0] == 400
    assert (await client.post("/update_mcp_server", [{"name": "a"}]))[0] == 400


# What nobody should send --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "action.invalid"),
        (b"{", 400, "action.invalid"),
        (b"\xff\xfe", 400, "action.invalid"),
        (b"[" * 100_000, 400, "action.invalid"),
        (b'{"action": NaN}', 400, "action.invalid"),
        (b"[]", 422, "action.invalid"),
        (b"{}", 422, "action.invalid"),
        (b'{"action": "run"}', 422, "action.invalid"),
        (b'{"action": {"action": 3}}', 422, "action.invalid"),
        (b'{"action": {"action": "run"}}', 422, "action.invalid"),
        (b'{"action": {"action": "run", "args": []}}', 422, "action.invalid"),
        (b'{"action": {"action": "run", "args": {"command": 3}}}', 422, "action.invalid"),
        (b'{"action": {"observation": "run", "content": ""}}', 422, "action.invalid"),
    ],
)
async def test_a_bad_body_is_refused_with_a_reason(
    client: Client, body: bytes, status: int, code: str
) -> None:
    reply = await client.request("POST", "/execute_action", body=body)
    answer = from_json(reply.body)
    assert (reply.status, answer["error"]["code"]) == (status, code)
    assert answer["detail"] == answer["error"]["message"]
    assert (await client.act("run", command="echo fine"))["content"] == "fine\n"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 400),
        ("GET", "/reset", 400),
        ("POST", "/alive/", 400),
        ("GET", "/../../etc/passwd", 400),
        ("GET", "/%00", 400),
        ("GET", "/execute_action", 405),
        ("PUT", "/execute_action", 405),
        ("POST", "/alive", 405),
        ("OPTIONS", "/execute_action", 405),
    ],
)
async def test_unknown_paths_and_methods_never_return_404(
    client: Client, method: str, path: str, status: int
) -> None:
    reply = await client.request(method, path)
    assert (reply.status, from_json(reply.body)["error"]["code"]) == (status, "request.invalid")


@pytest.mark.slow
async def test_a_body_of_100_mb_is_refused_and_the_connection_stays_usable(
    client: Client,
) -> None:
    body = bytes(100 << 20)
    reply = await client.request("POST", "/execute_action", body=body)
    assert (reply.status, from_json(reply.body)["error"]["code"]) == (413, "message.too_large")
    assert (await client.act("run", command="echo fine"))["content"] == "fine\n"


async def test_an_endless_body_is_refused(tmp_path: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 16)
            await asyncio.sleep(0)

    async with serving(tmp_path, max_message=1 << 20) as server, Client(server.url) as client:
        reply = await client.request("POST", "/execute_action", body=endless(), timeout=20)
        assert reply.status == 413


async def test_a_connection_rejected_mid_request_is_closed(tmp_path: Path) -> None:
    settings = {"keep_alive": 0.1, "max_message": 10}
    async with serving(tmp_path, **settings) as server, raw(server) as (reader, writer):
        head = f"POST /list_files HTTP/1.1\r\nHost: localhost\r\nX-Session-API-Key: {KEY}\r\n"
        writer.write(head.encode() + b"Content-Length: 20\r\n\r\n" + b"x" * 10)
        assert b" 413 " in await asyncio.wait_for(reader.readline(), 5)
        writer.write(b"x" * 10)
        await asyncio.wait_for(reader.read(), 5)


@pytest.mark.parametrize(
    "start", [b"", b"GET /alive HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", b"POST /execute_action"]
)
async def test_an_incomplete_request_head_times_out(tmp_path: Path, start: bytes) -> None:
    async with serving(tmp_path, request_timeout=0.1) as server, raw(server) as (reader, writer):
        writer.write(start)
        answer = await asyncio.wait_for(reader.read(), 5)
        assert answer.startswith(b"HTTP/1.1 408 ")


async def test_slow_uploads_hold_neither_threads_nor_the_file(
    server: SandboxServer, client: Client, tmp_path: Path
) -> None:
    where = target("/filesystem/file", path=str(tmp_path / "file"))
    head = f"POST {where} HTTP/1.1\r\nHost: localhost\r\nX-Session-API-Key: {KEY}\r\n"
    head += "Content-Type: application/octet-stream\r\nContent-Length: 100\r\n\r\nx"
    async with AsyncExitStack() as stack:
        for _ in range(20):  # more than the sandbox has threads
            _, writer = await stack.enter_async_context(raw(server))
            writer.write(head.encode())
            await writer.drain()
        headers = {"Content-Type": "application/octet-stream"}
        reply = await client.request("POST", where, body=b"quick", headers=headers, timeout=20)
        assert reply.status == 200
        assert (tmp_path / "file").read_bytes() == b"quick"
    assert await client.get("/alive") == (200, {"status": "ok"})
    assert (tmp_path / "file").read_bytes() == b"quick"


async def test_a_missing_request_body_times_out(tmp_path: Path) -> None:
    async with serving(tmp_path, request_timeout=0.1) as server, raw(server) as (reader, writer):
        head = f"POST /execute_action HTTP/1.1\r\nHost: localhost\r\nX-Session-API-Key: {KEY}\r\n"
        writer.write(head.encode() + b"Content-Length: 100\r\n\r\n{")
        answer = await asyncio.wait_for(reader.read(), 5)
        assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.slow
@pytest.mark.parametrize("start", [b"GET /alive HTTP/1.1\r\nX-Slow: ", b"\r\n"])
async def test_a_slowly_sent_request_head_gets_no_extra_time(tmp_path: Path, start: bytes) -> None:
    async def trickle(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(start[-1:])
            await asyncio.sleep(0.02)

    async with serving(tmp_path, request_timeout=0.2) as server, raw(server) as (reader, writer):
        writer.write(start)
        trickling = asyncio.create_task(trickle(writer))
        try:
            answer = await asyncio.wait_for(reader.read(), 5)
        finally:
            trickling.cancel()
        assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.slow
async def test_a_slowly_sent_request_body_is_accepted(tmp_path: Path) -> None:
    async with serving(tmp_path, request_timeout=1.0) as server, raw(server) as (reader, writer):
        head = f"POST /list_files HTTP/1.1\r\nHost: localhost\r\nX-Session-API-Key: {KEY}\r\n"
        body = b'{"path": null}' + b" " * 20
        kind = "Content-Type: application/json\r\n"
        writer.write(f"{head}{kind}Content-Length: {len(body)}\r\n\r\n".encode())
        for byte in body:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.04)  # altogether longer than the time between two pieces may be
        assert b" 200 " in await asyncio.wait_for(reader.readline(), 60)


async def test_an_empty_line_does_not_keep_an_idle_connection(tmp_path: Path) -> None:
    async with serving(tmp_path, keep_alive=0.1) as server, raw(server) as (reader, writer):
        writer.write(b"GET /alive HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        writer.write(b"\r\n")
        await asyncio.wait_for(reader.read(), 5)


async def test_an_endless_request_head_is_rejected(server: SandboxServer) -> None:
    async with raw(server) as (reader, writer):
        writer.write(b"GET /alive HTTP/1.1\r\n" + b"X-Long: " + b"x" * (200 << 10))
        answer = await asyncio.wait_for(reader.read(), 5)
        assert answer.startswith(b"HTTP/1.1 431 ")


async def test_a_request_head_may_end_inside_a_chunk_larger_than_the_head_limit(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, max_head=1000) as server, raw(server) as (reader, writer):
        body = to_json({"path": None}) + b" " * 5000
        head = f"POST /list_files HTTP/1.1\r\nHost: localhost\r\nX-Session-API-Key: {KEY}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r"
        writer.write(head.encode())
        await asyncio.sleep(0.05)  # so that it comes by itself
        writer.write(b"\n" + body)
        assert b" 200 " in await asyncio.wait_for(reader.readline(), 5)


async def test_a_request_that_is_not_http_is_rejected(server: SandboxServer) -> None:
    async with raw(server) as (reader, writer):
        writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 400 ")


async def test_several_hosts_are_refused(server: SandboxServer) -> None:
    async with raw(server) as (reader, writer):
        writer.write(b"GET /alive HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n")
        assert b" 400 " in await asyncio.wait_for(reader.readline(), 5)


async def test_random_bytes_do_not_disturb_the_server(
    server: SandboxServer, client: Client
) -> None:
    noise = random.Random(7)
    starts = [b"", b"POST /execute_action HTTP/1.1\r\n", b"GET /stream HTTP/1.1\r\nUpgrade: "]
    for n in range(60):
        async with raw(server) as (reader, writer):
            writer.write(starts[n % 3] + noise.randbytes(noise.randrange(2000)) + b"\r\n\r\n")
            answer = await asyncio.wait_for(reader.read(100), 5)
            assert not answer or answer.startswith(b"HTTP/1.1 4")
    assert (await client.act("run", command="echo fine"))["content"] == "fine\n"


async def test_requests_in_a_row_on_one_connection_are_answered_in_order(
    server: SandboxServer,
) -> None:
    async with raw(server) as (reader, writer):
        head = b"GET /%b HTTP/1.1\r\nHost: localhost\r\n\r\n"
        last = b"GET /capabilities HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        writer.write(head % b"alive" + head % b"server_info" + last)
        text = await asyncio.wait_for(reader.read(), 5)
        assert [text.find(word) for word in (b'"ok"', b"uptime", b"403")] == sorted(
            text.find(word) for word in (b'"ok"', b"uptime", b"403")
        )
        assert text.count(b"HTTP/1.1 ") == 3


# Going away ---------------------------------------------------------------------------------


async def start_and_leave(server: SandboxServer, tmp_path: Path, **headers: str) -> int:
    """Start a program that writes its pid, and go away without waiting; the pid."""
    await asyncio.to_thread(os.mkfifo, tmp_path / "pid")
    command = "bash -c 'echo $$ > pid; exec sleep 60'"
    async with Client(server.url) as client:
        body = to_json(run(command, id="an-id"))
        asking = asyncio.create_task(
            client.request("POST", "/execute_action", body=body, headers=headers)
        )
        pid = int(await asyncio.to_thread((tmp_path / "pid").read_text))
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    return pid


async def test_a_command_survives_a_client_disconnect(
    server: SandboxServer, client: Client, tmp_path: Path
) -> None:
    pid = await start_and_leave(server, tmp_path)
    _, shells = await client.get("/shells")
    assert shells["shells"][0]["running"] is True
    assert Path(f"/proc/{pid}").exists()
    assert (await client.post("/shells/main/interrupt", {}))[1]["was_running"] is True
    await gone(pid)


async def test_a_command_ends_with_its_client_on_request(
    server: SandboxServer, client: Client, tmp_path: Path
) -> None:
    pid = await start_and_leave(server, tmp_path, **{"X-Bascule-Cancel": "interrupt"})
    await gone(pid)
    assert (await client.act("run", command="echo usable"))["content"] == "usable\n"


@asynccontextmanager
async def under_way(client: Client, action_id: str) -> AsyncIterator[asyncio.Task[tuple[int, Any]]]:
    """An action that runs until it is cancelled, at the latest in the end."""
    body = run("echo up; sleep 60", id=action_id)
    asking = asyncio.create_task(client.post("/execute_action", body))
    async with client.stream("GET", "/stream?start=0") as events:
        async for chunk in events.chunks():
            if b"event: output" in chunk:
                break
    yield asking
    await client.post(f"/actions/{action_id}/cancel", {})
    await asking


async def test_an_action_is_cancelled_by_its_id(client: Client) -> None:
    async with under_way(client, "an-id") as asking:
        assert await client.post("/actions/an-id/cancel", {}) == (200, {"cancelled": True})
        status, answer = await asking
    assert (status, answer["error"]["code"]) == (500, "action.cancelled")
    assert await client.post("/actions/an-id/cancel", {}) == (200, {"cancelled": False})


async def test_the_same_id_twice_at_once_is_a_conflict(client: Client) -> None:
    async with under_way(client, "an-id"):
        status, answer = await client.post("/execute_action", run("echo no", id="an-id"))
        assert (status, answer["error"]["code"]) == (409, "action.invalid")
        body, headers = to_json(run("echo no", id="an-id")), {"Accept": "text/event-stream"}
        reply = await client.request("POST", "/execute_action", body=body, headers=headers)
        assert reply.body.startswith(b"event: error\ndata: ")
        assert b"action.invalid" in reply.body


async def test_stopping_answers_pending_requests_and_ends_running_commands(tmp_path: Path) -> None:
    await asyncio.to_thread(os.mkfifo, tmp_path / "pid")
    async with serving(tmp_path) as server, Client(server.url) as client:
        command = "bash -c 'echo $$ > pid; exec sleep 60'"
        asking = asyncio.create_task(client.post("/execute_action", run(command)))
        pid = int(await asyncio.to_thread((tmp_path / "pid").read_text))
        await server.aclose()

        status, answer = await asking
        assert (status, answer["error"]["code"]) == (503, "sandbox.died")
        await gone(pid)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*socket_address(server))


def socket_address(server: SandboxServer) -> tuple[str, int]:
    return "127.0.0.1", int(server.url.rpartition(":")[2])


async def test_stopping_does_not_wait_for_idle_connections(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, raw(server) as (reader, _):
        async with asyncio.timeout(3):
            await server.aclose()
        assert await reader.read() == b""


async def test_a_server_that_never_started_can_be_closed() -> None:
    await SandboxServer(ServerSettings(key=KEY), SandboxSettings()).aclose()


# Shells and counters ------------------------------------------------------------------------


async def test_shells_are_listed_and_closed(client: Client, tmp_path: Path) -> None:
    await client.act("run", command="echo hi", shell="work")
    _, answer = await client.get("/shells")
    (shell,) = answer["shells"]
    assert (shell["name"], shell["running"], shell["cwd"]) == ("work", False, str(tmp_path))
    assert (shell["log"]["start"], shell["log"]["end"]) == (0, 3)
    reply = await client.request("DELETE", "/shells/work")
    assert (reply.status, from_json(reply.body)) == (200, {"closed": "work"})
    assert (await client.get("/shells"))[1] == {"shells": []}
    reply = await client.request("DELETE", "/shells/work")
    assert (reply.status, from_json(reply.body)["error"]["code"]) == (400, "shell.not_found")


@pytest.mark.slow
async def test_a_log_is_read_by_range(client: Client) -> None:
    await client.act("run", command="seq 1 300000")
    reply = await client.request("GET", "/shells/main/log")
    assert reply.body == b"".join(b"%d\n" % n for n in range(1, 300_001))
    assert reply.headers["x-log-end"] == str(len(reply.body))
    assert (await client.request("GET", "/shells/main/log?start=2&end=6")).body == b"2\n3\n"
    assert (await client.request("GET", "/shells/main/log?start=9&end=3")).status == 400
    assert (await client.request("GET", "/shells/main/log?start=-1")).status == 400
    assert (await client.request("GET", "/shells/main/log?start=99999999")).status == 400


async def test_a_log_is_searched(client: Client) -> None:
    await client.act("run", command="seq 1 100")
    _, answer = await client.get(target("/shells/main/log/search", pattern="^9.$", limit=2))
    assert answer == {"matches": [{"offset": 258, "text": "90"}, {"offset": 261, "text": "91"}]}
    assert (await client.get("/shells/main/log/search?pattern=("))[0] == 400
    assert (await client.get("/shells/main/log/search"))[0] == 400


async def test_a_shell_is_interrupted_by_name(client: Client) -> None:
    await client.post("/execute_action", run("cat", timeout=0.05))
    assert (await client.post("/shells/main/interrupt", {}))[1]["was_running"] is True
    await client.act("run", command="")
    assert (await client.post("/shells/main/interrupt?kill=true", {}))[1]["was_running"] is False


async def test_metrics_count_actions_by_kind_and_outcome(client: Client) -> None:
    for _ in range(3):
        await client.act("run", command="true")
    await client.act("read", path="/missing")
    reply = await client.request("GET", "/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    lines = reply.body.decode().splitlines()
    assert 'bascule_actions_total{kind="run",outcome="run"} 3.0' in lines
    assert 'bascule_actions_total{kind="read",outcome="path.not_found"} 1.0' in lines
    assert 'bascule_action_seconds_count{kind="run"} 3.0' in lines
    assert "bascule_shells_open 1.0" in lines
    assert "bascule_actions_under_way 0.0" in lines
    assert any(line.startswith("bascule_process_resident_memory_bytes") for line in lines)


async def test_the_schema_is_served(client: Client) -> None:
    status, schema = await client.get("/schema")
    assert status == 200
    assert "Action" in schema["$defs"]


async def test_the_server_lists_its_capabilities(client: Client, tmp_path: Path) -> None:
    _, answer = await client.get("/capabilities")
    assert "run" in answer["capabilities"]
    assert answer["working_dir"] == str(tmp_path)


async def test_the_idle_server_has_no_timers(server: SandboxServer) -> None:
    """uvicorn's own server wakes up ten times a second; ours has no timer at all."""
    loop = asyncio.get_running_loop()
    timers = [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
    assert [timer for timer in timers if "pytest" not in repr(timer)] == []


def test_a_listening_socket_may_be_handed_in(tmp_path: Path) -> None:
    async def serve() -> None:
        sock = socket.create_server(("127.0.0.1", 0))
        async with (
            SandboxServer(ServerSettings(key=KEY), sock=sock) as server,
            Client(server.url) as client,
        ):
            assert server.url.endswith(f":{sock.getsockname()[1]}")
            started = time.perf_counter()
            for _ in range(20):
                assert (await client.get("/alive"))[0] == 200
            # Not one of them waited for an acknowledgement, which takes 40 ms.
            assert time.perf_counter() - started < 0.4

    asyncio.run(serve())
