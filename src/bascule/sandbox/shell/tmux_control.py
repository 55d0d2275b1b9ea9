"""Parses the output of tmux's control mode into events. No I/O.

A control client receives lines. `%output %PANE TEXT` holds every byte that a pane's terminal
received, with control characters and backslashes as `\\ooo`. The reply to a command is between
`%begin` and `%end` or `%error`, in the order of the commands, with nothing else in between. tmux
also reports clients that attach to a session and detach. We ignore all other lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_OUTPUT = b"%output "
_ESCAPE = re.compile(rb"\\([0-7]{3})")
_COMMON = ((b"\\012", b"\n"), (b"\\015", b"\r"), (b"\\033", b"\x1b"), (b"\\007", b"\x07"))
_BYTES = {b"%03o" % number: bytes([number]) for number in (*range(32), ord("\\"))}


@dataclass(frozen=True, slots=True)
class PaneOutput:
    """Output of a pane."""

    pane: str
    data: bytes
    end: int
    """Position in the stream after these bytes."""


@dataclass(frozen=True, slots=True)
class TmuxReply:
    """The reply to one of our tmux commands."""

    lines: tuple[str, ...]
    is_error: bool


@dataclass(frozen=True, slots=True)
class TmuxClientChange:
    """A tmux client attached to a session, or detached."""

    client: str
    session: str | None


Event = PaneOutput | TmuxReply | TmuxClientChange


class ControlReader:
    """Turns bytes of the stream into events. `position`: start of the first incomplete line."""

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self._unfinished = b""
        self._reply: list[str] | None = None

    def feed(self, data: bytes, *, merge: bool = True) -> list[Event]:
        """Return the events that are complete now. With `merge`, consecutive pieces of output of
        one pane become one event; otherwise each is an event with its own position."""
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        events: list[Event] = []
        pane, pieces = b"", list[bytes]()
        for line in lines:
            is_output = self._reply is None and line.startswith(_OUTPUT)
            whose, _, piece = line[len(_OUTPUT) :].partition(b" ") if is_output else (b"", b"", b"")
            is_next = whose != pane or not merge
            if pane and is_next:
                events.append(PaneOutput(pane.decode(), unescaped(b"".join(pieces)), self.position))
            if is_next:
                pane, pieces = whose, []
            self.position += len(line) + 1
            if is_output:
                pieces.append(piece)
            elif (event := self._control(line)) is not None:
                events.append(event)
        if pane:
            events.append(PaneOutput(pane.decode(), unescaped(b"".join(pieces)), self.position))
        return events

    def _control(self, line: bytes) -> TmuxReply | TmuxClientChange | None:
        word, _, rest = line.partition(b" ")
        if self._reply is None:
            if word == b"%begin" and rest.endswith(b" 1"):  # 1: a command that this client sent
                self._reply = []
            elif word == b"%client-session-changed" and rest.count(b" ") == 2:
                client, _, session = rest.decode("utf-8", "replace").split(" ")
                return TmuxClientChange(client, session)
            elif word == b"%client-detached":
                return TmuxClientChange(rest.decode("utf-8", "replace"), None)
        elif word in (b"%end", b"%error"):
            lines, self._reply = tuple(self._reply), None
            return TmuxReply(lines, is_error=word == b"%error")
        else:
            self._reply.append(line.decode("utf-8", "replace"))
        return None


def unescaped(text: bytes) -> bytes:
    """Decode the `\\ooo` escapes."""
    if b"\\" not in text:
        return text
    # Every backslash in `text` begins an escape, so plain replacement cannot match elsewhere.
    for escape, byte in _COMMON:
        text = text.replace(escape, byte)
    return _ESCAPE.sub(_byte, text) if b"\\" in text else text


_byte: Callable[[re.Match[bytes]], bytes] = lambda match: _BYTES[match[1]]  # noqa: E731
