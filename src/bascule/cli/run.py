"""`bascule run NET`: run a net to its end, and exit with a code for the outcome."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Annotated

from bascule.core.errors import InvalidSetting, StorageFailed
from bascule.core.printable import printable

from .signatures import CommandArgument, CommandOption

if TYPE_CHECKING:
    from bascule.net import Net, Runner, RunResult
    from bascule.net.rule import Marking
    from bascule.net.trace import Listener


class PolicyChoice(StrEnum):
    """How the next firing is chosen."""

    FIRST = "first"
    PRIORITY = "priority"
    RANDOM = "random"


def run(
    net: Annotated[Path, CommandArgument(help="A *.evolve.yaml or *.pnml file.")],
    policy: Annotated[
        PolicyChoice,
        CommandOption(
            help="How to choose among enabled transitions. first: the first in the file. priority: "
            "the highest priority. random: a random one."
        ),
    ] = PolicyChoice.FIRST,
    seed: Annotated[
        int | None, CommandOption(help="Seed of the random choice; implies --policy random.")
    ] = None,
    max_firings: Annotated[
        int, CommandOption(min=0, help="Stop after this many firings.")
    ] = 100_000,
    timeout: Annotated[
        float | None,
        CommandOption(min=0.001, help="Stop after this many seconds. [default: no limit]"),
    ] = None,
    trace: Annotated[
        str, CommandOption(help="File to write every event to, as JSON lines; - is stdout.")
    ] = "",
    replay: Annotated[
        Path | None,
        CommandOption(
            help="Replay a file that --trace wrote, without running code, and check that the net "
            "allows each firing in it."
        ),
    ] = None,
    quiet: Annotated[
        bool, CommandOption("--quiet", help="Print only the output of the net's own code.")
    ] = False,
) -> int:
    """Run a net until no transition can fire.

    With `vscode_bridge`, the net's code can reach the VS Code window that started the net.

    Exits with 0 if the net finished, 1 if its code raised an exception, 2 if the file is not a
    valid net or the trace of --replay does not match, 3 if no transition can fire but the net is
    not finished (deadlock), 4 if --timeout expired while async code was running, 5 if --timeout
    expired otherwise, or the limit of --max-firings or of 1,000,000 tokens was reached, 130 if
    interrupted.

    A net with `final` places is finished if one of these places has a token. A net without `final`
    places is finished if no place has tokens that a transition could take.
    """
    from .netfile import read_net

    found = read_net(net)
    if found is None:
        return 2
    if replay is not None:
        return _replay(found, replay, quiet=quiet)
    if seed is not None and policy is PolicyChoice.PRIORITY:
        raise InvalidSetting("--seed works only with --policy random")
    chosen = PolicyChoice.RANDOM if seed is not None else policy
    with ExitStack() as stack:
        listeners = [stack.enter_context(_trace(trace))] if trace else []
        runner = _runner(found, chosen, seed, max_firings, timeout, listeners)
        result = _run(runner, timeout)
    if not quiet:
        _report(found, result)
    return result.outcome.exit_status


def _runner(
    net: Net,
    policy: PolicyChoice,
    seed: int | None,
    max_firings: int,
    timeout: float | None,
    listeners: list[Listener],
) -> Runner:
    import vscode_bridge
    import vscode_bridge.aio
    from bascule.net import RunLimits, Runner, policy_named

    return Runner(
        net,
        vscode_bridge,
        policy=policy_named(policy, seed),
        limits=RunLimits(max_firings, timeout),
        listeners=listeners,
    )


def _run(runner: Runner, timeout: float | None) -> RunResult:
    from bascule.net.watchdog import run_watchdog

    # Replaces asyncio's handler, which would wait until blocking code in the net returns.
    before = signal.signal(signal.SIGINT, lambda *_: _interrupt(runner, *_))
    try:
        with run_watchdog(runner, timeout):
            return asyncio.run(runner.run())
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(runner: Runner, signum: int, frame: FrameType | None) -> None:
    del signum
    runner.interrupt(frame)


@contextmanager
def _trace(name: str) -> Iterator[Listener]:
    from bascule.net.trace import trace_writer

    with ExitStack() as stack:
        if name == "-":
            file: IO[str] = sys.stdout
            # Otherwise the net's own output would mix with the events on stdout.
            sys.stdout = sys.stderr
            stack.callback(setattr, sys, "stdout", file)
        else:
            try:
                file = stack.enter_context(Path(name).open("w", encoding="utf-8"))
            except OSError as error:
                raise StorageFailed(f"cannot write {name}: {error.strerror}") from error
        yield trace_writer(file)


def _replay(net: Net, trace: Path, *, quiet: bool) -> int:
    from bascule.core.errors import NoSuchPath
    from bascule.net import replay

    try:
        text = trace.read_text(encoding="utf-8")
    except OSError as error:
        raise NoSuchPath(f"cannot read {trace}: {error.strerror}") from error
    moments = list(replay(net, text.splitlines()))
    if moments and not quiet:
        firings = sum(moment.event.get("event") == "fired" for moment in moments)
        _print_note(f"{net.id}: the trace matches the net, {_count_text(firings, 'firing')}")
        _print_marking(moments[-1].marking)
    return 0


def _report(net: Net, result: RunResult) -> None:
    if result.error is not None:
        _print_note(result.error.message)
    _print_note(f"{net.id}: {result.outcome} after {_count_text(result.firings, 'firing')}")
    _print_marking(result.marking)


def _print_marking(marking: Marking) -> None:
    from bascule.net.trace import tokens_by_place

    tokens_of = tokens_by_place(marking)
    width = max(map(len, tokens_of), default=0)
    for place, tokens in tokens_of.items():
        _print_note(f"  {place:{width}}  {_tokens_text(tokens)}")


def _tokens_text(tokens: list[object]) -> str:
    if all(token is None for token in tokens):
        return _count_text(len(tokens), "token")
    text = ", ".join(map(repr, tokens))
    return text if len(text) <= 200 else f"{text[:200]}… ({_count_text(len(tokens), 'token')})"


def _count_text(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _print_note(text: str) -> None:
    print(printable(text), file=sys.stderr)  # noqa: T201
