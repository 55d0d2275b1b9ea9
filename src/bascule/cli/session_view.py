"""Formats sessions for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bascule.core.printable import one_line

if TYPE_CHECKING:
    from bascule.link.sessions import HubSession

_COLOURS: Final = {"ready": "green", "failed": "red", "stopped": "dim", "paused": "yellow"}
_SHORT: Final = 8
"""Characters by which an id is told from others; commands take the beginning of one."""
_UNITS: Final = ((86400, "day"), (3600, "hour"), (60, "minute"))
_MIB: Final = 1 << 20


def show_list(found: Sequence[HubSession]) -> None:
    """A table; whole ids and nothing folded where it is not a person who reads."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    is_short = console.is_terminal
    if not is_short:
        console.width = 1000
    if not found:
        console.print("There are no sessions. Create one with `bascule session create`.")
        return
    of_many = len({each.metadata["owner"] for each in found}) > 1
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    titles = ("ID", "STATE", "NAME", *(("OWNER",) if of_many else ()), "USED", "VS CODE")
    for title in titles:
        table.add_column(title, no_wrap=title in ("ID", "STATE", "USED"), overflow="fold")
    for each in found:
        cells = [
            Text(each.id[:_SHORT] if is_short else each.id),
            Text(each.state, style=_COLOURS.get(each.state, "")),
            Text(one_line(each.name)),
            *([Text(one_line(str(each.metadata["owner"])))] if of_many else []),
            Text(ago(each.metadata["last_active"])),
            Text(each.vscode_url),
        ]
        table.add_row(*cells)
    console.print(table)


def lines_of(session: HubSession, ports: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """What is known of one, a name and a value each."""
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
