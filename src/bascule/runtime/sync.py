"""Runtimes for synchronous code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from bascule.core.actions import Action
from bascule.core.contracts import LogMatch, OnProgress
from bascule.core.errors import NotSupported, UsageError
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
from bascule.core.programs import ProgramHost

from .language_verbs import LanguageVerbs
from .program_run import OUTPUT_LIMIT, ProgramRun, run_program
from .sync_language import SyncLanguageVerbs
from .verbs import Timeout, TimeoutChoice

_Answer = TypeVar("_Answer")


class SyncRuntime(SyncLanguageVerbs):
    """The methods of another runtime as blocking calls.

    The other runtime runs on an event loop in its own thread, from `connect` to `close`. Several
    threads may call the methods. A `KeyboardInterrupt` while waiting cancels the action.
    `on_progress` is called in the loop's thread and should return at once.
    """

    def __init__(self, runtime: LanguageVerbs) -> None:
        self._runtime = runtime
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def capabilities(self) -> frozenset[str]:
        return self._runtime.capabilities

    def connect(self) -> None:
        if self._thread is not None:
            return
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(
            target=_run_loop, args=(started,), name="bascule-runtime", daemon=True
        )
        self._thread.start()
        self._loop = started.result()
        try:
            self._wait(self._runtime.connect())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the runtime.

        At interpreter exit no thread can be started. Then this method does nothing, and the end of
        the process closes the runtime.
        """
        if self._loop is None or self._thread is None:
            return
        if not threading.main_thread().is_alive():
            self._loop = self._thread = None
            return
        try:
            self._wait(self._runtime.aclose())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop = self._thread = None

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def act(self, action: Action, *, on_progress: OnProgress | None = None) -> Observation:
        return self._wait(self._runtime.act(action, on_progress=on_progress))

    def begin(self, action: Action) -> Future[Observation]:
        """Start `action` without waiting; cancelling the future cancels the action."""
        return self._submit(self._runtime.act(action))

    def run(
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
        return self._wait(
            self._runtime.run(
                command,
                shell=shell,
                cwd=cwd,
                timeout=timeout,
                is_input=is_input,
                blocking=blocking,
                queue=queue,
                output_limit=output_limit,
                on_progress=on_progress,
            )
        )

    def run_program(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        user: str = "",
        timeout: float | None = None,
        output_limit: int = OUTPUT_LIMIT,
    ) -> ProgramRun:
        """Run a program with pipes to its end; see `bascule.runtime.program_run.run_program`.

        Raises `NotSupported` if the runtime starts no programs, as a VS Code window.
        """
        if not isinstance(self._runtime, ProgramHost):
            raise NotSupported(f"A {type(self._runtime).__name__} starts no programs with pipes")
        return self._wait(
            run_program(
                self._runtime,
                argv,
                stdin=stdin,
                env=env,
                cwd=cwd,
                user=user,
                timeout=timeout,
                output_limit=output_limit,
            )
        )

    def run_ipython(
        self,
        code: str,
        *,
        timeout: Timeout = TimeoutChoice.DEFAULT,
        is_input: bool = False,
        include_extra: bool = False,
        output_limit: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> IPythonOutput:
        return self._wait(
            self._runtime.run_ipython(
                code,
                timeout=timeout,
                is_input=is_input,
                include_extra=include_extra,
                output_limit=output_limit,
                on_progress=on_progress,
            )
        )

    def interrupt(self, shell: str = "", *, kill: bool = False) -> Interrupted:
        return self._wait(self._runtime.interrupt(shell, kill=kill))

    def read(self, path: str, *, start: int = 0, end: int = -1) -> FileContent:
        return self._wait(self._runtime.read(path, start=start, end=end))

    def write(self, path: str, content: str, *, start: int = 0, end: int = -1) -> FileWritten:
        return self._wait(self._runtime.write(path, content, start=start, end=end))

    def edit(
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
        return self._wait(
            self._runtime.edit(
                path,
                command,
                file_text=file_text,
                old_str=old_str,
                new_str=new_str,
                insert_line=insert_line,
                view_range=view_range,
            )
        )

    def make_dir(self, path: str) -> DirMade:
        return self._wait(self._runtime.make_dir(path))

    def remove_dir(self, path: str, *, recursive: bool = False) -> DirRemoved:
        return self._wait(self._runtime.remove_dir(path, recursive=recursive))

    def remove(self, path: str) -> FileRemoved:
        return self._wait(self._runtime.remove(path))

    def list_dir(self, path: str = ".", *, depth: int = 1) -> DirListing:
        return self._wait(self._runtime.list_dir(path, depth=depth))

    def glob(self, pattern: str, path: str = ".", *, limit: int = 100) -> GlobResult:
        return self._wait(self._runtime.glob(pattern, path, limit=limit))

    def grep(
        self,
        pattern: str,
        path: str = ".",
        *,
        include: str = "",
        ignore_case: bool = False,
        literal: bool = False,
        limit: int = 100,
    ) -> GrepResult:
        return self._wait(
            self._runtime.grep(
                pattern,
                path,
                include=include,
                ignore_case=ignore_case,
                literal=literal,
                limit=limit,
            )
        )

    def checkpoints(self) -> CheckpointList:
        return self._wait(self._runtime.checkpoints())

    def checkpoint(self, checkpoint: int, *, paths: Sequence[str] = ()) -> CheckpointDetail:
        return self._wait(self._runtime.checkpoint(checkpoint, paths=paths))

    def restore(
        self,
        checkpoint: int,
        *,
        paths: Sequence[str] = (),
        since: bool = False,
        dry_run: bool = False,
    ) -> CheckpointRestored:
        work = self._runtime.restore(checkpoint, paths=paths, since=since, dry_run=dry_run)
        return self._wait(work)

    def browse(
        self, url: str, *, return_axtree: bool = False, timeout: float | None = None
    ) -> BrowserOutput | FileDownloaded:
        work = self._runtime.browse(url, return_axtree=return_axtree, timeout=timeout)
        return self._wait(work)

    def browse_interactive(
        self, calls: str, *, return_axtree: bool = False, timeout: float | None = None
    ) -> BrowserOutput | FileDownloaded:
        return self._wait(
            self._runtime.browse_interactive(calls, return_axtree=return_axtree, timeout=timeout)
        )

    def upload(self, source: Path, destination: str) -> None:
        self._wait(self._runtime.upload(source, destination))

    def download(self, path: str, destination: Path) -> Path:
        return self._wait(self._runtime.download(path, destination))

    def read_log(self, shell: str = "", *, start: int = 0, end: int | None = None) -> bytes:
        return self._wait(self._runtime.read_log(shell, start=start, end=end))

    def search_log(
        self, pattern: str, shell: str = "", *, start: int = 0, limit: int = 100
    ) -> Sequence[LogMatch]:
        return self._wait(self._runtime.search_log(pattern, shell, start=start, limit=limit))

    def _submit(self, work: Coroutine[Any, Any, _Answer]) -> Future[_Answer]:
        if self._loop is None:
            work.close()
            raise UsageError("The runtime is not connected; use `with` or `connect`")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _wait(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        future = self._submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


def _run_loop(started: Future[asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        loop.call_soon(started.set_result, loop)
        loop.run_forever()
