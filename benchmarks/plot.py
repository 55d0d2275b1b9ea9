"""`results.svg`: four pictures of the same entrants, on logarithmic scales."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.entrants import ENTRANTS, OURS, RAW, Entrant
from benchmarks.results import Results
from benchmarks.tables import figure


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    case: str
    name: str
    scale: float
    unit: str


PANELS = (
    Panel("`true`, median (less is better)", "latency", "median", 1000, " ms"),
    Panel("new shell to first command done (less)", "startup", "first_command", 1000, " ms"),
    Panel("50 MB of output (less)", "output-50mb", "seconds", 1, " s"),
    Panel("50 shells together, commands/s (more)", "fleet", "commands_per_second", 1, ""),
)


def draw(results: Results, path: Path) -> None:
    """Needs matplotlib, which is only installed for this."""
    mpl: Any = importlib.import_module("matplotlib")
    mpl.use("svg")
    plt: Any = importlib.import_module("matplotlib.pyplot")
    # Fixed ids and no date: the same figures give the same file.
    with mpl.rc_context({"svg.hashsalt": "bascule", "svg.fonttype": "none", "font.size": 9}):
        canvas, grid = plt.subplots(2, 2, figsize=(11, 6.5), layout="constrained")
        for axes, panel in zip(grid.flat, PANELS, strict=True):
            _fill(axes, panel, results)
        canvas.savefig(path, format="svg", metadata={"Date": None})
        plt.close(canvas)


def _fill(axes: Any, panel: Panel, results: Results) -> None:
    shown = {
        entrant: value * panel.scale
        for entrant in reversed(ENTRANTS)
        if (value := results.median(panel.case, entrant, panel.name)) is not None
    }
    axes.set_title(panel.title)
    if not shown:
        axes.text(0.5, 0.5, "not measured", ha="center", transform=axes.transAxes)
        return
    bars = axes.barh(
        [entrant.name for entrant in shown],
        list(shown.values()),
        color=[_colour(entrant, panel, results) for entrant in shown],
    )
    axes.bar_label(bars, [_label(e, v, panel, results) for e, v in shown.items()], padding=3)
    axes.set_xscale("log")
    axes.set_xmargin(0.4)
    axes.spines[["top", "right"]].set_visible(False)


def _label(entrant: Entrant, value: float, panel: Panel, results: Results) -> str:
    text = figure(value, panel.unit)
    return text if _is_whole(entrant, panel, results) else f"{text}, incomplete"


def _colour(entrant: Entrant, panel: Panel, results: Results) -> str:
    if entrant is RAW:
        return "#8a8f98"
    if entrant in OURS:
        return "#1f7a8c"
    return "#e1a84a" if _is_whole(entrant, panel, results) else "#e8d3ac"


def _is_whole(entrant: Entrant, panel: Panel, results: Results) -> bool:
    return all(seen.get("complete", True) for seen in results.of(panel.case, entrant))
