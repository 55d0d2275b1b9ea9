"""Runs a net: chooses firings by the rule and a policy, and runs the code in the net.

A firing is atomic: the runner takes the tokens, runs the code and puts the produced tokens. If
the code raises, the runner puts the taken tokens back. Other transitions may fire while an async
firing runs.
"""

from __future__ import annotations

import asyncio
import linecache
import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from types import FrameType
from typing import Any, Protocol

from bascule.core.errors import InscriptionFailed

from .inscriptions import Function, arguments, build, is_awaitable
from .model import Arc, Inscription, Net, PlaceId, Token, TransitionId
from .policy import FirstEnabled, Policy
from .rule import (
    Binding,
    Marking,
    Produced,
    first_enabled,
    forwarded_tokens,
    has_concession,
    initial_marking,
    produced_tokens,
    put,
    return_tokens,
    take,
)
from .sizes import MAX_TOKENS
from .tokens import ensure_tokens
from .trace import (
    Begun,
    Changed,
    Ended,
    Event,
    Fired,
    Listener,
    RunOutcome,
    Started,
    Undone,
    tokens_by_place,
)
from .window import BRIDGE, WindowModule, importable

DEFAULT_FIRINGS = 100_000
_FIRINGS_PER_TURN = 32
"""Firings after which the event loop gets a turn, so that the loop notices deadlines and
interrupts."""


class FiringHook(Protocol):
    """Called around every firing. A debugger halts the net by blocking in this hook."""

    def before(self, binding: Binding) -> None:
        """Return when the firing may begin. May block. If this method changes the marking, the
        runner chooses the binding again."""

    def after(self, event: Event) -> None:
        """Called with every event; may block."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    firings: int = DEFAULT_FIRINGS
    timeout: float | None = None
    """Seconds for the whole run."""


@dataclass(frozen=True, slots=True)
class RunResult:
    outcome: RunOutcome
    firings: int
    marking: Marking
    error: InscriptionFailed | None = None
    """The cause, if the outcome is an error."""


@dataclass(frozen=True, slots=True)
class NetView:
    """The variable `net` that the code of a net sees."""

    id: str
    name: str
    file: str
    _runner: Runner

    @property
    def marking(self) -> dict[str, list[Token]]:
        return tokens_by_place(self._runner.marking)


class Stopped(BaseException):
    """Raised inside the code of a net, from a signal handler, to end the run with `outcome`.

    Not an `Exception`, so that the code does not catch it by accident.
    """

    def __init__(self, outcome: RunOutcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class Runner:
    """One run of a net, whose code sees `bridge` as `vscode_bridge`."""

    def __init__(
        self,
        net: Net,
        bridge: object,
        *,
        policy: Policy | None = None,
        limits: RunLimits | None = None,
        listeners: Sequence[Listener] = (),
        hook: FiringHook | None = None,
    ) -> None:
        self.net = net
        self.marking: Marking = initial_marking(net)
        self.firings = 0
        self.failure: BaseException | None = None
        """The exception that code raised, for listeners of `Undone`."""
        self._policy = policy or FirstEnabled()
        self._limits = limits or RunLimits()
        self._listeners = listeners
        self._hook = hook
        self._window = WindowModule(bridge)
        self._functions = self._build_functions()
        self._numbers = count(1)
        self._pending: dict[asyncio.Task[Produced], _Firing] = {}
        self._is_in_code = False
        self._is_choosing = False
        self._stop: Callable[[], object] | None = None

    async def run(self) -> RunResult:
        """Run until nothing can fire, or a limit or error ends the run. Errors of the net are not
        raised: the result contains them.

        Cancelling undoes unfinished firings and ends the run as cancelled.
        """
        _register_source(self.net)
        self._emit(Started(self.net.id, self.net.file, self.marking))
        outcome, failure = RunOutcome.CANCELLED, None
        task = asyncio.current_task()
        assert task is not None
        self._stop = task.cancel
        try:
            with importable(self._window):
                async with asyncio.timeout(self._limits.timeout):
                    outcome = await self._run_to_end()
        except TimeoutError:
            outcome = RunOutcome.PENDING if self._pending else RunOutcome.LIMIT
        except InscriptionFailed as error:
            outcome, failure = RunOutcome.ERROR, error
        except Stopped as stopped:
            outcome = stopped.outcome
        except (asyncio.CancelledError, KeyboardInterrupt):
            task.uncancel()
        finally:
            self._stop = None
            await self._undo_all()
        self._emit(Ended(outcome, self.firings, self.marking, failure.message if failure else ""))
        return RunResult(outcome, self.firings, self.marking, failure)

    def interrupt(self, frame: FrameType | None = None) -> None:
        """End the run as cancelled, from a signal handler that was called with `frame`.

        Running code, async or not, and a long choice of tokens end at once.
        """
        if self._is_busy(frame):
            raise Stopped(RunOutcome.CANCELLED)
        if self._stop is not None:
            self._stop()

    def expire(self, frame: FrameType | None) -> None:
        """End blocking code at the deadline, from a signal handler. Async code ends by itself."""
        if self._is_busy(frame):
            raise Stopped(RunOutcome.LIMIT)

    def _is_busy(self, frame: FrameType | None) -> bool:
        """Whether the net's code or a choice of tokens runs, which the event loop cannot end."""
        if self._is_in_code or self._is_choosing:
            return True
        while frame is not None:
            if frame.f_code.co_filename == self.net.file:
                return True
            frame = frame.f_back
        return False

    def enabled(self) -> list[Binding]:
        """The binding of every transition that may fire now."""
        found = (self._binding(each) for each in self.net.transitions)
        return [binding for binding in found if binding is not None]

    def change(self, place: PlaceId, tokens: Sequence[Token]) -> None:
        """Replace the tokens of a place while the hook halts the run."""
        self.marking = {**self.marking, place: tuple(tokens)}
        self._emit(Changed(self.marking))

    @property
    def is_in_code(self) -> bool:
        """Whether code is running that does not await."""
        return self._is_in_code

    @property
    def pending(self) -> list[TransitionId]:
        """The transitions of unfinished async firings."""
        return [firing.binding.transition for firing in self._pending.values()]

    @property
    def scope(self) -> dict[str, Any]:
        """The names that code sees besides its arguments."""
        return {
            "__name__": f"net:{self.net.id}",
            "__file__": self.net.file,
            BRIDGE: self._window,
            "net": NetView(self.net.id, self.net.name, self.net.file, self),
            "log": logging.getLogger(f"bascule.net.{self.net.id}"),
        }

    # Firing -------------------------------------------------------------------------------

    async def _run_to_end(self) -> RunOutcome:
        while True:
            if not self.firings % _FIRINGS_PER_TURN:
                await asyncio.sleep(0)
            await self._commit_finished(wait=False)
            if self.firings >= self._limits.firings or self._has_too_many_tokens():
                return RunOutcome.LIMIT
            binding = self._choose()
            if binding is not None:
                await self._fire(binding)
            elif self._pending:
                await self._commit_finished(wait=True)
            else:
                return self._final_outcome()

    def _has_too_many_tokens(self) -> bool:
        """Whether the marking has too many tokens. A net that keeps adding tokens would use up the
        memory before it reaches the limit of firings."""
        return sum(map(len, self.marking.values())) > MAX_TOKENS

    def _final_outcome(self) -> RunOutcome:
        marked_places = {place for place, tokens in self.marking.items() if tokens}
        return RunOutcome.COMPLETED if self.net.is_completed(marked_places) else RunOutcome.DEADLOCK

    def _choose(self) -> Binding | None:
        """Choose the next firing. Choose again if the hook changes the marking."""
        while True:
            self._is_choosing = True
            try:
                candidates = map(self._binding, self._policy.order(self.net))
                binding = next((each for each in candidates if each is not None), None)
            finally:
                self._is_choosing = False
            if binding is None or self._hook is None:
                return binding
            before = self.marking
            self._hook.before(binding)
            if self.marking is before:
                return binding

    def _binding(self, id: TransitionId) -> Binding | None:
        if not has_concession(self.marking, self.net.wiring[id]):
            return None
        return first_enabled(self.net, self.marking, id, self._accepts)

    def _accepts(self, binding: Binding) -> bool:
        for guard in self.net.transitions[binding.transition].guards:
            call_arguments = arguments(binding.tokens, binding.by_place)
            verdict = self._call(guard, call_arguments)
            if verdict is not None and not verdict:
                return False
        return True

    async def _fire(self, binding: Binding) -> None:
        before = self.marking
        self.marking, removed = take(self.net, before, binding)
        firing = _Firing(next(self._numbers), binding, removed)
        transition = self.net.transitions[binding.transition]
        if any(expression.is_async for expression in transition.expressions):
            self._emit(Begun(firing.number, transition.id, removed))
            self._pending[asyncio.create_task(self._run_code(binding))] = firing
            return
        try:
            produced = await self._run_code(binding)
        except BaseException as error:
            self.marking = before
            self.failure = error.__cause__ or error
            self._emit(Undone(firing.number, transition.id, removed, str(error)))
            raise
        self._commit(firing, produced, was_begun=False)

    async def _run_code(self, binding: Binding) -> Produced:
        """Run the code of a firing whose tokens were taken, and return the tokens to put."""
        token, tokens, by_place = arguments(binding.tokens, binding.by_place)
        value = None
        for expression in self.net.transitions[binding.transition].expressions:
            result = await self._result(expression, (token, tokens, by_place))
            if result is not None:
                token = value = result
        if value is None and not any(
            arc.expression for arc in self.net.wiring[binding.transition].outputs
        ):
            return forwarded_tokens(self.net, binding)
        try:
            return produced_tokens(
                self.net, binding, token if value is None else value, self._token_for_arc
            )
        except (ValueError, TypeError) as error:
            span = self.net.transitions[binding.transition].span
            raise InscriptionFailed(f"{span}: {error}") from error

    def _ensure_json(self, inscription: Inscription, value: Any) -> Any:
        """Raise unless `value` is a JSON value: otherwise a trace could not be replayed."""
        with self._with_line_of(inscription):
            ensure_tokens(value)
        return value

    async def _result(self, expression: Inscription, call_arguments: tuple[Any, ...]) -> Any:
        result = self._call(expression, call_arguments)
        if not is_awaitable(result):
            return self._ensure_json(expression, result)
        with self._with_line_of(expression):
            try:
                async with asyncio.timeout(expression.timeout) as deadline:
                    while is_awaitable(result):
                        result = await result
            except TimeoutError as error:
                if deadline.expired():
                    raise TimeoutError(f"it took longer than {expression.timeout:g} s") from error
                raise
        return self._ensure_json(expression, result)

    def _token_for_arc(self, arc: Arc, token: Token) -> Token:
        if arc.expression is None:
            return token
        result = self._call(arc.expression, (token, [token], {}))
        return token if result is None else self._ensure_json(arc.expression, result)

    async def _commit_finished(self, *, wait: bool) -> None:
        """Commit finished async firings. With `wait`, first wait until one has finished."""
        if not self._pending:
            return
        if wait:
            await asyncio.wait(self._pending, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(0)
        for task in [task for task in self._pending if task.done()]:
            firing = self._pending.pop(task)
            error = task.exception()
            if error is None:
                self._commit(firing, task.result(), was_begun=True)
            else:
                self.failure = error.__cause__ or error
                self._undo(firing, str(error))
                raise error

    def _commit(self, firing: _Firing, produced: Produced, *, was_begun: bool) -> None:
        self.marking = put(self.marking, produced)
        self.firings += 1
        transition = firing.binding.transition
        self._emit(Fired(firing.number, transition, firing.removed, produced, was_begun))

    def _undo(self, firing: _Firing, why: str) -> None:
        self.marking = return_tokens(self.marking, firing.removed)
        transition = firing.binding.transition
        self._emit(Undone(firing.number, transition, firing.removed, why, was_begun=True))

    async def _undo_all(self) -> None:
        for task in self._pending:
            task.cancel()
        if self._pending:
            await asyncio.wait(self._pending)
        for task, firing in reversed(self._pending.items()):
            if not task.cancelled():
                task.exception()  # marks it as retrieved; the run ended for another reason
            self._undo(firing, "cancelled")
        self._pending.clear()

    # Code ---------------------------------------------------------------------------------

    def _build_functions(self) -> dict[int, Function]:
        scope = self.scope
        inscribed = [
            *(each for t in self.net.transitions.values() for each in t.inscriptions),
            *(arc.expression for arc in self.net.arcs if arc.expression is not None),
        ]
        return {id(each): build(each, scope) for each in inscribed}

    def _call(self, inscription: Inscription, call_arguments: tuple[Any, ...]) -> Any:
        with self._with_line_of(inscription):
            self._is_in_code = True
            try:
                return self._functions[id(inscription)](*call_arguments)
            finally:
                self._is_in_code = False

    @contextmanager
    def _with_line_of(self, inscription: Inscription) -> Iterator[None]:
        """Turn an exception of code into `InscriptionFailed`, which names its line in the net."""
        try:
            yield
        except (Exception, SystemExit) as error:
            raise _inscription_error(inscription, error) from error

    def _emit(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)
        if self._hook is not None:
            self._hook.after(event)


@dataclass(frozen=True, slots=True)
class _Firing:
    number: int
    binding: Binding
    removed: Produced


def _inscription_error(inscription: Inscription, error: BaseException) -> InscriptionFailed:
    file = inscription.span.file
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == file and frame.lineno is not None
    ]
    line = lines[-1] if lines else inscription.span.line
    raised = f"{type(error).__name__}: {error}".rstrip(": ")
    return InscriptionFailed(
        f"{file}:{line}: {inscription.id} raised {raised}",
        file=file,
        line=line,
        inscription=inscription.id,
        exception=type(error).__name__,
    )


def _register_source(net: Net) -> None:
    """Make tracebacks show the loaded text, even if the file has changed or never existed."""
    lines = net.text.splitlines(keepends=True)
    linecache.cache[net.file] = (len(net.text), None, lines, net.file)
