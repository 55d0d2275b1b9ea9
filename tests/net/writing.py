"""Nets written down in tests, and a window that does as it is told."""

from __future__ import annotations

import asyncio
from textwrap import dedent, indent
from typing import Any

from bascule.net import Loaded, Net, Policy, RunLimits, Runner, RunResult, load_bytes
from bascule.net.runner import FiringHook
from bascule.net.trace import Event

FILE = "a.evolve.yaml"


def read(body: str) -> Loaded:
    """What comes of a page with `body`, in the file `FILE`; the body begins at line 5."""
    head = "pnml:\n  net:\n    - id: n\n      page:\n"
    text = head + indent("- id: page\n" + indent(dedent(body).lstrip("\n"), "  "), "        ")
    return load_bytes(text.encode(), FILE)


def net(body: str) -> Net:
    return read(body).unwrap()


def step(code: str, *, marking: str = "[1]", mode: str = "sync") -> Net:
    """`before` with `marking`, one transition `t` with the expression `code`, and `after`."""
    head = f"""\
        place:
          - {{id: before, marking: {marking}}}
          - {{id: after}}
        transition:
          - id: t
            arcs: [{{id: a1, source: before}}, {{id: a2, target: after}}]
            inscriptions:
              - id: work
                kind: expression
                execMode: {mode}
                code: |
"""
    return net(dedent(head) + indent(dedent(code).strip("\n"), " " * 10) + "\n")


class Window:
    """Notes what it is asked, and answers."""

    def __init__(self, **answers: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "aio":
            raise AttributeError(name)

        def answer(*args: Any, **_: Any) -> Any:
            self.calls.append((name, *args))
            found = self._answers.get(name)
            if isinstance(found, Exception):
                raise found
            return found

        return answer


async def play(
    net: Net,
    window: object = None,
    *,
    policy: Policy | None = None,
    limits: RunLimits | None = None,
    hook: FiringHook | None = None,
) -> tuple[RunResult, list[Event]]:
    events: list[Event] = []
    runner = Runner(
        net,
        window or Window(),
        policy=policy,
        limits=limits,
        listeners=[events.append],
        hook=hook,
    )
    return await runner.run(), events


def play_now(net: Net, window: object = None, **options: Any) -> tuple[RunResult, list[Event]]:
    return asyncio.run(play(net, window, **options))
