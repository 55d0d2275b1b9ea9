"""Taking away what was done in a session or window: into a file, or to stdout."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from bascule.core.errors import UsageError

from .hub_target import HubTarget

if TYPE_CHECKING:
    from bascule.link.sessions import SessionCalls

Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="File to write. [default: stdout]"),
]
AsList = Annotated[
    bool, typer.Option("--json", help="Write one JSON list, like OpenHands, instead of JSON lines.")
]

Pieces = Callable[["SessionCalls"], AsyncIterator[bytes]]


def export(place: HubTarget, pieces: Pieces, output: Path | None) -> int:
    """Write what the hub sends. A file is there once it is whole, and not before."""
    import asyncio

    return asyncio.run(_export(place, pieces, output))


async def _export(place: HubTarget, pieces: Pieces, output: Path | None) -> int:
    import asyncio

    from bascule.link.sessions import SessionCalls

    with place.told_how_to_start(), _opened(output) as file, _size_shown(output) as show:
        async with SessionCalls(place.url, place.token) as calls:
            size = 0
            async for piece in pieces(calls):
                await asyncio.to_thread(file.write, piece)
                show(size := size + len(piece))
    return 0


@contextmanager
def _opened(output: Path | None) -> Iterator[BinaryIO]:
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    beside = output.with_name(f".{output.name}.part")
    try:
        with beside.open("wb") as file:
            yield file
        beside.replace(output)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def _size_shown(output: Path | None) -> Iterator[Callable[[int], None]]:
    """How much has come, to a person who sees nothing of it otherwise."""
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn

    console = Console(stderr=True, highlight=False)
    if output is None or not console.is_terminal or console.is_dumb_terminal:
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("exporting"), DownloadColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda size: shown.update(task, completed=size)
