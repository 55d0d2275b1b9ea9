"""The stages of a shell and of a command, and the transitions between them. No I/O.

Every stage changes in one method of its owner: `BashState.enter`, `Execution.enter` or
`Execution.enter_output`. This method raises `refused` for a transition that is not in the table of
the stage. Stages read from a record are set directly.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Final, TypeVar

from bascule.core.errors import InternalError

from .marks import CommandEnd


class ShellStage(Enum):
    """Whether a shell has a bash, and whether anything may print between two commands."""

    NEW = "new"
    """The shell has had no bash yet."""
    STARTED = "started"
    """No command has ended yet: output is noise from the start of bash."""
    CALM = "calm"
    """Only the next command prints, so its output needs no marks."""
    NOISY = "noisy"
    """A job, a trace or a hook may print, so output needs marks. The shell can become calm
    again."""
    DISTURBED = "disturbed"
    """Bash was signalled or a program was stopped: bash may print notices until it ends."""
    REPLACED = "replaced"
    """`exec` replaced bash by another shell, which we are ending."""
    ENDED = "ended"
    """Bash has exited. The next command gets a new bash."""
    CLOSED = "closed"


class CommandStage(IntEnum):
    """Progress of a command in bash. Ordered: a later stage includes the earlier ones."""

    WAITING = 0
    """Not sent yet: bash is starting, or has to answer a query first."""
    SENT = 1
    """The command's line was written to the channel."""
    RUNNING = 2
    """Bash is known to run the command. This is checked only if somebody needs to know; most
    commands skip this stage."""
    OVER = 3
    """The command has ended, or will never run."""


class OutputStage(IntEnum):
    """How far a command's output has been read from the terminal.

    Independent of `CommandStage`: reports come from the channel and output from the terminal, and
    either may be ahead.
    """

    EXPECTED = 0
    STARTED = 1
    """Output from here on belongs to the command."""
    COMPLETE = 2
    """The end mark was read. A command without marks skips this stage."""


class Interruption(IntEnum):
    """How we tried to end a command early. The value only increases."""

    NONE = 0
    SIGNALLED = 1
    ABANDONED = 2
    """The caller was cancelled: we are ending the command and drop its output."""


class Ending(Enum):
    """What happened to bash at the end of a command."""

    REPORTED = "reported"
    """Bash is alive and reported the end."""
    SHELL_ENDED = "shell_ended"
    SHELL_REPLACED = "shell_replaced"
    """`exec` replaced bash by another shell."""


CALM: Final = ShellStage.CALM
CLOSED: Final = ShellStage.CLOSED
SENT: Final = CommandStage.SENT
OVER: Final = CommandStage.OVER
OUTPUT_STARTED: Final = OutputStage.STARTED
OUTPUT_COMPLETE: Final = OutputStage.COMPLETE
ABANDONED: Final = Interruption.ABANDONED
"""Module constants for code that runs with every command: on Python 3.11, looking up a member in
its enum takes four times as long as looking up a name."""

_NOISY: Final = ShellStage.NOISY
_DISTURBED: Final = ShellStage.DISTURBED
_LEAVING: Final = frozenset({ShellStage.REPLACED, ShellStage.ENDED, ShellStage.CLOSED})
_SETTLED: Final = frozenset({ShellStage.CALM, ShellStage.NOISY, ShellStage.DISTURBED})

SHELL_TRANSITIONS: Final[Mapping[ShellStage, frozenset[ShellStage]]] = {
    ShellStage.NEW: frozenset({ShellStage.STARTED, ShellStage.CLOSED}),
    ShellStage.STARTED: _SETTLED | _LEAVING,
    ShellStage.CALM: _LEAVING | {ShellStage.NOISY, ShellStage.DISTURBED},
    ShellStage.NOISY: _LEAVING | {ShellStage.CALM, ShellStage.DISTURBED},
    ShellStage.DISTURBED: _LEAVING,
    ShellStage.REPLACED: frozenset({ShellStage.ENDED, ShellStage.CLOSED}),
    ShellStage.ENDED: frozenset({ShellStage.STARTED, ShellStage.CLOSED}),
    ShellStage.CLOSED: frozenset(),
}

COMMAND_TRANSITIONS: Final[Mapping[CommandStage, frozenset[CommandStage]]] = {
    CommandStage.WAITING: frozenset({CommandStage.SENT, CommandStage.OVER}),
    CommandStage.SENT: frozenset({CommandStage.RUNNING, CommandStage.OVER}),
    CommandStage.RUNNING: frozenset({CommandStage.OVER}),
    CommandStage.OVER: frozenset(),
}

OUTPUT_TRANSITIONS: Final[Mapping[OutputStage, frozenset[OutputStage]]] = {
    OutputStage.EXPECTED: frozenset({OutputStage.STARTED}),
    OutputStage.STARTED: frozenset({OutputStage.COMPLETE}),
    OutputStage.COMPLETE: frozenset(),
}

S = TypeVar("S", bound=Enum)


def refused(stage: S, to: S, transitions: Mapping[S, frozenset[S]]) -> InternalError:
    """Return the error for a transition that is not in the table; it means a bug in the caller."""
    allowed = ", ".join(sorted(each.name for each in transitions[stage])) or "nothing"
    return InternalError(
        f"{type(stage).__name__} cannot change from {stage.name} to {to.name}; "
        f"{stage.name} is followed by {allowed}"
    )


class BashState:
    """The stage of a shell, and bash's report at the end of its last command.

    `needs_marks`: use marks for every command, because the report may arrive before the output.
    """

    def __init__(self, cwd: str, *, needs_marks: bool = False) -> None:
        self._needs_marks = needs_marks
        self.stage = ShellStage.NEW
        self.cwd = cwd
        self.status = 0
        self.options = ""
        """Bash's `$-`."""

    @property
    def is_settled(self) -> bool:
        """Whether a command has ended in this bash, so that idle output is from background jobs."""
        return self.stage in _SETTLED

    @property
    def is_closed(self) -> bool:
        return self.stage is ShellStage.CLOSED

    def enter(self, stage: ShellStage) -> None:
        if stage not in SHELL_TRANSITIONS[self.stage]:
            raise refused(self.stage, stage, SHELL_TRANSITIONS)
        self.stage = stage

    def recall(self, stage: ShellStage, *, cwd: str, status: int, options: str) -> None:
        """Restore the state from a record of the previous server. Only for a new state."""
        self.stage, self.cwd, self.status, self.options = stage, cwd, status, options

    def bash_started(self, cwd: str) -> None:
        self.enter(ShellStage.STARTED)
        self.cwd, self.status, self.options = cwd, 0, ""

    def command_ended(self, end: CommandEnd, *, is_disturbed: bool) -> None:
        """`is_disturbed`: bash was signalled or queried, or the command's program was stopped."""
        self.status, self.options = end.status, end.options
        self.cwd = end.cwd or self.cwd
        if is_disturbed or self.stage is _DISTURBED:
            stage = _DISTURBED
        elif end.is_calm and not self._needs_marks:
            stage = CALM
        else:
            stage = _NOISY
        if stage is not self.stage:
            self.enter(stage)

    def bash_ended(self) -> None:
        self.enter(ShellStage.ENDED)
        self.status, self.options = 0, ""
