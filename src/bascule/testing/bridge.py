"""A fake editor window without VS Code, for tests of code that uses a bridge.

editor = FakeEditor()
editor.answers["vscode/chat"] = lambda asked: {"response": "4"}
vscode_bridge.use(editor.bridge())
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from bascule.bridge import BridgeClient, TransportReceiver
from bascule.core.contracts import OnProgress, OutputProgress
from bascule.core.editor_actions import BridgeRequest
from bascule.core.editor_observations import BridgeAnswered
from bascule.core.errors import BridgeError, UnknownRequest
from bascule.core.observations import Observation
from bascule.wire import to_json
from bascule.wire.bridge import (
    MAX_MESSAGE,
    PING,
    Cancel,
    Event,
    Message,
    Piece,
    Request,
    RequestId,
    Response,
    decode,
    encode,
    error_to_wire,
)

Reply = Callable[[Message], None]


@dataclass(slots=True)
class FakeRequest:
    """A request that a `FakeEditor` is answering."""

    request: Request
    reply: Reply
    cancelled: threading.Event = field(default_factory=threading.Event)
    added: SimpleQueue[Any] = field(default_factory=SimpleQueue)
    """Values that the script added to the request later."""
    answer: Response | None = None

    @property
    def params(self) -> Mapping[str, Any]:
        return self.request.params

    def progress(self, value: Any) -> None:
        self.reply(Piece(self.request.id, value))


Asked = FakeRequest
"""The name of `FakeRequest` in version 0.1.0, kept for tests that import it."""


class FakeEditor:
    """Answers requests with `answers`, each in its own thread, and remembers the requests.

    An answer is a function of the request. It may block, report progress or raise a
    `BridgeError`. A request that arrives again with the same id is not executed again.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[FakeRequest], Any]] = {PING: lambda _: {}}
        self.asked: dict[RequestId, FakeRequest] = {}
        self.events: SimpleQueue[Event] = SimpleQueue()
        """Events that scripts sent."""
        self._lock = threading.Lock()
        self._scripts: list[Reply] = []

    @property
    def requests(self) -> list[Request]:
        """All requests in the order of arrival, without pings."""
        asked = [each.request for each in self.asked.values()]
        return [each for each in asked if each.type != PING]

    def bridge(self) -> BridgeClient:
        return BridgeClient(FakeTransport(self))

    def emit(self, event: str, body: Mapping[str, Any]) -> None:
        """Send an event to every connected script."""
        for reply in list(self._scripts):
            reply(Event(event, body))

    def attach(self, reply: Reply) -> Callable[[], None]:
        """Connect a script. Returns a function that disconnects the script."""
        self._scripts.append(reply)
        return lambda: self._scripts.remove(reply)

    def handle(self, message: Message, reply: Reply) -> None:
        match message:
            case Request(id):
                self._ask(message, id, reply)
            case Cancel(id) if id in self.asked:
                self.asked[id].cancelled.set()
            case Piece(id, value) if id in self.asked:
                self.asked[id].added.put(value)
            case Event():
                self.events.put(message)

    def forget(self) -> None:
        """Forget all requests, as a restarted editor does."""
        with self._lock:
            self.asked.clear()

    def _ask(self, request: Request, id: RequestId, reply: Reply) -> None:
        with self._lock:
            known = self.asked.get(id)
            if known is not None:
                known.reply = reply
                if known.answer is not None:
                    reply(known.answer)
                return
            asked = self.asked[id] = FakeRequest(request, reply)
        threading.Thread(target=self._answer, args=(asked,), daemon=True).start()

    def _answer(self, asked: FakeRequest) -> None:
        request = asked.request
        answer = self.answers.get(request.type)
        try:
            if answer is None:
                raise UnknownRequest(
                    f"This fake editor has no answer for the request {request.type!r}"
                )
            response = Response(request.id, answer(asked))
            encode(response, limit=MAX_MESSAGE)
        except BridgeError as error:
            response = Response(request.id, error=error)
        with self._lock:
            asked.answer = response
            reply = asked.reply
        reply(response)


async def answer_action(
    editor: FakeEditor, action: BridgeRequest, *, on_progress: OnProgress | None
) -> Observation:
    """Answer a request that arrived as an action through a hub."""
    if action.request == "$/progress":
        editor.handle(Piece(action.params["id"], action.params["value"]), lambda _: None)
        return BridgeAnswered(content="", request=action.request, cause=action.id)
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Response] = loop.create_future()
    sent = 0

    def reply(message: Message) -> None:
        nonlocal sent
        if isinstance(message, Response):
            loop.call_soon_threadsafe(_settle, answered, message)
        elif isinstance(message, Piece) and on_progress is not None:
            line = to_json(message.value) + b"\n"
            loop.call_soon_threadsafe(on_progress, OutputProgress("", sent, line))
            sent += len(line)

    editor.handle(Request(action.id, action.request, action.params), reply)
    try:
        response = await answered
    except asyncio.CancelledError:
        editor.handle(Cancel(action.id), reply)
        raise
    return BridgeAnswered(
        content="",
        request=action.request,
        result=response.result,
        error=None if response.error is None else error_to_wire(response.error),
        cause=action.id,
    )


def _settle(answered: asyncio.Future[Response], response: Response) -> None:
    if not answered.done():
        answered.set_result(response)


class FakeTransport:
    """Transport to a `FakeEditor` in this process. Messages are encoded and decoded on the way."""

    kind = "fake"

    def __init__(self, editor: FakeEditor) -> None:
        self._editor = editor
        self._receiver: TransportReceiver
        self._detach: Callable[[], None] = lambda: None

    def start(self, receiver: TransportReceiver) -> None:
        self._receiver = receiver
        self._detach = self._editor.attach(self._reply)
        receiver.connected(is_same_peer=False)

    def send(self, message: Message) -> None:
        self._editor.handle(decode(encode(message)), self._reply)

    def close(self) -> None:
        self._detach()
        self._detach = lambda: None

    def _reply(self, message: Message) -> None:
        self._receiver.received(decode(encode(message)))
