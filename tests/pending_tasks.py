"""Where asyncio tasks wait: for the report of a test that exceeded its time limit."""

from __future__ import annotations

import asyncio
import gc
import io


def describe_pending_tasks() -> str:
    """The stack of each task that has not ended, of all event loops of this process.

    The traceback of such a test ends in the event loop, so it does not show what the test awaited.
    """
    # A loop can list its tasks only to code that runs on it.
    tasks = [each for each in gc.get_objects() if isinstance(each, asyncio.Task)]
    return "\n".join(_stack(task) for task in tasks if not task.done())


def _stack(task: asyncio.Task[object]) -> str:
    text = io.StringIO()
    task.print_stack(file=text)
    return text.getvalue()
