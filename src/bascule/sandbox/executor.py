"""The sandbox: executes every kind of action and returns its observation."""

from __future__ import annotations

import asyncio
import functools
import logging
import shlex
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, TypeVar

from bascule.core.actions import (
    CHECKPOINT_ACTIONS,
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
from bascule.core.contracts import Closable, CommandCheck, OnProgress, OutputLog
from bascule.core.errors import (
    ActionTimedOut,
    BasculeError,
    InternalError,
    NotSupported,
    SandboxDied,
)
from bascule.core.identity import EventId, now
from bascule.core.observations import (
    CheckpointRestored,
    Interrupted,
    Nothing,
    Observation,
    UserRejected,
)
from bascule.wire import error_observation

from .browser.settings import find_chromium, why_no_browser
from .language.servers import LANGUAGE_ACTIONS, installed_languages
from .settings import SandboxSettings
from .shell.settings import shell_environment
from .shell.shells import IPYTHON, Shells

if TYPE_CHECKING:
    from .browser.browser import Browser
    from .checkpoint_recorder import CheckpointRecorder
    from .command_gate import CommandGate
    from .command_rules import CommandRules
    from .files.file_actions import FileActions
    from .ipython.contexts import CodeContexts
    from .ipython.kernel import IPythonKernel
    from .language.features import LanguageFeatures
    from .programs.program_table import ProgramTable

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

_FILE_ACTIONS: Final[tuple[type[Action], ...]] = (
    *(FileRead, FileWrite, FileEdit, MakeDir, RemoveDir, Remove, ListDir, Glob, Grep),
)
_MAX_EDITED: Final = 50
"""How many files are remembered that agents edited lately."""


class Watcher(Protocol):
    """Is notified of every action and its observation."""

    def began(self, action: Action, on_progress: OnProgress | None) -> OnProgress:
        """Return the callback for the action's output, in place of `on_progress`."""
        ...

    def ended(self, observation: Observation, seconds: float, checkpoint: int | None) -> None:
        """`checkpoint`: number of the checkpoint with the changes; None if nothing was recorded."""
        ...

    def failed(self, action_id: EventId, seconds: float, why: str) -> None:
        """The action ended without an observation: it was cancelled, or the sandbox was closed."""
        ...


class Sandbox(Closable):
    """Executes actions on this machine, any number of them concurrently.

    Commands of one shell run one at a time. Commands of different shells and file actions run
    concurrently. An action that fails returns an `Error` observation. Once the sandbox is closed,
    pending and new actions raise `SandboxDied`. Closing ends every process the sandbox started.
    """

    def __init__(
        self,
        settings: SandboxSettings | None = None,
        *,
        served_at: tuple[tuple[str, int], ...] = (),
    ) -> None:
        """`served_at`: hosts and ports of this sandbox's own server; pages cannot reach them."""
        self.settings = settings or SandboxSettings()
        self._served_at = served_at
        self._chromium = find_chromium(self.settings.browser)
        self._languages = self._find_languages()
        self._language: LanguageFeatures | None = None
        self._edited: OrderedDict[str, None] = OrderedDict()
        """Files that agents edited lately, oldest first."""
        self._browser: Browser | None = None
        self.shells = Shells(self.settings.shells)
        self._files: FileActions | None = None
        self._files_lock = threading.Lock()
        self._threads = ThreadPoolExecutor(self.settings.threads, thread_name_prefix="sandbox")
        self._kernel: IPythonKernel | None = None
        self._contexts: CodeContexts | None = None
        self._programs: ProgramTable | None = None
        self.checkpoints = _recorder(self.settings)
        """Records checkpoints; None if they are off."""
        self._made: dict[EventId, int] = {}
        """Checkpoints of actions whose observations are not returned yet."""
        self._closed = False
        self.watcher: Watcher | None = None
        self.gate: CommandGate | None = None
        if self.settings.rules is not None:
            self.apply_rules(self.settings.rules)

    def apply_rules(self, rules: CommandRules) -> None:
        """Apply `rules` to actions from now on. The first call imports modules from disk."""
        if self.gate is not None:
            self.gate.change(rules)
            return
        from .command_gate import CommandGate  # most sandboxes have no rules

        shells = self.settings.shells
        self.shells.turn_off_aliases()
        self.gate = CommandGate(
            rules,
            workspace=shells.working_dir,
            home=shell_environment(shells)["HOME"],
            in_thread=self.in_thread,
        )

    @property
    def capabilities(self) -> frozenset[str]:
        kinds = {cls.kind for cls in _FILE_ACTIONS}
        kinds |= {CmdRun.kind, Interrupt.kind, IPythonRun.kind}
        if self.checkpoints is not None:
            kinds |= {cls.kind for cls in CHECKPOINT_ACTIONS}
        if self._languages:
            kinds |= LANGUAGE_ACTIONS | {f"language:{each}" for each in self._languages}
        return frozenset(
            kinds | ({Browse.kind, BrowseInteractive.kind} if self._chromium else set())
        )

    @property
    def files(self) -> FileActions:
        """The file actions. The first use imports modules from disk, so access it in a thread."""
        with self._files_lock:
            if self._files is None:
                from .files.file_actions import FileActions
                from .files.paths import FileOwner

                account = self.settings.shells.account
                owner = None if account is None else FileOwner(account.uid, account.gid)
                self._files = FileActions(roots=self.settings.roots, owner=owner)
            return self._files

    @property
    def browser(self) -> Browser:
        """The browser, whose processes start with the first action. Raises `NotSupported` if
        Chromium is not installed."""
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
    def language(self) -> LanguageFeatures:
        """The language features, whose servers start with the first action that needs them."""
        if self._language is None:
            from .language.features import LanguageFeatures  # most sandboxes never use it

            self._language = LanguageFeatures(
                self.settings.shells,
                keeper=self.shells.keeper,
                ensure_dir=self.shells.ensure_dir,
                files=lambda: self.files,
                in_thread=self.in_thread,
            )
        return self._language

    @property
    def view_url(self) -> str:
        """URL at which the sandbox's own browser shows a file (`?path=`); empty if the sandbox has
        no server."""
        if not self._served_at:
            return ""
        host, port = self._served_at[0]
        return f"http://[{host}]:{port}/view" if ":" in host else f"http://{host}:{port}/view"

    @property
    def kernel(self) -> IPythonKernel:
        """The IPython kernel, whose process starts with the first cell."""
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

    @property
    def contexts(self) -> CodeContexts:
        """Further kernels, whose cells have rich results."""
        if self._contexts is None:
            from .ipython.contexts import CodeContexts  # most sandboxes have none

            self._contexts = CodeContexts(
                self.settings.ipython,
                self.settings.shells,
                keeper=self.shells.keeper,
                ensure_dir=self.shells.ensure_dir,
                act=lambda action, kernel: self.run_cell_in(kernel, action),
            )
        return self._contexts

    @property
    def programs(self) -> ProgramTable:
        """The programs with pipes."""
        if self._programs is None:
            from .programs.program_table import ProgramTable  # most sandboxes start none

            self._programs = ProgramTable(
                self.settings.shells,
                keeper=self.shells.keeper,
                gate=lambda: self.gate,
                watcher=lambda: self.watcher,
            )
        return self._programs

    def log(self, shell: str) -> OutputLog:
        """Return the log of a shell, or of IPython. Raises `NoSuchShell`."""
        return self.kernel.log if shell == IPYTHON else self.shells.get(shell).log

    async def act(self, action: Action, *, on_progress: OnProgress | None = None) -> Observation:
        """Execute `action`. Cancelling interrupts a command, but a file action runs to its end.

        `on_progress` receives the output of the action's shell while the action runs.
        """
        return await self._act_watched(action, on_progress, None)

    async def run_cell_in(self, kernel: IPythonKernel, action: IPythonRun) -> Observation:
        """Execute a cell as `act` does, but in another kernel than the sandbox's own."""
        return await self._act_watched(action, None, kernel)

    async def _act_watched(
        self, action: Action, on_progress: OnProgress | None, kernel: IPythonKernel | None
    ) -> Observation:
        if self.watcher is None:
            try:
                return await self._act(action, on_progress, kernel)
            finally:
                self._made.pop(action.id, None)
        started = time.perf_counter()
        on_progress = self.watcher.began(action, on_progress)
        try:
            observation = await self._act(action, on_progress, kernel)
        except BaseException as error:
            self._made.pop(action.id, None)
            why = str(error) or "The action was cancelled"
            self.watcher.failed(action.id, time.perf_counter() - started, why)
            raise
        checkpoint = self._made.pop(action.id, None)
        if isinstance(observation, CheckpointRestored):
            checkpoint = observation.checkpoint
        self.watcher.ended(observation, time.perf_counter() - started, checkpoint)
        return observation

    async def _act(
        self, action: Action, on_progress: OnProgress | None, kernel: IPythonKernel | None
    ) -> Observation:
        try:
            observation = await self._do(action, on_progress, kernel)
        except SandboxDied:
            raise
        except BasculeError as error:
            if self._closed:
                raise SandboxDied("The sandbox was closed while the action ran") from error
            observation = error_observation(error, action.id)
        except Exception:
            logger.exception("the %s action %s failed unexpectedly", action.kind, action.id)
            fault = InternalError(
                f"The {action.kind} action failed because of an internal error of the sandbox"
            )
            observation = error_observation(fault, action.id)
        if observation.timestamp is not None and observation.cause == action.id:
            return observation
        return replace(observation, cause=action.id, timestamp=now())

    def _recorded(
        self, action: Action, work: Callable[[], Awaitable[Observation]]
    ) -> Awaitable[Observation]:
        """Execute an action that rules have admitted, with a checkpoint around it."""
        recorder = self.checkpoints
        if recorder is None or not recorder.is_for(action):
            return work()
        return self._record(recorder, action, work)

    async def _record(
        self,
        recorder: CheckpointRecorder,
        action: Action,
        work: Callable[[], Awaitable[Observation]],
    ) -> Observation:
        """Execute an action and record a checkpoint, which ends when the action returns its
        observation. A program that still runs then is recorded again while the next action runs.
        Changes between the two actions are not recorded, because they may be the user's."""
        begun = await recorder.begin(action, self.shells.cwd)
        try:
            return await work()
        finally:
            if (made := await recorder.end(begun)) is not None:
                self._made[action.id] = made

    async def interrupt(self, action: Interrupt) -> Interrupted:
        target = self.kernel if action.shell == IPYTHON else self.shells
        return await target.interrupt(action)

    async def in_thread(self, work: Callable[..., _Result], *args: Any) -> _Result:
        """Run a blocking call in a thread. Raises `SandboxDied` once the sandbox is closed."""
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
        if self._contexts is not None:
            await self._contexts.aclose()
        if self._language is not None:
            await self._language.aclose()
        if self._programs is not None:
            await self._programs.aclose()
        await self.shells.aclose()
        if self.checkpoints is not None:
            await self.checkpoints.aclose()
        # A thread cannot be ended. Do not wait: it may be searching a whole disk.
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _do(
        self, action: Action, on_progress: OnProgress | None, kernel: IPythonKernel | None
    ) -> Awaitable[Observation]:
        if self._closed:
            raise SandboxDied("The sandbox was closed")
        if isinstance(action, CmdRun | IPythonRun) and not _is_confirmed(action):
            return _not_confirmed(action)
        if isinstance(action, CmdRun):
            return self._run(action, on_progress)
        if isinstance(action, IPythonRun):
            return self._run_cell(action, on_progress, kernel or self.kernel)
        if isinstance(action, Interrupt):
            return self.interrupt(action)
        if isinstance(action, Browse | BrowseInteractive) and self._chromium:
            return self.browser.act(action)
        if isinstance(action, CHECKPOINT_ACTIONS) and self.checkpoints is not None:
            return self.checkpoints.execute(action)
        if action.kind in LANGUAGE_ACTIONS and self.settings.language_servers:
            return self._use_language(action)
        if type(action) not in _FILE_ACTIONS:
            raise self._not_supported(action)
        return self._work_on_files(action)

    def _run(self, action: CmdRun, on_progress: OnProgress | None) -> Awaitable[Observation]:
        """Run a command. All commands go through this method, so that rules see every command."""
        if self.gate is None:
            return self._recorded(action, lambda: self.shells.run(action, on_progress=on_progress))

        def execute(action: CmdRun, check: CommandCheck | None) -> Awaitable[Observation]:
            return self._recorded(
                action, lambda: self.shells.run(action, on_progress=on_progress, check=check)
            )

        return self.gate.run(action, execute)

    async def _run_cell(
        self, action: IPythonRun, on_progress: OnProgress | None, kernel: IPythonKernel
    ) -> Observation:
        if self.gate is not None:
            await self.gate.admit_cell(action)
        return await self._recorded(action, lambda: kernel.run(action, on_progress=on_progress))

    async def _work_on_files(self, action: Action) -> Observation:
        cwd = self.shells.cwd
        if self.gate is not None:
            await self.gate.admit_write(action, cwd)
        return await self._recorded(action, lambda: self._execute_on_files(action, cwd))

    async def _use_language(self, action: Action) -> Observation:
        from .language.refactorings import Permissions  # most sandboxes never use it

        cwd = self.shells.cwd
        permit = Permissions(
            start=lambda argv: self._admit_server(action, argv),
            change=lambda paths, work: self._change_files(action, paths, work),
        )
        observation = await self.language.act(action, cwd, permit, list(self._edited))
        if not self._languages:  # installed since the sandbox started
            self._languages = await asyncio.to_thread(self._find_languages)
        return observation

    async def _admit_server(self, action: Action, argv: Sequence[str]) -> None:
        if self.gate is None:
            return
        command = CmdRun(
            shlex.join(argv), id=action.id, source=action.source, timeout=action.timeout
        )
        await self.gate.admit_program(command, str(self.settings.shells.working_dir))

    async def _change_files(
        self, action: Action, paths: Sequence[str], work: Callable[[], Awaitable[None]]
    ) -> None:
        """Change files for an action that does not name them all, with a checkpoint."""
        if self.gate is not None:
            await self.gate.admit_changes(action, paths)
        self._note_edited(*paths)
        if self.checkpoints is None:
            return await work()
        begun = await self.checkpoints.begin_edits(action, paths)
        try:
            await work()
        finally:
            if (made := await self.checkpoints.end(begun)) is not None:
                self._made[action.id] = made

    async def store_upload(
        self, file: IO[bytes], destination: str, name: str, cwd: str, *, unpacks: bool
    ) -> None:
        """Store a file in the directory `destination`, or unpack an archive into it.

        Raises `ConsentDenied` if a protected file would change.
        """

        def changed_paths() -> list[str]:
            if unpacks:
                return self.files.transfers.unpacked_paths(file, destination, cwd)
            return [f"{self.files.paths.absolute(destination, cwd)}/{name}"]

        def store() -> None:
            file.seek(0)
            if unpacks:
                self.files.transfers.unpack(file, destination, cwd)
            else:
                self.files.transfers.store(file, destination, name, cwd)

        if self.gate is not None and self.gate.protects_files:
            paths = await self.in_thread(changed_paths)
            await self.gate.admit_changes(FileWrite(destination, ""), paths)
        await self.in_thread(store)

    def _note_edited(self, *paths: str) -> None:
        for path in paths:
            self._edited[path] = None
            self._edited.move_to_end(path)
        while len(self._edited) > _MAX_EDITED:
            self._edited.popitem(last=False)

    def _find_languages(self) -> frozenset[str]:
        if not self.settings.language_servers:
            return frozenset()
        return installed_languages(shell_environment(self.settings.shells)["PATH"])

    async def _execute_on_files(self, action: Action, cwd: str) -> Observation:
        if isinstance(action, FileWrite | FileEdit):
            self._note_edited(str(Path(cwd, action.path)))
        try:
            async with asyncio.timeout(action.timeout):
                return await self.in_thread(lambda: self.files.execute(action, cwd))
        except TimeoutError:
            raise ActionTimedOut(
                f"The {action.kind} action did not finish within {action.timeout} seconds; "
                "what it had begun may still take effect"
            ) from None

    def _no_browser(self) -> str:
        return f"{_NO_BROWSER}: {why_no_browser(self.settings.browser)}"

    def _not_supported(self, action: Action) -> NotSupported:
        supported = ", ".join(sorted(self.capabilities))
        if isinstance(action, Browse | BrowseInteractive):
            reason = f"{self._no_browser()}. It can do: {supported}"
            return NotSupported(f"{action.kind!r}: {reason}", kind=action.kind)
        if isinstance(action, CHECKPOINT_ACTIONS):
            message = f"{action.kind!r}: this sandbox records no checkpoints"
            return NotSupported(message, kind=action.kind)
        return NotSupported(
            f"{action.kind!r} actions are not available in this sandbox; it can do: {supported}",
            kind=action.kind,
        )


_NO_BROWSER = "Browser functionality is not supported or disabled in this sandbox"
"""OpenHands' clients search for this exact text."""


def _recorder(settings: SandboxSettings) -> CheckpointRecorder | None:
    if settings.checkpoints is None:
        return None
    from .checkpoint_recorder import CheckpointRecorder  # only sandboxes with checkpoints load it

    workspace = Path(settings.shells.working_dir)
    max_bytes = settings.checkpoint_bytes
    return CheckpointRecorder(settings.checkpoints, workspace, max_bytes=max_bytes)


def _is_confirmed(action: Action) -> bool:
    return getattr(action, "confirmation_state", "confirmed") == "confirmed"


async def _not_confirmed(action: CmdRun | IPythonRun) -> Observation:
    if action.confirmation_state == "rejected":
        return UserRejected(content="The user refused this action; it was not done")
    return Nothing()
