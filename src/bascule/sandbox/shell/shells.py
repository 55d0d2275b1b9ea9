"""The named shells of a sandbox: started on first use, closed together."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bascule.core.actions import CmdRun, Interrupt
from bascule.core.contracts import Closable, CommandCheck, OnProgress, OutputProgress, Shell
from bascule.core.errors import (
    InvalidShellName,
    NoSuchPath,
    NoSuchShell,
    NotADirectory,
    ShellClosed,
    TooManyShells,
)
from bascule.core.observations import CmdOutput, Interrupted

from .keeper import Keeper, RecoveredKeeper
from .log import DiskLog
from .pty import PtyShell
from .settings import ShellKind, ShellSettings, shell_environment
from .tmux_host import TmuxHost

if TYPE_CHECKING:
    from .tmux import TmuxShell

DEFAULT = "main"
"""Name of the shell that runs an action without a shell name."""

IPYTHON = "ipython"
"""Reserved name of the IPython kernel, used to interrupt it and to read its log."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Shells(Closable):
    """All shells of one sandbox, by name. Closing ends every process that any shell started."""

    def __init__(self, settings: ShellSettings) -> None:
        self._settings = settings
        self._own_dir = settings.log_dir is None
        # The first shell creates the directory. Before that there is no keeper, which would remove
        # the directory after `kill -9`.
        self._dir = settings.log_dir or Path(
            tempfile.gettempdir(), f"bascule-{os.urandom(8).hex()}"
        )
        self._keeper = Keeper(directory=self._dir if self._own_dir else None)
        self._host = self._new_host()
        self._environment: Mapping[str, str] | None = None
        self._shells: dict[str, PtyShell] = {}
        self._listeners: list[OnProgress] = []
        self._static_numbers = itertools.count(1)
        self._closed = False

    @property
    def cwd(self) -> str:
        """Directory of the default shell; relative paths of file actions start from it."""
        shell = self._shells.get(DEFAULT)
        return shell.cwd if shell else str(self._settings.working_dir)

    @property
    def log_dir(self) -> Path:
        return self._dir

    async def restore(self) -> None:
        """Take over the tmux shells that wait in the state directory.

        Ends the shells if the settings have no tmux shells any more. Raises `SandboxStartFailed`
        if another server uses them.
        """
        if self._settings.state_dir is None:
            return
        found = await self._host.find()
        if found is None:
            return
        records = await asyncio.to_thread(_records, self._host.directory)
        for record in records:
            if self._kind_of(record["name"]) == "tmux":
                self._recall(record, found)
        if not self._shells:
            await self._host.aclose()  # ends the shells that wait there
            self._host = self._new_host()
            return
        await self._host.resume()

    @property
    def keeper(self) -> Keeper:
        """The keeper of these shells, and of other processes that must end with the sandbox."""
        return self._keeper

    def ensure_dir(self) -> Path:
        """Return `log_dir`, created if missing."""
        if not self._dir.exists():
            self._dir.mkdir(parents=True, mode=0o700)
            if self._settings.account is not None:
                self._dir.chmod(0o711)  # shells may read their own log by name
        return self._dir

    def names(self) -> list[str]:
        return sorted(self._shells)

    def get(self, name: str) -> Shell:
        try:
            return self._shells[name or DEFAULT]
        except KeyError:
            known = ", ".join(self.names()) or "none yet"
            raise NoSuchShell(
                f"there is no shell {name or DEFAULT!r}; there are: {known}. "
                "A `run` action makes the shell it names"
            ) from None

    def open(self, name: str) -> Shell:
        """Return the shell of that name, created if missing."""
        if self._closed:
            raise ShellClosed("the sandbox was closed")
        shell = self._shells.get(name)
        if shell is None:
            if name == IPYTHON:
                raise InvalidShellName(
                    f"{name!r} is the IPython kernel; use run_ipython, or another name for a shell"
                )
            if not _NAME.fullmatch(name):
                raise InvalidShellName(
                    f"{name!r} cannot name a shell: use up to 64 letters, digits, dots, dashes "
                    "and underscores, starting with a letter or digit"
                )
            if len(self._shells) >= self._settings.max_shells:
                raise TooManyShells(
                    f"{len(self._shells)} shells are open, which is the limit (max_shells); "
                    "close one or use one of: " + ", ".join(self.names()),
                    limit=self._settings.max_shells,
                )
            is_tmux = self._kind_of(name) == "tmux"
            make = self._make_tmux if is_tmux else self._make
            shell = self._shells[name] = make(name, self._settings)
        return shell

    def _new_host(self) -> TmuxHost:
        settings = self._settings
        return TmuxHost(
            settings.state_dir or self._dir / "tmux",
            keep_for=settings.keep_for if settings.state_dir else 0.0,
            limit=settings.log_limit,
            working_dir=settings.working_dir,
        )

    def _kind_of(self, name: str) -> ShellKind:
        return self._settings.kinds.get(name, self._settings.kind)

    async def run(
        self,
        action: CmdRun,
        *,
        on_progress: OnProgress | None = None,
        check: CommandCheck | None = None,
    ) -> CmdOutput:
        """Run in the shell that the action names; a static action gets its own temporary shell.

        `on_progress` receives the shell's output meanwhile. `check` is called directly before the
        shell runs the command.
        """
        if action.is_static:
            return await self._run_static(action, on_progress, check)
        if action.shell not in self._shells and len(self._shells) >= self._settings.max_shells:
            await self._forget_ended()
        shell = self.open(action.shell or DEFAULT)
        if on_progress is None:
            return await shell.run(action, check=check)
        unsubscribe = shell.subscribe(on_progress)
        try:
            return await shell.run(action, check=check)
        finally:
            unsubscribe()

    async def interrupt(self, action: Interrupt) -> Interrupted:
        name = action.shell or DEFAULT
        was_running = await self.get(name).interrupt(kill=action.kill)
        how = "killed" if action.kill else "interrupted"
        content = f"{how} in shell {name!r}" if was_running else f"nothing runs in shell {name!r}"
        return Interrupted(content=content, shell=name, was_running=was_running, cause=action.id)

    def subscribe(self, listener: OnProgress) -> Callable[[], None]:
        """Call `listener` with the output of all shells, present and future."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def turn_off_aliases(self) -> None:
        """Start new shells without aliases. Shells that run already keep their aliases."""
        self._settings = replace(self._settings, aliases=False)

    async def close_shell(self, name: str) -> None:
        """End the shell and all its processes; its name can be used again."""
        shell = self.get(name)
        del self._shells[shell.name]
        await shell.aclose()

    async def _forget_ended(self) -> None:
        """Close shells whose bash has exited, to make room. They hold only a name and a log."""
        for name in [each.name for each in self._shells.values() if each.has_ended]:
            if name != DEFAULT:
                await self.close_shell(name)

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        shells = list(self._shells.values())
        self._shells.clear()
        await asyncio.gather(*(shell.aclose() for shell in shells))
        await self._keeper.aclose()
        await self._host.aclose()
        if self._own_dir:
            await asyncio.to_thread(shutil.rmtree, self._dir, ignore_errors=True)

    def _make(self, name: str, settings: ShellSettings) -> PtyShell:
        """Create a `PtyShell`. Static actions always use a `PtyShell`, whatever `kind` is."""
        shell = PtyShell(
            name,
            keeper=self._keeper,
            settings=settings,
            environment=self._environ(),
            log=self._log(self.ensure_dir(), name),
        )
        shell.subscribe(self._pass_on)
        return shell

    def _make_tmux(
        self, name: str, settings: ShellSettings, held: tuple[int, int] = (0, 0)
    ) -> TmuxShell:
        from .tmux import TmuxShell  # most sandboxes have no tmux shell

        directory = settings.log_dir or self._host.directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if settings.account is not None:
            directory.chmod(0o711)
        shell = TmuxShell(
            name,
            host=self._host,
            settings=settings,
            environment={**self._environ(), "TERM": "screen-256color"},
            log=self._log(directory, name, held),
        )
        shell.subscribe(self._pass_on)
        return shell

    def _recall(self, record: Mapping[str, Any], found: RecoveredKeeper) -> None:
        name, (start, end) = record["name"], record["log"]
        shell = self._make_tmux(name, self._settings, (start, end))
        pid = record["bash"]["pid"] if record["bash"] else None
        channel = found.held.get(name, (None,))[0]
        shell.recall(record, channel=channel, status=found.statuses.get(pid, -9) if pid else None)
        self._shells[name] = shell

    def _environ(self) -> Mapping[str, str]:
        if self._environment is None:
            self._environment = shell_environment(self._settings)
        return self._environment

    def _log(self, directory: Path, name: str, held: tuple[int, int] = (0, 0)) -> DiskLog:
        log = DiskLog(directory / f"{name}.log", limit=self._settings.log_limit, held=held)
        if self._settings.account is not None:
            shutil.chown(log.path, self._settings.account.uid)
        return log

    def _pass_on(self, progress: OutputProgress) -> None:
        for listener in tuple(self._listeners):
            listener(progress)

    async def _run_static(
        self, action: CmdRun, on_progress: OnProgress | None, check: CommandCheck | None
    ) -> CmdOutput:
        """Run in a shell that is closed after this command, even if the command timed out."""
        if self._closed:
            raise ShellClosed("the sandbox was closed")
        cwd = await asyncio.to_thread(_existing_directory, Path(self.cwd, action.cwd or ""))
        name = f"static-{next(self._static_numbers)}"
        shell = self._make(name, replace(self._settings, working_dir=cwd))
        if on_progress is not None:
            shell.subscribe(on_progress)
        async with shell:
            return await shell.run(replace(action, is_static=False, cwd=None), check=check)


def _records(directory: Path) -> list[Mapping[str, Any]]:
    """Read the records that the shells of the previous server left. Blocks the calling thread."""
    from .tmux import RECORD_FORMAT

    records = [json.loads(file.read_bytes()) for file in sorted(directory.glob("*.state"))]
    return [record for record in records if record.get("format") == RECORD_FORMAT]


def _existing_directory(path: Path) -> Path:
    if not path.exists():
        raise NoSuchPath(f"the command's cwd does not exist: {path}")
    if not path.is_dir():
        raise NotADirectory(f"the command's cwd is not a directory: {path}")
    return path
