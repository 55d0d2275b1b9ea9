"""What a subject can do, for the measurements to build on."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Shell = TypeVar("Shell")
COMMAND_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    output: str | bytes
    status: int | None

    @property
    def text(self) -> str:
        return self.output.decode() if isinstance(self.output, bytes) else self.output

    @property
    def is_silent_success(self) -> bool:
        return self.status == 0 and not self.output.strip()


class Refused(Exception):
    """The subject cannot or will not do this; the message is the reason, for the report."""


class Subject(ABC, Generic[Shell]):
    """A way to run bash commands and, where it has one, to handle files."""

    name: str
    starts_with_first_command: bool = False
    """`open` only names a shell: there is no moment at which it is ready and has run nothing."""

    def versions(self) -> dict[str, str]:
        """Packages that were measured, by name."""
        return {}

    async def start(self) -> None:
        """Bring up what must be there before any shell, such as a server."""

    async def stop(self) -> None:
        """Undo `start`."""

    @property
    def server_pid(self) -> int | None:
        """The server that does the work, when it is not this process."""
        return None

    @abstractmethod
    async def open(self) -> Shell:
        """A new shell, ready for its first command."""

    @abstractmethod
    async def run(self, shell: Shell, command: str, timeout: float) -> Answer: ...

    @abstractmethod
    async def close(self, shell: Shell) -> None: ...

    async def start_cold(self) -> float | None:
        """Seconds to a first command with nothing started yet; None when a shell needs nothing."""
        return None

    async def open_all(self, count: int) -> list[Shell]:
        """Open `count` shells at once; each has answered a first command."""
        return list(await asyncio.gather(*(self._open_and_run() for _ in range(count))))

    async def together(self, shells: Sequence[Shell], command: str, each: int) -> int:
        """Run `command` `each` times in every shell, all shells at once; how many went wrong."""
        return sum(await asyncio.gather(*(self._repeat(s, command, each) for s in shells)))

    async def _open_and_run(self) -> Shell:
        shell = await self.open()
        answer = await self.run(shell, "true", COMMAND_TIMEOUT)
        if answer.status != 0:
            raise RuntimeError(f"the first command of a shell answered {answer!r}")
        return shell

    async def _repeat(self, shell: Shell, command: str, each: int) -> int:
        answers = [await self.run(shell, command, COMMAND_TIMEOUT) for _ in range(each)]
        return sum(not answer.is_silent_success for answer in answers)


class Files(ABC):
    """What a subject has besides when it can handle files."""

    @abstractmethod
    async def read(self, path: str) -> str: ...

    @abstractmethod
    async def write(self, path: str, text: str) -> None: ...

    @abstractmethod
    async def edit(self, path: str, old: str, new: str) -> None:
        """Replace `old`, which occurs once, by `new`."""


class Pages(ABC):
    """What a subject has besides when it can browse. Its browser starts with the first page."""

    @abstractmethod
    async def browse(self, url: str) -> str:
        """The page as text."""

    @abstractmethod
    async def interact(self, calls: str) -> str:
        """Act in the page; its accessibility tree."""

    @abstractmethod
    async def end_browser(self) -> None:
        """The next page starts another."""


class Cells(ABC):
    """What a subject has besides when it can run cells of Python."""

    @abstractmethod
    async def run_cell(self, code: str) -> str:
        """What the cell showed."""

    @abstractmethod
    async def end_kernel(self) -> None:
        """The next cell has to start a new one."""


class Server(ABC):
    """What a subject has besides when it is a server that can be started by itself."""

    @abstractmethod
    async def start_server(self) -> tuple[int, float]:
        """Start one more server; its pid, and the seconds until it said that it is alive."""

    @abstractmethod
    async def stop_server(self) -> None:
        """End the server that `start_server` started."""


class BlockingSubject(Subject[Shell]):
    """A subject whose calls block: alone it is called directly, many at once from threads."""

    @abstractmethod
    def open_now(self) -> Shell: ...

    @abstractmethod
    def run_now(self, shell: Shell, command: str, timeout: float) -> Answer: ...

    @abstractmethod
    def close_now(self, shell: Shell) -> None: ...

    async def open(self) -> Shell:
        return self.open_now()

    async def run(self, shell: Shell, command: str, timeout: float) -> Answer:
        return self.run_now(shell, command, timeout)

    async def close(self, shell: Shell) -> None:
        self.close_now(shell)

    async def open_all(self, count: int) -> list[Shell]:
        def opened(_: int) -> Shell:
            shell = self.open_now()
            self.run_now(shell, "true", COMMAND_TIMEOUT)
            return shell

        return await _in_threads(opened, range(count))

    async def together(self, shells: Sequence[Shell], command: str, each: int) -> int:
        def repeated(shell: Shell) -> int:
            answers = [self.run_now(shell, command, COMMAND_TIMEOUT) for _ in range(each)]
            return sum(not answer.is_silent_success for answer in answers)

        return sum(await _in_threads(repeated, shells))


async def _in_threads(function: Callable[[Any], Any], items: Sequence[Any] | range) -> list[Any]:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(len(items)) as pool:
        return list(await asyncio.gather(*(loop.run_in_executor(pool, function, i) for i in items)))
