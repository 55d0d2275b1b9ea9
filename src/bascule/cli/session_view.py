"""Formats sessions for users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bascule.core.printable import one_line

from .terminal import Cell, stdout

if TYPE_CHECKING:
    from bascule.link.sessions import HubSession

_COLOURS: Final = {"ready": "green", "failed": "red", "stopped": "dim", "paused": "yellow"}
_SHORT: Final = 8
"""Shown characters of an id. Commands accept the beginning of an id."""
_UNITS: Final = ((86400, "day"), (3600, "hour"), (60, "minute"))
_MIB: Final = 1 << 20


def show_list(found: Sequence[HubSession]) -> None:
    """Print a table. If stdout is not a terminal, ids are complete and lines are not folded."""
    terminal = stdout()
    is_short = terminal.is_interactive
    if not found:
        terminal.print("There are no sessions. Create one with `bascule session create`.")
        return
    of_many = len({each.metadata["owner"] for each in found}) > 1
    titles = ("ID", "STATE", "NAME", *(("OWNER",) if of_many else ()), "USED", "VS CODE")
    rows: list[Sequence[Cell]] = [[(title, "bold") for title in titles]]
    rows += [
        [
            each.id[:_SHORT] if is_short else each.id,
            (each.state, _COLOURS.get(each.state, "")),
            one_line(each.name),
            *([one_line(str(each.metadata["owner"]))] if of_many else []),
            ago(each.metadata["last_active"]),
            each.vscode_url,
        ]
        for each in found
    ]
    can_fold = [at for at, title in enumerate(titles) if title not in ("ID", "STATE", "USED")]
    terminal.print_table(rows, fold=can_fold)


def lines_of(session: HubSession, ports: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The properties of a session, as pairs of name and value."""
    about = session.metadata
    yield "id", session.id
    yield "name", session.name
    yield "state", f"{session.state}, {session.stage}" if session.stage else session.state
    yield "cause", session.cause
    yield "owner", str(about["owner"])
    yield "created", f"{ago(about['created'])}, by {about['created_by']}"
    yield "last used", ago(about["last_active"])
    yield "workspace", " ".join(filter(None, map(str, about["workspace"].values())))
    where = "in its VS Code window" if about["runtime"] == "vscode" else "in its sandbox"
    yield "actions", f"{where}, {about['shells']} shells"
    yield "spawner", " ".join(filter(None, (about["spawner"], about["image"])))
    yield "limits", _limits(about["limits"])
    yield "network", ", ".join((about["egress"]["mode"], *about["egress"]["domains"]))
    yield "variables", ", ".join(about["environment"])
    yield "secrets", ", ".join(about["secrets"])
    yield "VS Code", session.vscode_url
    for port in ports:
        yield "app", f"{port['url']} (port {port['port']}, {port['command'] or 'unknown'})"


def ago(time: str, now: datetime | None = None) -> str:
    seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(time)).total_seconds()
    for size, unit in _UNITS:
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def _limits(limits: Mapping[str, Any]) -> str:
    memory, cpus, processes = limits["memory"], limits["cpus"], limits["processes"]
    parts = (
        f"{memory / _MIB:.0f} MiB of memory" if memory else "",
        f"{cpus:g} CPUs" if cpus else "",
        f"{processes} processes" if processes else "",
    )
    return ", ".join(filter(None, parts)) or "none"
