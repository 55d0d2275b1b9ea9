"""The sandbox: every kind of action it can do, and what doing it looks like from outside."""

from __future__ import annotations

import asyncio
import functools
import logging
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

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
from bascule.core.contracts import Closable, OnProgress, OutputLog
from bascule.core.errors import (
    ActionTimedOut,
    BasculeError,
    InternalError,
    NotSupported,
    SandboxDied,
)
from bascule.core.identity import EventId, now
from bascule.core.observations import Interrupted, Nothing, Observation, UserRejected
from bascule.wire import error_observation

from .browser.settings import find_chromium, why_no_browser
from .files.editor import FileEditor
from .files.files import SandboxFiles
from .files.paths import FileOwner, Paths
from .files.search import Search
from .files.storage import Storage
from .files.transfers import FileTransfers
from .settings import SandboxSettings
from .shell.shells import IPYTHON, Shells

if TYPE_CHECKING:
    from .browser.browser import Browser
    from .ipython.kernel import IPythonKernel

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")
_Blocking = Callable[[Any, str], Observation]


class Watcher(Protocol):
    """Called for every action and its observation."""

    def began(self, action: Action, on_progress: OnProgress | None) -> OnProgress:
        """Return the callback for the action's output, in place of `on_progress`."""
        ...

    def ended(self, observation: Observation, seconds: float) -> None: ...

    def broke(self, action_id: EventId, seconds: float, why: str) -> None:
        """There is no observation: it was cancelled, or the sandbox closed."""
        ...


class Sandbox(Closable):
    """Does actions on this machine, as many at a time as are asked for.

    Commands of one shell take turns, those of different shells do not wait for each other, and
    neither do files. What fails is an `Error` observation; `SandboxDied` is raised once the
    sandbox is closed, also to those who still wait. Closing ends every process it started.
    """

    def __init__(
        self,
        settings: SandboxSettings | None = None,
        *,
        served_at: tuple[tuple[str, int], ...] = (),
    ) -> None:
        """`served_at`: hosts and ports at which this very sandbox answers; no page gets there."""
        self.settings = settings or SandboxSettings()
        self._served_at = served_at
        self._chromium = find_chromium(self.settings.browser)
        self._browser: Browser | None = None
        account = self.settings.shells.account
        self.shells = Shells(self.settings.shells)
        paths = Paths(
            self.settings.roots or None,
            owner=None if account is None else FileOwner(account.uid, account.gid),
        )
        self.paths = paths
        storage = Storage(paths)
        files, editor, search = (
            SandboxFiles(storage),
            FileEditor(storage),
            Search(paths, ripgrep=shutil.which("rg")),
        )
        self.files, self.archives = files, FileTransfers(storage)
        self._blocking: Mapping[type[Action], _Blocking] = {
            FileRead: lambda action, cwd: _reader(action, files, editor)(action, cwd),
            FileWrite: files.write,
            FileEdit: editor.edit,
            MakeDir: files.make_dir,
            RemoveDir: files.remove_dir,
            Remove: files.remove,
            ListDir: files.list_dir,
            Glob: search.glob,
            Grep: search.grep,
        }
        self._threads = ThreadPoolExecutor(self.settings.threads, thread_name_prefix="sandbox")
        self._kernel: IPythonKernel | None = None
        self._closed = False
        self.watcher: Watcher | None = None

    @property
    def capabilities(self) -> frozenset[str]:
        kinds = {cls.kind for cls in self._blocking}
        kinds |= {CmdRun.kind, Interrupt.kind, IPythonRun.kind}
        return frozenset(
            kinds | ({Browse.kind, BrowseInteractive.kind} if self._chromium else set())
        )

    @property
    def browser(self) -> Browser:
        """Its processes start with its first action. Raises `NotSupported` where there is none."""
        if self._browser is None:
            if self._chromium is None:
                raise NotSupported(self._no_browser())
            from .browser.browser import Browser  # most sandboxes never browse

            self._browser = Browser(
                self._chromium,
                self.settings.browser,
                self.settings.shells,
                roots=self.settings.roots,
                served_at=self._served_at,
            )
        return self._browser

    @property
    def view_url(self) -> str:
        """Where its own browser is shown files, `?path=`; empty when it has no address."""
        if not self._served_at:
            return ""
        host, port = self._served_at[0]
        return f"http://[{host}]:{port}/view" if ":" in host else f"http://{host}:{port}/view"

    def keep_from_pages(self, host: str, port: int) -> None:
        """Let no page reach that address with the browser's help; before it has started."""
        browser = self.settings.browser
        browser = replace(browser, refused=(*browser.refused, (host, port)))
        self.settings = replace(self.settings, browser=browser)

    @property
    def kernel(self) -> IPythonKernel:
        """IPython; its process starts with its first cell."""
        if self._kernel is None:
            from .ipython.kernel import IPythonKernel  # most sandboxes never run a cell

            self._kernel = IPythonKernel(
                self.settings.ipython,
                self.settings.shells,
                keeper=self.shells.keeper,
                ensure_dir=self.shells.ensure_dir,
                shell_cwd=lambda: self.shells.cwd,
            )
        return self._kernel

    def log(self, shell: str) -> OutputLog:
        """Of a shell by its name, or of IPython. Raises `NoSuchShell`."""
        return self.kernel.log if shell == IPYTHON else self.shells.get(shell).log

    async def act(self, action: Action, *, on_progress: OnProgress | None = None) -> Observation:
        """Do `action`. Cancelling interrupts a command; a file action that was begun is finished.

        `on_progress` gets what the action's shell prints meanwhile.
        """
        if self.watcher is None:
            return await self._act(action, on_progress)
        started = time.perf_counter()
        on_progress = self.watcher.began(action, on_progress)
        try:
            observation = await self._act(action, on_progress)
        except BaseException as error:
            why = str(error) or "The action was cancelled"
            self.watcher.broke(action.id, time.perf_counter() - started, why)
            raise
        self.watcher.ended(observation, time.perf_counter() - started)
        return observation

    async def _act(self, action: Action, on_progress: OnProgress | None) -> Observation:
        try:
            observation = await self._do(action, on_progress)
        except SandboxDied:
            raise
        except BasculeError as error:
            if self._closed:
                raise SandboxDied("The sandbox was closed while the action ran") from error
            observation = error_observation(error, action.id)
        except Exception:
            logger.exception("the %s action %s failed unexpectedly", *_names(action))
            fault = InternalError(
                f"The {action.kind} action failed because of an internal error of the sandbox"
            )
            observation = error_observation(fault, action.id)
        if observation.timestamp is not None and observation.cause == action.id:
            return observation
        return replace(observation, cause=action.id, timestamp=now())

    async def interrupt(self, action: Interrupt) -> Interrupted:
        place = self.kernel if action.shell == IPYTHON else self.shells
        return await place.interrupt(action)

    async def in_thread(self, work: Callable[..., _Result], *args: Any) -> _Result:
        """Call what blocks without blocking; raises `SandboxDied` once the sandbox is closed."""
        if self._closed:
            raise SandboxDied("The sandbox was closed")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, functools.partial(work, *args))

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._browser is not None:
            await self._browser.aclose()
        if self._kernel is not None:
            await self._kernel.aclose()
        await self.shells.aclose()
        # A thread cannot be ended. One that searches a whole disk is not waited for.
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _do(self, action: Action, on_progress: OnProgress | None) -> Awaitable[Observation]:
        if self._closed:
            raise SandboxDied("The sandbox was closed")
        if isinstance(action, CmdRun | IPythonRun) and action.confirmation_state != "confirmed":
            return _not_confirmed(action)
        if isinstance(action, CmdRun):
            return self.shells.run(action, on_progress=on_progress)
        if isinstance(action, IPythonRun):
            return self.kernel.run(action, on_progress=on_progress)
        if isinstance(action, Interrupt):
            return self.interrupt(action)
        if isinstance(action, Browse | BrowseInteractive) and self._chromium:
            return self.browser.act(action)
        work = self._blocking.get(type(action))
        if work is None:
            raise self._not_supported(action)
        return self._do_blocking(work, action)

    async def _do_blocking(self, work: _Blocking, action: Action) -> Observation:
        try:
            async with asyncio.timeout(action.timeout):
                return await self.in_thread(work, action, self.shells.cwd)
        except TimeoutError:
            raise ActionTimedOut(
                f"The {action.kind} action did not finish within {action.timeout} seconds; "
                "what it had begun may still take effect"
            ) from None

    def _no_browser(self) -> str:
        return f"{_NO_BROWSER}: {why_no_browser(self.settings.browser)}"

    def _not_supported(self, action: Action) -> NotSupported:
        able = ", ".join(sorted(self.capabilities))
        if isinstance(action, Browse | BrowseInteractive):
            what = f"{self._no_browser()}. It can do: {able}"
            return NotSupported(f"{action.kind!r}: {what}", kind=action.kind)
        return NotSupported(
            f"{action.kind!r} actions are not available in this sandbox; it can do: {able}",
            kind=action.kind,
        )


_NO_BROWSER = "Browser functionality is not supported or disabled in this sandbox"
"""The words OpenHands' clients look for."""


async def _not_confirmed(action: CmdRun | IPythonRun) -> Observation:
    if action.confirmation_state == "rejected":
        return UserRejected(content="The user refused this action; it was not done")
    return Nothing()


def _reader(action: FileRead, files: SandboxFiles, editor: FileEditor) -> _Blocking:
    return editor.view if action.impl_source == "oh_aci" else files.read


def _names(action: Action) -> tuple[str, str]:
    return action.kind, action.id
