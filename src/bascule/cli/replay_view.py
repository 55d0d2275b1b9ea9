"""Shows the result of a replay, as text or JSON."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from bascule.core.printable import printable

if TYPE_CHECKING:
    from bascule.runtime.replay import Difference, Script, Step, StepOutcome

_SUBJECT: Final = 80
_DIFF: Final = 40
"""Maximum lines of a shown difference."""
_SUBJECT_FIELDS: Final = ("command", "code", "path", "url", "browser_actions", "pattern", "name")
_SIGNS: Final = {"different": "✗", "masked": "✗", "unknown": "?", "same": "✓"}
_NOTES: Final = {
    "masked": "not run: it contains a masked secret, so the result would differ",
    "unknown": "run, but the file has no result to compare it with",
}


def lines_of(script: Script, outcomes: Sequence[StepOutcome]) -> Iterator[str]:
    """The steps whose result differs, each with its differences, then a summary."""
    for outcome in outcomes:
        if outcome.verdict != "same":
            yield from _outcome_lines(outcome)
    yield _summary(script, outcomes)


def as_json(script: Script, outcomes: Sequence[StepOutcome]) -> dict[str, Any]:
    counts = Counter(str(outcome.verdict) for outcome in outcomes)
    return {
        "steps": [_step(outcome) for outcome in outcomes],
        "counts": {verdict: counts[verdict] for verdict in _SIGNS},
        "passed_over": dict(script.passed_over),
        "missed": script.missed,
    }


def _step(outcome: StepOutcome) -> dict[str, Any]:
    step = outcome.step
    return {
        "step": step.number,
        "line": step.line,
        "action": step.action.kind,
        "verdict": str(outcome.verdict),
        "seconds": round(outcome.seconds, 6),
        "differences": [
            {"what": each.what, "was": each.was, "now": each.now} for each in outcome.differences
        ],
    }


def _outcome_lines(outcome: StepOutcome) -> Iterator[str]:
    step, verdict = outcome.step, str(outcome.verdict)
    yield f"{_SIGNS[verdict]} step {step.number} (line {step.line})  {_subject(step)}"
    if verdict in _NOTES:
        yield f"    {_NOTES[verdict]}"
    for each in outcome.differences:
        for line in _difference(each):
            yield f"    {printable(line)}"


def _difference(each: Difference) -> Iterator[str]:
    if "\n" not in each.was + each.now and len(each.was + each.now) < _SUBJECT:
        yield f"{each.what}: {each.was or '(nothing)'} → {each.now or '(nothing)'}"
        return
    yield f"{each.what}:"
    was, now = each.was.split("\n"), each.now.split("\n")
    lines = list(difflib.unified_diff(was, now, "recorded", "replayed", lineterm="", n=2))
    for line in lines[:_DIFF]:
        yield f"  {line[: 4 * _SUBJECT]}"
    if len(lines) > _DIFF:
        yield f"  … {len(lines) - _DIFF} more lines (--json prints all)"


def _subject(step: Step) -> str:
    found = (getattr(step.action, name, None) for name in _SUBJECT_FIELDS)
    text = next((each for each in found if isinstance(each, str) and each), "")
    first, *more = printable(text).strip().split("\n")
    cut = first[:_SUBJECT] + ("…" if more or len(first) > _SUBJECT else "")
    return f"{step.action.kind}  {cut}"


def _summary(script: Script, outcomes: Sequence[StepOutcome]) -> str:
    counts = Counter(str(outcome.verdict) for outcome in outcomes)
    words = {"same": "same", "different": "different", "masked": "masked", "unknown": "unknown"}
    parts = [f"{counts[verdict]} {word}" for verdict, word in words.items() if counts[verdict]]
    steps = "1 step" if len(outcomes) == 1 else f"{len(outcomes)} steps"
    summary = f"{steps}: {', '.join(parts)}" if parts else "no actions to run"
    if script.passed_over:
        each = ", ".join(f"{kind} {n}" for kind, n in sorted(script.passed_over.items()))
        summary += f"; {sum(script.passed_over.values())} events skipped ({printable(each)})"
    if script.missed:
        summary += f"; {script.missed} events are missing from the file"
    return summary
