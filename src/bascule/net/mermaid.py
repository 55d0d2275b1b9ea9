"""Draws a net as the text of a Mermaid flowchart, for pages that render Mermaid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .model import Arc, ArcKind, Net
from .svg import shown_tokens

_ARROWS: Final = {
    ArcKind.NORMAL: "-->",
    ArcKind.READ: "-.->",
    ArcKind.INHIBITOR: "--o",
    ArcKind.RESET: "--x",
}


def to_mermaid(net: Net) -> str:
    return "\n".join(_lines(net)) + "\n"


def _lines(net: Net) -> Iterator[str]:
    names = {node: f"n{number}" for number, node in enumerate((*net.places, *net.transitions))}
    yield "flowchart LR"
    for place in net.places.values():
        tokens = shown_tokens(place.initial)
        text = (place.name or place.id) + (f"\n{tokens}" if tokens else "")
        yield f"  {names[place.id]}(({_quote(text)}))"
    for transition in net.transitions.values():
        yield f"  {names[transition.id]}[{_quote(transition.name or transition.id)}]"
    for arc in net.arcs:
        yield f"  {names[arc.source]} {_arrow(arc)} {names[arc.target]}"


def _arrow(arc: Arc) -> str:
    weight = f"|{arc.weight}|" if arc.weight > 1 else ""
    return _ARROWS[arc.kind] + weight


def _quote(text: str) -> str:
    """A label in quotes. Mermaid needs numeric entities, and `<br>` for a line break."""
    safe = "".join(f"#{ord(each)};" if each in '#"<>&;' else each for each in text)
    return '"' + safe.replace("\n", "<br>") + '"'
