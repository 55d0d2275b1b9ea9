"""Formats the rules of a hub or session for users, with their origin and use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from bascule.core.printable import one_line

from .session_view import ago
from .terminal import Terminal, stdout

_COLOURS: Final = {"allow": "green", "ask": "yellow", "deny": "red"}
_PAST_TENSE: Final = {"allow": "allowed", "ask": "asked about", "deny": "denied"}


def show_rules(found: Sequence[Mapping[str, Any]]) -> None:
    """Print each rule with indented lines about it."""
    terminal = stdout()
    if not found:
        terminal.print("There are no rules for commands.")
    for each in found:
        for line in _lines(each, terminal):
            terminal.print(line)


def _lines(rule: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    verdict = str(rule["verdict"])
    agent = one_line(str(rule["agent"])) or "all agents"
    yield f"{terminal.styled(f'{verdict:5}', _COLOURS.get(verdict, ''))}  " + one_line(
        f"{rule['rule']} (for {agent})"
    )
    made_by = "the workspace" if rule.get("made_by") == "workspace" else "the hub"
    why = f": {rule['why']}" if rule["why"] else ""
    yield one_line(f"       rule of {made_by}, {rule['origin']}{why}")
    if "count" in rule:
        yield f"       {_use_text(verdict, rule)}"


def _use_text(verdict: str, rule: Mapping[str, Any]) -> str:
    count = rule["count"]
    if count is None:
        return "the session does not run, so its counts are not known"
    commands = f"{count} {'command' if count == 1 else 'commands'}"
    text = f"{_PAST_TENSE.get(verdict, 'decided')} {commands}"
    if rule["last_time"] is None:
        return text
    when = ago(datetime.fromtimestamp(rule["last_time"], UTC).isoformat())
    return f"{text}, the last {when}: {one_line(str(rule['last_command']))}"
