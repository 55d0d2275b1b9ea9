"""Whole bodies are read and sent, and errors have one form."""

from __future__ import annotations

import pytest

from bascule.core.errors import AccessDenied, InternalError, InvalidRequest, NoSuchPath
from bascule.serving.asgi import ClientDisconnected, Message, read_body, read_pieces, send_whole
from bascule.serving.refusals import ErrorResponses

MEGABYTE = 1 << 20
GONE: Message = {"type": "http.disconnect"}


class AsgiMessages:
    """`receive` with messages to come, and `send` with those that were sent."""

    def __init__(self, *messages: Message) -> None:
        self._coming = list(messages)
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        return self._coming.pop(0)

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])


def part(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_is_read_at_once_or_in_chunks() -> None:
    parts = part(b"one", more=True), part(b"two")

    assert await read_body(AsgiMessages(*parts).receive) == b"onetwo"
    assert [piece async for piece in read_pieces(AsgiMessages(*parts).receive)] == [b"one", b"two"]


async def test_a_client_disconnect_during_the_body_is_reported() -> None:
    parts = part(b"one", more=True), GONE

    with pytest.raises(ClientDisconnected):
        await read_body(AsgiMessages(*parts).receive)
    with pytest.raises(ClientDisconnected):
        [piece async for piece in read_pieces(AsgiMessages(*parts).receive)]


async def test_a_large_body_is_sent_in_chunks_with_its_total_length() -> None:
    wire = AsgiMessages()
    await send_whole(wire.send, 200, [], b"head", b"x" * (2 * MEGABYTE + 1))

    assert dict(wire.sent[0]["headers"]) == {b"content-length": b"%d" % (2 * MEGABYTE + 5)}
    assert [len(message["body"]) for message in wire.sent[1:]] == [4, MEGABYTE, MEGABYTE, 1]
    assert [message.get("more_body", False) for message in wire.sent[1:]] == [*[True] * 3, False]


async def test_a_204_has_no_length() -> None:
    wire = AsgiMessages()
    await send_whole(wire.send, 204, [], b"")

    assert wire.sent[0]["headers"] == []


async def test_an_error_has_the_status_of_its_kind_unless_another_is_given() -> None:
    errors = ErrorResponses({NoSuchPath: 404})

    assert errors.status_of(NoSuchPath("x")) == 404
    assert errors.status_of(InvalidRequest("x")) == 400
    assert errors.status_of(InternalError("x")) == 500
    wire = AsgiMessages()
    await errors.send({"type": "http"}, wire.send, InvalidRequest("x"), 405)
    assert wire.sent[0]["status"] == 405
    assert wire.body == b'{"code":"request.invalid","message":"x","detail":{}}'


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_a_401_names_the_scheme_on_both_protocols(kind: str) -> None:
    wire = AsgiMessages()
    await ErrorResponses({}).send({"type": kind}, wire.send, AccessDenied("No"), 401)

    assert (b"www-authenticate", b"Bearer") in wire.sent[0]["headers"]
    assert wire.body == b'{"code":"access.denied","message":"No","detail":{}}'
