"""The debug adapter: carries out the editor's requests on the net.

The editor sees one thread, the net. While the net is halted inside Python code, debugpy carries out
steps. Otherwise the debuggee carries them out.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from bascule.core.errors import InvalidRequest, NotSupported, SandboxDied, UsageError
from bascule.net import Net, load

from .breakpoints import entry_line, possible_lines, transition_at
from .dap_server import Body, DapServer, Handler, number_in
from .debuggee import BASCULE_DIRS
from .net_inspector import THREAD, NetInspector, Stop
from .process import DebuggeeProcess
from .python import PythonDebugger
from .source_breakpoints import SourceBreakpoints, SourceFile, is_same_file

logger = logging.getLogger(__name__)

_GRACE_SECONDS: Final = 2.0
"""Seconds for a net to end after a `terminate` request, before it is killed."""
_RUN_OPTIONS: Final = ("policy", "seed", "maxFirings", "timeout", "trace")

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


class Adapter:
    """One debug session. `write` sends one whole message at each call. `command` starts a
    debuggee."""

    def __init__(self, write: Callable[[bytes], None], command: Sequence[str]) -> None:
        self._editor = DapServer(write)
        self._command = command
        self._breakpoints = SourceBreakpoints()
        self._inspector = NetInspector(self._request, self._request_python)
        self._child: DebuggeeProcess | None = None
        self._python: PythonDebugger | None = None
        self._python_ready = False
        self._ready = asyncio.Event()
        self._configured = asyncio.Event()
        self._is_launched = False
        self._launch_arguments: Mapping[str, Any] = {}
        self._stops_on_errors = True
        self._entry_line: int | None = None
        """A line at which to halt once, for a step into code."""
        self._stepping_function: str | None = None
        """The function in which a debugpy step began."""
        self._has_stale_step = False
        """Whether the function of such a step has returned while debugpy is still stepping."""
        self._ended: Mapping[str, Any] | None = None
        self._debuggee_ended = asyncio.Event()
        """An event that is set when the debuggee has ended."""
        self._handlers: Mapping[str, Handler] = {
            "initialize": self._on_initialize,
            "launch": self._on_launch,
            "setBreakpoints": self._on_set_breakpoints,
            "breakpointLocations": self._on_breakpoint_locations,
            "setExceptionBreakpoints": self._on_set_exception_breakpoints,
            "configurationDone": self._on_configuration_done,
            "threads": self._inspector.on_threads,
            "stackTrace": self._inspector.on_stack_trace,
            "scopes": self._inspector.on_scopes,
            "variables": self._inspector.on_variables,
            "setVariable": self._inspector.on_set_variable,
            "evaluate": self._inspector.on_evaluate,
            "exceptionInfo": self._inspector.on_exception_info,
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
        """Serve the editor until it disconnects or exits. Then no debuggee is left running."""
        try:
            await self._editor.serve(reader, self._handlers, on_close=self._kill_child)
        finally:
            if self._child is not None:
                self._child.close()
            if self._python is not None:
                await self._python.aclose()

    def _kill_child(self) -> None:
        """Kill the debuggee; `_watch` waits until it has exited."""
        if self._child is not None:
            self._child.kill()

    # Launch --------------------------------------------------------------------------------

    async def _on_initialize(self, arguments: Mapping[str, Any]) -> Body:
        for name in ("linesStartAt1", "columnsStartAt1"):
            if arguments.get(name) is False:
                raise NotSupported(f"Lines and columns count from 1 here; '{name}' must be true")
        if arguments.get("pathFormat", "path") != "path":
            raise NotSupported("Files are named by their paths here; 'pathFormat' must be 'path'")
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
            raise InvalidRequest("The 'cwd' of the launch configuration is not a string")
        self._inspector.program = os.path.join(cwd or os.getcwd(), program)  # noqa: PTH109, PTH118
        self._inspector.net = await asyncio.to_thread(
            lambda: load(self._inspector.program).unwrap()
        )
        self._launch_arguments = arguments

    async def _start(self, arguments: Mapping[str, Any]) -> None:
        is_debugging = not arguments.get("noDebug")
        options: Body = {
            name: arguments[name] for name in _RUN_OPTIONS if arguments.get(name) is not None
        }
        options["program"] = self._inspector.program
        self._child = DebuggeeProcess(self._on_child_event, self._on_output)
        if is_debugging:
            self._python = PythonDebugger(self._on_python_event)
            options["python"] = {"port": await self._python.listen(), "token": self._python.token}
        command = list(self._command)
        if arguments.get("python"):
            command[0] = str(arguments["python"])
        await self._child.start(
            command, options, cwd=arguments.get("cwd"), env=arguments.get("env") or {}
        )
        self._editor.run_to_end(self._watch(self._child))
        if self._python is not None:
            await self._attach(self._python)
        await self._ready.wait()
        self._editor.event(
            "process",
            {
                "name": self._inspector.program,
                "systemProcessId": self._child.pid,
                "isLocalProcess": True,
                "startMethod": "launch",
            },
        )
        await self._send_breakpoints()
        self._spawn(self._begin())

    async def _attach(self, python: PythonDebugger) -> None:
        ended = asyncio.create_task(self._debuggee_ended.wait())
        attached = asyncio.create_task(python.attach(BASCULE_DIRS))
        await asyncio.wait([ended, attached], return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not attached.done():
            attached.cancel()
            raise UsageError("The net's process ended before it could be debugged")
        await attached
        self._python_ready = True
        await self._send_python_breakpoints()
        await python.finish_configuration()

    async def _begin(self) -> None:
        await self._configured.wait()
        assert self._child is not None
        stop_on_entry = bool(self._launch_arguments.get("stopOnEntry")) and self._python is not None
        await self._child.request("errors", stop=self._stops_on_errors and self._python is not None)
        await self._child.request("begin", stopOnEntry=stop_on_entry)

    async def _on_configuration_done(self, _: Mapping[str, Any]) -> None:
        self._configured.set()

    # Breakpoints ---------------------------------------------------------------------------

    async def _on_set_breakpoints(self, arguments: Mapping[str, Any]) -> Body:
        path = str((arguments.get("source") or {}).get("path") or "")
        if not path:
            raise InvalidRequest("Breakpoints are set in a file; the source has no path")
        asked = list(arguments.get("breakpoints") or [])
        file = self._breakpoints.set(path, asked, await asyncio.to_thread(_net_at, path))
        from_python: Sequence[Mapping[str, Any]] = ()
        if self._child is not None and self._ended is None:
            await self._send_breakpoints()
            from_python = await self._send_python_file(file)
        return {"breakpoints": file.answers(from_python)}

    async def _on_breakpoint_locations(self, arguments: Mapping[str, Any]) -> Body:
        path = str((arguments.get("source") or {}).get("path") or "")
        net = await asyncio.to_thread(_net_at, path)
        if net is None:
            return {"breakpoints": []}
        start = number_in(arguments, "line")
        end = number_in(arguments, "endLine", default=start)
        lines = possible_lines(net, start, min(end, start + net.text.count("\n") + 1))
        return {"breakpoints": [{"line": line} for line in lines]}

    async def _on_set_exception_breakpoints(self, arguments: Mapping[str, Any]) -> Body:
        filters = arguments.get("filters") or []
        self._stops_on_errors = "inscription" in filters
        if self._child is not None and self._ready.is_set() and self._python is not None:
            await self._child.request("errors", stop=self._stops_on_errors)
        return {"breakpoints": [{"verified": each == "inscription"} for each in filters]}

    async def _send_breakpoints(self) -> None:
        """Send the debuggee the breakpoints at places and transitions."""
        if self._child is None or not self._ready.is_set() or self._python is None:
            return
        breakpoints = self._breakpoints.for_debuggee(self._inspector.program)
        await self._child.request("breakpoints", breakpoints=breakpoints)

    async def _send_python_breakpoints(self) -> None:
        self._breakpoints.ensure_net(self._inspector.program)
        for file in self._breakpoints:
            await self._send_python_file(file)

    async def _send_python_file(self, file: SourceFile) -> Sequence[Mapping[str, Any]]:
        """Send debugpy the breakpoints of a file in Python code, and return its answers.

        This includes the line at which a step into code stops.
        """
        if self._python is None or not self._python_ready:
            return []
        is_program = is_same_file(file.path, self._inspector.program)
        indices = file.python_indices()
        wanted: list[Mapping[str, Any]] = [file.requested[index] for index in indices]
        if self._entry_line is not None and is_program:
            wanted.append({"line": self._entry_line})
        path = self._inspector.program if is_program else file.path
        answer = await self._python.request(
            "setBreakpoints", {"source": {"path": path}, "breakpoints": wanted}
        )
        verified: list[Mapping[str, Any]] = answer.get("breakpoints", [])
        self._breakpoints.record_python_ids(file, verified)
        return verified[: len(indices)]

    # Steps ---------------------------------------------------------------------------------

    async def _on_continue(self, _: Mapping[str, Any]) -> Body:
        stop = self._inspector.leave()
        self._stepping_function = None
        if stop.thread is not None:
            await self._request("run_code")
            await self._leave_code("continue", stop.thread)
        else:
            await self._request("continue")
        return {"allThreadsContinued": True}

    async def _on_next(self, _: Mapping[str, Any]) -> None:
        await self._step("next")

    async def _on_step_out(self, _: Mapping[str, Any]) -> None:
        await self._step("stepOut")

    async def _on_step_in(self, _: Mapping[str, Any]) -> None:
        stop = self._inspector.ensure_stopped()
        assert self._inspector.net is not None
        if stop.thread is None and self._python is not None:
            self._entry_line = entry_line(self._inspector.net, stop.element)
            if self._entry_line is not None:
                await self._send_python_breakpoints()
        await self._step("stepIn")

    async def _step(self, command: str) -> None:
        """Step over one firing. Inside Python code, step over one line; at the end of the code,
        step to the next firing."""
        stop = self._inspector.leave()
        if stop.thread is None:
            await self._request("step")
            return
        self._stepping_function = stop.frames[-1]["name"] if stop.frames else None
        await self._request("step_code")
        await self._leave_code(command, stop.thread)

    async def _leave_code(self, command: str, thread: int) -> None:
        await self._request("code", halted=False)
        await self._request_python(command, {"threadId": thread})

    async def _on_pause(self, _: Mapping[str, Any]) -> None:
        if self._inspector.stop is not None:
            return
        position = await self._request("where")
        if position["isInCode"] and self._python is not None:
            await self._request_python("pause", {"threadId": THREAD})
        else:
            await self._request("pause")

    async def _on_terminate(self, _: Mapping[str, Any]) -> None:
        stop, self._inspector.stop = self._inspector.stop, None
        if self._child is None or self._ended is not None:
            return
        if stop is not None and stop.thread is not None:
            self._child.kill()  # the net is halted inside code, which cannot end gracefully
            return
        # Do not wait: a net in an endless loop does not answer.
        self._spawn(self._request("stop"))
        asyncio.get_running_loop().call_later(_GRACE_SECONDS, self._child.kill)

    async def _on_disconnect(self, _: Mapping[str, Any]) -> None:
        self._kill_child()

    async def _on_bridge_answer(self, arguments: Mapping[str, Any]) -> None:
        await self._request("bridge", arguments=dict(arguments))

    # Events --------------------------------------------------------------------------------

    def _on_child_event(self, event: str, body: Mapping[str, Any]) -> None:
        match event:
            case "ready":
                self._ready.set()
            case "stopped":
                self._stopped_between_firings(body)
            case "bridge":
                self._editor.event("customRequest", body["body"])
            case "output":
                self._on_output("console", body["text"])
            case "ended":
                self._ended = body

    def _on_output(self, category: str, text: str) -> None:
        self._editor.event("output", {"category": category, "output": text})

    def _on_python_event(self, event: str, body: Mapping[str, Any]) -> None:
        if event == "stopped":
            self._spawn(self._stopped_in_python(body))
        elif event == "output" and body.get("category") != "telemetry":
            # Log points, and conditions that raise. The net's own output arrives by its pipes.
            self._on_output("console", str(body.get("output") or ""))

    def _stopped_between_firings(self, body: Mapping[str, Any]) -> None:
        # The stepped code has ended, but debugpy would continue the step in the next code.
        self._has_stale_step = self._has_stale_step or self._stepping_function is not None
        self._stepping_function = None
        stop = Stop(body["reason"], body["element"], body["text"], body["exception"], body["trace"])
        self._stopped(stop, body["breakpoints"])

    async def _stopped_in_python(self, body: Mapping[str, Any]) -> None:
        thread = int(body["threadId"])
        reason = str(body["reason"])
        frames = await self._inspector.python_frames(thread)
        if self._is_after_stepped_code(reason, frames):
            # The stepped code has ended; this stop is in other code. The net itself halts next.
            await self._request_python("continue", {"threadId": thread})
            return
        if self._entry_line is not None:
            self._entry_line, reason = None, "step"
            await self._send_python_breakpoints()
        await self._request("code", halted=True)
        hits = self._breakpoints.ids_of(body.get("hitBreakpointIds") or [])
        text = str(body.get("text") or "")
        element = self._transition_of(frames)
        self._stopped(Stop(reason, element, text, thread=thread, frames=frames), hits)

    def _transition_of(self, frames: Sequence[Body]) -> str:
        """The transition whose code is in the outermost frame."""
        assert self._inspector.net is not None
        return transition_at(self._inspector.net, frames[-1]["line"]) if frames else ""

    def _is_after_stepped_code(self, reason: str, frames: Sequence[Body]) -> bool:
        came_from, self._stepping_function = self._stepping_function, None
        is_stale, self._has_stale_step = self._has_stale_step, False
        if reason != "step" or self._entry_line is not None:
            return False
        function = frames[-1]["name"] if frames else None
        return is_stale or (came_from is not None and function != came_from)

    def _stopped(self, stop: Stop, breakpoints: Sequence[int]) -> None:
        self._inspector.stop = stop
        body: Body = {
            "reason": stop.reason,
            "threadId": THREAD,
            "allThreadsStopped": True,
        }
        if stop.text:
            body |= {"text": stop.text, "description": "Code raised"}
        if breakpoints:
            body["hitBreakpointIds"] = list(breakpoints)
        self._editor.event("stopped", body)

    async def _watch(self, child: DebuggeeProcess) -> None:
        """Send the end of the session after all output was sent."""
        status = await child.wait()
        self._debuggee_ended.set()
        self._inspector.stop = None
        self._ready.set()
        ended, self._ended = self._ended, self._ended or {}
        if ended is None:
            self._on_output("console", f"{self._inspector.net_name}: was ended\n")
        else:
            if ended["error"]:
                self._on_output("stderr", f"{ended['error']}\n")
            self._on_output("console", _summary(self._inspector.net_name, ended))
        self._editor.event("exited", {"exitCode": status})
        self._editor.event("terminated")

    # --------------------------------------------------------------------------------------

    async def _request(self, do: str, **params: Any) -> Any:
        if self._child is None:
            raise UsageError("There is no net yet; launch one")
        return await self._child.request(do, **params)

    async def _request_python(self, command: str, arguments: Mapping[str, Any]) -> Body:
        if self._python is None:
            raise UsageError("The net runs without debugging")
        return await self._python.request(command, arguments)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run `work` in the background. If the debuggee ends meanwhile, `work` ends without an
        error."""

        async def guarded() -> None:
            try:
                await work
            except SandboxDied:
                logger.debug("the debuggee ended meanwhile")

        self._editor.start(guarded())


def _net_at(path: str) -> Net | None:
    if not path.endswith((".yaml", ".yml", ".pnml")):
        return None
    return load(path).net


def _summary(net_name: str, ended: Mapping[str, Any]) -> str:
    firings = "1 firing" if ended["firings"] == 1 else f"{ended['firings']} firings"
    lines = [f"{net_name}: {ended['outcome']} after {firings}"]
    lines += [f"  {place}  {tokens}" for place, tokens in ended["marking"].items()]
    return "\n".join(lines) + "\n"
