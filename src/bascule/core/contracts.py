"""What rooms promise each other. Each kind of a contract passes the suite of its name in
`tests/contracts/`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from .actions import Action, CmdRun
from .observations import CmdOutput, Observation
from .windows import Window, WindowId

if TYPE_CHECKING:
    from .sessions import RunningSandbox, SandboxPlan, SessionId, Usage

MANDATORY_CAPABILITIES: frozenset[str] = frozenset(
    {
        *("run", "run_ipython", "read", "write", "edit", "mkdir", "rmdir", "rm", "list", "glob"),
        *("grep", "interrupt"),
    }
)
"""Action kinds every runtime can do."""


@dataclass(frozen=True, slots=True)
class OutputProgress:
    """A chunk of a shell's output, as raw bytes, while its command still runs."""

    shell: str
    """Its name; `ipython` for what a cell shows, as text."""
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
    """Where the line starts, in bytes since the log began."""
    text: str


class Closable(ABC):
    """Holds a process, socket or descriptor. Its opener closes it; closing twice is allowed."""

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


class OutputLog(ABC):
    """All output of a shell as raw bytes, addressed by position since the log began.

    Bounded: the oldest part is dropped first, and positions never change.
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


class Shell(Closable):
    """A bash process whose directory, variables, functions, options and jobs survive each command.

    One command runs at a time; one given meanwhile is refused, or waits when it has `queue`.
    Cancelling `run` interrupts the command and leaves the shell usable. When bash itself ends
    (`exit`, a crash), the status is reported and the next command gets a new shell that says it
    is new. Closing ends every process the shell started.
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
    async def run(self, command: CmdRun) -> CmdOutput:
        """Run `command` to its end and return the observation.

        A failing command is an observation with a non-zero status, never an exception. One that
        outlives its time-out is an observation with status -1: it goes on running, to be read on
        (an empty command), typed into (`is_input`) or interrupted. Raises `ShellClosed` once the
        shell is gone and `CommandInvalid` for text no shell can run.
        """

    @abstractmethod
    async def interrupt(self, *, kill: bool = False) -> bool:
        """Interrupt the running program as Ctrl-C would; with `kill`, kill it.

        Returns whether anything was running. The status comes with the command's own answer, or
        with the next empty command.
        """

    @abstractmethod
    def subscribe(self, listener: OnProgress) -> Callable[[], None]:
        """Call `listener` with every chunk of output from now on; returns the function that ends
        it."""


class Runtime(Closable):
    """Runs actions: in a local or remote sandbox, or in a VS Code window.

    `act` may be called by many tasks at once; commands of one shell keep their order. An action
    that fails is an `Error` observation; exceptions are kept for a lost link (`LinkError`), an
    ended sandbox (`SandboxDied`) and misuse of the runtime itself.
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

        Cancelling interrupts a running command. `on_progress` is called with output as it comes.
        """

    @abstractmethod
    async def upload(self, source: Path, destination: str) -> None:
        """Copy a file, or a directory with its contents, into the directory `destination`."""

    @abstractmethod
    async def download(self, path: str, destination: Path) -> Path:
        """Download `path`: a file as it is, a directory as a zip. Returns the written path."""

    @abstractmethod
    async def read_log(self, shell: str = "", *, start: int = 0, end: int | None = None) -> bytes:
        """Raw output of a shell, by position."""

    @abstractmethod
    async def search_log(
        self, pattern: str, shell: str = "", *, start: int = 0, limit: int = 100
    ) -> Sequence[LogMatch]: ...

    async def __aenter__(self) -> Self:
        await self.connect()
        return self


class WindowLink(Closable):
    """Connects a runtime to the windows of a hub: in the same process, or over the network.

    A window does an action id once. So after a loss (`WindowGone`, `WindowUnhealthy`,
    `HubUnreachable`) the same action may be given again: it is done if it was not, and else
    answered with what was seen.
    """

    @abstractmethod
    async def connect(self) -> None:
        """Connect to the hub. Raises `HubUnreachable`, `AccessDenied` or `VersionMismatch`.

        After `HubUnreachable` it may be called again.
        """

    @abstractmethod
    async def changed(self) -> None:
        """Wait until any window changes, or the hub is reached again."""

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

        `age` is how many seconds ago this id was first sent; a window does not begin an unknown
        one that is older than `ACTION_LIFE`, since it may have forgotten it.

        Raises `LinkError`s as they happen and never sends again by itself. Cancelling ends the
        action in the window and returns once it has ended there. `on_progress` may miss pieces
        when its reader is slow or the link was lost meanwhile; their offsets tell.
        """

    @abstractmethod
    async def returned(self, window_id: WindowId) -> None:
        """Wait, without limit, until the window takes actions."""


OnStage = Callable[[str], None]
"""Told what a start is busy with, in a few words for people: `pulling the image`."""


class Spawner(Closable):
    """Starts and ends sandboxes: as processes of this machine, or as containers.

    A sandbox is an action server on `sandbox.sock` of its plan's `run_dir`, and whatever it starts.
    It outlives the spawner and the hub: closing a spawner ends none, and another one with the same
    settings finds them by `running`. All methods may be called by many tasks at once, and again
    after a loss: what is done already is not done twice.
    """

    kind: str
    """What a session's `spawner` names it by."""

    @abstractmethod
    async def open(self) -> None:
        """Prepare. Raises `CannotIsolate` or `MissingTool` if this machine cannot run it."""

    @abstractmethod
    async def start(self, plan: SandboxPlan, *, on_stage: OnStage | None = None) -> RunningSandbox:
        """Start the sandbox and wait until its action server answers; no effect if it already does.

        Raises `SandboxStartFailed` with the cause; then, and when cancelled, nothing is left.
        """

    @abstractmethod
    async def running(self) -> Sequence[RunningSandbox]:
        """Every running sandbox of this spawner, whoever started it."""

    @abstractmethod
    async def pause(self, session_id: SessionId) -> None:
        """Pause all its processes until `resume`. Raises `NoSuchSandbox`."""

    @abstractmethod
    async def resume(self, session_id: SessionId) -> None: ...

    @abstractmethod
    async def stop(self, session_id: SessionId, *, grace: float = 10.0) -> None:
        """End all its processes, with SIGTERM first. Its sockets are removed, its files stay."""

    @abstractmethod
    async def ended(self, session_id: SessionId) -> str:
        """Wait until the sandbox has ended by itself, and return a description of how."""

    @abstractmethod
    async def usage(self, session_id: SessionId) -> Usage:
        """Raises `NoSuchSandbox`."""

    @abstractmethod
    async def last_words(self, session_id: SessionId, *, lines: int = 100) -> str:
        """The last lines of its action server's log, running or not; empty if unknown."""

    @abstractmethod
    async def disk(self, directory: Path) -> int:
        """Bytes on disk that a session uses, 0 if its directory is missing: its directory, its
        sockets, its log and the changes in its container.

        Takes as long as there are files to look at.
        """

    @abstractmethod
    async def remove(self, directory: Path) -> None:
        """Remove a session's directory with its contents, whoever owns them.

        No sandbox may run in it. Done already when it is not there.
        """


BridgeListener = Callable[[str, Mapping[str, Any]], None]
"""Called with the name and the body of an event that a window sent."""


class Bridge(Protocol):
    """Lets a net or script send requests to an editor window and wait for the answers.

    A protocol, not a base class: scripts load the bridge and nothing else of ours. Every method
    may be called from any thread, by many at once; answers come in any order. What fails raises
    a `BridgeError`, which is a `RuntimeError` too. `docs/bridge.md` lists the requests.
    """

    @property
    def kind(self) -> str:
        """How it reaches the window: `run`, `debug`, `hub`, or `none`."""

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

        `timeout`, in seconds, is the window's to keep. `on_progress` gets each piece that comes
        before the answer, in the thread that reads from the window, and should return at once.
        Nothing is raised here: all that goes wrong is told by the future.
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

    def tell(self, event: str, body: Mapping[str, Any]) -> None:
        """Send an event to the window, without an answer; lost if there is no window."""

    def listen(self, listener: BridgeListener) -> Callable[[], None]:
        """Call `listener` with every event of the window; returns the function that ends it."""

    def close(self) -> None:
        """Disconnect from the window. Pending requests raise `BridgeClosed`."""
