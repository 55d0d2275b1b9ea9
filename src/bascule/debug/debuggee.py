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
from bascule.net.trace import Listener, RunOutcome, shown, writing

from .breakpoints import BreakpointTarget
from .control import ControlLine
from .step_controller import Breakpoint, Mode, StepController


class Debuggee:
    """Runs one net under the control of the adapter at the other end of `connection`.

    `on_bridge` is given what the editor answers to questions that code in the net asked; those
    leave by `ask`.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._line = ControlLine(connection)
        self._controller = StepController(self._line.tell)
        self._runner: Runner | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._go = threading.Event()
        self._is_ended = False
        self._is_stopped = False
        self.on_bridge: Callable[[Mapping[str, Any]], None] = _nobody

    def options(self) -> dict[str, Any]:
        """The run configuration, which the adapter sends once as its first message."""
        return self._line.options()

    def ask(self, body: Mapping[str, Any]) -> None:
        """Have the editor asked something."""
        self._line.tell("bridge", {"body": dict(body)})

    def run(self, net: Net, bridge: object, options: Mapping[str, Any]) -> int:
        """Wait for the word to begin, run, and return the status to exit with."""
        if options.get("python"):
            _connect_debugpy(options["python"])
        threading.Thread(target=self._serve, name="debug-control", daemon=True).start()
        self._line.tell("ready", {})
        self._go.wait()
        if self._is_stopped:  # told to end before it had begun
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
        self._line.tell("ended", _ended(result))
        return result.outcome.exit_status

    async def _run(self, runner: Runner) -> RunResult:
        self._loop = asyncio.get_running_loop()
        return await runner.run()

    def _serve(self) -> None:
        # A debugger that halts all threads must leave this one alone: it lets them go on.
        thread: Any = threading.current_thread()
        thread.pydev_do_not_trace = True
        thread.is_pydev_daemon_thread = True
        self._line.serve(self._handle)
        if not self._is_ended:
            os._exit(1)  # nobody is left to let a halted net go on

    def _handle(self, what: str, asked: Mapping[str, Any]) -> Any:
        controller = self._controller
        match what:
            case "begin":
                controller.stop_on_entry = bool(asked.get("stopOnEntry"))
                self._go.set()
            case "breakpoints":
                controller.breakpoints = [_breakpoint(each) for each in asked["breakpoints"]]
            case "errors":
                controller.stops_on_errors = bool(asked["stop"])
            case "continue":
                controller.go_on(Mode.RUN)
            case "step":
                controller.go_on(Mode.STEP)
            case "step_code":
                controller.step_code()
            case "run_code":
                controller.run_code()
            case "pause":
                self._pause()
            case "where":
                return {"isInCode": self._runner is not None and self._runner.is_in_code}
            case "code":
                controller.is_in_code = bool(asked["halted"])
                controller.handles.clear()
            case "scopes":
                return controller.scopes()
            case "variables":
                return controller.variables(int(asked["reference"]))
            case "set":
                return controller.set_variable(
                    int(asked["reference"]), asked["name"], asked["value"]
                )
            case "evaluate":
                return controller.evaluate(asked["expression"])
            case "bridge":
                self.on_bridge(asked["arguments"])
            case "stop":
                self._stop()
            case _:
                raise InvalidRequest(f"A debuggee cannot {what}")
        return None

    def _pause(self) -> None:
        self._controller.pause()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._controller.pause_now)

    def _stop(self) -> None:
        """End the run as an interrupt would; code that does not await is not waited for."""
        self._is_stopped = True
        if self._loop is not None and self._runner is not None:
            self._loop.call_soon_threadsafe(self._runner.interrupt)
        self._controller.breakpoints = ()
        self._controller.stops_on_errors = False
        self._controller.go_on(Mode.RUN)
        self._go.set()


@contextmanager
def _tracing(path: str | None) -> Iterator[list[Listener]]:
    if not path:
        yield []
        return
    with Path(path).open("w", encoding="utf-8") as file:
        yield [writing(file)]


def _nobody(_: Mapping[str, Any]) -> None:
    raise UsageError("The net has no request in progress")


def _breakpoint(told: Mapping[str, Any]) -> Breakpoint:
    return Breakpoint(
        id=told["id"],
        target=BreakpointTarget(told["target"]),
        element=told["element"],
        condition=told.get("condition") or "",
        hit_condition=told.get("hitCondition") or "",
        log_message=told.get("logMessage") or "",
    )


def _ended(result: RunResult) -> dict[str, Any]:
    return {
        "outcome": str(result.outcome),
        "firings": result.firings,
        "marking": shown(result.marking),
        "status": result.outcome.exit_status,
        "error": result.error.message if result.error is not None else "",
    }


def _connect_debugpy(python: Mapping[str, Any]) -> None:
    """Let the adapter at that port debug the Python of the net; it proves itself by the token."""
    import debugpy

    debugpy.connect(("127.0.0.1", int(python["port"])), access_token=str(python["token"]))
    debugpy.wait_for_client()
    # By default it says nothing of a NameError in a condition, and does not halt for it.
    debugger = importlib.import_module("pydevd").get_global_debugger()
    debugger.skip_print_breakpoint_exception = ()
    debugger.skip_suspend_on_breakpoint_exception = ()


OURS = (str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "vscode_bridge"))
"""Directories of Bascule's own code, which a debugger steps over."""
