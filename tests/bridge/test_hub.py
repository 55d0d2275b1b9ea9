"""Through a real hub to a window: the contract, without the events that do not travel this way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from bascule.bridge import BridgeClient
from bascule.bridge.current import CurrentBridge
from bascule.bridge.hub import HubTransport
from bascule.core.errors import BridgeClosed, BridgeRefused, BridgeUnavailable, UnknownRequest
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.testing.bridge import FakeEditor
from bascule.testing.window import FakeWindow
from tests.contracts.bridge import SOON, BridgeContract
from tests.hub.serving import RunningHub

T = TypeVar("T")
pytestmark = pytest.mark.slow
EVENTS = {
    "test_an_event_during_a_call_is_delivered_and_the_call_continues",
    "test_a_failing_listener_does_not_affect_others",
    "test_notifications_of_a_script_reach_the_window",
}
"""Parts of the suite that need events, which a hub does not transmit."""


class HubInThread:
    """A hub and a window on a loop of their own: the tests block theirs."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.editor = FakeEditor()
        self.place: RunningHub
        self.window: FakeWindow
        self.wait(self._open())

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SOON)

    def close(self) -> None:
        self.wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self) -> None:
        self.place = await RunningHub().__aenter__()
        settings = SandboxSettings(shells=ShellSettings(working_dir=self._workspace))
        self.window = FakeWindow(
            self.place.url, self.place.window, settings, name="project", editor=self.editor
        )
        await self.window.connect()

    async def _close(self) -> None:
        await self.window.aclose()
        await self.place.__aexit__(None, None, None)
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


@pytest.fixture
def surroundings(tmp_path: Path) -> Iterator[HubInThread]:
    surroundings = HubInThread(tmp_path)
    yield surroundings
    surroundings.close()


@pytest.fixture
def editor(surroundings: HubInThread) -> FakeEditor:
    return surroundings.editor


@pytest.fixture
def bridge(surroundings: HubInThread, request: pytest.FixtureRequest) -> Iterator[BridgeClient]:
    if request.node.name in EVENTS:
        pytest.skip("events do not travel through a hub")
    place = surroundings.place
    bridge = BridgeClient(HubTransport(place.url, place.agent), grace=0.1)
    assert bridge.begin("bridge/ping").result(SOON) == {}
    yield bridge
    bridge.close()


class TestHubBridge(BridgeContract):
    pass


def test_additions_follow_their_request(bridge: BridgeClient, editor: FakeEditor) -> None:
    editor.answers["t/sum"] = lambda asked: sum(asked.added.get(timeout=SOON) for _ in range(5))
    answer = bridge.begin("t/sum")
    for n in range(5):
        answer.add(n)

    assert answer.result(SOON) == 10


def test_a_bridge_is_made_from_hub_variables(surroundings: HubInThread) -> None:
    environ = {
        "BASCULE_HUB": surroundings.place.url,
        "BASCULE_TOKEN": surroundings.place.agent,
        "BASCULE_WINDOW": "project",
    }
    bridge = CurrentBridge(environ).bridge()

    assert bridge.begin("bridge/ping").result(SOON) == {}
    assert bridge.kind == "hub"
    bridge.close()


@pytest.mark.parametrize(
    ("token", "window", "error"),
    [("wrong", "", BridgeRefused), ("", "another", BridgeUnavailable)],
)
def test_a_refused_token_or_unknown_window_is_reported(
    surroundings: HubInThread, token: str, window: str, error: type[Exception]
) -> None:
    place = surroundings.place
    bridge = BridgeClient(HubTransport(place.url, token or place.agent, window=window))

    with pytest.raises(error):
        bridge.begin("bridge/ping").result(SOON)


def test_an_unreachable_hub_means_no_bridge() -> None:
    with pytest.raises(BridgeUnavailable, match="cannot be reached"):
        BridgeClient(HubTransport("http://127.0.0.1:9", "t")).begin("x").result(SOON)


def test_a_window_with_scripts_disabled_says_so(surroundings: HubInThread) -> None:
    surroundings.window.editor = None
    place = surroundings.place
    bridge = BridgeClient(HubTransport(place.url, place.agent))

    with pytest.raises(UnknownRequest):
        bridge.begin("vscode/chat").result(SOON)
    bridge.close()


def test_a_window_lost_mid_call_fails_it(
    surroundings: HubInThread, bridge: BridgeClient, editor: FakeEditor
) -> None:
    asked = threading.Event()

    def wait(each: Any) -> Any:
        asked.set()
        each.cancelled.wait(SOON)

    editor.answers["t/wait"] = wait
    answer = bridge.begin("t/wait")
    assert asked.wait(SOON)

    surroundings.wait(surroundings.window.aclose())

    with pytest.raises(BridgeClosed, match="may have taken effect"):
        answer.result(SOON)
