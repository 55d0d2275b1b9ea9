"""Exports the actions of a session or window to a file or to stdout."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

from bascule.core.errors import UsageError

from .hub_target import HubTarget
from .signatures import CommandOption
from .terminal import LiveLines, spinner, stderr

if TYPE_CHECKING:
    from bascule.link.sessions import SessionCalls

Output = Annotated[
    Path | None,
    CommandOption("-o", "--output", metavar="FILE", help="File to write. [default: stdout]"),
]
AsList = Annotated[
    bool,
    CommandOption("--json", help="Write one JSON list, like OpenHands, instead of JSON lines."),
]

Pieces = Callable[["SessionCalls"], AsyncIterator[bytes]]


def export(target: HubTarget, pieces: Pieces, output: Path | None) -> int:
    """Write the data that the hub sends. A file gets its name only when it is complete."""
    import asyncio

    return asyncio.run(_export(target, pieces, output))


async def _export(target: HubTarget, pieces: Pieces, output: Path | None) -> int:
    import asyncio

    from bascule.link.sessions import SessionCalls

    with (
        target.explaining_unreachable_hub(),
        _open_output(output) as file,
        _show_size(output) as show,
    ):
        async with SessionCalls(target.url, target.token) as calls:
            size = 0
            async for piece in pieces(calls):
                await asyncio.to_thread(file.write, piece)
                show(size := size + len(piece))
    return 0


@contextmanager
def _open_output(output: Path | None) -> Iterator[BinaryIO]:
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    partial = output.with_name(f".{output.name}.part")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(output)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _show_size(output: Path | None) -> Iterator[Callable[[int], None]]:
    """Show the size written so far on stderr, if the output goes to a file."""
    if output is None or not stderr().is_interactive:
        yield lambda _: None
        return
    written = 0

    def show(size: int) -> None:
        nonlocal written
        written = size

    with LiveLines(lambda: [f"{spinner()} exporting {written / 1e6:.1f} MB"]):
        yield show
