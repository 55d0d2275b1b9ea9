"""Raw requests to E2B's API that none of its clients sends: wrong keys and broken data."""

from __future__ import annotations

import asyncio
import gzip
import json
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from bascule.adapters.e2b import E2BMount
from tests.hub.sessions.serving import SessionHub, SessionsClient, open_session_hub

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]

STREAM = "application/connect+json"
START = "/process.Process/Start"


@dataclass
class Place:
    hub: SessionHub
    http: httpx.AsyncClient
    sandbox: str
    key: str

    def headers(self, **more: str) -> dict[str, str]:
        return {"E2b-Sandbox-Id": self.sandbox, "X-Access-Token": self.key, **more}

    async def call(self, name: str, message: Any, **more: str) -> httpx.Response:
        return await self.http.post(name, json=message, headers=self.headers(**more))

    async def stream(self, body: bytes, name: str = START) -> tuple[int, list[dict[str, Any]]]:
        """The status and the messages of a stream."""
        headers = self.headers(**{"Content-Type": STREAM})
        reply = await self.http.post(name, content=body, headers=headers)
        if reply.headers["content-type"] != STREAM:
            return reply.status_code, [reply.json()]
        return reply.status_code, opened(reply.content)


def envelope(message: object, flags: int = 0) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack("!BI", flags, len(body)) + body


def opened(data: bytes) -> list[dict[str, Any]]:
    messages = []
    while data:
        size = struct.unpack("!I", data[1:5])[0]
        messages.append(json.loads(data[5 : 5 + size]))
        data = data[5 + size :]
    return messages


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place() -> AsyncIterator[Place]:
    async with open_session_hub(mounts=(E2BMount,)) as hub:
        base = f"{hub.url}/e2b"
        async with httpx.AsyncClient(base_url=base, timeout=120) as http:
            made = await create(http, hub.agent)
            yield Place(hub, http, made["sandboxID"], made["envdAccessToken"])


async def create(http: httpx.AsyncClient, token: str, **body: Any) -> Any:
    body = {"templateID": "base", "timeout": 3600, **body}
    made = await http.post("/v2/sandboxes", json=body, headers={"X-API-KEY": token})
    assert made.status_code == 201, made.text
    return made.json()


async def test_sandboxes_of_other_people_are_not_found(place: Place) -> None:
    http, sandbox = place.http, f"/sandboxes/{place.sandbox}"
    for scope, status in (("agent", 404), ("member", 404), ("window", 403), ("session", 403)):
        bound = place.sandbox if scope == "session" else None
        token = await place.hub.token(
            f"bobs {scope}",
            scope,  # type: ignore[arg-type]
            owner="bob",
            session_id=bound,
        )
        headers = {"X-API-KEY": token}
        for method, path in (
            ("GET", sandbox),
            ("DELETE", sandbox),
            ("GET", f"{sandbox}/metrics"),
            *(("POST", f"{sandbox}/{verb}") for verb in ("connect", "pause", "resume", "timeout")),
            ("PUT", f"{sandbox}/network"),
        ):
            reply = await http.request(method, path, headers=headers)
            assert (reply.status_code, reply.json()["code"]) == (status, status), (scope, path)
        listed = await http.get("/v2/sandboxes", headers=headers)
        assert listed.status_code == 403 or listed.json() == []
        if scope == "agent":
            inside = {**headers, "E2b-Sandbox-Id": place.sandbox}
            reply = await http.get("/health", headers=inside)
            assert (reply.status_code, reply.json()["code"]) == (502, 502)
            assert "was not found" in reply.json()["message"]
    mine = await http.get("/v2/sandboxes", headers={"X-API-KEY": place.hub.agent})
    assert place.sandbox in {each["sandboxID"] for each in mine.json()}


async def test_the_key_of_a_sandbox_is_good_for_nothing_else(place: Place) -> None:
    other = await create(place.http, place.hub.agent)
    for key, sandbox in (
        (place.key, other["sandboxID"]),
        (place.key, ""),
        (place.key[:-1] + "A" * (place.key[-1] != "A"), place.sandbox),
        ("bske_.", place.sandbox),
        ("", place.sandbox),
    ):
        for path in ("/health", "/files?path=x", "/contexts"):
            headers = {"X-Access-Token": key, "E2b-Sandbox-Id": sandbox}
            reply = await place.http.get(path, headers=headers)
            assert (reply.status_code, reply.json()["code"]) == (401, 401), (key, sandbox, path)
    for headers in ({"X-API-KEY": place.key}, {"Authorization": f"Bearer {place.key}"}):
        assert (await place.http.get("/v2/sandboxes", headers=headers)).status_code == 401
        own = f"{place.hub.url}/api/sessions/{place.sandbox}"
        assert (await place.http.get(own, headers=headers)).status_code == 401
    origin = place.headers(Origin="https://elsewhere.example")
    assert (await place.http.get("/health", headers=origin)).status_code == 403


async def test_a_revoked_token_takes_its_keys_and_processes_along(place: Place) -> None:
    token = await place.hub.token("short-lived", "agent", owner="admin")
    made = await create(place.http, token)
    mine = Place(place.hub, place.http, made["sandboxID"], made["envdAccessToken"])
    theirs = await place.http.post(
        f"/v2/sandboxes/{mine.sandbox}/connect", json={}, headers={"X-API-KEY": place.hub.agent}
    )
    keeper = Place(place.hub, place.http, mine.sandbox, theirs.json()["envdAccessToken"])
    words = {"cmd": "sleep", "args": ["600"]}
    async with place.http.stream(
        "POST",
        START,
        content=envelope({"process": words}),
        headers=mine.headers(**{"Content-Type": STREAM}),
    ) as reply:
        chunks = reply.aiter_raw()
        assert opened(await anext(chunks))[0]["event"]["start"]["pid"]
        await place.hub.hub.tokens.revoke("short-lived")
        with pytest.raises(httpx.HTTPError):  # the hub cuts the stream
            async for _ in chunks:
                pass
    assert (await place.http.get("/health", headers=mine.headers())).status_code == 401
    while (await keeper.call("/process.Process/List", {})).json()["processes"]:
        await asyncio.sleep(0.05)  # no event reports the end of another client's process


async def test_access_that_is_taken_back_ends_streams_actions_and_processes(place: Place) -> None:
    shares = f"/api/sessions/{place.sandbox}/shares/carol"
    token = await place.hub.token("carols agent", "agent", owner="carol")
    headers = {"X-API-KEY": token, "E2b-Sandbox-Id": place.sandbox, "Content-Type": STREAM}
    process = {"cmd": "sh", "args": ["-c", "touch /tmp/begun; exec sleep 1000"]}
    start = envelope({"process": process, "stdin": False})
    action = {"action": "run", "args": {"command": "touch acting; sleep 1000", "blocking": True}}
    async with (
        SessionsClient(place.hub.url) as owner,
        SessionsClient(place.hub.url, token=token) as carol,
    ):
        await owner.must("PUT", shares, {"access": "act"})
        acting = asyncio.create_task(
            carol.ask("POST", f"/api/sessions/{place.sandbox}/actions", action)
        )
        async with place.http.stream("POST", START, content=start, headers=headers) as reply:
            chunks = reply.aiter_raw()
            pid = opened(await anext(chunks))[0]["event"]["start"]["pid"]
            seen = "until [ -e /tmp/begun ] && [ -e acting ]; do sleep 0.1; done; echo seen"
            shell = {"action": "run", "args": {"command": seen, "blocking": True, "shell": "b"}}
            await owner.must("POST", f"/api/sessions/{place.sandbox}/actions", shell)
            await owner.must("DELETE", shares)
            with pytest.raises(httpx.TransportError):
                async for _ in chunks:
                    pass
        assert (await acting)[0] == 404
        gone = f"while kill -0 {pid}; do sleep 0.1; done; rm acting; echo gone"
        shell = {"action": "run", "args": {"command": gone, "blocking": True, "shell": "b"}}
        ended = await owner.must("POST", f"/api/sessions/{place.sandbox}/actions", shell)
        assert "gone" in ended["content"]
        await owner.must("PUT", shares, {"access": "act"})
        echo = envelope({"process": {"cmd": "echo", "args": ["again"]}, "stdin": False})
        reply = await place.http.post(START, content=echo, headers=headers)
        assert opened(reply.content)[-2]["event"]["end"]["exitCode"] == 0
        await owner.must("DELETE", shares)


async def test_users_of_a_shared_sandbox_connect_and_do_not_pause_it(place: Place) -> None:
    shares = f"/api/sessions/{place.sandbox}/shares/dora"
    headers = {"X-API-KEY": await place.hub.token("doras agent", "agent", owner="dora")}
    one = f"/sandboxes/{place.sandbox}"
    async with SessionsClient(place.hub.url) as owner:
        await owner.must("PUT", shares, {"access": "act"})
        before = place.hub.hub.sessions.find(place.hub.session(place.sandbox))
        connected = await place.http.post(f"{one}/connect", json={"timeout": 9000}, headers=headers)
        assert connected.status_code == 200, connected.text
        assert (await place.http.post(f"{one}/pause", headers=headers)).status_code == 403
        after = place.hub.hub.sessions.find(place.hub.session(place.sandbox))
        assert before is not None
        assert after is not None
        assert (after.state, after.spec.expiry) == ("ready", before.spec.expiry)
        await owner.must("DELETE", shares)


async def test_broken_messages_get_clear_errors(place: Place) -> None:
    start = {"process": {"cmd": "true"}}
    for body, words in (
        (b"", "no message"),
        (envelope(start)[:-1], "ends inside"),
        (b"\0\0", "ends inside"),
        (struct.pack("!BI", 0, 1 << 31), "2147483648 bytes"),
        (envelope(gzip.compress(b"{}"), flags=1), "Compressed"),
        (envelope(b"{"), "not JSON"),
        (envelope([start]), "must be a JSON object"),
        (envelope(start) * 2, "has several"),
        (envelope({"process": "true"}), "must be an object"),
        (envelope({"process": {"cmd": ""}}), "`process.cmd` is missing"),
        (envelope({"process": {"cmd": "true", "args": [1]}}), "list of texts"),
        (envelope({"process": {"cmd": "true", "envs": {"A": 1}}}), "must be a text"),
        (envelope({"process": {"cmd": "/no/such"}}), "/no/such"),
        (envelope({"process": {"cmd": "true"}, "pty": {"size": {"cols": -1}}}), "-1"),
    ):
        status, messages = await place.stream(body)
        error = messages[-1].get("error", messages[-1])
        assert words in error["message"], (words, status, messages)
        assert isinstance(error["code"], str)
    for name, message, code in (
        ("/process.Process/SendSignal", {"process": {"pid": 1 << 40}, "signal": 9}, "not_found"),
        ("/process.Process/SendSignal", {"process": {"pid": 1}, "signal": 7}, "invalid_argument"),
        ("/process.Process/SendInput", {"process": {"tag": "x"}}, "not_found"),
        ("/process.Process/Explode", {}, "unimplemented"),
        ("/filesystem.Filesystem/Stat", {"path": "a\0b"}, "invalid_argument"),
        ("/filesystem.Filesystem/Stat", {"path": "x" * 5000}, "invalid_argument"),
        ("/filesystem.Filesystem/Stat", {"path": {}}, "invalid_argument"),
        ("/filesystem.Filesystem/ListDir", {"path": "/", "depth": -1}, "invalid_argument"),
        ("/filesystem.Filesystem/ListDir", {"path": "/usr", "depth": 9}, "invalid_argument"),
        ("/filesystem.Filesystem/Move", {"source": "x"}, "invalid_argument"),
        ("/filesystem.Filesystem/GetWatcherEvents", {"watcherId": "../x"}, "not_found"),
    ):
        reply = await place.call(name, message)
        assert (reply.json().get("code"), reply.status_code // 100) in ((code, 4), (code, 5)), (
            name,
            reply.text,
        )
    wrong = await place.http.post(START, json={}, headers=place.headers())
    assert (wrong.status_code, wrong.json()["code"]) == (415, 415)
    wrong = await place.call("/process.Process/List", {}, **{"Content-Type": STREAM})
    assert wrong.status_code == 415
    for method, path, status in (
        ("GET", START, 405),
        ("GET", "/nothing", 404),
        ("GET", "/files?path=", 400),
        ("GET", "/files?path=%00", 400),
        ("GET", "/files?path=.", 400),
        ("GET", "/files?path=nowhere", 404),
        ("GET", "/files?path=x&signature=v1_x", 400),
        ("DELETE", "/contexts/..%2f..", 404),
        ("DELETE", "/contexts/nothing", 404),
    ):
        reply = await place.http.request(method, path, headers=place.headers())
        assert (reply.status_code, reply.json()["code"]) == (status, status), (path, reply.text)
    many = await asyncio.gather(
        *(place.call("/filesystem.Filesystem/CreateWatcher", {"path": "."}) for _ in range(66))
    )
    codes = [each.json().get("code") for each in many]
    assert codes.count("resource_exhausted") == 2
    assert (await place.http.get("/health", headers=place.headers())).status_code == 204


async def test_invalid_requests_to_the_control_plane_get_clear_errors(place: Place) -> None:
    headers = {"X-API-KEY": place.hub.agent}
    for body, words in (
        ({"templateID": "elsewhere"}, "this hub has: base"),
        ({"templateID": 1}, "`templateID`"),
        ({"templateID": "base", "timeout": -1}, "`timeout`"),
        ({"templateID": "base", "timeout": True}, "`timeout`"),
        ({"templateID": "base", "timeout": 1 << 40}, "`timeout`"),
        ({"templateID": "base", "metadata": {"a": 1}}, "`metadata.a`"),
        ({"templateID": "base", "metadata": {"a": "x" * 20_000}}, "`metadata`"),
        ({"templateID": "base", "envVars": {"a b": "1"}}, "variable name"),
        ({"templateID": "base", "mcp": {"x": {}}}, "`mcp`"),
        ({"templateID": "base", "volumeMounts": [{}]}, "`volumeMounts`"),
        ({"templateID": "base", "network": {"denyOut": ["10.0.0.0/8"]}}, "10.0.0.0/8"),
        ({"templateID": "base", "network": {"allowOut": ["10.0.0.1"]}}, "10.0.0.1"),
        ([], "JSON object"),
    ):
        reply = await place.http.post("/v2/sandboxes", json=body, headers=headers)
        assert reply.status_code // 100 == 4, (body, reply.text)
        assert reply.json()["code"] == reply.status_code
        assert words in reply.json()["message"], (body, reply.text)
    for query in ("state=odd", "limit=x", "nextToken=x", "startedAfter=x"):
        reply = await place.http.get(f"/v2/sandboxes?{query}", headers=headers)
        assert (reply.status_code, query.partition("=")[0] in reply.text) == (400, True), query
    for path in ("%2e%2e", "%00", "x" * 300, "a" * 25):
        assert (await place.http.get(f"/sandboxes/{path}", headers=headers)).status_code == 404
    assert (await place.http.get("/v2/sandboxes")).status_code == 401


async def test_a_repeated_request_with_a_key_creates_one_sandbox(place: Place) -> None:
    headers = {"X-API-KEY": place.hub.agent, "Idempotency-Key": "0123-abcd"}
    bodies = [{"templateID": "base", "timeout": 600}] * 2 + [{"templateID": "plain"}]
    made = [await place.http.post("/v2/sandboxes", json=each, headers=headers) for each in bodies]
    assert [each.status_code // 100 for each in made] == [2, 2, 4], [each.text for each in made]
    assert made[0].json() == made[1].json()
    wrong = await place.http.post(
        "/v2/sandboxes", json=bodies[0], headers={**headers, "Idempotency-Key": "x" * 300}
    )
    assert wrong.status_code == 400


async def test_an_upload_that_breaks_off_changes_nothing(place: Place) -> None:
    raw = {"Content-Type": "application/octet-stream"}
    await place.http.post("/files?path=f", content=b"old", headers=place.headers(**raw))

    async def broken() -> AsyncIterator[bytes]:
        yield b"new" * 100_000
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await place.http.post("/files?path=f", content=broken(), headers=place.headers(**raw))
    for kind, body in (
        ("multipart/form-data", b"--x"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="file"'),
        ("multipart/form-data; boundary=x", b"--x--\r\n"),
        ("multipart/form-data; boundary=x", b"junk" * 1000),
    ):
        reply = await place.http.post(
            "/files?path=f", content=body, headers=place.headers(**{"Content-Type": kind})
        )
        assert (reply.status_code, reply.json()["code"]) == (400, 400), (kind, body)
    for body in (b"junk", gzip.compress(b"new" * 1000)[:-9]):
        headers = place.headers(**raw, **{"Content-Encoding": "gzip"})
        reply = await place.http.post("/files?path=f", content=body, headers=headers)
        assert reply.status_code == 400, reply.text
    reply = await place.http.post("/files?path=f", json={}, headers=place.headers())
    assert reply.status_code == 415
    assert (await place.http.get("/files?path=f", headers=place.headers())).text == "old"
    listed = (await place.call("/filesystem.Filesystem/ListDir", {"path": "."})).json()["entries"]
    assert [each["name"] for each in listed] == ["f"]


async def test_a_process_outlives_its_stream_and_hostile_input_to_it(place: Place) -> None:
    start = envelope({"process": {"cmd": "cat"}, "stdin": True, "tag": "t"})
    headers = place.headers(**{"Content-Type": STREAM})
    async with place.http.stream("POST", START, content=start, headers=headers) as reply:
        first = opened(await anext(reply.aiter_raw()))
    pid = first[0]["event"]["start"]["pid"]
    listed = (await place.call("/process.Process/List", {})).json()["processes"]
    assert [(each["pid"], each["tag"]) for each in listed] == [(pid, "t")]
    name = "/process.Process/StreamInput"
    select = envelope({"start": {"process": {"tag": "t"}}})
    data = envelope({"data": {"input": {"stdin": "bm90IGFscGhhYmV0"}}})
    for body, code in (
        (data, "invalid_argument"),
        (select + envelope({"data": {"input": {"stdin": "?"}}}), "invalid_argument"),
        (select + data + data[:-3], "invalid_argument"),
        (envelope({"start": {"process": {"tag": "other"}}}), "not_found"),
    ):
        _, messages = await place.stream(body, name)
        assert messages[-1]["error"]["code"] == code, messages
    _, messages = await place.stream(select + data, name)
    assert messages == [{}, {}]
    reply2 = await place.call("/process.Process/SendSignal", {"process": {"pid": pid}, "signal": 9})
    assert reply2.json() == {}
    while (await place.call("/process.Process/List", {})).json()["processes"]:
        await asyncio.sleep(0.05)  # no event reports the end of a process to a unary call
