"""Shows the editor the state of a halted net: its stack, scopes, variables and exception.

While the net is halted inside Python code, debugpy provides this state. Otherwise the debuggee
provides it. The editor sees the ids of debugpy as odd numbers, and the ids of this adapter as even
numbers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from bascule.core.errors import InvalidRequest, UsageError
from bascule.net import Net

from .dap_server import Body, number_in, text_in
from .debuggee import BASCULE_DIRS

THREAD: Final = 1
_ELEMENT_FRAME: Final = 2
_NET_FRAME: Final = 4


@dataclass(slots=True)
class Stop:
    """Where and why the debug session is stopped."""

    reason: str
    element: str = ""
    text: str = ""
    exception: str = ""
    """Type of the raised exception; `trace` is its traceback."""
    trace: str = ""
    thread: int | None = None
    """debugpy's thread id if the stop is inside Python code."""
    frames: list[Body] = field(default_factory=list)


class RequestDebuggee(Protocol):
    """Sends the debuggee a request and returns its answer."""

    def __call__(self, do: str, **more: Any) -> Awaitable[Any]: ...


RequestPython = Callable[[str, Mapping[str, Any]], Awaitable[Body]]
"""Sends debugpy a request and returns the body of its response."""


class NetInspector:
    """Answers the editor's requests about the state of the net, which must be halted.

    The adapter sets `net` and `program` at launch, and `stop` whenever the net halts.
    """

    def __init__(self, request_debuggee: RequestDebuggee, request_python: RequestPython) -> None:
        self._request = request_debuggee
        self._request_python = request_python
        self.net: Net | None = None
        self.program = ""
        """Path of the net's file."""
        self.stop: Stop | None = None
        """Where the net is halted; None while it runs."""

    @property
    def net_name(self) -> str:
        return self.net.id if self.net is not None else "net"

    def ensure_stopped(self) -> Stop:
        if self.stop is None:
            raise UsageError("The net is not halted")
        return self.stop

    def leave(self) -> Stop:
        """Forget and return the stop, because the net is about to continue."""
        stop = self.ensure_stopped()
        self.stop = None
        return stop

    async def on_threads(self, _: Mapping[str, Any]) -> Body:
        return {"threads": [{"id": THREAD, "name": self.net_name}]}

    async def on_stack_trace(self, arguments: Mapping[str, Any]) -> Body:
        if arguments.get("threadId", THREAD) != THREAD:
            raise InvalidRequest(f"There is no thread {arguments['threadId']}; the net is {THREAD}")
        stop = self.ensure_stopped()
        frames = [*stop.frames, *self._net_frames(stop)]
        start = number_in(arguments, "startFrame", default=0)
        count = number_in(arguments, "levels", default=0) or len(frames)
        return {"stackFrames": frames[start : start + count], "totalFrames": len(frames)}

    def _net_frames(self, stop: Stop) -> list[Body]:
        assert self.net is not None
        source = {"name": Path(self.program).name, "path": self.program}
        places, transitions = self.net.places, self.net.transitions
        frames: list[Body] = []
        for kind, nodes in (("place", places), ("transition", transitions)):
            for node in nodes.values():
                if node.id == stop.element:
                    name = f"{kind} {node.name or node.id}"
                    line = node.span.line
                    frames.append(_frame(_ELEMENT_FRAME, name, line, source))
        first = min((place.span.line for place in places.values()), default=1)
        frames.append(_frame(_NET_FRAME, f"net {self.net.id}", first, source))
        return frames

    async def on_scopes(self, arguments: Mapping[str, Any]) -> Body:
        frame = number_in(arguments, "frameId")
        self.ensure_stopped()
        if frame % 2:
            answer = await self._request_python("scopes", {"frameId": frame // 2})
            return {"scopes": [_with_odd_reference(scope) for scope in answer["scopes"]]}
        scopes = await self._request("scopes")
        return {"scopes": [_with_even_reference(scope) for scope in scopes]}

    async def on_variables(self, arguments: Mapping[str, Any]) -> Body:
        reference = number_in(arguments, "variablesReference")
        self.ensure_stopped()
        if reference % 2:
            inner = {**arguments, "variablesReference": reference // 2}
            answer = await self._request_python("variables", inner)
            return {"variables": [_with_odd_reference(each) for each in answer["variables"]]}
        found = await self._request("variables", reference=reference // 2)
        return {"variables": [_with_even_reference(each) for each in found]}

    async def on_set_variable(self, arguments: Mapping[str, Any]) -> Body:
        reference = number_in(arguments, "variablesReference")
        self.ensure_stopped()
        if reference % 2:
            inner = {**arguments, "variablesReference": reference // 2}
            return _with_odd_reference(await self._request_python("setVariable", inner))
        name, value = text_in(arguments, "name"), text_in(arguments, "value")
        new = await self._request("set", reference=reference // 2, name=name, value=value)
        return _pick(_with_even_reference(new), "value", "type", "variablesReference")

    async def on_evaluate(self, arguments: Mapping[str, Any]) -> Body:
        stop = self.ensure_stopped()
        expression = text_in(arguments, "expression")
        frame = number_in(arguments, "frameId", default=0)
        if not frame and stop.frames:
            frame = stop.frames[0]["id"]
        if frame % 2:
            answer = await self._request_python("evaluate", {**arguments, "frameId": frame // 2})
            return _with_odd_reference(answer)
        found = _with_even_reference(await self._request("evaluate", expression=expression))
        return {"result": found["value"], **_pick(found, "type", "variablesReference")}

    async def on_exception_info(self, _: Mapping[str, Any]) -> Body:
        stop = self.ensure_stopped()
        return {
            "exceptionId": stop.exception or "InscriptionFailed",
            "description": stop.text or stop.reason,
            "breakMode": "always",
            "details": {
                "message": stop.text or stop.reason,
                "typeName": stop.exception or "InscriptionFailed",
                "stackTrace": stop.trace,
            },
        }

    async def python_frames(self, thread: int) -> list[Body]:
        """The frames of the net's code and its callees, without the frames of Bascule that called
        the code."""
        answer = await self._request_python("stackTrace", {"threadId": thread})
        frames = []
        for frame in answer["stackFrames"]:
            path = str((frame.get("source") or {}).get("path") or "")
            if path.startswith(BASCULE_DIRS):
                break
            frames.append({**frame, "id": 2 * frame["id"] + 1})
        return frames


def _frame(number: int, name: str, line: int, source: Body) -> Body:
    return {"id": number, "name": name, "line": line, "column": 1, "source": source}


def _with_even_reference(shape: Body) -> Body:
    return {**shape, "variablesReference": 2 * shape["variablesReference"]}


def _with_odd_reference(shape: Body) -> Body:
    """A scope, variable or result of debugpy, with the odd reference that the editor sees."""
    reference = shape.get("variablesReference") or 0
    return {**shape, "variablesReference": 2 * reference + 1 if reference else 0}


def _pick(shape: Body, *names: str) -> Body:
    return {name: shape[name] for name in names if name in shape}
