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
    """A piece of a shell's output, as raw bytes, while its command still runs."""

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
    """A line of a log that fits a search."""

    offset: int
    """Where the line starts, in bytes since the log began."""
    text: str


class Closable(ABC):
    """Holds a process, socket or descriptor. Whoever opened it closes it; closing twice is fine."""

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
    """All that a shell showed, as raw bytes, addressed by their position since the log began.

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
        """The file that holds the newest part, where there is one."""

    @abstractmethod
    def read(self, start: int, end: int | None = None) -> bytes:
        """The bytes from `start` up to `end`. Raises `LogRangeGone` for what was dropped."""

    @abstractmethod
    def search(self, pattern: str, *, start: int = 0, limit: int = 100) -> Sequence[LogMatch]:
        """Lines in which the regular expression is found, oldest first."""


class Shell(Closable):
    """Bash that remembers: directory, variables, functions, options and jobs outlive each command.

    One command runs at a time; one given meanwhile is refused, or waits when it has `queue`.
    Cancelling `run` interrupts the command and leaves the shell usable. When bash itself ends
    (`exit`, a crash), the status is reported and the next command gets a new shell that says it
    is new. Closing ends every process the shell started.
    """

    name: str

    @property
    @abstractmethod
    def is_running(self) -> bool:
        """A command has been started and has not ended."""

    @property
    @abstractmethod
    def cwd(self) -> str:
        """The shell's directory when the last command ended."""

    @property
    @abstractmethod
    def log(self) -> OutputLog: ...

    @abstractmethod
    async def run(self, command: CmdRun) -> CmdOutput:
        """Run `command` to its end and return what was seen.

        A failing command is an observation with a non-zero status, never an exception. One that
        outlives its time-out is an observation with status -1: it goes on running, to be read on
        (an empty command), typed into (`is_input`) or interrupted. Raises `ShellClosed` once the
        shell is gone and `CommandInvalid` for text no shell can run.
        """

    @abstractmethod
    async def interrupt(self, *, kill: bool = False) -> bool:
        """Interrupt the running program as Ctrl-C would; with `kill`, end it by force.

        Returns whether anything was running. The status comes with the command's own answer, or
        with the next empty command.
        """

    @abstractmethod
    def subscribe(self, listener: OnProgress) -> Callable[[], None]:
        """Call `listener` with every piece of output from now on; returns what ends that."""


class Runtime(Closable):
    """Where actions get done: a sandbox here or far away, or a VS Code window.

    `act` may be called by many tasks at once; commands of one shell keep their order. An action
    that fails is an `Error` observation; exceptions are kept for a lost link (`LinkError`), an
    ended sandbox (`SandboxDied`) and misuse of the runtime itself.
    """

    @property
    @abstractmethod
    def capabilities(self) -> frozenset[str]:
        """The action kinds this runtime can do; known once connected."""

    @abstractmethod
    async def connect(self) -> None:
        """Start or find the place where actions get done, and wait until it answers."""

    @abstractmethod
    async def act(self, action: Action, *, on_progress: OnProgress | None = None) -> Observation:
        """Do `action` and return what was seen, with `cause` set to the action's id.

        Cancelling interrupts a running command. `on_progress` is called with output as it comes.
        """

    @abstractmethod
    async def upload(self, source: Path, destination: str) -> None:
        """Copy a file, or a directory with all below it, into the directory `destination`."""

    @abstractmethod
    async def download(self, path: str, destination: Path) -> Path:
        """Copy `path` out: a file as it is, a directory as a zip. Returns what was written."""

    @abstractmethod
    async def read_log(self, shell: str = "", *, start: int = 0, end: int | None = None) -> bytes:
        """Raw output of a shell by position."""

    @abstractmethod
    async def search_log(
        self, pattern: str, shell: str = "", *, start: int = 0, limit: int = 100
    ) -> Sequence[LogMatch]: ...

    async def __aenter__(self) -> Self:
        await self.connect()
        return self


class WindowLink(Closable):
    """The way from a runtime to the windows of a hub: in its process, or over the network.

    A window does an action id once. So after a loss (`WindowGone`, `WindowUnhealthy`,
    `HubUnreachable`) the same action may be given again: it is done if it was not, and else
    answered with what was seen.
    """

    @abstractmethod
    async def connect(self) -> None:
        """Reach the hub. Raises `HubUnreachable`, `AccessDenied` or `VersionMismatch`.

        After `HubUnreachable` it may be called again.
        """

    @abstractmethod
    async def changed(self) -> None:
        """Wait until a window came, went or changed its status, or the hub is reached again."""

    @abstractmethod
    async def windows(self) -> Sequence[Window]:
        """Every window the hub knows and this link may see."""

    @abstractmethod
    async def act(
        self,
        window_id: WindowId,
        action: Action,
        *,
        on_progress: OnProgress | None = None,
        age: float = 0.0,
    ) -> Observation:
        """Have the window do `action` and return what was seen.

        `age` is how many seconds ago this id was first sent; a window does not begin an unknown
        one that is older than `ACTION_LIFE`, since it may have forgotten it.

        Raises `LinkError`s as they happen and never sends again by itself. Cancelling ends the
        action in the window and returns once it has ended there. `on_progress` may miss pieces
        when its reader is slow or the link was lost meanwhile; their offsets tell.
        """

    @abstractmethod
    async def returned(self, window_id: WindowId) -> None:
        """Wait, however long it takes, until the window takes actions (again)."""


OnStage = Callable[[str], None]
"""Told what a start is busy with, in a few words for people: `pulling the image`."""


class Spawner(Closable):
    """Starts and ends sandboxes: processes of this machine, containers of an engine.

    A sandbox is an action server on `sandbox.sock` of its plan's `run_dir`, and whatever it starts.
    It outlives the spawner and the hub: closing a spawner ends none, and another one with the same
    settings finds them by `running`. All methods may be called by many tasks at once, and again
    after a loss: what is done already is not done twice.
    """

    kind: str
    """What a session's `spawner` names it by."""

    @abstractmethod
    async def open(self) -> None:
        """Make ready. Raises `CannotIsolate` or `MissingTool` when this machine cannot do it."""

    @abstractmethod
    async def start(self, plan: SandboxPlan, *, on_stage: OnStage | None = None) -> RunningSandbox:
        """Start the sandbox, and return once its action server answers; at once if it does.

        Raises `SandboxStartFailed` with the cause; then, and when cancelled, nothing is left.
        """

    @abstractmethod
    async def running(self) -> Sequence[RunningSandbox]:
        """Every sandbox of this spawner, whoever started it."""

    @abstractmethod
    async def pause(self, session_id: SessionId) -> None:
        """Let none of its processes run until `resume`. Raises `NoSuchSandbox`."""

    @abstractmethod
    async def resume(self, session_id: SessionId) -> None: ...

    @abstractmethod
    async def stop(self, session_id: SessionId, *, grace: float = 10.0) -> None:
        """End every process of it, politely first; its sockets go, its files stay."""

    @abstractmethod
    async def ended(self, session_id: SessionId) -> str:
        """Wait until the sandbox has ended by itself, and say how, for people."""

    @abstractmethod
    async def usage(self, session_id: SessionId) -> Usage:
        """Raises `NoSuchSandbox`."""

    @abstractmethod
    async def last_words(self, session_id: SessionId, *, lines: int = 100) -> str:
        """What its action server said last, running or not; empty when nothing is known."""

    @abstractmethod
    async def disk(self, directory: Path) -> int:
        """Bytes of the disk that a session takes, 0 when its directory is not there: its own
        directory, that of its sockets, what its server said and what its container has changed.

        Takes as long as there are files to look at.
        """

    @abstractmethod
    async def remove(self, directory: Path) -> None:
        """Remove a session's own directory with all in it, which may be other users' than ours.

        No sandbox may run in it. Done already when it is not there.
        """


BridgeListener = Callable[[str, Mapping[str, Any]], None]
"""Called with the name and the body of an event that a window sent."""


class Bridge(Protocol):
    """How a net or a script asks something of an editor window and waits for the answer.

    A protocol, not a base class: scripts load the bridge and nothing else of ours. Every method
    may be called from any thread, by many at once; answers come in any order. What fails raises
    a `BridgeError`, which is a `RuntimeError` too. `docs/bridge.md` lists the requests.
    """

    @property
    def kind(self) -> str:
        """By which way it reaches the window: `run`, `debug`, `hub`, or `none`."""

    def is_available(self) -> bool:
        """Whether the window answers right now. Takes at most a second and never raises."""

    def begin(
        self,
        type: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: Callable[[Any], None] | None = None,
    ) -> Future[Any]:
        """Ask, and return at once. Cancelling the future cancels the request in the window.

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
        """Ask, and wait for the answer. An interrupt (Ctrl-C) cancels the request."""

    async def arequest(
        self,
        type: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: Callable[[Any], None] | None = None,
    ) -> Any:
        """The same for code that awaits. Cancelling cancels the request."""

    def tell(self, event: str, body: Mapping[str, Any]) -> None:
        """Let the window know of something. Nobody answers; lost when there is no window."""

    def listen(self, listener: BridgeListener) -> Callable[[], None]:
        """Have `listener` called with every event of the window; returns what ends that."""

    def close(self) -> None:
        """Let go of the window. Whoever still waits is told by `BridgeClosed`."""
