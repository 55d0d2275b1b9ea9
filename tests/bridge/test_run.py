"""Run mode over a real WebSocket: the contract, and what a server can do to a client."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.sync.server import ServerConnection

from bascule.bridge import BridgeClient, Endpoint, RunTransport
from bascule.core.errors import (
    BridgeClosed,
    BridgeProtocol,
    BridgeRefused,
    BridgeTooLarge,
    BridgeUnavailable,
)
from bascule.testing.bridge import FakeEditor, FakeRequest
from bascule.wire.bridge import PROTOCOL, Request, Response, decode, encode
from tests.contracts.bridge import SOON, BridgeContract

from .serving import TOKEN, BridgeServer


@pytest.fixture
def server() -> Iterator[BridgeServer]:
    with BridgeServer() as server:
        yield server


@pytest.fixture
def editor(server: BridgeServer) -> FakeEditor:
    return server.editor


@pytest.fixture
def bridge(server: BridgeServer) -> Iterator[BridgeClient]:
    bridge = BridgeClient(RunTransport(server.endpoint), grace=0.1)
    yield bridge
    bridge.close()


class TestRunBridge(BridgeContract):
    pass


# Getting in -------------------------------------------------------------------------------


def test_the_token_travels_in_a_header_and_nowhere_else(
    bridge: BridgeClient, server: BridgeServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert bridge.is_available()

    (headers,) = server.headers
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert "Origin" not in headers
    assert server.paths == ["/"]
    assert TOKEN not in repr(server.endpoint)
    ours = [record for record in caplog.records if record.name.startswith("bascule")]
    assert TOKEN not in "".join(record.getMessage() for record in ours)


def test_a_wrong_token_is_refused_at_once_and_says_so(server: BridgeServer) -> None:
    started = time.monotonic()
    bridge = BridgeClient(RunTransport(Endpoint(server.endpoint.address, "wrong")))

    with pytest.raises(BridgeRefused, match="rejects this run's token") as caught:
        bridge.request("t/echo")

    assert time.monotonic() - started < 1
    assert caught.value.detail == {"status": 401}
    assert not bridge.is_available()


def test_a_closed_port_means_no_bridge_and_the_error_gives_advice(server: BridgeServer) -> None:
    server.stop()
    started = time.monotonic()
    bridge = BridgeClient(RunTransport(server.endpoint))

    with pytest.raises(BridgeUnavailable, match="start the script from VS Code again"):
        bridge.request("t/echo")

    assert not bridge.is_available()
    assert time.monotonic() - started < 1
    server.start()


def test_a_window_that_comes_up_later_is_found_by_the_next_call(server: BridgeServer) -> None:
    server.stop()
    bridge = BridgeClient(RunTransport(server.endpoint))
    assert not bridge.is_available()

    server.start()

    assert bridge.is_available()
    bridge.close()


@pytest.mark.slow
def test_a_silent_port_means_no_bridge_within_a_second() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"ws://127.0.0.1:{silent.getsockname()[1]}/"
        bridge = BridgeClient(RunTransport(Endpoint(address, TOKEN)))
        started = time.monotonic()

        assert not bridge.is_available()
        with pytest.raises(BridgeUnavailable):
            bridge.request("t/echo")

        assert time.monotonic() - started < 2.5


def test_another_version_of_the_protocol_is_named(
    bridge: BridgeClient, server: BridgeServer
) -> None:
    server.protocol = PROTOCOL + 1

    with pytest.raises(BridgeProtocol, match=f"version {PROTOCOL + 1}"):
        bridge.request("t/echo")


def test_proxy_variables_of_the_environment_are_ignored(
    bridge: BridgeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "ws_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:9")

    assert bridge.is_available()


def test_two_clients_of_a_run_each_get_their_own_answers(
    server: BridgeServer, editor: FakeEditor
) -> None:
    editor.answers["t/echo"] = lambda asked: asked.params["n"]
    bridges = [BridgeClient(RunTransport(server.endpoint)) for _ in range(2)]

    answers = [[bridge.begin("t/echo", {"n": n}) for n in range(20)] for bridge in bridges]

    for each in answers:
        assert [answer.result(SOON) for answer in each] == list(range(20))
    for bridge in bridges:
        bridge.close()


def test_additions_made_before_the_connection_follow_their_request(
    bridge: BridgeClient, editor: FakeEditor
) -> None:
    editor.answers["t/sum"] = lambda asked: sum(asked.added.get(timeout=SOON) for _ in range(20))

    answer = bridge.begin("t/sum")
    for n in range(20):
        answer.add(n)

    assert answer.result(SOON) == sum(range(20))


# Ill-treatment ----------------------------------------------------------------------------


def test_a_ping_with_a_payload_is_answered_and_harms_nothing(
    bridge: BridgeClient, server: BridgeServer
) -> None:
    assert bridge.is_available()

    pong = server.connections[0].ping(b"\xff\xfe are you there")

    assert pong.wait(SOON)
    assert bridge.is_available()


def test_a_message_in_fragments_is_one_message(bridge: BridgeClient, server: BridgeServer) -> None:
    def answer_in_pieces(connection: ServerConnection) -> None:
        request = decode(connection.recv())
        assert isinstance(request, Request)
        text = encode(Response(request.id, "naïve"))
        connection.send(text[n : n + 3] for n in range(0, len(text), 3))

    server.on_connection = answer_in_pieces

    assert bridge.request("t/any") == "naïve"


def test_unknown_messages_are_dropped_and_logged(
    bridge: BridgeClient, server: BridgeServer, caplog: pytest.LogCaptureFixture
) -> None:
    def nonsense(connection: ServerConnection) -> None:
        for text in ("not json", "[]", '{"type":"$/new","params":{}}', '{"id":"9","success":true}'):
            connection.send(text)
        connection.send(b"\xff\xff")

    server.on_connection = nonsense

    assert bridge.is_available()
    assert caplog.text.count("an invalid message") == 4


def test_an_answer_past_the_limit_fails_the_call_without_a_retry(
    bridge: BridgeClient, server: BridgeServer
) -> None:
    asked: list[Any] = []

    def flood(connection: ServerConnection) -> None:
        asked.append(decode(connection.recv()))
        connection.send("x" * (5 << 20))

    server.on_connection = flood

    with pytest.raises(BridgeTooLarge):
        bridge.request("vscode/chat")
    assert len(asked) == 1


# Losing and finding -----------------------------------------------------------------------


def test_a_call_survives_a_reconnect_to_a_window_that_kept_it(
    bridge: BridgeClient, server: BridgeServer, editor: FakeEditor
) -> None:
    release, asked = threading.Event(), threading.Event()

    def wait(_: FakeRequest) -> Any:
        asked.set()
        release.wait(SOON)
        return "done once"

    editor.answers["t/wait"] = wait
    answer = bridge.begin("t/wait")
    assert asked.wait(SOON)
    server.connected.acquire(timeout=SOON)

    server.drop()
    assert server.connected.acquire(timeout=SOON)
    release.set()

    assert answer.result(SOON) == "done once"
    assert len(editor.requests) == 1


def test_a_lost_answer_is_sent_again(
    bridge: BridgeClient, server: BridgeServer, editor: FakeEditor
) -> None:
    def cut_and_answer(_: FakeRequest) -> Any:
        server.drop()
        return "done once"

    editor.answers["t/cut"] = cut_and_answer

    assert bridge.begin("t/cut").result(SOON) == "done once"
    assert len(editor.requests) == 1


def test_after_a_window_restart_calls_that_are_unsafe_to_repeat_fail(
    bridge: BridgeClient, server: BridgeServer, editor: FakeEditor
) -> None:
    first: dict[str, threading.Event] = {
        "t/do": threading.Event(),
        "vscode/diagnostics": threading.Event(),
    }

    def wait(asked: FakeRequest) -> Any:
        if first[asked.request.type].is_set():
            return "asked again"
        first[asked.request.type].set()
        asked.cancelled.wait(SOON)
        return "lost"

    editor.answers |= {"t/do": wait, "vscode/diagnostics": wait}
    doing, reading = bridge.begin("t/do"), bridge.begin("vscode/diagnostics")
    assert all(event.wait(SOON) for event in first.values())
    held = list(editor.asked.values())

    server.stop()
    editor.forget()
    server.instance = "another"
    server.start()

    with pytest.raises(BridgeClosed, match="may have taken effect"):
        doing.result(SOON)
    assert reading.result(SOON) == "asked again"
    assert bridge.is_available()
    for each in held:
        each.cancelled.set()


def test_calls_made_while_the_window_is_away_wait_for_it(
    bridge: BridgeClient, server: BridgeServer, editor: FakeEditor
) -> None:
    editor.answers["t/echo"] = lambda asked: asked.params["n"]
    assert bridge.is_available()
    server.stop()

    waiting = [bridge.begin("t/echo", {"n": n}) for n in range(3)]
    server.start()

    assert [each.result(SOON) for each in waiting] == [0, 1, 2]


def test_calls_fail_after_a_window_stays_disconnected(server: BridgeServer) -> None:
    bridge = BridgeClient(RunTransport(server.endpoint, reconnect_timeout=0.1))
    assert bridge.is_available()
    server.stop()

    with pytest.raises((BridgeClosed, BridgeUnavailable)):
        bridge.begin("t/echo").result(SOON)
    server.start()
    assert bridge.is_available()
    bridge.close()


def test_a_revoked_token_ends_the_bridge_when_the_connection_breaks(
    bridge: BridgeClient, server: BridgeServer
) -> None:
    assert bridge.is_available()
    server.tokens.clear()

    server.drop()

    with pytest.raises(BridgeRefused):
        bridge.begin("t/echo").result(SOON)
