"""Markdown tables, and figures as people read them."""

from __future__ import annotations

from collections.abc import Sequence


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column is text, the others are figures."""
    rule = ["---", *["--:"] * (len(heading) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [heading, rule, *rows]) + "\n"


def milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else figure(seconds * 1000)


def figure(value: float | None, unit: str = "") -> str:
    """Three digits that matter, and no more; counts as they are."""
    if value is None:
        return "–"
    if value == 0:
        return f"0{unit}"
    if isinstance(value, int):
        return f"{value:,}{unit}"
    if abs(value) >= 1000:
        return f"{value:,.0f}{unit}"
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f}{unit}" if abs(value) >= 0.01 else f"{value:.2g}{unit}"


def span(values: Sequence[float], scale: float = 1.0) -> str:
    """Best to worst round."""
    if not values:
        return "–"
    return f"{figure(min(values) * scale)} – {figure(max(values) * scale)}"


def times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{figure(ratio)}x"
