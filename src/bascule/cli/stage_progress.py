"""Shows on stderr the stages of a session that is starting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bascule.core.printable import one_line


@contextmanager
def show_stages(*, only_last: bool = False) -> Iterator[Callable[[str], None]]:
    """Shows on stderr what work is busy with: at a terminal in place, with the time each stage
    takes, and gone when it is over; else line by line, or with `only_last` not at all."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        yield lambda stage: None if only_last else console.print(one_line(stage), markup=False)
        return
    columns = (
        SpinnerColumn(finished_text="✓"),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as shown:
        tasks: list[TaskID] = []

        def say(stage: str) -> None:
            if tasks and only_last:
                shown.remove_task(tasks.pop())
            elif tasks:
                shown.update(tasks[-1], total=1, completed=1)
            tasks.append(shown.add_task(one_line(stage), total=None))

        yield say
