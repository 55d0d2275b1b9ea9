"""Convenience methods for actions, such as `await runtime.run("make")`.

Each returns what was seen and raises the error when the action failed. `act` itself does neither
choose nor raise, and takes every kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

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
    ListDir,
    MakeDir,
    Remove,
    RemoveDir,
)
from bascule.core.contracts import OnProgress, Runtime
from bascule.core.errors import BasculeError, CommandInvalid, RemoteError
from bascule.core.observations import (
    BrowserOutput,
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

_Seen = TypeVar("_Seen", bound=Observation)


class Verbs(Runtime):
    """A runtime with a method for each common action."""

    default_timeout: float | None = None
    """Seconds for commands that bring no time-out of their own; None: no bound."""

    async def run(
        self,
        command: str,
        *,
        shell: str = "",
        cwd: str | None = None,
        timeout: float | None = None,
        is_input: bool = False,
        blocking: bool = False,
        queue: bool = False,
        output_limit: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> CmdOutput:
        """Run `command`. A non-zero exit code is a result, not an error."""
        action = CmdRun(
            command,
            shell=shell,
            cwd=cwd,
            timeout=self.default_timeout if timeout is None else timeout,
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
        timeout: float | None = None,
        is_input: bool = False,
        include_extra: bool = False,
        output_limit: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> IPythonOutput:
        """Run a cell. An exception in it is a result (`succeeded`, `metadata`), not an error.

        With `is_input`, `code` answers a cell that asks. `include_extra` ends the content with the
        kernel's directory and interpreter, as agents are used to.
        """
        action = IPythonRun(
            code,
            timeout=self.default_timeout if timeout is None else timeout,
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

    async def browse(
        self, url: str, *, return_axtree: bool = False, timeout: float | None = None
    ) -> BrowserOutput | FileDownloaded:
        """Open a URL or a local file and read it; anything but a page is downloaded.

        One that cannot be opened is an answer with `error`, not an error.
        """
        return _page(await self.act(Browse(url, return_axtree=return_axtree, timeout=timeout)))

    async def browse_interactive(
        self, calls: str, *, return_axtree: bool = False, timeout: float | None = None
    ) -> BrowserOutput | FileDownloaded:
        """Act in the browser (`click('12')`), and return the page's accessibility tree."""
        action = BrowseInteractive(calls, return_axtree=return_axtree, timeout=timeout)
        return _page(await self.act(action))

    async def _do(self, action: Action, kind: type[_Seen]) -> _Seen:
        return expect(await self.act(action), kind)


def prepared(action: Action, default: float | None) -> Action:
    """The action as it will be run: validated, and with the default timeout if it has none.

    Raises `InvalidAction`, or `CommandInvalid` for a command that cannot be encoded.
    """
    ensure_valid(action)
    if isinstance(action, CmdRun | IPythonRun):
        _ensure_writable(action.command if isinstance(action, CmdRun) else action.code)
    if default is not None and action.timeout is None and isinstance(action, CmdRun | IPythonRun):
        return replace(action, timeout=default)
    return action


def _ensure_writable(program: str) -> None:
    """Refuse a command with lone surrogates: encoding would replace them and run another
    command."""
    try:
        program.encode()
    except UnicodeEncodeError as error:
        raise CommandInvalid(
            f"the command or cell holds a character that has no UTF-8 form, at position "
            f"{error.start}: {program[error.start]!r}"
        ) from None


def _page(observation: Observation) -> BrowserOutput | FileDownloaded:
    if isinstance(observation, FileDownloaded):
        return observation
    return expect(observation, BrowserOutput)


def expect(observation: Observation, kind: type[_Seen]) -> _Seen:
    """`observation` as the expected kind; raises the error it reports."""
    if isinstance(observation, kind) and not getattr(observation, "error_id", ""):
        return observation
    raise _error_in(observation)


def _error_in(observation: Observation) -> BasculeError:
    """The error in an observation.

    The editor reports a failure in an observation of the usual kind, as OpenHands' clients expect;
    our error code is in it.
    """
    if code := getattr(observation, "error_id", ""):
        text = observation.content.removeprefix("ERROR:").strip()
        return error_from_wire({"code": code, "message": text})
    return RemoteError(
        f"The runtime answered with a {observation.kind!r} observation: {observation.content}",
        remote_code=observation.kind,
    )
