"""Handles of processes (pidfd), and the processes of a PID namespace."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
from collections.abc import Iterator, Mapping

from bascule.sandbox.process_table import all_pids, is_first_in_namespace, pid_namespace


class ProcessHandle:
    """A process held by a pidfd, so that its PID cannot be reused meanwhile."""

    def __init__(self, pid: int) -> None:
        """Open a pidfd. Raises `ProcessLookupError` if there is no such process."""
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    @property
    def is_over(self) -> bool:
        watched = select.poll()
        watched.register(self._descriptor, select.POLLIN)
        return bool(watched.poll(0))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; no effect if the process has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    async def ended(self) -> None:
        """Wait until the process has ended, even if it is not reaped yet."""
        loop = asyncio.get_running_loop()
        end = loop.create_future()
        # A copy, because a loop has one reader per descriptor, but many tasks may wait.
        watched = os.dup(self._descriptor)

        def on_ready() -> None:
            loop.remove_reader(watched)
            if not end.done():
                end.set_result(None)

        loop.add_reader(watched, on_ready)
        try:
            await end
        finally:
            loop.remove_reader(watched)
            os.close(watched)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def first_processes() -> Mapping[int, int]:
    """The PID of the first process of each visible PID namespace. Its end kills all other processes
    there."""
    found = {pid_namespace(pid): pid for pid in all_pids() if is_first_in_namespace(pid)}
    found.pop(0, None)
    return found


def members(namespace: int) -> Iterator[int]:
    """Every visible process in that PID namespace."""
    return (pid for pid in all_pids() if namespace and pid_namespace(pid) == namespace)
