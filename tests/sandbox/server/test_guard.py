from __future__ import annotations

from typing import Any

import pytest

from bascule.sandbox.server.guard import SandboxGuard
from bascule.sandbox.settings import ServerSettings
from bascule.serving.asgi import Message, Receive, Scope, Send, read_body
from bascule.serving.refusals import Refused
from bascule.wire import from_json

KEY = "a-long-random-key"
WELCOME = {"host": "127.0.0.1:8000", "x-session-api-key": KEY}


async def ask(
    headers: dict[str, str],
    path: str = "/execute_action",
    *,
    kind: str = "http",
    body: tuple[bytes, ...] = (b"",),
    **settings: Any,
) -> tuple[int, Any]:
    """The status and body that a request with these headers gets; 200 and the body if let on."""
    sent: list[Message] = []
    pieces = list(body)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        text = await read_body(receive) if kind == "http" else b""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": text})

    async def receive() -> Message:
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": kind,
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    try:
        await SandboxGuard(app, ServerSettings(key=KEY, **settings))(scope, receive, send)
    except Refused as refused:  # past the guard it is the server that makes this an answer
        return refused.status, None
    status = sent[0]["status"]
    body_sent = b"".join(message.get("body", b"") for message in sent[1:])
    return status, body_sent if status == 200 else from_json(body_sent)


async def test_a_request_with_the_key_is_accepted() -> None:
    assert await ask(WELCOME, body=(b"one", b"two")) == (200, b"onetwo")


async def test_the_key_may_come_as_a_bearer_token() -> None:
    assert (await ask({"host": "localhost", "authorization": f"Bearer {KEY}"}))[0] == 200


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-session-api-key": ""},
        {"x-session-api-key": KEY + "x"},
        {"x-session-api-key": KEY[:-1]},
        {"authorization": KEY},
        {"authorization": f"bearer {KEY}"},
        {"x-session-api-key": "wrong", "authorization": f"Bearer {KEY}"},
    ],
)
async def test_requests_without_the_key_or_with_a_wrong_one_are_rejected(
    headers: dict[str, str], kind: str
) -> None:
    status, body = await ask({"host": "127.0.0.1", **headers}, kind=kind)

    assert status == 403
    assert body["error"]["code"] == "access.denied"
    assert body["detail"] == body["error"]["message"]
    assert KEY not in str(body)


@pytest.mark.parametrize("path", ["/alive", "/server_info"])
async def test_two_paths_need_no_key(path: str) -> None:
    assert (await ask({"host": "127.0.0.1"}, path))[0] == 200


@pytest.mark.parametrize("path", ["/alive/", "//alive", "/server_info/x", "/metrics"])
async def test_paths_similar_to_public_ones_need_the_key(path: str) -> None:
    assert (await ask({"host": "127.0.0.1"}, path))[0] == 403


@pytest.mark.parametrize("path", ["/alive", "/execute_action"])
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "10.0.0.7", "[::2]"]
)
async def test_an_unknown_host_name_is_rejected(host: str, path: str) -> None:
    status, body = await ask({**WELCOME, "host": host}, path)
    assert (status, body["error"]["code"]) == (403, "access.denied")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.3.2.1:80", "[::1]:9"]
)
async def test_loopback_host_names_are_accepted(host: str) -> None:
    assert (await ask({**WELCOME, "host": host}))[0] == 200


async def test_configured_host_names_are_accepted() -> None:
    hosts = ("Box.example",)
    assert (await ask({**WELCOME, "host": "box.example:80"}, allowed_hosts=hosts))[0] == 200
    assert (await ask({**WELCOME, "host": "other.example"}, allowed_hosts=hosts))[0] == 403
    assert (await ask({**WELCOME, "host": "any.example"}, allowed_hosts=("*",)))[0] == 200


async def test_a_server_on_all_addresses_accepts_ip_addresses_but_not_host_names() -> None:
    assert (await ask({**WELCOME, "host": "10.0.0.7:80"}, host="0.0.0.0"))[0] == 200
    assert (await ask({**WELCOME, "host": "evil.example"}, host="0.0.0.0"))[0] == 403


@pytest.mark.parametrize("path", ["/alive", "/execute_action"])
@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:8000", "null", ""])
async def test_web_pages_are_refused_even_with_the_key(origin: str, path: str) -> None:
    assert (await ask({**WELCOME, "origin": origin}, path))[0] == 403


async def test_web_pages_may_call_if_configured() -> None:
    for origin, status in (("https://ide.example", 200), ("https://ide.example.evil", 403)):
        asked = {**WELCOME, "origin": origin}
        assert (await ask(asked, allowed_origins=("https://ide.example",)))[0] == status


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("multipart/form-data; boundary=x", 200),
        ("application/octet-stream", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/jsonp", 415),
    ],
)
async def test_only_content_types_that_clients_send_are_accepted(kind: str, status: int) -> None:
    assert (await ask({**WELCOME, "content-type": kind}))[0] == status


async def test_a_body_that_declares_an_excessive_length_is_not_read() -> None:
    status, body = await ask({**WELCOME, "content-length": "11"}, max_message=10)
    assert (status, body["error"]["code"]) == (413, "message.too_large")
    assert (await ask({**WELCOME, "content-length": "10"}, max_message=10))[0] == 200


async def test_a_body_without_a_declared_length_is_counted_while_reading() -> None:
    chunked = {**WELCOME, "transfer-encoding": "chunked"}
    assert (await ask(chunked, body=(b"x" * 5, b"x" * 5), max_message=10))[0] == 200
    assert (await ask(chunked, body=(b"x" * 5, b"x" * 6), max_message=10))[0] == 413


async def test_uploads_have_a_bound_of_their_own() -> None:
    large = {**WELCOME, "content-length": "11"}
    assert (await ask(large, "/upload_file", max_message=1, max_upload=11))[0] == 200
    assert (await ask(large, "/upload_file", max_message=99, max_upload=10))[0] == 413
