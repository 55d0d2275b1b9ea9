"""Messages of a bridge: there and back, strict in what goes out, tolerant of what comes in."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.core.errors import (
    BridgeProtocol,
    BridgeRemoteError,
    BridgeTimeout,
    BridgeTooLarge,
    ChatUnavailable,
    InvalidParams,
)
from bascule.wire.bridge import (
    Cancel,
    Event,
    Hello,
    Message,
    Piece,
    Request,
    Response,
    decode,
    encode,
    from_dap,
    to_dap,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=3)
IDS = st.text(min_size=1) | st.integers(0, 2**53)
MESSAGES = st.one_of(
    st.builds(Hello, st.integers(1, 9), st.just({"session": "s"})),
    st.builds(Request, IDS, st.from_regex(r"\Avscode/[a-z]+\Z"), OBJECTS),
    st.builds(Response, IDS, JSON),
    st.builds(Cancel, IDS),
    st.builds(Piece, IDS, JSON),
    st.builds(Event, st.text(), OBJECTS),
)


@given(MESSAGES)
def test_a_bridge_message_survives_encoding_and_decoding(message: Message) -> None:
    assert decode(encode(message)) == message
    assert from_dap(to_dap(message)) == message


def test_bridge_messages_have_the_specified_shapes() -> None:
    request = Request(1, "vscode/chat", {"message": "What is 2+2?", "timeout": 30000})
    assert encode(request) == (
        '{"id":1,"type":"vscode/chat","params":{"message":"What is 2+2?","timeout":30000}}'
    )
    answer = '{"id":1,"success":true,"result":{"response":"4","conversationId":"conv-123"}}'
    assert decode(answer) == Response(1, {"response": "4", "conversationId": "conv-123"})


def test_an_error_arrives_as_its_class_with_its_message_and_detail() -> None:
    sent = Response("a", error=ChatUnavailable("No model", wanted="gpt"))

    got = decode(encode(sent))

    assert isinstance(got, Response)
    assert isinstance(got.error, ChatUnavailable)
    assert (str(got.error), got.error.detail) == ("No model", {"wanted": "gpt"})


def test_a_timeout_error_of_the_window_decodes_as_a_timeout() -> None:
    got = decode('{"id":1,"success":false,"error":{"code":"bridge.timed_out","message":"late"}}')

    assert isinstance(got, Response)
    assert isinstance(got.error, BridgeTimeout)


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        ('"It broke"', "It broke", ""),
        ('{"code":"moon.dark","message":"Too dark"}', "Too dark", "moon.dark"),
        ("7", "The window reported an error in an unknown format: 7", ""),
        ("null", "The window reported an error in an unknown format: None", ""),
    ],
)
def test_an_error_in_another_form_is_still_an_error(error: str, message: str, code: str) -> None:
    got = decode(f'{{"id":1,"success":false,"error":{error}}}')

    assert isinstance(got, Response)
    assert isinstance(got.error, BridgeRemoteError)
    assert (str(got.error), got.error.remote_code) == (message, code)


def test_the_alternative_spelling_of_an_event_is_accepted() -> None:
    got = decode('{"type":"dapEvent","event":"asyncOperationSubmit","body":{"result":1}}')

    assert got == Event("asyncOperationSubmit", {"result": 1})


@pytest.mark.parametrize("value", [object(), b"bytes", math.nan, {"in": {1, 2, object()}}])
def test_values_json_cannot_represent_are_rejected_before_sending(value: Any) -> None:
    with pytest.raises(InvalidParams):
        encode(Request(1, "vscode/chat", {"message": value}))


def test_a_lone_surrogate_is_replaced_before_sending() -> None:
    text = encode(Request(1, "vscode/chat", {"message": "\ud800"}))

    assert decode(text) == Request(1, "vscode/chat", {"message": "\ufffd"})


def test_the_message_size_limit_counts_bytes() -> None:
    with pytest.raises(BridgeTooLarge, match="may have 200"):
        encode(Event("e", {"text": "é" * 90}), limit=200)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "7",
        "{}",
        '{"id":null,"type":"vscode/chat"}',
        '{"id":true,"success":true}',
        '{"id":1,"type":7}',
        '{"id":1,"type":"vscode/chat","params":[]}',
        '{"type":"bridge/hello","params":{"protocol":"one"}}',
        '{"type":"event","event":1}',
        '{"type":"$/cancel"}',
        "[" * 100_000,
    ],
)
def test_an_invalid_bridge_message_is_a_protocol_error(text: str) -> None:
    with pytest.raises(BridgeProtocol):
        decode(text)
