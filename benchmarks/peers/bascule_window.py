"""Ours in a real VS Code window, through the hub, beside the limits of the same way.

The limits are a bare Socket.IO echo over the same three processes, `workspace.fs.readFile` in the
extension host, and VS Code's own shell integration.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import perf_counter, time
from typing import Any

import uvloop

import bascule
from bascule.core.actions import FileRead
from bascule.sandbox.vscode.installation import VERSION
from bascule.wire import encode_action, encode_observation
from benchmarks.peers.measurements import percentile
from benchmarks.peers.serve import respond
from benchmarks.peers.window_language import WindowLanguage
from benchmarks.peers.window_rig import Parts, WindowRig

TEXT = ("The quick brown fox jumps over the lazy dog, again and again.\n" * 17)[:1023] + "\n"
WARMUP = 10
REST_SECONDS = 0.1
"""A window goes on drawing after a command; what follows should not meet that, an echo least."""


class BasculeWindow:
    """The questions the window case asks. Nothing runs before `window_open`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._rig: WindowRig | None = None
        self._file = Path.cwd() / "note.txt"

    async def start(self) -> None:
        """There is nothing to start: it would be in the way of other cases."""

    async def stop(self) -> None:
        await self.window_close()

    async def hello(self) -> dict[str, Any]:
        versions = {"bascule": bascule.__version__, "code-server": VERSION}
        return {"pid": os.getpid(), "versions": versions, "server_pid": None}

    async def window_open(self) -> dict[str, Any]:
        """Bring up everything, unless it is there."""
        if self._rig is None:
            self._file.write_text(TEXT)
            rig = WindowRig(self._parts, self._file.parent)
            try:
                await rig.open()
            except BaseException:
                await rig.aclose()
                raise
            self._rig = rig
        return {}

    async def window_close(self) -> dict[str, Any]:
        if self._rig is not None:
            rig, self._rig = self._rig, None
            await rig.aclose()
        return {}

    async def window_path(
        self, pieces: int, each: int, changes: int, integrated: int
    ) -> dict[str, Any]:
        """Every kind of action by turns: in each piece `each` times what reads, `changes` times
        what changes files and editors, `integrated` times VS Code's shell integration."""
        path = WindowPath(self._open_rig, str(self._file))
        await path.prepare()
        await path.take(WARMUP, changes, integrated)
        path.forget()
        for _ in range(pieces):
            await path.take(each, changes, integrated)
        return path.figures()

    async def window_language(self, count: int) -> dict[str, Any]:
        """Every language action, VS Code's commands for it, and an echo, by turns."""
        language = WindowLanguage(self._open_rig, self._file.parent)
        await language.prepare()
        return await language.measure(count)

    async def window_reload(self) -> dict[str, Any]:
        """From the reload until the next action is answered; and until any extension ran."""
        rig = self._open_rig
        began, moment = perf_counter(), time()
        await rig.reload()
        await rig.window_is("gone")
        await rig.agent.read(str(self._file))
        seconds = perf_counter() - began
        return {"reload": seconds, "reload_editor": await rig.command("probe.activated") - moment}

    @property
    def _open_rig(self) -> WindowRig:
        assert self._rig is not None
        return self._rig


class WindowPath:
    """Times of one round, by what was done."""

    def __init__(self, rig: WindowRig, path: str) -> None:
        self._rig = rig
        self._path = path
        self._times: dict[str, list[float]] = {}
        self._wrong = 0
        self._changes = 0
        self._new = 0
        self._created: list[Path] = []
        self._scratch = Path(path).with_name("changed.txt")
        """What is written over and edited; it is open in an editor, as what agents edit is."""
        self._message: object = None
        self._answer: object = None

    async def prepare(self) -> None:
        """The echo carries what a read does: the same action there, the same observation back."""
        rig = self._rig
        seen = await rig.agent.read(self._path)
        event = encode_action(FileRead(self._path))
        self._message = {"window_id": rig.agent.window.id, "event": event}
        self._answer = encode_observation(seen)
        self._scratch.write_text(TEXT)
        await rig.agent.open_file(str(self._scratch), preview=False)
        await rig.command("probe.connect", rig.relay_url, self._answer)

    async def take(self, each: int, changes: int, integrated: int) -> None:
        await self._repeat("echo", self._echo, each)
        await self._probe("read_file", "probe.readFile", self._path, each)
        await self._repeat("read", self._read, each)
        await self._repeat("list", self._list, each)
        await self._repeat("glob", self._glob, each)
        await self._repeat("grep", self._grep, each)
        await self._repeat("true", self._true, each)
        await self._repeat("cell", self._cell, each)
        await self._repeat("command", self._command, each)
        await self._repeat("diagnostics", self._diagnostics, each)
        await self._repeat("open", self._open, changes)
        await self._repeat("create", self._create, changes)
        await self._repeat("remove", self._remove, changes)
        await self._repeat("write", self._write, changes)
        await self._repeat("edit", self._edit, changes)
        await self._repeat("undo", self._undo, changes)
        await self._probe("shell_integration", "probe.shellIntegration", "true", integrated)

    def forget(self) -> None:
        self._times.clear()

    def figures(self) -> dict[str, Any]:
        medians = {name: statistics.median(times) for name, times in self._times.items()}
        worst = {f"{name}_p95": percentile(times, 95) for name, times in self._times.items()}
        return {**medians, **worst, "wrong": self._wrong}

    async def _repeat(self, name: str, work: Callable[[], Awaitable[bool]], count: int) -> None:
        await asyncio.sleep(REST_SECONDS)
        times = []
        for _ in range(count):
            began = perf_counter()
            is_right = await work()
            times.append(perf_counter() - began)
            self._wrong += not is_right
        self._note(name, times)

    async def _probe(self, name: str, command: str, *arguments: Any) -> None:
        await asyncio.sleep(REST_SECONDS)
        self._note(name, await self._rig.command(command, *arguments))

    def _note(self, name: str, times: Sequence[float]) -> None:
        self._times.setdefault(name, []).extend(times)

    async def _echo(self) -> bool:
        return bool(await self._rig.asker.call("echo", self._message) == self._answer)

    async def _open(self) -> bool:
        """Alternates between two files, so that each time another one is shown."""
        self._new += 1
        path = self._path if self._new % 2 else str(self._scratch)
        return (await self._rig.agent.open_file(path, preview=False)).path == path

    async def _create(self) -> bool:
        self._new += 1
        path = self._scratch.with_name(f"new{self._new}.txt")
        await self._rig.agent.write(str(path), TEXT)
        self._created.append(path)
        return path.read_text() == TEXT

    async def _remove(self) -> bool:
        path = self._created.pop()
        await self._rig.agent.remove(str(path))
        return not path.exists()

    async def _write(self) -> bool:
        """Written over whole."""
        self._changes += 1
        text = f"{TEXT}change {self._changes}\n"
        await self._rig.agent.write(str(self._scratch), text)
        return self._scratch.read_text() == text

    async def _edit(self) -> bool:
        before, self._changes = self._changes, self._changes + 1
        await self._rig.agent.edit(
            str(self._scratch),
            "str_replace",
            old_str=f"change {before}\n",
            new_str=f"change {self._changes}\n",
        )
        return self._scratch.read_text() == f"{TEXT}change {self._changes}\n"

    async def _undo(self) -> bool:
        """Takes the last edit back; `take` makes as many edits before."""
        self._changes -= 1
        await self._rig.agent.edit(str(self._scratch), "undo_edit")
        return self._scratch.read_text() == f"{TEXT}change {self._changes}\n"

    async def _list(self) -> bool:
        seen = await self._rig.agent.list_dir()
        return "note.txt" in seen.content

    async def _glob(self) -> bool:
        return self._path in (await self._rig.agent.glob("*.txt")).paths

    async def _grep(self) -> bool:
        seen = await self._rig.agent.grep("quick brown")
        return any(match.path == self._path for match in seen.matches)

    async def _cell(self) -> bool:
        return (await self._rig.agent.run_ipython("6 * 7")).content.strip().endswith("42")

    async def _command(self) -> bool:
        return float(await self._rig.command("probe.activated")) > 0

    async def _diagnostics(self) -> bool:
        return len((await self._rig.agent.diagnostics(self._path)).items) == 0

    async def _read(self) -> bool:
        return (await self._rig.agent.read(self._path)).content == TEXT

    async def _true(self) -> bool:
        seen = await self._rig.agent.run("true")
        return (seen.content, seen.exit_code) == ("", 0)


if __name__ == "__main__":
    respond(BasculeWindow(Parts(*map(Path, sys.argv[1:]))), uvloop.run)
