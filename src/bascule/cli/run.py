"""`bascule run NET`: run a net to its end, and exit with what became of it."""

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

import typer

from bascule.core.errors import InvalidSetting, StorageFailed
from bascule.core.printable import printable

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
    net: Annotated[Path, typer.Argument(help="A *.evolve.yaml or *.pnml file.")],
    policy: Annotated[
        PolicyChoice,
        typer.Option(
            help="How to choose among enabled transitions: first in the file, by priority, or at "
            "random."
        ),
    ] = PolicyChoice.FIRST,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the random choice; implies --policy random.")
    ] = None,
    max_firings: Annotated[
        int, typer.Option(min=0, help="Stop after this many firings.")
    ] = 100_000,
    timeout: Annotated[
        float | None,
        typer.Option(min=0.001, help="Stop after this many seconds. [default: no limit]"),
    ] = None,
    trace: Annotated[
        str, typer.Option(help="File to write every event to, as JSON lines; - is stdout.")
    ] = "",
    replay: Annotated[
        Path | None, typer.Option(help="Replay this trace without running any code.")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only the output of the net's own code.")
    ] = False,
) -> int:
    """Run a net until no transition can fire.

    The net's code can reach the VS Code window it was started from with `vscode_bridge`. Exits with
    0 if the net completed, 1 if its code raised an exception, 2 if the file is not a valid net, 3
    on a deadlock, 4 on a timeout, 5 at the limit of firings, 130 if interrupted.
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
    from bascule.net.watchdog import watched

    # Ours, not asyncio's: that one waits until code that blocks is done.
    before = signal.signal(signal.SIGINT, lambda *_: _interrupt(runner, *_))
    try:
        with watched(runner, timeout):
            return asyncio.run(runner.run())
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(runner: Runner, signum: int, frame: FrameType | None) -> None:
    del signum
    runner.interrupt(frame)


@contextmanager
def _trace(name: str) -> Iterator[Listener]:
    from bascule.net.trace import writing

    with ExitStack() as stack:
        if name == "-":
            file: IO[str] = sys.stdout
            # What the net prints would be between the events.
            sys.stdout = sys.stderr
            stack.callback(setattr, sys, "stdout", file)
        else:
            try:
                file = stack.enter_context(Path(name).open("w", encoding="utf-8"))
            except OSError as error:
                raise StorageFailed(f"cannot write {name}: {error.strerror}") from error
        yield writing(file)


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
        _say(f"{net.id}: the trace matches the net, {_counted(firings, 'firing')}")
        _say_marking(moments[-1].marking)
    return 0


def _report(net: Net, result: RunResult) -> None:
    if result.error is not None:
        _say(result.error.message)
    _say(f"{net.id}: {result.outcome} after {_counted(result.firings, 'firing')}")
    _say_marking(result.marking)


def _say_marking(marking: Marking) -> None:
    from bascule.net.trace import shown

    held = shown(marking)
    width = max(map(len, held), default=0)
    for place, tokens in held.items():
        _say(f"  {place:{width}}  {_told(tokens)}")


def _told(tokens: list[object]) -> str:
    if all(token is None for token in tokens):
        return _counted(len(tokens), "token")
    text = ", ".join(map(repr, tokens))
    return text if len(text) <= 200 else f"{text[:200]}… ({_counted(len(tokens), 'token')})"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr)  # noqa: T201
