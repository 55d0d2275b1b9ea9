"""The process in which a net runs while it is debugged."""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bascule.core.errors import InvalidRequest, UsageError
from bascule.net import Net, RunLimits, Runner, RunResult, policy_named
from bascule.net.trace import Listener, RunOutcome, tokens_by_place, trace_writer

from .breakpoints import BreakpointTarget
from .control import ControlLine
from .step_controller import Breakpoint, Mode, StepController


class Debuggee:
    """Runs one net under the control of the adapter at the other end of `connection`.

    `send_bridge_request` sends requests of the net's code to the editor; `on_bridge` gets the
    answers.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._line = ControlLine(connection)
        self._controller = StepController(self._line.send_event)
        self._runner: Runner | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._go = threading.Event()
        self._is_ended = False
        self._is_stopped = False
        self.on_bridge: Callable[[Mapping[str, Any]], None] = _no_request

    def options(self) -> dict[str, Any]:
        """The run configuration, which the adapter sends once as its first message."""
        return self._line.options()

    def send_bridge_request(self, body: Mapping[str, Any]) -> None:
        """Send a bridge request of the net's code to the editor."""
        self._line.send_event("bridge", {"body": dict(body)})

    def run(self, net: Net, bridge: object, options: Mapping[str, Any]) -> int:
        """Wait for the `begin` request, run the net, and return the exit status."""
        if options.get("python"):
            _connect_debugpy(options["python"])
        threading.Thread(target=self._serve, name="debug-control", daemon=True).start()
        self._line.send_event("ready", {})
        self._go.wait()
        if self._is_stopped:  # a `stop` request arrived before `begin`
            self._is_ended = True
            return RunOutcome.CANCELLED.exit_status
        seed = options.get("seed")
        policy = "random" if seed is not None else options.get("policy", "first")
        limits = RunLimits(options.get("maxFirings", RunLimits().firings), options.get("timeout"))
        with _tracing(options.get("trace")) as listeners:
            self._runner = Runner(
                net,
                bridge,
                policy=policy_named(policy, seed),
                limits=limits,
                listeners=listeners,
                hook=self._controller,
            )
            self._controller.attach(self._runner)
            result = asyncio.run(self._run(self._runner))
        self._is_ended = True
        sys.stdout.flush()
        sys.stderr.flush()
        self._line.send_event("ended", _ended_body(result))
        return result.outcome.exit_status

    async def _run(self, runner: Runner) -> RunResult:
        self._loop = asyncio.get_running_loop()
        return await runner.run()

    def _serve(self) -> None:
        # debugpy must not halt this thread, which serves the requests that resume the others.
        thread: Any = threading.current_thread()
        thread.pydev_do_not_trace = True
        thread.is_pydev_daemon_thread = True
        self._line.serve(self._handle)
        if not self._is_ended:
            os._exit(1)  # no adapter is left to resume a halted net

    def _handle(self, command: str, request: Mapping[str, Any]) -> Any:
        controller = self._controller
        match command:
            case "begin":
                controller.stop_on_entry = bool(request.get("stopOnEntry"))
                self._go.set()
            case "breakpoints":
                controller.breakpoints = [_breakpoint(each) for each in request["breakpoints"]]
            case "errors":
                controller.stops_on_errors = bool(request["stop"])
            case "continue":
                controller.resume(Mode.RUN)
            case "step":
                controller.resume(Mode.STEP)
            case "step_code":
                controller.step_code()
            case "run_code":
                controller.run_code()
            case "pause":
                self._pause()
            case "where":
                return {"isInCode": self._runner is not None and self._runner.is_in_code}
            case "code":
                controller.is_in_code = bool(request["halted"])
                controller.handles.clear()
            case "scopes":
                return controller.scopes()
            case "variables":
                return controller.variables(int(request["reference"]))
            case "set":
                return controller.set_variable(
                    int(request["reference"]), request["name"], request["value"]
                )
            case "evaluate":
                return controller.evaluate(request["expression"])
            case "bridge":
                self.on_bridge(request["arguments"])
            case "stop":
                self._stop()
            case _:
                raise InvalidRequest(f"A debuggee cannot {command}")
        return None

    def _pause(self) -> None:
        self._controller.pause()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._controller.pause_now)

    def _stop(self) -> None:
        """End the run like an interrupt. Returns at once, even if code blocks the event loop."""
        self._is_stopped = True
        if self._loop is not None and self._runner is not None:
            self._loop.call_soon_threadsafe(self._runner.interrupt)
        self._controller.breakpoints = ()
        self._controller.stops_on_errors = False
        self._controller.resume(Mode.RUN)
        self._go.set()


@contextmanager
def _tracing(path: str | None) -> Iterator[list[Listener]]:
    if not path:
        yield []
        return
    with Path(path).open("w", encoding="utf-8") as file:
        yield [trace_writer(file)]


def _no_request(_: Mapping[str, Any]) -> None:
    raise UsageError("The net has no request in progress")


def _breakpoint(data: Mapping[str, Any]) -> Breakpoint:
    return Breakpoint(
        id=data["id"],
        target=BreakpointTarget(data["target"]),
        element=data["element"],
        condition=data.get("condition") or "",
        hit_condition=data.get("hitCondition") or "",
        log_message=data.get("logMessage") or "",
    )


def _ended_body(result: RunResult) -> dict[str, Any]:
    return {
        "outcome": str(result.outcome),
        "firings": result.firings,
        "marking": tokens_by_place(result.marking),
        "status": result.outcome.exit_status,
        "error": result.error.message if result.error is not None else "",
    }


def _connect_debugpy(python: Mapping[str, Any]) -> None:
    """Connect debugpy to the adapter, which then debugs the net's code. The token authenticates
    this process."""
    import debugpy

    debugpy.connect(("127.0.0.1", int(python["port"])), access_token=str(python["token"]))
    debugpy.wait_for_client()
    # By default debugpy neither reports a NameError in a condition nor halts for it.
    debugger = importlib.import_module("pydevd").get_global_debugger()
    debugger.skip_print_breakpoint_exception = ()
    debugger.skip_suspend_on_breakpoint_exception = ()


BASCULE_DIRS = (str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "vscode_bridge"))
"""Directories of Bascule's own code, which a debugger steps over."""
