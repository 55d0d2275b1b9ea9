"""The debug adapter: handles an editor's DAP requests and sends responses and events.

Every request is a task of its own, begun in the order of arrival: one that waits (for code that
asks the editor something, say) holds up no other. There is one thread, the net. While a stop is
inside Python, stack, variables and steps are debugpy's, seen through this session; the rest of the
time they are the net's. Ids of debugpy's go out odd, ours even.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bascule.core.errors import BasculeError, InvalidRequest, NotSupported, SandboxDied, UsageError
from bascule.net import Net, load
from bascule.wire.dap import Decoder, Message, encode

from .breakpoints import (
    BoundBreakpoint,
    BreakpointTarget,
    bind,
    described,
    entry_line,
    possible_lines,
    transition_at,
)
from .debuggee import OURS
from .process import DebuggeeProcess
from .python import PythonDebugger

logger = logging.getLogger(__name__)

Body = dict[str, Any]
Handler = Callable[[Mapping[str, Any]], Awaitable[Body | None]]

THREAD: Final = 1
_ELEMENT_FRAME: Final = 2
_NET_FRAME: Final = 4
_GRACE: Final = 2.0
"""Seconds a net that is told to end has for it."""
_OPTIONS: Final = ("policy", "seed", "maxFirings", "timeout", "trace")

CAPABILITIES: Final[Body] = {
    "supportsConfigurationDoneRequest": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsLogPoints": True,
    "supportsBreakpointLocationsRequest": True,
    "supportsEvaluateForHovers": True,
    "supportsSetVariable": True,
    "supportsTerminateRequest": True,
    "supportsExceptionInfoRequest": True,
    "supportTerminateDebuggee": True,
    "exceptionBreakpointFilters": [
        {
            "filter": "inscription",
            "label": "Code that raises",
            "description": "Halt where a firing was undone because its code raised",
            "default": True,
        }
    ],
}


@dataclass(slots=True)
class _Source:
    """The breakpoints of a file, as the editor asked for them."""

    path: str
    asked: list[Mapping[str, Any]]
    ids: list[int]
    bound: list[BoundBreakpoint | None]
    """For a file that is a net."""
    is_net: bool


@dataclass(slots=True)
class _Stop:
    """Where and why the debug session is stopped."""

    reason: str
    element: str = ""
    text: str = ""
    exception: str = ""
    """The type of what was raised, and its traceback."""
    trace: str = ""
    thread: int | None = None
    """Debugpy's, when it is inside Python."""
    frames: list[Body] = field(default_factory=list)


class Adapter:
    """One debug session. `write` takes whole messages; `command` starts a debuggee."""

    def __init__(self, write: Callable[[bytes], None], command: Sequence[str]) -> None:
        self._write = write
        self._command = command
        self._seq = 0
        self._sources: dict[str, _Source] = {}
        self._next_breakpoint = 1
        self._python_ids: dict[int, int] = {}
        self._net: Net | None = None
        self._program = ""
        self._child: DebuggeeProcess | None = None
        self._python: PythonDebugger | None = None
        self._python_ready = False
        self._ready = asyncio.Event()
        self._configured = asyncio.Event()
        self._is_launched = False
        self._launch: Mapping[str, Any] = {}
        self._stops_on_errors = True
        self._stop: _Stop | None = None
        self._entry: int | None = None
        """A line at which to halt once, for a step into code."""
        self._stepping_from: str | None = None
        """The function in which a step of debugpy's began."""
        self._has_stale_step = False
        """Such a step was outlived by its function; debugpy does not know."""
        self._ended: Mapping[str, Any] | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._cancellable: set[asyncio.Task[None]] = set()
        self._gone = asyncio.Event()
        """The debuggee has ended."""
        self._over = asyncio.Event()
        """So has the session."""
        self._handlers: Mapping[str, Handler] = {
            "initialize": self._on_initialize,
            "launch": self._on_launch,
            "setBreakpoints": self._on_set_breakpoints,
            "breakpointLocations": self._on_breakpoint_locations,
            "setExceptionBreakpoints": self._on_set_exception_breakpoints,
            "configurationDone": self._on_configuration_done,
            "threads": self._on_threads,
            "stackTrace": self._on_stack_trace,
            "scopes": self._on_scopes,
            "variables": self._on_variables,
            "setVariable": self._on_set_variable,
            "evaluate": self._on_evaluate,
            "exceptionInfo": self._on_exception_info,
            "continue": self._on_continue,
            "next": self._on_next,
            "stepIn": self._on_step_in,
            "stepOut": self._on_step_out,
            "pause": self._on_pause,
            "terminate": self._on_terminate,
            "disconnect": self._on_disconnect,
            "customRequestResponse": self._on_bridge_answer,
        }

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Speak with the editor until it disconnects or is gone. Leaves no debuggee behind."""
        decoder = Decoder()
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._keep(self._tasks.create_task(self._read(reader, decoder)))
                await self._over.wait()
                if self._child is not None:
                    self._child.kill()  # `_watch` sees to it that it is gone
                for task in tuple(self._cancellable):
                    task.cancel()
        finally:
            if self._child is not None:
                self._child.close()
            if self._python is not None:
                await self._python.aclose()

    async def _read(self, reader: asyncio.StreamReader, decoder: Decoder) -> None:
        assert self._tasks is not None
        try:
            while data := await reader.read(1 << 16):
                for message in decoder.feed(data):
                    if message.get("type") == "request":
                        self._keep(self._tasks.create_task(self._answer(message)))
        finally:
            self._over.set()

    async def _answer(self, request: Message) -> None:
        command, arguments = str(request.get("command")), request.get("arguments") or {}
        answer: Message = {
            "type": "response",
            "request_seq": request.get("seq", 0),
            "command": command,
            "success": True,
        }
        try:
            handler = self._handlers.get(command)
            if handler is None:
                raise NotSupported(f"This debug adapter has no request '{command}'")
            body = await handler(arguments)
            if body is not None:
                answer["body"] = body
        except BasculeError as error:
            answer |= _refusal(error.message)
        except Exception as error:
            logger.exception("the request %s failed", command)
            answer |= _refusal(f"{type(error).__name__}: {error}")
        self._send(answer)
        if command == "initialize" and answer["success"]:
            self._event("initialized")
        elif command == "disconnect":
            self._over.set()

    # Beginning ----------------------------------------------------------------------------

    async def _on_initialize(self, arguments: Mapping[str, Any]) -> Body:
        for name in ("linesStartAt1", "columnsStartAt1"):
            if arguments.get(name) is False:
                raise NotSupported(f"Lines and columns count from 1 here; '{name}' has to be true")
        if arguments.get("pathFormat", "path") != "path":
            raise NotSupported("Files are named by their paths here; 'pathFormat' has to be 'path'")
        return CAPABILITIES

    async def _on_launch(self, arguments: Mapping[str, Any]) -> None:
        if self._is_launched:
            raise InvalidRequest("A net is debugged already; a session has one launch")
        self._is_launched = True
        try:
            await self._load(arguments)
        except BaseException:
            self._is_launched = False
            raise
        await self._start(arguments)

    async def _load(self, arguments: Mapping[str, Any]) -> None:
        program, cwd = arguments.get("program"), arguments.get("cwd")
        if not isinstance(program, str) or not program:
            raise InvalidRequest("The launch configuration names no 'program', the net to debug")
        if cwd is not None and not isinstance(cwd, str):
            raise InvalidRequest("The 'cwd' of the launch configuration is not a text")
        self._program = os.path.join(cwd or os.getcwd(), program)  # noqa: PTH109, PTH118
        self._net = await asyncio.to_thread(lambda: load(self._program).unwrap())
        self._launch = arguments

    async def _start(self, arguments: Mapping[str, Any]) -> None:
        debugs = not arguments.get("noDebug")
        options: Body = {
            name: arguments[name] for name in _OPTIONS if arguments.get(name) is not None
        }
        options["program"] = self._program
        self._child = DebuggeeProcess(self._on_child_event, self._on_output)
        if debugs:
            self._python = PythonDebugger(self._on_python_event)
            options["python"] = {"port": await self._python.listen(), "token": self._python.token}
        command = list(self._command)
        if arguments.get("python"):
            command[0] = str(arguments["python"])
        await self._child.start(
            command, options, cwd=arguments.get("cwd"), env=arguments.get("env") or {}
        )
        assert self._tasks is not None
        self._tasks.create_task(self._watch(self._child))
        if self._python is not None:
            await self._attach(self._python)
        await self._ready.wait()
        self._event(
            "process",
            {
                "name": self._program,
                "systemProcessId": self._child.pid,
                "isLocalProcess": True,
                "startMethod": "launch",
            },
        )
        await self._tell_breakpoints()
        self._spawn(self._begin())

    async def _attach(self, python: PythonDebugger) -> None:
        ended = asyncio.create_task(self._gone.wait())
        attached = asyncio.create_task(python.attach(OURS))
        await asyncio.wait([ended, attached], return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not attached.done():
            attached.cancel()
            raise UsageError("The net's process ended before it could be debugged")
        await attached
        self._python_ready = True
        await self._tell_python_breakpoints()
        await python.configured()

    async def _begin(self) -> None:
        await self._configured.wait()
        assert self._child is not None
        stops = bool(self._launch.get("stopOnEntry")) and self._python is not None
        await self._child.request("errors", stop=self._stops_on_errors and self._python is not None)
        await self._child.request("begin", stopOnEntry=stops)

    async def _on_configuration_done(self, _: Mapping[str, Any]) -> None:
        self._configured.set()

    # Breakpoints --------------------------------------------------------------------------

    async def _on_set_breakpoints(self, arguments: Mapping[str, Any]) -> Body:
        path = str((arguments.get("source") or {}).get("path") or "")
        if not path:
            raise InvalidRequest("Breakpoints are set in a file; the source has no path")
        asked = list(arguments.get("breakpoints") or [])
        lines = [_number(each, "line") for each in asked]
        net = await asyncio.to_thread(_net_at, path)
        source = _Source(
            path=path,
            asked=asked,
            ids=[self._new_id() for _ in asked],
            bound=[bind(net, line) if net else None for line in lines],
            is_net=net is not None,
        )
        self._sources[path] = source
        answers = [self._told(source, spot) for spot in range(len(asked))]
        if self._child is not None and self._ended is None:
            await self._tell_breakpoints()
            answers = self._with_python(source, answers, await self._tell_python_source(source))
        return {"breakpoints": answers}

    def _told(self, source: _Source, spot: int) -> Body:
        shape: Body = {"id": source.ids[spot], "source": {"path": source.path}}
        if source.is_net:
            return shape | described(source.bound[spot])
        return shape | {"verified": False, "line": source.asked[spot]["line"]}

    def _with_python(
        self, source: _Source, answers: list[Body], told: list[Mapping[str, Any]]
    ) -> list[Body]:
        """Debugpy's answer for the breakpoints in Python code."""
        for spot, answer in zip(self._code_spots(source), told, strict=False):
            for name in ("verified", "line", "message"):
                if name in answer:
                    answers[spot][name] = answer[name]
        return answers

    async def _on_breakpoint_locations(self, arguments: Mapping[str, Any]) -> Body:
        path = str((arguments.get("source") or {}).get("path") or "")
        net = await asyncio.to_thread(_net_at, path)
        if net is None:
            return {"breakpoints": []}
        start = _number(arguments, "line")
        end = _number(arguments, "endLine", default=start)
        lines = possible_lines(net, start, min(end, start + net.text.count("\n") + 1))
        return {"breakpoints": [{"line": line} for line in lines]}

    async def _on_set_exception_breakpoints(self, arguments: Mapping[str, Any]) -> Body:
        filters = arguments.get("filters") or []
        self._stops_on_errors = "inscription" in filters
        if self._child is not None and self._ready.is_set() and self._python is not None:
            await self._child.request("errors", stop=self._stops_on_errors)
        return {"breakpoints": [{"verified": each == "inscription"} for each in filters]}

    async def _tell_breakpoints(self) -> None:
        """Those at places and transitions, to the debuggee."""
        if self._child is None or not self._ready.is_set() or self._python is None:
            return
        told = [
            {
                "id": id_,
                "target": bound.target,
                "element": bound.element,
                **{name: asked.get(name) for name in ("condition", "hitCondition", "logMessage")},
            }
            for source in self._sources.values()
            if _same(source.path, self._program)
            for asked, id_, bound in zip(source.asked, source.ids, source.bound, strict=True)
            if bound is not None and bound.target is not BreakpointTarget.CODE
        ]
        await self._child.request("breakpoints", breakpoints=told)

    async def _tell_python_breakpoints(self) -> None:
        if self._program and not any(_same(path, self._program) for path in self._sources):
            self._sources[self._program] = _Source(self._program, [], [], [], is_net=True)
        for source in self._sources.values():
            await self._tell_python_source(source)

    async def _tell_python_source(self, source: _Source) -> list[Mapping[str, Any]]:
        """Those in Python, to debugpy; with the line a step into code is to halt at."""
        if self._python is None or not self._python_ready:
            return []
        spots = self._code_spots(source)
        wanted: list[Mapping[str, Any]] = [source.asked[spot] for spot in spots]
        if self._entry is not None and _same(source.path, self._program):
            wanted.append({"line": self._entry})
        path = self._program if _same(source.path, self._program) else source.path
        answer = await self._python.request(
            "setBreakpoints", {"source": {"path": path}, "breakpoints": wanted}
        )
        told: list[Mapping[str, Any]] = answer.get("breakpoints", [])
        for spot, each in zip(spots, told, strict=False):
            if "id" in each:
                self._python_ids[int(each["id"])] = source.ids[spot]
        return told[: len(spots)]

    def _code_spots(self, source: _Source) -> list[int]:
        if not source.is_net:
            return list(range(len(source.asked)))
        return [
            spot
            for spot, bound in enumerate(source.bound)
            if bound is not None and bound.target is BreakpointTarget.CODE
        ]

    def _new_id(self) -> int:
        self._next_breakpoint += 1
        return self._next_breakpoint - 1

    # Looking ------------------------------------------------------------------------------

    async def _on_threads(self, _: Mapping[str, Any]) -> Body:
        name = self._net.id if self._net is not None else "net"
        return {"threads": [{"id": THREAD, "name": name}]}

    async def _on_stack_trace(self, arguments: Mapping[str, Any]) -> Body:
        if arguments.get("threadId", THREAD) != THREAD:
            raise InvalidRequest(f"There is no thread {arguments['threadId']}; the net is {THREAD}")
        stop = self._ensure_stopped()
        frames = [*stop.frames, *self._net_frames(stop)]
        start = _number(arguments, "startFrame", default=0)
        count = _number(arguments, "levels", default=0) or len(frames)
        return {"stackFrames": frames[start : start + count], "totalFrames": len(frames)}

    def _net_frames(self, stop: _Stop) -> list[Body]:
        assert self._net is not None
        source = {"name": Path(self._program).name, "path": self._program}
        places, transitions = self._net.places, self._net.transitions
        frames: list[Body] = []
        for kind, nodes in (("place", places), ("transition", transitions)):
            for node in nodes.values():
                if node.id == stop.element:
                    name = f"{kind} {node.name or node.id}"
                    line = node.span.line
                    frames.append(_frame(_ELEMENT_FRAME, name, line, source))
        first = min((place.span.line for place in places.values()), default=1)
        frames.append(_frame(_NET_FRAME, f"net {self._net.id}", first, source))
        return frames

    async def _on_scopes(self, arguments: Mapping[str, Any]) -> Body:
        frame = _number(arguments, "frameId")
        self._ensure_stopped()
        if frame % 2:
            answer = await self._ask_python("scopes", {"frameId": frame // 2})
            return {"scopes": [_outward(scope) for scope in answer["scopes"]]}
        scopes = await self._ask("scopes")
        return {"scopes": [_even(scope) for scope in scopes]}

    async def _on_variables(self, arguments: Mapping[str, Any]) -> Body:
        reference = _number(arguments, "variablesReference")
        self._ensure_stopped()
        if reference % 2:
            inner = {**arguments, "variablesReference": reference // 2}
            answer = await self._ask_python("variables", inner)
            return {"variables": [_outward(each) for each in answer["variables"]]}
        found = await self._ask("variables", reference=reference // 2)
        return {"variables": [_even(each) for each in found]}

    async def _on_set_variable(self, arguments: Mapping[str, Any]) -> Body:
        reference = _number(arguments, "variablesReference")
        self._ensure_stopped()
        if reference % 2:
            inner = {**arguments, "variablesReference": reference // 2}
            return _outward(await self._ask_python("setVariable", inner))
        name, value = _text(arguments, "name"), _text(arguments, "value")
        new = await self._ask("set", reference=reference // 2, name=name, value=value)
        return _chosen(_even(new), "value", "type", "variablesReference")

    async def _on_evaluate(self, arguments: Mapping[str, Any]) -> Body:
        stop = self._ensure_stopped()
        expression = _text(arguments, "expression")
        frame = _number(arguments, "frameId", default=0)
        if not frame and stop.frames:
            frame = stop.frames[0]["id"]
        if frame % 2:
            answer = await self._ask_python("evaluate", {**arguments, "frameId": frame // 2})
            return _outward(answer)
        found = _even(await self._ask("evaluate", expression=expression))
        return {"result": found["value"], **_chosen(found, "type", "variablesReference")}

    async def _on_exception_info(self, _: Mapping[str, Any]) -> Body:
        stop = self._ensure_stopped()
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

    # Going on -----------------------------------------------------------------------------

    async def _on_continue(self, _: Mapping[str, Any]) -> Body:
        stop = self._leave()
        self._stepping_from = None
        if stop.thread is not None:
            await self._ask("run_code")
            await self._leave_code("continue", stop.thread)
        else:
            await self._ask("continue")
        return {"allThreadsContinued": True}

    async def _on_next(self, _: Mapping[str, Any]) -> None:
        await self._step("next")

    async def _on_step_out(self, _: Mapping[str, Any]) -> None:
        await self._step("stepOut")

    async def _on_step_in(self, _: Mapping[str, Any]) -> None:
        stop = self._ensure_stopped()
        assert self._net is not None
        if stop.thread is None and self._python is not None:
            self._entry = entry_line(self._net, stop.element)
            if self._entry is not None:
                await self._tell_python_breakpoints()
        await self._step("stepIn")

    async def _step(self, command: str) -> None:
        """One firing; inside Python, one line, and out of it to the next firing."""
        stop = self._leave()
        if stop.thread is None:
            await self._ask("step")
            return
        self._stepping_from = stop.frames[-1]["name"] if stop.frames else None
        await self._ask("step_code")
        await self._leave_code(command, stop.thread)

    async def _leave_code(self, command: str, thread: int) -> None:
        await self._ask("code", halted=False)
        await self._ask_python(command, {"threadId": thread})

    async def _on_pause(self, _: Mapping[str, Any]) -> None:
        if self._stop is not None:
            return
        where = await self._ask("where")
        if where["isInCode"] and self._python is not None:
            await self._ask_python("pause", {"threadId": THREAD})
        else:
            await self._ask("pause")

    async def _on_terminate(self, _: Mapping[str, Any]) -> None:
        stop, self._stop = self._stop, None
        if self._child is None or self._ended is not None:
            return
        if stop is not None and stop.thread is not None:
            self._child.kill()  # it stands in the middle of code, which nothing can end gently
            return
        # Not waited for: a net that evaluates something without end does not answer.
        self._spawn(self._ask("stop"))
        asyncio.get_running_loop().call_later(_GRACE, self._child.kill)

    async def _on_disconnect(self, _: Mapping[str, Any]) -> None:
        if self._child is not None:
            self._child.kill()

    async def _on_bridge_answer(self, arguments: Mapping[str, Any]) -> None:
        await self._ask("bridge", arguments=dict(arguments))

    # What happens -------------------------------------------------------------------------

    def _on_child_event(self, event: str, body: Mapping[str, Any]) -> None:
        match event:
            case "ready":
                self._ready.set()
            case "stopped":
                self._stopped_between_firings(body)
            case "bridge":
                self._event("customRequest", body["body"])
            case "output":
                self._on_output("console", body["text"])
            case "ended":
                self._ended = body

    def _on_output(self, category: str, text: str) -> None:
        self._event("output", {"category": category, "output": text})

    def _on_python_event(self, event: str, body: Mapping[str, Any]) -> None:
        if event == "stopped" and self._tasks is not None:
            self._spawn(self._stopped_in_python(body))
        elif event == "output" and body.get("category") != "telemetry":
            # Log points, and conditions that raise. What the net prints comes by its own pipes.
            self._on_output("console", str(body.get("output") or ""))

    def _stopped_between_firings(self, body: Mapping[str, Any]) -> None:
        # The code that was stepped through is over; debugpy would go on stepping in the next.
        self._has_stale_step = self._has_stale_step or self._stepping_from is not None
        self._stepping_from = None
        stop = _Stop(
            body["reason"], body["element"], body["text"], body["exception"], body["trace"]
        )
        self._stopped(stop, body["breakpoints"])

    async def _stopped_in_python(self, body: Mapping[str, Any]) -> None:
        thread = int(body["threadId"])
        reason = str(body["reason"])
        frames = await self._python_frames(thread)
        if self._is_past(reason, frames):
            # The code that was stepped through is over; this is another's. The net halts next.
            await self._ask_python("continue", {"threadId": thread})
            return
        if self._entry is not None:
            self._entry, reason = None, "step"
            await self._tell_python_breakpoints()
        await self._ask("code", halted=True)
        hits = [
            self._python_ids[each]
            for each in body.get("hitBreakpointIds") or []
            if each in self._python_ids
        ]
        text = str(body.get("text") or "")
        element = self._fired_at(frames)
        self._stopped(_Stop(reason, element, text, thread=thread, frames=frames), hits)

    def _fired_at(self, frames: Sequence[Body]) -> str:
        """The transition whose code was called first."""
        assert self._net is not None
        return transition_at(self._net, frames[-1]["line"]) if frames else ""

    def _is_past(self, reason: str, frames: Sequence[Body]) -> bool:
        came_from, self._stepping_from = self._stepping_from, None
        is_stale, self._has_stale_step = self._has_stale_step, False
        if reason != "step" or self._entry is not None:
            return False
        function = frames[-1]["name"] if frames else None
        return is_stale or (came_from is not None and function != came_from)

    async def _python_frames(self, thread: int) -> list[Body]:
        """Those of the net and what it calls, down to where our own code called it."""
        answer = await self._ask_python("stackTrace", {"threadId": thread})
        frames = []
        for frame in answer["stackFrames"]:
            path = str((frame.get("source") or {}).get("path") or "")
            if path.startswith(OURS):
                break
            frames.append({**frame, "id": 2 * frame["id"] + 1})
        return frames

    def _stopped(self, stop: _Stop, breakpoints: Sequence[int]) -> None:
        self._stop = stop
        body: Body = {
            "reason": stop.reason,
            "threadId": THREAD,
            "allThreadsStopped": True,
        }
        if stop.text:
            body |= {"text": stop.text, "description": "Code raised"}
        if breakpoints:
            body["hitBreakpointIds"] = list(breakpoints)
        self._event("stopped", body)

    async def _watch(self, child: DebuggeeProcess) -> None:
        """Send the end of the session after all output was sent."""
        status = await child.wait()
        self._gone.set()
        self._stop = None
        self._ready.set()
        ended, self._ended = self._ended, self._ended or {}
        if ended is None:
            self._on_output("console", f"{self._net.id if self._net else 'net'}: was ended\n")
        else:
            if ended["error"]:
                self._on_output("stderr", f"{ended['error']}\n")
            self._on_output("console", _summary(self._net, ended))
        self._event("exited", {"exitCode": status})
        self._event("terminated")

    # --------------------------------------------------------------------------------------

    def _ensure_stopped(self) -> _Stop:
        if self._stop is None:
            raise UsageError("The net is not halted")
        return self._stop

    def _leave(self) -> _Stop:
        stop = self._ensure_stopped()
        self._stop = None
        return stop

    async def _ask(self, do: str, **more: Any) -> Any:
        if self._child is None:
            raise UsageError("There is no net yet; launch one")
        return await self._child.request(do, **more)

    async def _ask_python(self, command: str, arguments: Mapping[str, Any]) -> Body:
        if self._python is None:
            raise UsageError("The net runs without debugging")
        return await self._python.request(command, arguments)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Work that nobody waits for. The debuggee may end in the middle of it, at any time."""

        async def guarded() -> None:
            try:
                await work
            except SandboxDied:
                logger.debug("the debuggee ended meanwhile")

        assert self._tasks is not None
        self._keep(self._tasks.create_task(guarded()))

    def _keep(self, task: asyncio.Task[None]) -> None:
        """One of those that end with the session, whatever they wait for."""
        self._cancellable.add(task)
        task.add_done_callback(self._cancellable.discard)

    def _event(self, event: str, body: Mapping[str, Any] | None = None) -> None:
        message: Message = {"type": "event", "event": event}
        if body is not None:
            message["body"] = dict(body)
        self._send(message)

    def _send(self, message: Message) -> None:
        self._seq += 1
        self._write(encode({"seq": self._seq, **message}))


def _net_at(path: str) -> Net | None:
    if not path.endswith((".yaml", ".yml", ".pnml")):
        return None
    return load(path).net


_REQUIRED: Final = object()


def _number(arguments: Mapping[str, Any], name: str, *, default: Any = _REQUIRED) -> int:
    value = arguments.get(name)
    if value is None and default is not _REQUIRED:
        return int(default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"The request needs '{name}', a whole number, and has {value!r}")
    return value


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise InvalidRequest(f"The request needs '{name}', a text, and has {value!r}")
    return value


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _frame(number: int, name: str, line: int, source: Body) -> Body:
    return {"id": number, "name": name, "line": line, "column": 1, "source": source}


def _even(shape: Body) -> Body:
    return {**shape, "variablesReference": 2 * shape["variablesReference"]}


def _outward(shape: Body) -> Body:
    """A scope, variable or result of debugpy's, in our numbers."""
    reference = shape.get("variablesReference") or 0
    return {**shape, "variablesReference": 2 * reference + 1 if reference else 0}


def _chosen(shape: Body, *names: str) -> Body:
    return {name: shape[name] for name in names if name in shape}


def _refusal(message: str) -> Body:
    return {
        "success": False,
        "message": message,
        "body": {"error": {"id": 1, "format": message, "showUser": False}},
    }


def _summary(net: Net | None, ended: Mapping[str, Any]) -> str:
    firings = "1 firing" if ended["firings"] == 1 else f"{ended['firings']} firings"
    lines = [f"{net.id if net else 'net'}: {ended['outcome']} after {firings}"]
    lines += [f"  {place}  {tokens}" for place, tokens in ended["marking"].items()]
    return "\n".join(lines) + "\n"
