"""Runs: what code is given and gives, how firings end, how runs end."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from typing import Any

import pytest

from bascule.core.errors import BasculeError
from bascule.net import (
    HighestPriority,
    Net,
    RandomChoice,
    RunLimits,
    Runner,
    RunOutcome,
    load_bytes,
)
from bascule.net.trace import Begun, Changed, Ended, Fired, Undone, tokens_by_place
from bascule.net.window import UnavailableWindow
from tests.net.test_load import EPIC
from tests.net.writing import FILE, Window, net, play, step


async def after(net: Net, window: object = None) -> Any:
    """What `after` holds once the run is over, which must have gone well."""
    result, _ = await play(net, window)
    assert result.error is None
    return tokens_by_place(result.marking).get("after")


# What code may be -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "made"),
    [
        ("token + 1", [2]),
        ("return token + 1", [2]),
        ("x = token\nx + 2", [3]),
        ("print(token)", [1]),
        ("None", [1]),
        ("if token == 1:\n    return 'one'\nreturn 'other'", ["one"]),
        ("lambda t: t * 5", [5]),
        ("lambda tokens: len(tokens)", [1]),
        ("def f(token):\n    return token * 7", [7]),
        ("def f():\n    return 'called'", ["called"]),
        ("def f(token, extra=3):\n    return token + extra", [4]),
        ("def twice(x):\n    return 2 * x\nreturn twice(token) + len(tokens)", [3]),
        ("return binding['before']", [1]),
        ("return {'tokensByPlace': {'after': [4, 5]}}", [4, 5]),
        ("return {'tokensByPlace': {}}", None),
        ("return {'a': 1, '_drop_moved_tokens': True}", [{"a": 1}]),
        ("return net.id + '!'", ["n!"]),
        ("import json\nreturn json.dumps({})", ["{}"]),
    ],
)
async def test_the_return_value_of_code_becomes_the_output_token(code: str, made: Any) -> None:
    assert await after(step(code)) == made


async def test_code_is_called_once_also_when_it_raises_a_type_error() -> None:
    window = Window()
    result, _ = await play(step("vscode_bridge.note()\nlen(5)"), window)

    assert (result.outcome, window.calls) == (RunOutcome.ERROR, [("note",)])


async def test_expressions_run_in_order_and_see_earlier_results() -> None:
    found = net(
        """
        place: [{id: before, marking: [1]}, {id: after}]
        transition:
          id: t
          arcs: [{source: before}, {target: after}]
          inscriptions: [{code: token + 1}, {code: print(token)}, {code: token * 10}]
        """
    )

    assert await after(found) == [20]


async def test_an_arc_inscription_transforms_the_token() -> None:
    found = net(
        """
        place: [{id: before, marking: [3]}, {id: after}, {id: other}]
        transition:
          id: t
          arcs:
            - {source: before}
            - {target: after}
            - {target: other, inscription: {code: token * 2}}
        """
    )
    result, _ = await play(found)

    assert tokens_by_place(result.marking) == {"after": [3], "other": [6]}


async def test_a_guard_picks_the_first_token_it_accepts() -> None:
    found = net(
        """
        place: [{id: before, marking: [1, 5, 7]}, {id: after}]
        transition:
          id: t
          arcs: [{source: before}, {target: after}]
          inscriptions: [{kind: guard, code: token > 3}]
        """
    )
    result, _ = await play(found)

    assert tokens_by_place(result.marking) == {"before": [1], "after": [5, 7]}
    assert result.outcome is RunOutcome.DEADLOCK


# The window -------------------------------------------------------------------------------


async def test_a_net_written_for_enginepy_runs_unchanged() -> None:
    code = """
    from enginepy import vscode_bridge
    try:
        vscode_bridge.show_message("fired", "info")
        return vscode_bridge.chat("2+2?")
    except RuntimeError as error:
        return f"no: {error}"
    """
    window = Window(chat="4")

    assert await after(step(code), window) == ["4"]
    assert window.calls == [("show_message", "fired", "info"), ("chat", "2+2?")]
    assert "enginepy" not in sys.modules


async def test_without_a_window_bridge_calls_raise_the_given_error() -> None:
    class Gone(BasculeError, RuntimeError):
        code = "gone"

    found = step(
        "try:\n    vscode_bridge.chat('x')\nexcept RuntimeError as error:\n    return str(error)"
    )

    assert await after(found, UnavailableWindow(Gone("nobody here"))) == ["nobody here"]


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_the_answer_of_a_bridge_operation_becomes_the_token(mode: str) -> None:
    window = Window(chat="hello", form={"approved": True})

    assert await after(step("return vscode_bridge.chat_async('x')", mode=mode), window) == ["hello"]
    form = step("return vscode_bridge.show_form_async({'title': 'Sure?'})", mode=mode)
    assert await after(form, window) == [{"approved": True}]


@pytest.mark.parametrize("name", ["participant_async", "lambda_async", "http_async"])
async def test_unsupported_bridge_operations_are_rejected_by_name(name: str) -> None:
    result, _ = await play(step(f"return vscode_bridge.{name}('x')", mode="async"))

    assert result.outcome is RunOutcome.ERROR
    assert f"There is no {name} here" in str(result.error)
    assert "NoSuchOperation" in str(result.error)


# Firings ----------------------------------------------------------------------------------


async def test_a_firing_that_fails_is_undone_and_ends_the_run_at_its_line() -> None:
    found = load_bytes(EPIC.replace("return x", "return x / 0").encode(), FILE).unwrap()
    result, events = await play(found)

    assert result.outcome is RunOutcome.ERROR
    assert str(result.error) == f"{FILE}:24: expr1 raised ZeroDivisionError: division by zero"
    assert tokens_by_place(result.marking) == {"p1": [1]}
    assert [type(event) for event in events[1:]] == [Undone, Ended]


async def test_a_guard_that_fails_ends_the_run_and_fires_nothing() -> None:
    found = net(
        """
        place: [{id: before, marking: [1]}, {id: after}]
        transition:
          id: t
          arcs: [{source: before}, {target: after}]
          inscriptions: [{id: g, kind: guard, code: token.nothing}]
        """
    )
    result, _ = await play(found)

    assert (result.outcome, result.firings) == (RunOutcome.ERROR, 0)
    assert "g raised AttributeError" in str(result.error)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("return {1, 2}", "a set cannot be a token"),
        ("return object()", "a object cannot be a token"),
        ("return [float('nan')]", "nan cannot be a token"),
        ("return {'a': float('inf')}", "inf cannot be a token"),
        ("return {1: 2}", "a int cannot be a token (a key)"),
        ("x = []; x.append(x); return x", "nested more than 100 levels deep"),
        ("return {'tokensByPlace': {'after': [b'']}}", "a bytes cannot be a token"),
    ],
)
async def test_a_value_that_json_cannot_represent_is_not_a_token(code: str, told: str) -> None:
    """A trace would hold something else, and its replay differ from the run."""
    result, _ = await play(step(code))

    assert result.outcome is RunOutcome.ERROR
    assert result.error is not None
    assert told in result.error.message
    assert result.error.message.startswith(f"{FILE}:")
    assert tokens_by_place(result.marking) == {"before": [1]}


async def test_a_token_for_a_place_without_an_arc_is_an_error() -> None:
    result, _ = await play(step("return {'tokensByPlace': {'before': [1]}}"))

    assert "t has no arc to before" in str(result.error)
    assert tokens_by_place(result.marking) == {"before": [1]}


PAIR = """
place: [{id: a, marking: [1]}, {id: b, marking: [1]}, {id: c}, {id: d}]
transition:
  - id: slow
    arcs: [{source: a}, {target: c}]
    inscriptions: [{execMode: async, code: "return await vscode_bridge.wait()"}]
  - id: quick
    arcs: [{source: b}, {target: d}]
    inscriptions: [{code: "vscode_bridge.go()"}]
"""


async def test_other_transitions_fire_while_an_async_one_runs() -> None:
    class Latch:
        def __init__(self) -> None:
            self.opened = asyncio.Event()

        async def wait(self) -> str:
            await self.opened.wait()
            return "waited"

        def go(self) -> None:
            self.opened.set()

    result, events = await play(net(PAIR), Latch())

    assert tokens_by_place(result.marking) == {"c": ["waited"], "d": [1]}
    order = [
        (type(event), event.transition) for event in events if isinstance(event, Begun | Fired)
    ]
    assert order == [(Begun, "slow"), (Fired, "quick"), (Fired, "slow")]


async def test_a_failed_firing_also_undoes_firings_in_progress() -> None:
    class Broken:
        async def wait(self) -> None:
            await asyncio.Event().wait()

        def go(self) -> None:
            raise OSError("broken")

    result, _ = await play(net(PAIR), Broken())

    assert result.outcome is RunOutcome.ERROR
    assert tokens_by_place(result.marking) == {"a": [1], "b": [1]}


async def test_async_code_past_its_timeout_is_cancelled() -> None:
    found = net(
        """
        place: [{id: a, marking: [1]}]
        transition:
          id: t
          arcs: [{source: a}]
          inscriptions:
            - {id: w, execMode: async, timeout: 0.01, code: "await vscode_bridge.wait()"}
        """
    )

    class Never:
        async def wait(self) -> None:
            await asyncio.Event().wait()

    result, _ = await play(found, Never())

    assert "w raised TimeoutError: it took longer than 0.01 s" in str(result.error)


async def test_a_blocking_call_of_an_operation_does_not_stop_the_others() -> None:
    released = threading.Event()

    class Blocking:
        def chat(self, *_: Any, **__: Any) -> str:
            assert released.wait(5)
            return "at last"

        def go(self) -> None:
            released.set()

    body = PAIR.replace("await vscode_bridge.wait()", "vscode_bridge.chat_async('x')")
    result, _ = await play(net(body), Blocking())

    assert tokens_by_place(result.marking) == {"c": ["at last"], "d": [1]}


# Policies and ends ------------------------------------------------------------------------

CHOICE = """
place: [{id: p, marking: [1, 2, 3]}, {id: one}, {id: two}]
transition:
  - {id: first, arcs: [{source: p}, {target: one}]}
  - {id: second, priority: 5, arcs: [{source: p}, {target: two}]}
"""


JOIN = "transition: {id: t, arcs: [{source: p}, {source: q}]}"


async def test_the_first_transition_in_the_file_fires_by_default() -> None:
    first, _ = await play(net(CHOICE))
    urgent, _ = await play(net(CHOICE), policy=HighestPriority())

    assert tokens_by_place(first.marking) == {"one": [1, 2, 3]}
    assert tokens_by_place(urgent.marking) == {"two": [1, 2, 3]}


async def test_the_same_seed_makes_the_same_run() -> None:
    runs = [
        tokens_by_place((await play(net(CHOICE), policy=RandomChoice(seed)))[0].marking)
        for seed in range(20)
    ]
    again = [
        tokens_by_place((await play(net(CHOICE), policy=RandomChoice(seed)))[0].marking)
        for seed in range(20)
    ]

    assert runs == again
    assert len({str(run) for run in runs}) > 1


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("place: [{id: p, marking: 1}]", RunOutcome.COMPLETED),
        (
            "place: [{id: p, marking: 1}, {id: q}]\n" + JOIN,
            RunOutcome.DEADLOCK,
        ),
        (
            "place: [{id: p, marking: 1}, {id: q}, {id: end, marking: 1, final: true}]\n" + JOIN,
            RunOutcome.COMPLETED,
        ),
        (
            "place: [{id: p, marking: 1}]\ntransition: {id: t, arcs: [{source: p}, {target: p}]}",
            RunOutcome.LIMIT,
        ),
    ],
)
async def test_a_run_reports_its_outcome(body: str, outcome: RunOutcome) -> None:
    result, events = await play(net(body), limits=RunLimits(firings=50))

    assert result.outcome is outcome
    assert isinstance(events[-1], Ended)
    assert events[-1].outcome is outcome


async def test_a_timeout_while_a_firing_runs_ends_as_pending() -> None:
    class Never:
        async def wait(self) -> None:
            await asyncio.Event().wait()

        def go(self) -> None: ...

    result, _ = await play(net(PAIR), Never(), limits=RunLimits(timeout=0.2))

    assert result.outcome is RunOutcome.PENDING
    assert tokens_by_place(result.marking) == {"a": [1], "d": [1]}


async def test_a_timeout_ends_a_net_that_never_waits() -> None:
    loop = "place: [{id: p, marking: 1}]\ntransition: {id: t, arcs: [{source: p}, {target: p}]}"
    result, _ = await play(net(loop), limits=RunLimits(firings=10**9, timeout=0.02))

    assert result.outcome is RunOutcome.LIMIT
    assert result.firings > 10


async def test_cancelling_a_run_undoes_firings_in_progress() -> None:
    begun = asyncio.Event()

    class Never:
        async def wait(self) -> None:
            begun.set()
            await asyncio.Event().wait()

        def go(self) -> None: ...

    runner = Runner(net(PAIR), Never())
    run = asyncio.create_task(runner.run())
    await begun.wait()
    runner.interrupt()
    result = await run

    assert result.outcome is RunOutcome.CANCELLED
    assert tokens_by_place(result.marking)["a"] == [1]


async def test_an_interrupt_reaches_code_that_does_not_await() -> None:
    class Interrupting:
        def stop(self) -> None:
            runner.interrupt()

    runner = Runner(step("vscode_bridge.stop()"), Interrupting())
    result = await runner.run()

    assert result.outcome is RunOutcome.CANCELLED
    assert tokens_by_place(result.marking) == {"before": [1]}


async def test_the_gate_may_change_the_marking_before_a_firing() -> None:
    class Gate:
        runner: Runner
        seen: list[Any]

        def before(self, binding: Any) -> None:
            if binding.tokens == (1,):
                self.runner.change(self.runner.net.places["before"].id, [9])  # type: ignore[index]

        def after(self, event: Any) -> None: ...

    gate = Gate()
    events: list[Any] = []
    gate.runner = Runner(step("token"), Window(), hook=gate, listeners=[events.append])
    result = await gate.runner.run()

    assert tokens_by_place(result.marking) == {"after": [9]}
    assert any(isinstance(event, Changed) for event in events)


def test_every_run_outcome_has_its_own_exit_status() -> None:
    assert {str(outcome): outcome.exit_status for outcome in RunOutcome} == {
        "completed": 0,
        "error": 1,
        "deadlock": 3,
        "pending": 4,
        "limit": 5,
        "cancelled": 130,
    }


def test_a_traceback_shows_the_line_of_the_net() -> None:
    found = load_bytes(
        EPIC.replace("return x", "return missing + x").encode(), "t.evolve.yaml"
    ).unwrap()
    result, _ = asyncio.run(play(found))

    assert result.error is not None
    lines = "".join(traceback.format_exception(result.error)).splitlines()
    spot = lines.index('  File "t.evolve.yaml", line 24, in expr1')
    assert lines[spot + 1 : spot + 3] == ["    return missing + x", "           ^^^^^^^"]
