"""Convenience methods for actions, such as `await runtime.run("make")`.

Each method returns the observation, and raises an error if the action failed. `act` itself takes
every kind of action and returns a failure as an observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Final, TypeVar

from bascule.core.actions import (
    Action,
    Browse,
    BrowseInteractive,
    CmdRun,
    FileEdit,
    FileRead,
    FileWrite,
    Glob,
    Grep,
    Interrupt,
    IPythonRun,
    ListCheckpoints,
    ListDir,
    MakeDir,
    Remove,
    RemoveDir,
    RestoreCheckpoint,
    ShowCheckpoint,
)
from bascule.core.contracts import OnProgress, Runtime
from bascule.core.errors import BasculeError, CommandInvalid, RemoteError
from bascule.core.observations import (
    BrowserOutput,
    CheckpointDetail,
    CheckpointList,
    CheckpointRestored,
    CmdOutput,
    DirListing,
    DirMade,
    DirRemoved,
    FileContent,
    FileDownloaded,
    FileEdited,
    FileRemoved,
    FileWritten,
    GlobResult,
    GrepResult,
    Interrupted,
    IPythonOutput,
    Observation,
)
from bascule.wire import ensure_valid, error_from_wire

_ObservationT = TypeVar("_ObservationT", bound=Observation)

DEFAULT_TIMEOUT: Final = 120.0
"""Seconds for a command or cell without a timeout, in a runtime that has no other default."""


NO_LIMIT: Final = float("inf")
"""A value of `Action.timeout`: no limit, even if the runtime has a default. Only this object has
this meaning; other infinite numbers are refused."""


class TimeoutChoice(Enum):
    """The default of the argument `timeout`, so that None can mean no limit."""

    DEFAULT = "the runtime's default"


Timeout = float | TimeoutChoice | None
"""Seconds; None: no limit; left out: the runtime's `default_timeout`."""


class Verbs(Runtime):
    """A runtime with a method for each common action."""

    default_timeout: float | None = None
    """Timeout, in seconds, of commands and cells that have no timeout; None: no limit."""

    async def run(
        self,
        command: str,
        *,
        shell: str = "",
        cwd: str | None = None,
        timeout: Timeout = TimeoutChoice.DEFAULT,
        is_input: bool = False,
        blocking: bool = False,
        queue: bool = False,
        output_limit: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> CmdOutput:
        """Run `command`. A non-zero exit code is a result, not an error.

        `timeout`: seconds after which the output so far is returned; the command continues. None:
        no limit. Left out: the runtime's `default_timeout`.
        """
        action = CmdRun(
            command,
            shell=shell,
            cwd=cwd,
            timeout=_action_timeout(timeout),
            is_input=is_input,
            blocking=blocking,
            queue=queue,
            output_limit=output_limit,
        )
        return expect(await self.act(action, on_progress=on_progress), CmdOutput)

    async def run_ipython(
        self,
        code: str,
        *,
        timeout: Timeout = TimeoutChoice.DEFAULT,
        is_input: bool = False,
        include_extra: bool = False,
        output_limit: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> IPythonOutput:
        """Run a cell. An exception in the cell is a result (`succeeded`, `metadata`), not an error.

        `timeout`: seconds after which the cell is interrupted; see `run` for None and the default.
        With `is_input`, `code` answers a cell that waits for input. `include_extra` appends the
        kernel's directory and interpreter to the content, as agents expect.
        """
        action = IPythonRun(
            code,
            timeout=_action_timeout(timeout),
            is_input=is_input,
            include_extra=include_extra,
            output_limit=output_limit,
        )
        return expect(await self.act(action, on_progress=on_progress), IPythonOutput)

    async def interrupt(self, shell: str = "", *, kill: bool = False) -> Interrupted:
        """Interrupt the running command of a shell, or with `ipython` the running cell."""
        return await self._do(Interrupt(shell, kill=kill), Interrupted)

    async def read(self, path: str, *, start: int = 0, end: int = -1) -> FileContent:
        return await self._do(FileRead(path, start=start, end=end), FileContent)

    async def write(self, path: str, content: str, *, start: int = 0, end: int = -1) -> FileWritten:
        return await self._do(FileWrite(path, content, start=start, end=end), FileWritten)

    async def edit(
        self,
        path: str,
        command: str,
        *,
        file_text: str | None = None,
        old_str: str | None = None,
        new_str: str | None = None,
        insert_line: int | None = None,
        view_range: Sequence[int] | None = None,
    ) -> FileEdited:
        action = FileEdit(
            path,
            command,
            file_text=file_text,
            old_str=old_str,
            new_str=new_str,
            insert_line=insert_line,
            view_range=view_range,
        )
        return await self._do(action, FileEdited)

    async def make_dir(self, path: str) -> DirMade:
        return await self._do(MakeDir(path), DirMade)

    async def remove_dir(self, path: str, *, recursive: bool = False) -> DirRemoved:
        return await self._do(RemoveDir(path, recursive=recursive), DirRemoved)

    async def remove(self, path: str) -> FileRemoved:
        return await self._do(Remove(path), FileRemoved)

    async def list_dir(self, path: str = ".", *, depth: int = 1) -> DirListing:
        return await self._do(ListDir(path, depth=depth), DirListing)

    async def glob(self, pattern: str, path: str = ".", *, limit: int = 100) -> GlobResult:
        return await self._do(Glob(pattern, path, limit=limit), GlobResult)

    async def grep(
        self,
        pattern: str,
        path: str = ".",
        *,
        include: str = "",
        ignore_case: bool = False,
        literal: bool = False,
        limit: int = 100,
    ) -> GrepResult:
        action = Grep(
            pattern, path, include=include, ignore_case=ignore_case, literal=literal, limit=limit
        )
        return await self._do(action, GrepResult)

    async def checkpoints(self) -> CheckpointList:
        """The checkpoints of the workspace, and the paths that are not recorded."""
        return await self._do(ListCheckpoints(), CheckpointList)

    async def checkpoint(self, checkpoint: int, *, paths: Sequence[str] = ()) -> CheckpointDetail:
        """The changes of one action, with a diff."""
        return await self._do(ShowCheckpoint(checkpoint, paths), CheckpointDetail)

    async def restore(
        self,
        checkpoint: int,
        *,
        paths: Sequence[str] = (),
        since: bool = False,
        dry_run: bool = False,
    ) -> CheckpointRestored:
        """Undo the changes of one action, and with `since` of all later actions.

        Paths that were changed again later are left unchanged and are in `conflicts`. Restoring the
        returned `checkpoint` undoes the restore.
        """
        action = RestoreCheckpoint(checkpoint, paths, since=since, dry_run=dry_run)
        return await self._do(action, CheckpointRestored)

    async def browse(
        self, url: str, *, return_axtree: bool = False, timeout: float | None = None
    ) -> BrowserOutput | FileDownloaded:
        """Open a URL or a local file and read the page. Other content is downloaded.

        If the URL cannot be opened, the result has `error` set and nothing is raised.
        """
        return _page(await self.act(Browse(url, return_axtree=return_axtree, timeout=timeout)))

    async def browse_interactive(
        self, calls: str, *, return_axtree: bool = False, timeout: float | None = None
    ) -> BrowserOutput | FileDownloaded:
        """Act in the browser (`click('12')`), and return the page's accessibility tree."""
        action = BrowseInteractive(calls, return_axtree=return_axtree, timeout=timeout)
        return _page(await self.act(action))

    async def _do(self, action: Action, kind: type[_ObservationT]) -> _ObservationT:
        return expect(await self.act(action), kind)


def prepared(action: Action, default: float | None) -> Action:
    """The action as it will be run: with the timeout that it has in this runtime, and validated.

    Raises `InvalidAction`, or `CommandInvalid` for a command that cannot be encoded.
    """
    action = with_timeout(action, default)
    ensure_valid(action)
    if isinstance(action, CmdRun | IPythonRun):
        _ensure_writable(action.command if isinstance(action, CmdRun) else action.code)
    return action


def with_timeout(action: Action, default: float | None) -> Action:
    """The action with its timeout resolved: `default` for a command or cell without a timeout, and
    None, which means no limit from here on, instead of `NO_LIMIT`."""
    if action.timeout is None:
        if default is not None and isinstance(action, CmdRun | IPythonRun):
            return replace(action, timeout=default)
    elif action.timeout is NO_LIMIT:
        return replace(action, timeout=None)
    return action


def _action_timeout(timeout: Timeout) -> float | None:
    """The field of an action, where None means the runtime's default."""
    if isinstance(timeout, TimeoutChoice):
        return None
    return NO_LIMIT if timeout is None else timeout


def _ensure_writable(program: str) -> None:
    """Refuse a command with lone surrogates: encoding would replace them and run another
    command."""
    try:
        program.encode()
    except UnicodeEncodeError as error:
        raise CommandInvalid(
            f"the command or cell contains a character that has no UTF-8 form, at position "
            f"{error.start}: {program[error.start]!r}"
        ) from None


def _page(observation: Observation) -> BrowserOutput | FileDownloaded:
    if isinstance(observation, FileDownloaded):
        return observation
    return expect(observation, BrowserOutput)


def expect(observation: Observation, kind: type[_ObservationT]) -> _ObservationT:
    """`observation` as the expected kind; raises the error it reports."""
    if isinstance(observation, kind) and not getattr(observation, "error_id", ""):
        return observation
    raise _error_in(observation)


def _error_in(observation: Observation) -> BasculeError:
    """The error in an observation.

    The editor reports a failure in an observation of the usual kind, as OpenHands' clients expect.
    This observation contains our error code.
    """
    if code := getattr(observation, "error_id", ""):
        text = observation.content.removeprefix("ERROR:").strip()
        return error_from_wire({"code": code, "message": text})
    return RemoteError(
        f"The runtime answered with a {observation.kind!r} observation: {observation.content}",
        remote_code=observation.kind,
    )
