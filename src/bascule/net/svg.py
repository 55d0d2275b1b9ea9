"""Draws a net as SVG, in the colours of the editor that shows the drawing.

Each place and transition is a group with its id in `data-id`; a place's tokens are the text of
class `tokens` in the group, so that a view can update them.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

from .layout import Layout, Point, lay_out
from .model import Arc, ArcKind, Net, Place, Token, Transition

_RADIUS: Final = 18.0
_HALF_WIDTH: Final = 16.0
_MARGIN: Final = 16.0
_MAX_LABEL_CHARACTERS: Final = 16
"""Maximum characters of a name or of tokens below a node."""

_STYLE: Final = """
  .net { font: 11px var(--vscode-font-family, system-ui, sans-serif); }
  .net .paper { fill: var(--vscode-editor-background, #fff); }
  .net .shape { fill: var(--vscode-editor-background, #fff);
    stroke: var(--vscode-editor-foreground, #24292f); stroke-width: 1.5; }
  .net .transition .shape { fill: var(--vscode-editorWidget-background, #eef1f4); }
  .net .final .inner { fill: none; stroke: var(--vscode-editor-foreground, #24292f); }
  .net text { fill: var(--vscode-editor-foreground, #24292f); text-anchor: middle; }
  .net .tokens { font-weight: 600; fill: var(--vscode-charts-blue, #0a58ca); }
  .net .arc { fill: none; stroke: var(--vscode-editor-foreground, #24292f); opacity: .75; }
  .net .arc.read { stroke-dasharray: 5 3; }
  .net .weight { font-size: 10px; paint-order: stroke; stroke-width: 4px;
    stroke: var(--vscode-editor-background, #fff); }
  .net marker path { fill: var(--vscode-editor-foreground, #24292f); }
  .net marker circle { fill: var(--vscode-editor-background, #fff);
    stroke: var(--vscode-editor-foreground, #24292f); }
""".strip("\n")

_MARKERS: Final = """
  <defs>
    <marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"
      orient="auto"><path d="M0 1 L9 5 L0 9 z"/></marker>
    <marker id="double" viewBox="0 0 18 10" refX="17" refY="5" markerWidth="12" markerHeight="7"
      orient="auto"><path d="M0 1 L9 5 L0 9 z M8 1 L17 5 L8 9 z"/></marker>
    <marker id="ring" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8"
      orient="auto"><circle cx="5" cy="5" r="3.6"/></marker>
  </defs>
""".strip("\n")


def to_svg(net: Net, marking: Mapping[str, tuple[Token, ...]] | None = None) -> str:
    """The drawing, with the tokens of `marking`; by default the initial marking."""
    plan = lay_out(net)
    width, height = plan.width + 2 * _MARGIN, plan.height + 2 * _MARGIN
    title = escape(net.name or net.id)
    size = f'width="{width:.0f}" height="{height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="net" role="img" aria-label="{title}"',
        f'  {size} viewBox="0 0 {width:.0f} {height:.0f}">',
        f"  <title>{title}</title>",
        f"  <style>\n{_STYLE}\n  </style>",
        _MARKERS,
        f'  <rect class="paper" {size}/>',
        *(_arc(arc, net, plan) for arc in net.arcs),
        *(_place(place, plan, marking) for place in net.places.values()),
        *(_transition(transition, plan) for transition in net.transitions.values()),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def shown_tokens(tokens: tuple[Token, ...]) -> str:
    """Tokens in a few characters: dots for plain tokens, otherwise their values or their number."""
    if not tokens:
        return ""
    if all(token is None for token in tokens):
        return "•" * len(tokens) if len(tokens) <= 3 else str(len(tokens))
    text = ", ".join(str(token) for token in tokens)
    return text if len(text) <= _MAX_LABEL_CHARACTERS else f"{len(tokens)} tokens"


def _place(place: Place, plan: Layout, marking: Mapping[str, tuple[Token, ...]] | None) -> str:
    x, y = _add_margin(plan.nodes[place.id])
    held = place.initial if marking is None else marking.get(place.id, ())
    text = shown_tokens(held)
    inner = f'<circle class="inner" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS - 3:.1f}"/>'
    # Long tokens go above the circle, where there is room.
    lift = 4.0 if len(text) <= 4 else -_RADIUS - 5
    return (
        f'  <g class="place{" final" if place.is_final else ""}" data-id="{escape(place.id)}">'
        f"<title>{escape(_hint(place.id, held))}</title>"
        f'<circle class="shape" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:.1f}"/>'
        f"{inner if place.is_final else ''}"
        f'<text class="tokens" x="{x:.1f}" y="{y + lift:.1f}">{escape(text)}</text>'
        f"{_label(place.name or place.id, x, y + _RADIUS + 13)}</g>"
    )


def _transition(transition: Transition, plan: Layout) -> str:
    x, y = _add_margin(plan.nodes[transition.id])
    code = "\n".join(each.code.rstrip() for each in transition.inscriptions)
    mark = f'<text x="{x:.1f}" y="{y + 4:.1f}">ƒ</text>' if code else ""
    return (
        f'  <g class="transition" data-id="{escape(transition.id)}">'
        f"<title>{escape(code or transition.id)}</title>"
        f'<rect class="shape" x="{x - _HALF_WIDTH:.1f}" y="{y - _HALF_WIDTH:.1f}" '
        f'width="{2 * _HALF_WIDTH:.1f}" height="{2 * _HALF_WIDTH:.1f}" rx="2"/>{mark}'
        f"{_label(transition.name or transition.id, x, y + _HALF_WIDTH + 14)}</g>"
    )


def _label(text: str, x: float, y: float) -> str:
    short = text if len(text) <= _MAX_LABEL_CHARACTERS else text[: _MAX_LABEL_CHARACTERS - 1] + "…"
    return f'<text x="{x:.1f}" y="{y:.1f}">{escape(short)}</text>'


def _hint(name: str, tokens: tuple[Token, ...]) -> str:
    return f"{name}: {', '.join(map(repr, tokens))}" if tokens else name


def _arc(arc: Arc, net: Net, plan: Layout) -> str:
    points = [_add_margin(each) for each in _points_of(arc, plan)]
    points = _bend_right(points) if _has_parallel_arc(arc, net) and len(points) == 2 else points
    points[0] = _edge(points[0], points[1], is_place=arc.source in net.places)
    points[-1] = _edge(points[-1], points[-2], is_place=arc.target in net.places)
    marker = {ArcKind.INHIBITOR: "ring", ArcKind.RESET: "double"}.get(arc.kind, "arrow")
    ends = f'marker-end="url(#{marker})"' if arc.kind is not ArcKind.READ else ""
    weight = ""
    if arc.weight > 1:
        (x1, y1), (x2, y2) = points[len(points) // 2 - 1], points[len(points) // 2]
        x, y = (x1 + x2) / 2, (y1 + y2) / 2 - 3
        weight = f'<text class="weight" x="{x:.1f}" y="{y:.1f}">{arc.weight}</text>'
    return f'  <g><path class="arc {arc.kind}" d="{_curve(points)}" {ends}/>{weight}</g>'


def _points_of(arc: Arc, plan: Layout) -> list[Point]:
    return [plan.nodes[arc.source], *plan.bends[arc.id], plan.nodes[arc.target]]


def _has_parallel_arc(arc: Arc, net: Net) -> bool:
    """Whether another arc joins the same two nodes."""
    ends = {arc.source, arc.target}
    return any(other is not arc and {other.source, other.target} == ends for other in net.arcs)


def _bend_right(points: list[Point]) -> list[Point]:
    """Bend an arc to the right of its direction, away from the arc that leads back."""
    (x1, y1), (x2, y2) = points
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5 or 1.0
    shift = 14.0
    middle = (
        (x1 + x2) / 2 - (y2 - y1) / length * shift,
        (y1 + y2) / 2 + (x2 - x1) / length * shift,
    )
    return [points[0], middle, points[1]]


def _edge(node: Point, towards: Point, *, is_place: bool) -> Point:
    """Where a line from the middle of a node leaves its shape."""
    dx, dy = towards[0] - node[0], towards[1] - node[1]
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    reach = _RADIUS + 1 if is_place else (_HALF_WIDTH + 1) * length / (max(abs(dx), abs(dy)) or 1.0)
    return node[0] + dx / length * reach, node[1] + dy / length * reach


def _curve(points: list[Point]) -> str:
    """A path of straight lines with rounded bends."""
    start = points[0]
    path = [f"M{start[0]:.1f} {start[1]:.1f}"]
    for before, bend, after in zip(points, points[1:], points[2:], strict=False):
        enter, leave = _point_towards(bend, before), _point_towards(bend, after)
        path.append(f"L{enter[0]:.1f} {enter[1]:.1f}")
        path.append(f"Q{bend[0]:.1f} {bend[1]:.1f} {leave[0]:.1f} {leave[1]:.1f}")
    path.append(f"L{points[-1][0]:.1f} {points[-1][1]:.1f}")
    return " ".join(path)


def _point_towards(bend: Point, towards: Point) -> Point:
    dx, dy = towards[0] - bend[0], towards[1] - bend[1]
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    reach = min(26.0, length / 2)
    return bend[0] + dx / length * reach, bend[1] + dy / length * reach


def _add_margin(point: Point) -> Point:
    return point[0] + _MARGIN, point[1] + _MARGIN
