"""Binds a breakpoint at a line of a net's file to a place, transition or line of code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bascule.net import Inscription, Net, Place, Span, Transition
from bascule.net.inscriptions import first_line


class BreakpointTarget(StrEnum):
    PLACE = "place"
    """Stop after a firing has put tokens into the place."""
    TRANSITION = "transition"
    """Stop before the transition fires."""
    CODE = "code"
    """Stop at the line of Python code."""


@dataclass(frozen=True, slots=True)
class BoundBreakpoint:
    """The element and line to which a breakpoint was bound."""

    target: BreakpointTarget
    element: str
    line: int


def bind(net: Net, line: int) -> BoundBreakpoint | None:
    """The innermost element at `line`: code, otherwise a node, otherwise the transition of an
    arc."""
    for inscription in _inscriptions(net):
        if _contains_line(inscription, line):
            return BoundBreakpoint(BreakpointTarget.CODE, inscription.id, line)
    for node in _nodes(net):
        if node.span.line == line:
            return _breakpoint_at(net, node)
    for arc in net.arcs:
        if _is_in(arc.span, line):
            end = arc.source if arc.source in net.transitions else arc.target
            return _breakpoint_at(net, next(node for node in _nodes(net) if node.id == end))
    around = [node for node in _nodes(net) if _is_in(node.span, line)]
    return _breakpoint_at(net, max(around, key=lambda node: node.span.line)) if around else None


def entry_line(net: Net, transition: str) -> int | None:
    """Where stepping into a transition stops: the first line of its first expression."""
    for each in net.transitions.values():
        if each.id == transition and each.expressions:
            return first_line(each.expressions[0])
    return None


def transition_at(net: Net, line: int) -> str:
    """The transition whose code, or whose arc's code, is at `line`; empty if there is none."""
    for transition in net.transitions.values():
        if any(_contains_line(each, line) for each in transition.inscriptions):
            return transition.id
    for arc in net.arcs:
        if arc.expression is not None and _contains_line(arc.expression, line):
            return arc.source
    return ""


def possible_lines(net: Net, start: int, end: int) -> list[int]:
    """Lines from `start` to `end` at which a breakpoint would be bound to the same line."""
    found = []
    for line in range(start, end + 1):
        bound = bind(net, line)
        if bound is not None and bound.line == line:
            found.append(line)
    return found


def binding_status(bound: BoundBreakpoint | None) -> dict[str, Any]:
    """The part of a breakpoint's answer that says whether it was bound."""
    if bound is None:
        return {"verified": False, "message": "Nothing happens at this line of the net"}
    return {"verified": True, "line": bound.line}


def _inscriptions(net: Net) -> list[Inscription]:
    found = [each for t in net.transitions.values() for each in t.inscriptions]
    return found + [arc.expression for arc in net.arcs if arc.expression is not None]


def _contains_line(inscription: Inscription, line: int) -> bool:
    return inscription.span.line <= line <= _last_line(inscription)


def _last_line(inscription: Inscription) -> int:
    lines = inscription.code.rstrip("\n").count("\n") if inscription.lines_match_file else 0
    return inscription.span.line + lines


def _nodes(net: Net) -> list[Place | Transition]:
    return [*net.places.values(), *net.transitions.values()]


def _breakpoint_at(net: Net, node: Place | Transition) -> BoundBreakpoint:
    target = BreakpointTarget.PLACE if node.id in net.places else BreakpointTarget.TRANSITION
    return BoundBreakpoint(target, node.id, node.span.line)


def _is_in(span: Span, line: int) -> bool:
    """Whether `line` is in `span`. The end line is excluded, because a YAML block's span ends at
    the line of the next element."""
    return span.line <= line < max(span.end_line, span.line + 1)
