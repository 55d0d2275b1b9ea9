"""Runs a net: chooses firings by the rule and a policy, and runs the code in the net.

A firing is atomic. Its tokens are taken, its code runs, and what it made is put; if the code
raises, everything is as it was before. An async firing is under way by itself, while others go on.
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
    has_concession,
    initial_marking,
    made,
    passed_on,
    put,
    put_back,
    take,
)
from .sizes import MAX_TOKENS
from .tokens import ensure_tokens
from .trace import Begun, Changed, Ended, Event, Fired, Listener, RunOutcome, Started, Undone, shown
from .window import BRIDGE, WindowModule, importable

DEFAULT_FIRINGS = 100_000
_BREATH = 32
"""Firings after which the event loop has a turn, so that deadlines and interrupts are noticed."""


class FiringHook(Protocol):
    """Called around every firing. A debugger blocks in it to halt the net."""

    def before(self, binding: Binding) -> None:
        """Return when the firing may begin; may block. It may change the marking, and then the
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
    """Why, when the outcome is an error."""


@dataclass(frozen=True, slots=True)
class NetView:
    """The variable `net` that the code of a net sees."""

    id: str
    name: str
    file: str
    _runner: Runner

    @property
    def marking(self) -> dict[str, list[Token]]:
        return shown(self._runner.marking)


class Stopped(BaseException):
    """Raised inside the code of a net, from a signal handler, to end the run with `outcome`.

    No `Exception`, so that the code does not catch it by accident.
    """

    def __init__(self, outcome: RunOutcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class Runner:
    """One run of a net. `bridge` is what its code sees as `vscode_bridge`."""

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
        """What code raised, while those who listen are told that its firing was undone."""
        self._policy = policy or FirstEnabled()
        self._limits = limits or RunLimits()
        self._listeners = listeners
        self._hook = hook
        self._window = WindowModule(bridge)
        self._functions = self._built()
        self._numbers = count(1)
        self._pending: dict[asyncio.Task[Produced], _Firing] = {}
        self._is_in_code = False
        self._is_choosing = False
        self._stop: Callable[[], object] | None = None

    async def run(self) -> RunResult:
        """Run to the end, whatever that is. Nothing that the net does wrong is raised.

        Cancelling undoes what is under way and ends the run as cancelled.
        """
        _show_to_tracebacks(self.net)
        self._tell(Started(self.net.id, self.net.file, self.marking))
        outcome, failure = RunOutcome.CANCELLED, None
        task = asyncio.current_task()
        assert task is not None
        self._stop = task.cancel
        try:
            with importable(self._window):
                async with asyncio.timeout(self._limits.timeout):
                    outcome = await self._to_rest()
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
        self._tell(Ended(outcome, self.firings, self.marking, failure.message if failure else ""))
        return RunResult(outcome, self.firings, self.marking, failure)

    def interrupt(self, frame: FrameType | None = None) -> None:
        """End the run as cancelled, from a signal handler that was given `frame`.

        Code that is running, and a choice of tokens that takes long, end at once, async or not.
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
        """In the net's code, or choosing, where the event loop cannot end the run."""
        if self._is_in_code or self._is_choosing:
            return True
        while frame is not None:
            if frame.f_code.co_filename == self.net.file:
                return True
            frame = frame.f_back
        return False

    def enabled(self) -> list[Binding]:
        """Every transition that may fire now, with the tokens it would take."""
        found = (self._binding(each) for each in self.net.transitions)
        return [binding for binding in found if binding is not None]

    def change(self, place: PlaceId, tokens: Sequence[Token]) -> None:
        """Replace what a place holds, while the run is halted by the hook."""
        self.marking = {**self.marking, place: tuple(tokens)}
        self._tell(Changed(self.marking))

    @property
    def is_in_code(self) -> bool:
        """Code that does not await is running."""
        return self._is_in_code

    @property
    def pending(self) -> list[TransitionId]:
        """The firings that are under way."""
        return [firing.binding.transition for firing in self._pending.values()]

    @property
    def scope(self) -> dict[str, Any]:
        """The names that code sees besides what it is given."""
        return {
            "__name__": f"net:{self.net.id}",
            "__file__": self.net.file,
            BRIDGE: self._window,
            "net": NetView(self.net.id, self.net.name, self.net.file, self),
            "log": logging.getLogger(f"bascule.net.{self.net.id}"),
        }

    # Firing -------------------------------------------------------------------------------

    async def _to_rest(self) -> RunOutcome:
        while True:
            if not self.firings % _BREATH:
                await asyncio.sleep(0)
            await self._settle(wait=False)
            if self.firings >= self._limits.firings or self._has_too_many_tokens():
                return RunOutcome.LIMIT
            binding = self._choose()
            if binding is not None:
                await self._fire(binding)
            elif self._pending:
                await self._settle(wait=True)
            else:
                return self._rest()

    def _has_too_many_tokens(self) -> bool:
        """A net that makes tokens without end would take all memory long before its last firing."""
        return sum(map(len, self.marking.values())) > MAX_TOKENS

    def _rest(self) -> RunOutcome:
        held = {place for place, tokens in self.marking.items() if tokens}
        return RunOutcome.COMPLETED if self.net.is_completed(held) else RunOutcome.DEADLOCK

    def _choose(self) -> Binding | None:
        """The next firing. The hook may change the marking; then the choice is made again."""
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
            given = arguments(binding.tokens, binding.by_place)
            verdict = self._call(guard, given)
            if verdict is not None and not verdict:
                return False
        return True

    async def _fire(self, binding: Binding) -> None:
        before = self.marking
        self.marking, gone = take(self.net, before, binding)
        firing = _Firing(next(self._numbers), binding, gone)
        transition = self.net.transitions[binding.transition]
        if any(expression.is_async for expression in transition.expressions):
            self._tell(Begun(firing.number, transition.id, gone))
            self._pending[asyncio.create_task(self._work(binding))] = firing
            return
        try:
            produced = await self._work(binding)
        except BaseException as error:
            self.marking = before
            self.failure = error.__cause__ or error
            self._tell(Undone(firing.number, transition.id, gone, str(error)))
            raise
        self._commit(firing, produced, was_begun=False)

    async def _work(self, binding: Binding) -> Produced:
        """Do the work of a firing whose tokens are taken."""
        token, tokens, by_place = arguments(binding.tokens, binding.by_place)
        value = None
        for expression in self.net.transitions[binding.transition].expressions:
            result = await self._result(expression, (token, tokens, by_place))
            if result is not None:
                token = value = result
        if value is None and not any(
            arc.expression for arc in self.net.wiring[binding.transition].outputs
        ):
            return passed_on(self.net, binding)
        try:
            return made(self.net, binding, token if value is None else value, self._along)
        except (ValueError, TypeError) as error:
            at = self.net.transitions[binding.transition].span
            raise InscriptionFailed(f"{at}: {error}") from error

    def _checked(self, inscription: Inscription, value: Any) -> Any:
        """Tokens are JSON values, in a run as in a file, or a trace could not be replayed."""
        with self._blame(inscription):
            ensure_tokens(value)
        return value

    async def _result(self, expression: Inscription, given: tuple[Any, ...]) -> Any:
        result = self._call(expression, given)
        if not is_awaitable(result):
            return self._checked(expression, result)
        with self._blame(expression):
            try:
                async with asyncio.timeout(expression.timeout) as deadline:
                    while is_awaitable(result):
                        result = await result
            except TimeoutError as error:
                if deadline.expired():
                    raise TimeoutError(f"it took longer than {expression.timeout:g} s") from error
                raise
        return self._checked(expression, result)

    def _along(self, arc: Arc, token: Token) -> Token:
        if arc.expression is None:
            return token
        result = self._call(arc.expression, (token, [token], {}))
        return token if result is None else self._checked(arc.expression, result)

    async def _settle(self, *, wait: bool) -> None:
        """Take in what async firings have made; `wait` for one of them at least."""
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
        self._tell(Fired(firing.number, transition, firing.gone, produced, was_begun))

    def _undo(self, firing: _Firing, why: str) -> None:
        self.marking = put_back(self.marking, firing.gone)
        transition = firing.binding.transition
        self._tell(Undone(firing.number, transition, firing.gone, why, was_begun=True))

    async def _undo_all(self) -> None:
        for task in self._pending:
            task.cancel()
        if self._pending:
            await asyncio.wait(self._pending)
        for task, firing in reversed(self._pending.items()):
            if not task.cancelled():
                task.exception()  # seen: the run has ended already, for another reason
            self._undo(firing, "cancelled")
        self._pending.clear()

    # Code ---------------------------------------------------------------------------------

    def _built(self) -> dict[int, Function]:
        scope = self.scope
        inscribed = [
            *(each for t in self.net.transitions.values() for each in t.inscriptions),
            *(arc.expression for arc in self.net.arcs if arc.expression is not None),
        ]
        return {id(each): build(each, scope) for each in inscribed}

    def _call(self, inscription: Inscription, given: tuple[Any, ...]) -> Any:
        with self._blame(inscription):
            self._is_in_code = True
            try:
                return self._functions[id(inscription)](*given)
            finally:
                self._is_in_code = False

    @contextmanager
    def _blame(self, inscription: Inscription) -> Iterator[None]:
        """Say where in the net it was that code failed."""
        try:
            yield
        except (Exception, SystemExit) as error:
            raise _failed(inscription, error) from error

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)
        if self._hook is not None:
            self._hook.after(event)


@dataclass(frozen=True, slots=True)
class _Firing:
    number: int
    binding: Binding
    gone: Produced


def _failed(inscription: Inscription, error: BaseException) -> InscriptionFailed:
    file = inscription.span.file
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == file and frame.lineno is not None
    ]
    line = lines[-1] if lines else inscription.span.line
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    return InscriptionFailed(
        f"{file}:{line}: {inscription.id} raised {what}",
        file=file,
        line=line,
        inscription=inscription.id,
        exception=type(error).__name__,
    )


def _show_to_tracebacks(net: Net) -> None:
    """The text that was loaded, also when the file has changed since or never was one."""
    lines = net.text.splitlines(keepends=True)
    linecache.cache[net.file] = (len(net.text), None, lines, net.file)
