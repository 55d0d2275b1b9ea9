"""Work whose right answer is known beforehand: series of commands, and files of a given size."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.peers.subject import Files, Refused


@dataclass(frozen=True, slots=True)
class Trial:
    command: str
    output: str
    status: int


class Trials:
    """An endless, repeatable series of short commands whose answers are known beforehand."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._directory = ""

    def take(self, count: int) -> Iterator[Trial]:
        kinds = (self._token, self._status, self._change_directory, self._several_lines)
        for _ in range(count):
            yield self._random.choice(kinds)()

    def _token(self) -> Trial:
        token = f"{self._random.getrandbits(64):016x}"
        return Trial(f"echo {token}", f"{token}\n", 0)

    def _status(self) -> Trial:
        status = self._random.randrange(256)
        return Trial(f"(exit {status})", "", status)

    def _change_directory(self) -> Trial:
        self._directory = self._random.choice(("/", "/tmp", "/usr", "/etc", "/proc"))
        return Trial(f"cd {self._directory} && pwd", f"{self._directory}\n", 0)

    def _several_lines(self) -> Trial:
        """Lines, a variable, a loop; and the directory an earlier command left behind."""
        token = f"{self._random.getrandbits(32):08x}"
        where = f"{self._directory}\n" if self._directory else ""
        command = f"x={token}\nfor i in 1 2 3; do\n  printf '%s-%s\\n' $i $x\ndone"
        output = "".join(f"{i}-{token}\n" for i in (1, 2, 3))
        status = self._random.randrange(2)
        tail = "\npwd" if where else ""
        return Trial(f"{command}{tail}\n[ {status} = 0 ]", output + where, status)


class FileTrial:
    """One file of a given size: reading, writing and editing it, timed and checked."""

    def __init__(self, files: Files, path: Path, size: int) -> None:
        self._files = files
        self._path = path
        line = "The quick brown fox jumps over the lazy dog, again and again.\n"
        self._text = (line * (size // len(line) + 1))[: size - 9] + "UNIQUE-0\n"
        self._edits = 0
        path.write_text(self._text)

    async def read(self) -> float:
        began = perf_counter()
        text = await self._files.read(str(self._path))
        seconds = perf_counter() - began
        if text.strip() != self._text.strip():
            raise Refused(f"{len(text)} of {len(self._text)} characters")
        return seconds

    async def write(self) -> float:
        self._path.unlink(missing_ok=True)
        began = perf_counter()
        await self._files.write(str(self._path), self._text)
        seconds = perf_counter() - began
        self._check()
        return seconds

    async def edit(self) -> float:
        old, self._edits = f"UNIQUE-{self._edits % 10}", self._edits + 1
        new = f"UNIQUE-{self._edits % 10}"
        began = perf_counter()
        await self._files.edit(str(self._path), old, new)
        seconds = perf_counter() - began
        self._text = self._text.replace(old, new)
        self._check()
        return seconds

    def _check(self) -> None:
        if self._path.read_text() != self._text:
            raise Refused("left something else in the file")
