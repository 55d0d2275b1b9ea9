"""Halts a net between firings: at breakpoints, after a step, on pause, and when code fails.

Runs in the debuggee. The net's thread waits here while it is halted; the control thread reads the
state and resumes the net's thread.
"""

from __future__ import annotations

import re
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

from bascule.core.errors import UsageError
from bascule.net import Runner
from bascule.net.rule import Binding
from bascule.net.trace import Begun, Event, Fired, Started, Undone

from .breakpoints import BreakpointTarget
from .variables import Handles, Variable, text_of

_BASCULE_DIR = str(Path(__file__).parents[1])
_JSON_WORDS = {"true": True, "false": False, "null": None}


class Mode(Enum):
    RUN = auto()
    STEP = auto()
    """Halt before the next firing when `_stop_at` firings have begun."""


@dataclass(slots=True)
class Breakpoint:
    id: int
    target: BreakpointTarget
    element: str
    condition: str = ""
    hit_condition: str = ""
    log_message: str = ""
    hits: int = 0


@dataclass(frozen=True, slots=True)
class Halt:
    """Where and why the net is halted."""

    reason: str
    element: str
    """A place or transition; empty for the net itself."""
    binding: Binding | None = None
    tokens: tuple[Any, ...] = ()
    """Tokens that a firing has just put into the place."""
    text: str = ""
    breakpoints: Sequence[int] = ()
    raised: BaseException | None = None


@dataclass(slots=True)
class StepController:
    """The runner's `FiringHook` while a net is debugged: halts the net and shows its state."""

    send_event: Callable[[str, Mapping[str, Any]], None]
    """Sends a named event to the adapter."""
    stop_on_entry: bool = False
    stops_on_errors: bool = False
    breakpoints: Sequence[Breakpoint] = ()
    handles: Handles = field(default_factory=Handles)
    halt: Halt | None = None
    _runner: Runner | None = None
    _mode: Mode = Mode.RUN
    _begun: int = 0
    _stop_at: int = 0
    is_in_code: bool = False
    """Whether debugpy has halted the net inside its code. The state can then be read, but not
    changed."""
    _wants_pause: bool = False
    _released: threading.Event = field(default_factory=threading.Event)

    def attach(self, runner: Runner) -> None:
        self._runner = runner

    @property
    def runner(self) -> Runner:
        assert self._runner is not None
        return self._runner

    # Called in the net's thread -----------------------------------------------------------

    def before(self, binding: Binding) -> None:
        hits = self._hits(BreakpointTarget.TRANSITION, binding.transition, _names(binding))
        if self._wants_pause:
            self._wait(Halt("pause", binding.transition, binding))
        elif hits:
            self._wait(Halt("breakpoint", binding.transition, binding, breakpoints=hits))
        elif self._mode is Mode.STEP and self._begun >= self._stop_at:
            self._wait(Halt("step", binding.transition, binding))

    def after(self, event: Event) -> None:
        match event:
            case Started():
                if self.stop_on_entry:
                    self._wait(Halt("entry", ""))
            case Begun():
                self._begun += 1
            case Fired():
                self._begun += not event.was_begun
                for place, tokens in event.produced:
                    names = {"token": tokens[0] if tokens else None, "tokens": list(tokens)}
                    hits = self._hits(BreakpointTarget.PLACE, place, names) if tokens else []
                    if hits:
                        self._wait(Halt("breakpoint", place, tokens=tokens, breakpoints=hits))
            case Undone():
                if self.stops_on_errors and event.error != "cancelled":
                    raised = self.runner.failure
                    self._wait(Halt("exception", event.transition, text=event.error, raised=raised))

    def pause_now(self) -> None:
        """Halt if `pause` was called. Needed while a run waits for async firings."""
        if self._wants_pause:
            self._wait(Halt("pause", ""))

    # Called in the control thread ---------------------------------------------------------

    def resume(self, mode: Mode) -> None:
        self._mode = mode
        self._stop_at = self._begun + 1
        self._released.set()

    def step_code(self) -> None:
        """Halt before the next firing, once the code that is being stepped through has ended."""
        self._mode = Mode.STEP
        self._stop_at = self._begun

    def run_code(self) -> None:
        """Cancel a step: neither the code nor the net halts because of this step."""
        self._mode = Mode.RUN

    def pause(self) -> None:
        self._wants_pause = True

    def ensure_halted(self, *, to_change: bool = False) -> Halt:
        if self.halt is not None:
            return self.halt
        if self.is_in_code and not to_change:
            return Halt("code", "")
        why = "in the middle of a firing" if self.is_in_code else "running; pause it first"
        raise UsageError(f"The net is {why}")

    def scopes(self) -> list[dict[str, Any]]:
        halt = self.ensure_halted()
        scopes = [self._scope("Marking", self._marking)]
        if halt.binding is not None:
            binding = halt.binding
            scopes.insert(0, self._scope("Binding", lambda: _binding_variables(binding)))
        if halt.tokens:
            scopes.insert(0, self._scope("Arrived", lambda: _numbered_variables(halt.tokens)))
        if not self.is_in_code:
            scopes.append(self._scope("Enabled", self._enabled))
        if self.runner.pending:
            scopes.append(
                self._scope("Under way", lambda: _numbered_variables(self.runner.pending))
            )
        return scopes

    def variables(self, reference: int) -> list[dict[str, Any]]:
        self.ensure_halted()
        return [self.handles.to_dap(each) for each in self.handles.children(reference)]

    def set_variable(self, reference: int, name: str, value: str) -> dict[str, Any]:
        self.ensure_halted(to_change=True)
        for variable in self.handles.children(reference):
            if variable.name == name:
                if variable.change is None:
                    raise UsageError(f"{name} cannot be changed")
                new = self._evaluate(value)
                variable.change(new)
                return self.handles.to_dap(Variable(name, new))
        raise UsageError(f"There is no variable {name}")

    def evaluate(self, expression: str) -> dict[str, Any]:
        """Evaluate the name of a place, or Python code that sees places, marking and binding."""
        self.ensure_halted()
        return self.handles.to_dap(Variable("", self._evaluate(expression)))

    # --------------------------------------------------------------------------------------

    def _wait(self, halt: Halt) -> None:
        self._wants_pause = False
        self._released.clear()
        self.halt = halt
        self.send_event(
            "stopped",
            {
                "reason": halt.reason,
                "element": halt.element,
                "text": halt.text,
                "exception": type(halt.raised).__name__ if halt.raised is not None else "",
                "trace": _trace(halt.raised),
                "breakpoints": list(halt.breakpoints),
            },
        )
        self._released.wait()
        self.halt = None
        self.handles.clear()

    def _hits(self, target: BreakpointTarget, element: str, names: Mapping[str, Any]) -> list[int]:
        found = []
        for point in self.breakpoints:
            if point.target is not target or point.element != element:
                continue
            try:
                if self._is_hit(point, names):
                    found.append(point.id)
            except Exception as error:  # noqa: BLE001 - the user's condition: report it and stop
                kind = "log point" if point.log_message else "breakpoint"
                text = f"{kind} at {element}: {type(error).__name__}: {error}\n"
                self.send_event("output", {"text": text})
                if not point.log_message:
                    found.append(point.id)
        return found

    def _is_hit(self, point: Breakpoint, names: Mapping[str, Any]) -> bool:
        if point.condition and not self._evaluate(point.condition, names):
            return False
        point.hits += 1
        if point.hit_condition and not _is_reached(point):
            return False
        if not point.log_message:
            return True
        text = re.sub(
            r"\{([^{}]+)\}",
            lambda found: str(self._evaluate(found[1], names)),
            point.log_message,
        )
        self.send_event("output", {"text": text + "\n"})
        return False

    def _evaluate(self, expression: str, names: Mapping[str, Any] | None = None) -> Any:
        marking = self.runner.marking
        if expression in marking:
            return list(marking[expression])  # type: ignore[index]
        if names is None:
            names = _names(self.halt.binding) if self.halt and self.halt.binding else {}
        places = {str(place): list(tokens) for place, tokens in marking.items()}
        scope: dict[str, Any] = {
            **_JSON_WORDS,
            **self.runner.scope,
            **places,
            "marking": places,
            **names,
        }
        return eval(expression.strip(), scope)  # noqa: S307 - the user's own expression

    def _scope(self, name: str, children: Callable[[], Sequence[Variable]]) -> dict[str, Any]:
        return {
            "name": name,
            "variablesReference": self.handles.hold(children),
            "expensive": False,
        }

    def _marking(self) -> list[Variable]:
        return [
            Variable(place, list(tokens), self._place_setter(place))
            for place, tokens in self.runner.marking.items()
        ]

    def _place_setter(self, place: Any) -> Callable[[Any], None]:
        def change(new: Any) -> None:
            if not isinstance(new, list | tuple):
                raise UsageError(
                    f"The value of a place must be a list of tokens, not {text_of(new)}"
                )
            self.runner.change(place, new)

        return change

    def _enabled(self) -> list[Variable]:
        return [
            Variable(binding.transition, {str(k): v for k, v in binding.by_place.items()})
            for binding in self.runner.enabled()
        ]


def _trace(raised: BaseException | None) -> str:
    """The traceback, without Bascule's frames that called the code."""
    if raised is None:
        return ""
    trace = raised.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_BASCULE_DIR):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(raised), raised, trace, chain=False))


def _names(binding: Binding) -> dict[str, Any]:
    tokens = list(binding.tokens)
    return {
        "token": tokens[0] if tokens else None,
        "tokens": tokens,
        "binding": dict(binding.by_place),
    }


def _binding_variables(binding: Binding) -> list[Variable]:
    return [
        *(Variable(name, value) for name, value in _names(binding).items() if name != "binding"),
        *(Variable(str(place), value) for place, value in binding.by_place.items()),
    ]


def _numbered_variables(values: Sequence[Any]) -> list[Variable]:
    return [Variable(str(index), value) for index, value in enumerate(values)]


def _is_reached(breakpoint: Breakpoint) -> bool:
    """Hit conditions: `5` is the fifth hit only, `>= 5` the fifth and later, `% 2` every second."""
    found = re.fullmatch(r"\s*(==|>=|<=|>|<|%)?\s*(\d+)\s*", breakpoint.hit_condition)
    if found is None:
        raise UsageError(f"not a valid hit condition: {breakpoint.hit_condition}")
    hits, number = breakpoint.hits, int(found[2])
    return {
        "==": hits == number,
        ">=": hits >= number,
        "<=": hits <= number,
        ">": hits > number,
        "<": hits < number,
        "%": number > 0 and hits % number == 0,
    }[found[1] or "=="]
