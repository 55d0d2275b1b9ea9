"""Debug mode: the same bridge, carried by DAP events and requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from bascule.bridge import BridgeClient, DapTransport
from bascule.core.errors import BridgeClosed, BridgeProtocol
from bascule.testing.bridge import FakeEditor
from bascule.wire.bridge import Message, from_dap, to_dap
from tests.contracts.bridge import BridgeContract


@pytest.fixture
def editor() -> FakeEditor:
    return FakeEditor()


@pytest.fixture
def transport(editor: FakeEditor) -> DapTransport:
    """With the two ends of a debug session joined: what a client and an adapter do in between."""

    def custom_request_event(body: Mapping[str, Any]) -> None:
        editor.handle(from_dap(body), custom_request_response)

    def custom_request_response(message: Message) -> None:
        transport.receive(to_dap(message))

    transport = DapTransport(custom_request_event)
    editor.attach(custom_request_response)
    return transport


@pytest.fixture
def bridge(transport: DapTransport) -> Iterator[BridgeClient]:
    bridge = BridgeClient(transport, grace=0.1)
    yield bridge
    bridge.close()


class TestDapBridge(BridgeContract):
    pass


def test_a_bridge_request_is_a_dap_event_and_its_answer_a_dap_request() -> None:
    events: list[Mapping[str, Any]] = []
    transport = DapTransport(events.append)
    answer = BridgeClient(transport).begin("vscode/chat", {"message": "2+2?"}, timeout=30)

    (event,) = events
    assert event["type"] == "vscode/chat"
    assert event["params"] == {"message": "2+2?", "timeout": 30000}

    transport.receive({"requestId": event["requestId"], "success": True, "result": "4"})
    assert answer.result(0) == "4"


def test_an_answer_without_a_request_is_dropped_and_a_malformed_one_refused(
    transport: DapTransport,
) -> None:
    transport.receive({"requestId": "x", "success": True})

    with pytest.raises(BridgeProtocol):
        transport.receive({"success": True})


def test_the_end_of_the_debug_session_fails_pending_calls(
    bridge: BridgeClient, transport: DapTransport, editor: FakeEditor
) -> None:
    editor.answers["t/wait"] = lambda asked: asked.cancelled.wait(10)
    answer = bridge.begin("t/wait")

    transport.end()

    with pytest.raises(BridgeClosed, match="debug session"):
        answer.result(1)
    with pytest.raises(BridgeClosed, match="debug session"):
        bridge.request("t/wait")
    next(iter(editor.asked.values())).cancelled.set()
