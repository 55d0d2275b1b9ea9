"""Abstract classes through which packages use each other: `Shell`, `Runtime`, `Spawner` and others.
Every implementation passes the test suite of its contract in `tests/contracts/`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    # Not at run time: importing a contract should not load all kinds of actions.
    from .actions import Action, CmdRun
    from .observations import CmdOutput, Observation
    from .sessions import RunningSandbox, SandboxPlan, SessionId, Usage
    from .windows import Window, WindowId

MANDATORY_CAPABILITIES: frozenset[str] = frozenset(
    {
        *("run", "run_ipython", "read", "write", "edit", "mkdir", "rmdir", "rm", "list", "glob"),
        *("grep", "interrupt"),
    }
)
"""The action kinds that every runtime supports."""


@dataclass(frozen=True, slots=True)
class OutputProgress:
    """A chunk of a shell's output, as raw bytes, sent while the command still runs."""

    shell: str
    """The name of the shell; `ipython` for the output of a cell, whose `data` is UTF-8 text."""
    offset: int
    """Position of `data` in the shell's log."""
    data: bytes


Progress = OutputProgress
"""The name in version 0.1, for programs that import it."""
OnProgress = Callable[[OutputProgress], None]


@dataclass(frozen=True, slots=True)
class LogMatch:
    """A line of a log that matches a search."""

    offset: int
    """Position of the line's first byte, counted from the start of the log."""
    text: str


class Closable(ABC):
    """An object that holds a process, socket or descriptor. Whoever opens it closes it; closing
    twice is allowed."""

    @abstractmethod
    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class Startable(Closable):
    """A `Closable` that `async with` starts. If starting fails, it is closed too."""

    @abstractmethod
    async def start(self) -> None: ...

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.aclose()
            raise
        return self


class OutputLog(ABC):
    """All output of a shell as raw bytes, addressed by position from the start of the log.

    The log is bounded: the oldest part is dropped first. Dropping does not change positions.
    """

    @property
    @abstractmethod
    def start(self) -> int:
        """The oldest position still held."""

    @property
    @abstractmethod
    def end(self) -> int:
        """One past the newest byte."""

    @property
    @abstractmethod
    def path(self) -> Path | None:
        """The file that holds the newest part, if there is one."""

    @abstractmethod
    def read(self, start: int, end: int | None = None) -> bytes:
        """The bytes from `start` up to `end`. Raises `LogRangeGone` if they were dropped."""

    @abstractmethod
    def search(self, pattern: str, *, start: int = 0, limit: int = 100) -> Sequence[LogMatch]:
        """Lines that match the regular expression, oldest first."""


class CommandPlace(Protocol):
    """Where a command is about to run: a shell, or the start of a program."""

    @property
    def cwd(self) -> str: ...

    async def command_types(self, names: Sequence[str]) -> Sequence[str]:
        """What would run for each name: `file`, `builtin`, `keyword`, `function` or `alias`; an
        empty string for an unknown name."""


CommandCheck = Callable[[CommandPlace], Awaitable[None]]
"""Called with the shell directly before it runs a command; raises an error to prevent that."""


class Shell(Closable):
    """A bash process whose directory, variables, functions, options and jobs survive each command.

    Commands run one at a time. A command sent while another runs is refused, or waits if it has
    `queue`. Cancelling `run` interrupts the command and leaves the shell usable. When bash itself
    ends (`exit`, a crash), the observation has bash's exit status. The next command starts a new
    shell, and its observation has `new_shell` set. Closing ends every process the shell started.
    """

    name: str

    @property
    @abstractmethod
    def is_running(self) -> bool:
        """Whether a command was started and has not ended."""

    @property
    @abstractmethod
    def cwd(self) -> str:
        """The shell's directory when the last command ended."""

    @property
    @abstractmethod
    def log(self) -> OutputLog: ...

    @abstractmethod
    async def command_types(self, names: Sequence[str]) -> Sequence[str]:
        """What bash would run for each name: `file`, `builtin`, `keyword`, `function` or `alias`;
        an empty string for an unknown name. Call it only in a `CommandCheck`."""

    @abstractmethod
    async def run(self, command: CmdRun, *, check: CommandCheck | None = None) -> CmdOutput:
        """Run `command` to its end and return the observation.

        `check` is called when the shell is ready to run this command, and not for input to a
        running program. If it raises, the command does not run.

        A command that fails returns an observation with a non-zero status, never an exception. A
        command that reaches its timeout returns status -1 and keeps running: the caller can read
        more output (an empty command), type into the program (`is_input`) or interrupt it. Raises
        `ShellClosed` after the shell was closed and `CommandInvalid` for text no shell can run.
        """

    @abstractmethod
    async def interrupt(self, *, kill: bool = False) -> bool:
        """Interrupt the running program as Ctrl-C would; with `kill`, kill it.

        Returns whether a program was running. Its status is in the observation that `run` returns
        for the command; if `run` has returned already, the next empty command returns it.
        """

    @abstractmethod
    def subscribe(self, listener: OnProgress) -> Callable[[], None]:
        """Call `listener` with every chunk of output from now on. Returns a function that
        unsubscribes it."""


class Runtime(Closable):
    """Runs actions: in a local or remote sandbox, or in a VS Code window.

    Several tasks may call `act` at once; commands of one shell keep their order. An action that
    fails returns an `Error` observation. Exceptions are raised only for a lost connection
    (`LinkError`), a sandbox that ended (`SandboxDied`) and misuse of the runtime itself.
    """

    @property
    @abstractmethod
    def capabilities(self) -> frozenset[str]:
        """The kinds of action this runtime supports; known once connected."""

    @abstractmethod
    async def connect(self) -> None:
        """Start or find the sandbox or window, and wait until it answers."""

    @abstractmethod
    async def act(self, action: Action, *, on_progress: OnProgress | None = None) -> Observation:
        """Run `action` and return the observation, with `cause` set to the action's id.

        Cancelling interrupts a running command. `on_progress` is called with output as it arrives.
        """

    @abstractmethod
    async def upload(self, source: Path, destination: str) -> None:
        """Copy a file, or a directory with its contents, into the directory `destination`."""

    @abstractmethod
    async def download(self, path: str, destination: Path) -> Path:
        """Download `path`: a file as it is, a directory as a zip. Returns the written path."""

    @abstractmethod
    async def read_log(self, shell: str = "", *, start: int = 0, end: int | None = None) -> bytes:
        """The raw output of a shell from position `start` to `end`."""

    @abstractmethod
    async def search_log(
        self, pattern: str, shell: str = "", *, start: int = 0, limit: int = 100
    ) -> Sequence[LogMatch]: ...

    async def __aenter__(self) -> Self:
        await self.connect()
        return self


class WindowLink(Closable):
    """Connects a runtime to the windows of a hub: in the same process, or over the network.

    A window runs each action id at most once. So after a lost connection (`WindowGone`,
    `WindowUnhealthy`, `HubUnreachable`) the caller may send the same action again: the window runs
    it if it has not yet, and otherwise returns the stored observation.
    """

    @abstractmethod
    async def connect(self) -> None:
        """Connect to the hub. Raises `HubUnreachable`, `AccessDenied` or `VersionMismatch`.

        The caller may retry after `HubUnreachable`.
        """

    @abstractmethod
    async def wait_for_change(self) -> None:
        """Wait until any window changes, or the link has reconnected to the hub."""

    @abstractmethod
    async def windows(self) -> Sequence[Window]:
        """All windows of the hub that this link may see."""

    @abstractmethod
    async def act(
        self,
        window_id: WindowId,
        action: Action,
        *,
        on_progress: OnProgress | None = None,
        age: float = 0.0,
    ) -> Observation:
        """Run `action` in the window and return the observation.

        `age` is how many seconds ago this id was first sent. A window refuses an unknown action
        older than `ACTION_LIFE`: it may have run the action and forgotten the id.

        Raises each `LinkError` at once and never retries by itself. Cancelling ends the action in
        the window, and returns after it has ended there. `on_progress` may miss chunks if the
        callback is slow or the connection was lost for a while; gaps in the offsets show that.
        """

    @abstractmethod
    async def wait_until_healthy(self, window_id: WindowId) -> None:
        """Wait until the window accepts actions, without a time limit."""


OnStage = Callable[[str], None]
"""Called with the current stage of a start, as a few words for users: `pulling the image`."""


class Spawner(Closable):
    """Starts and ends sandboxes: as processes of this machine, or as containers.

    A sandbox is an action server and all processes that it starts. The server listens on
    `sandbox.sock` in the `run_dir` of the plan. Sandboxes outlive the spawner and the hub: closing
    a spawner ends no sandbox, and a later spawner with the same settings finds them with `running`.
    Several tasks may call the methods at once. All methods are idempotent, so they can be retried.
    """

    kind: str
    """The name of this spawner in a session's setting `spawner`."""

    shares_files: bool = True
    """Whether sandboxes work on the files in `directory` of the plan. False: their files are
    elsewhere, so the hub can neither copy nor read them itself."""

    @abstractmethod
    async def open(self) -> None:
        """Prepare the spawner. Raises `CannotIsolate` or `MissingTool` if it cannot work on this
        machine."""

    @abstractmethod
    async def start(self, plan: SandboxPlan, *, on_stage: OnStage | None = None) -> RunningSandbox:
        """Start the sandbox and wait until its action server answers; no effect if it already does.

        Raises `SandboxStartFailed` with the cause. After a failure or cancellation no process and
        no socket of the sandbox is left.
        """

    @abstractmethod
    async def running(self) -> Sequence[RunningSandbox]:
        """Every running sandbox of this spawner, including those that an earlier process
        started."""

    @abstractmethod
    async def pause(self, session_id: SessionId) -> None:
        """Pause all processes of the sandbox until `resume`. Raises `NoSuchSandbox`."""

    @abstractmethod
    async def resume(self, session_id: SessionId) -> None: ...

    @abstractmethod
    async def stop(self, session_id: SessionId, *, grace: float = 10.0) -> None:
        """End all processes of the sandbox and remove its sockets; its files stay.

        Processes get SIGTERM first, and SIGKILL after `grace` seconds.
        """

    @abstractmethod
    async def wait_for_unexpected_end(self, session_id: SessionId) -> str:
        """Wait until the sandbox has ended without `stop`, and return a description of the
        reason."""

    @abstractmethod
    async def usage(self, session_id: SessionId) -> Usage:
        """The resources the sandbox uses now. Raises `NoSuchSandbox`."""

    @abstractmethod
    async def log_tail(self, session_id: SessionId, *, lines: int = 100) -> str:
        """The last lines of the action server's log, also after it ended; empty if there is no
        log."""

    @abstractmethod
    async def disk(self, directory: Path) -> int:
        """Bytes on disk that a session uses: its directory, its sockets, its log and the changes
        in its container. 0 if its directory is missing.

        The duration grows with the number of files.
        """

    @abstractmethod
    async def remove(self, directory: Path) -> None:
        """Remove a session's directory and all files in it, whichever user owns them.

        No sandbox may run in the directory. No effect if the directory does not exist.
        """


BridgeListener = Callable[[str, Mapping[str, Any]], None]
"""Called with the name and the body of an event that a window sent."""


class Bridge(Protocol):
    """Lets a net or script send requests to an editor window and wait for the answers.

    This is a protocol, not a base class, so that scripts can load the bridge without the rest of
    Bascule. Every method may be called from any thread, also concurrently; answers arrive in any
    order. A request that fails raises a `BridgeError`, which is also a `RuntimeError`.
    `docs/bridge.md` lists the requests.
    """

    @property
    def kind(self) -> str:
        """How the bridge reaches the window.

        `run`: through the window that started this program. `debug`: through the debug session.
        `hub`: through the hub. `terminal`: no window; questions are asked in the terminal. `none`:
        no window.
        """

    def is_available(self) -> bool:
        """Whether the window answers now. Takes at most a second and never raises."""

    def begin(
        self,
        type: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: Callable[[Any], None] | None = None,
    ) -> Future[Any]:
        """Send a request and return at once. Cancelling the future cancels the request.

        The window enforces `timeout`, in seconds. `on_progress` is called with each partial result
        that arrives before the answer, in the thread that reads from the window, so it should
        return quickly. This method never raises; the future holds any error.
        """

    def request(
        self,
        type: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: Callable[[Any], None] | None = None,
    ) -> Any:
        """Send a request and wait for the answer. Ctrl-C cancels the request."""

    async def arequest(
        self,
        type: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: Callable[[Any], None] | None = None,
    ) -> Any:
        """Send a request and await the answer. Cancelling cancels the request."""

    def send_event(self, event: str, body: Mapping[str, Any]) -> None:
        """Send an event to the window, which does not answer. The event is lost if there is no
        window."""

    def listen(self, listener: BridgeListener) -> Callable[[], None]:
        """Call `listener` with every event of the window. Returns a function that unsubscribes
        it."""

    def close(self) -> None:
        """Disconnect from the window. Pending requests raise `BridgeClosed`."""
