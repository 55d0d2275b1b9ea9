"""What every `Bridge` has to keep, whatever carries it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import pytest

from bascule.bridge import BridgeClient
from bascule.core.contracts import Bridge
from bascule.core.errors import (
    BridgeCancelled,
    BridgeClosed,
    BridgeTimeout,
    BridgeTooLarge,
    ChatUnavailable,
    InvalidParams,
    UnknownRequest,
)
from bascule.testing.bridge import FakeEditor, FakeRequest

SOON = 10.0


def until_cancelled(asked: FakeRequest) -> Any:
    assert asked.cancelled.wait(SOON)
    raise BridgeCancelled("Cancelled")


class BridgeContract:
    """A kind's tests inherit these and have two fixtures: `editor`, and a `bridge` to it whose
    grace is short."""

    def test_the_client_satisfies_the_bridge_protocol(self, bridge: BridgeClient) -> None:
        kept: Bridge = bridge

        assert kept.kind

    def test_an_answer_is_returned_unchanged(self, bridge: Bridge, editor: FakeEditor) -> None:
        editor.answers["t/echo"] = lambda asked: asked.params
        params = {"text": "naïve 🌉\u2028", "deep": [1, {"a": None}], "no": False}

        assert bridge.request("t/echo", params) == params

    def test_an_error_of_the_window_is_raised_as_its_class(
        self, bridge: Bridge, editor: FakeEditor
    ) -> None:
        def fail(_: FakeRequest) -> Any:
            raise ChatUnavailable("There is no model", wanted="m")

        editor.answers["t/fail"] = fail

        with pytest.raises(ChatUnavailable, match="There is no model") as caught:
            bridge.request("t/fail")
        assert caught.value.detail == {"wanted": "m"}

    def test_an_unknown_request_is_rejected_by_name(self, bridge: Bridge) -> None:
        with pytest.raises(UnknownRequest, match="t/none"):
            bridge.request("t/none")

    def test_is_available_tells_whether_the_window_answers(self, bridge: Bridge) -> None:
        assert bridge.is_available()

    def test_a_quick_answer_overtakes_a_slow_one(self, bridge: Bridge, editor: FakeEditor) -> None:
        release = threading.Event()
        editor.answers["t/slow"] = lambda _: release.wait(SOON)
        editor.answers["t/quick"] = lambda _: "quick"

        slow = bridge.begin("t/slow")
        assert bridge.request("t/quick") == "quick"
        assert not slow.done()
        release.set()

        assert slow.result(SOON) is True

    @pytest.mark.slow
    def test_fifty_threads_each_get_their_own_twenty_answers(
        self, bridge: Bridge, editor: FakeEditor
    ) -> None:
        editor.answers["t/echo"] = lambda asked: asked.params["n"]

        def calls(thread: int) -> list[int]:
            return [bridge.request("t/echo", {"n": thread * 100 + n}) for n in range(20)]

        with ThreadPoolExecutor(50) as threads:
            answers = list(threads.map(calls, range(50)))

        assert answers == [[thread * 100 + n for n in range(20)] for thread in range(50)]
        assert len(editor.requests) == 1000
        assert set(Counter(request.id for request in editor.requests).values()) == {1}

    def test_an_event_during_a_call_is_delivered_and_the_call_continues(
        self, bridge: Bridge, editor: FakeEditor
    ) -> None:
        seen: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        stop = bridge.listen(lambda event, body: seen.put((event, body)))

        def tell(_: FakeRequest) -> Any:
            editor.emit("saved", {"path": "/a"})
            return "done"

        editor.answers["t/tell"] = tell

        assert bridge.request("t/tell") == "done"
        assert seen.get(timeout=SOON) == ("saved", {"path": "/a"})
        stop()
        assert bridge.request("t/tell") == "done"
        assert seen.empty()

    def test_a_failing_listener_does_not_affect_others(
        self, bridge: Bridge, editor: FakeEditor, caplog: pytest.LogCaptureFixture
    ) -> None:
        seen: SimpleQueue[str] = SimpleQueue()

        def fail(*_: Any) -> None:
            raise ValueError("mine")

        bridge.listen(fail)
        bridge.listen(lambda event, _: seen.put(event))
        assert bridge.is_available()
        editor.emit("saved", {})

        assert seen.get(timeout=SOON) == "saved"
        assert bridge.is_available()
        assert "ValueError: mine" in caplog.text

    def test_notifications_of_a_script_reach_the_window(
        self, bridge: Bridge, editor: FakeEditor
    ) -> None:
        bridge.send_event("started", {"run": 1})

        event = editor.events.get(timeout=SOON)
        assert (event.event, event.body) == ("started", {"run": 1})

    def test_progress_arrives_in_order_before_the_answer(
        self, bridge: Bridge, editor: FakeEditor
    ) -> None:
        def stream(asked: FakeRequest) -> Any:
            for n in range(100):
                asked.progress(n)
            return "end"

        editor.answers["t/stream"] = stream
        pieces: list[int] = []

        assert bridge.request("t/stream", on_progress=pieces.append) == "end"
        assert pieces == list(range(100))

    def test_a_cancelled_call_is_cancelled_in_the_window(
        self, bridge: Bridge, editor: FakeEditor
    ) -> None:
        begun = _begun(editor, "t/wait")
        future = bridge.begin("t/wait")
        asked = begun()

        assert future.cancel()

        assert asked.cancelled.wait(SOON)
        assert bridge.is_available()

    def test_a_timeout_is_sent_with_the_request_and_cancels_it(
        self, bridge: Bridge, editor: FakeEditor
    ) -> None:
        begun = _begun(editor, "t/wait")

        with pytest.raises(BridgeTimeout, match=r"t/wait in 0\.05 seconds") as caught:
            bridge.request("t/wait", timeout=0.05)

        assert isinstance(caught.value, TimeoutError)
        asked = begun()
        assert asked.params == {"timeout": 50}
        assert asked.cancelled.wait(SOON)

    def test_a_timeout_in_the_window_is_raised_as_a_timeout(
        self, bridge: Bridge, editor: FakeEditor
    ) -> None:
        def late(_: FakeRequest) -> Any:
            raise BridgeTimeout("The user did not answer in time")

        editor.answers["t/late"] = late

        with pytest.raises(BridgeTimeout, match="The user did not answer"):
            bridge.request("t/late", timeout=5)

    def test_an_interrupt_cancels_the_call(self, bridge: Bridge, editor: FakeEditor) -> None:
        cancelled = threading.Event()

        def interrupt(asked: FakeRequest) -> Any:
            os.kill(os.getpid(), signal.SIGINT)
            if asked.cancelled.wait(SOON):
                cancelled.set()

        editor.answers["t/interrupt"] = interrupt

        with pytest.raises(KeyboardInterrupt):
            bridge.request("t/interrupt")

        assert cancelled.wait(SOON)

    @pytest.mark.slow
    def test_three_mebibytes_are_sent_and_returned(
        self, bridge: Bridge, editor: FakeEditor
    ) -> None:
        editor.answers["t/echo"] = lambda asked: asked.params["text"]
        text = "añ" * (1 << 20)

        assert bridge.request("t/echo", {"text": text}) == text

    @pytest.mark.slow
    def test_messages_past_the_limit_are_rejected_in_both_directions(
        self, bridge: Bridge, editor: FakeEditor
    ) -> None:
        editor.answers["t/large"] = lambda _: "x" * (5 << 20)

        with pytest.raises(BridgeTooLarge):
            bridge.request("t/echo", {"text": "x" * (5 << 20)})
        with pytest.raises(BridgeTooLarge):
            bridge.request("t/large")
        assert bridge.is_available()

    def test_a_value_that_is_not_json_is_rejected_and_named(self, bridge: Bridge) -> None:
        with pytest.raises(InvalidParams, match="object"):
            bridge.request("t/echo", {"value": object()})
        assert bridge.is_available()

    def test_closing_fails_pending_and_later_calls(
        self, bridge: Bridge, editor: FakeEditor
    ) -> None:
        begun = _begun(editor, "t/wait")
        future = bridge.begin("t/wait")
        asked = begun()

        bridge.close()
        bridge.close()
        asked.cancelled.set()

        with pytest.raises(BridgeClosed):
            future.result(SOON)
        with pytest.raises(BridgeClosed):
            bridge.request("t/echo")
        assert not bridge.is_available()

    async def test_many_calls_are_awaited_at_once(self, bridge: Bridge, editor: FakeEditor) -> None:
        editor.answers["t/echo"] = lambda asked: asked.params["n"]

        calls = [bridge.arequest("t/echo", {"n": n}) for n in range(40)]

        assert await asyncio.gather(*calls) == list(range(40))

    async def test_cancelling_an_awaited_call_cancels_it_in_the_window(
        self, bridge: Bridge, editor: FakeEditor
    ) -> None:
        begun = _begun(editor, "t/wait")
        task = asyncio.ensure_future(bridge.arequest("t/wait"))
        asked = await asyncio.to_thread(begun)

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert await asyncio.to_thread(asked.cancelled.wait, SOON)

    async def test_an_awaited_call_runs_out_of_time(
        self, bridge: Bridge, editor: FakeEditor
    ) -> None:
        begun = _begun(editor, "t/wait")

        with pytest.raises(BridgeTimeout):
            await bridge.arequest("t/wait", timeout=0.05)

        asked = await asyncio.to_thread(begun)
        assert await asyncio.to_thread(asked.cancelled.wait, SOON)


def _begun(editor: FakeEditor, type: str) -> Callable[[], FakeRequest]:
    """Has `type` wait to be cancelled; the function returned waits until it was asked."""
    asked: SimpleQueue[FakeRequest] = SimpleQueue()

    def wait(each: FakeRequest) -> Any:
        asked.put(each)
        return until_cancelled(each)

    editor.answers[type] = wait
    return lambda: asked.get(timeout=SOON)
