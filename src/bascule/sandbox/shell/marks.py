"""The lines sent to bash and the marks by which its answers are recognised. Rules only, no I/O.

Commands do not travel through the terminal. Bash reads them from a channel of its own (its
descriptor 0) while what it runs has the terminal. For each command one line is written there: put
`$?` back to what the command before left, `eval` the text with the terminal as its input, and tell
on the channel that it ended, with its status and the shell's state. What the command printed is in
the terminal by then, and read before the end is believed.

Nothing of ours is in the output, then, as long as the shell is calm. When something else may print
between two commands (a job's notice, a hook at the prompt, a trace, the first prompt of all) there
are marks on the terminal as well: what comes before the start mark is not the command's, nor what
comes after the end mark.

An interrupt makes bash drop what is left of a line, and no end is told. But bash then prints its
prompt, which shows only between a line's beginning and its end. When it is seen and no end came,
another line is written that tells the end and does nothing else.

A mark on the terminal is an escape sequence no terminal shows: `ESC ] 7771 ; NONCE ; S BEL`. The
nonce is made for one command and good for one start and one end, so nothing printed by accident
passes for either: not a prompt, not `set` or `env`, not the log. (A program of the same user that
searches bash's memory for it could. We do not guard against that.)

Details that would break something if changed:
- 255 is the descriptor interactive bash keeps its terminal at, closed on exec. Copying *from* it
  makes bash save the replaced descriptor above 255, out of the way of `exec 10>file`.
- `>&0 2>&0` also sends what is not for the user (a trace, a DEBUG trap's output) into the channel,
  where we drop it.
- The prompt is hidden by the builtin that tells the end, so that what breaks one breaks the other;
  and not by an assignment, which drops the rest of the line when PS1 is read-only.
- `eval --`: a text may begin with a dash, which is no option of `eval`.
- `\\builtin` is not subject to aliases; functions named like builtins do not matter to it.
- Every line begins with a simple command: after a syntax error inside `eval` bash takes a leading
  `{` or `!` for a plain word.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass

from bascule.core.errors import CommandInvalid

MAX_COMMAND = 16 << 20
"""Bytes. Bash itself copies the text several times."""

PROMPT = b"\x1b]7771;P\x07"
"""What PS1 shows while a line is under way. It is set even when it shows nothing, since scripts ask
it whether the shell is interactive."""

PARKED = b"\x1b]7771;H\x07"
"""What a pane of tmux shows when its terminal waits for bash."""

_OPEN = b"\x1b]7771;"
_ANY_MARK = re.compile(rb"\x1b\]7771;(?:P|[0-9a-f]{16};[SEF])\x07")
OURS = re.compile(rb"\x1b\]7771;([0-9a-f]{16});(?:W\x07|V\x07.*?\x1b\]7771;\1;v\x07)", re.DOTALL)
"""What we write to a terminal ourselves: a mark to see when all that was printed before has come,
and text between marks that is for the eyes of people only."""
_REFUSAL = re.compile(rb"[^\n]+: 255: Bad file descriptor\n")
_SHOW_PROMPT = "\\builtin printf -v PS1 '\\e]7771;P\\a'"
HIDDEN_PROMPT = "\\[\\]"
"""What PS1 is between two lines: it shows nothing."""
_HIDE_PROMPT = "\\builtin printf -v PS1 '\\\\[\\\\]'"
_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n"})
_LONGEST_MARK = 32
_ECHOING = frozenset("vx")


def new_nonce() -> str:
    return os.urandom(8).hex()


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """What bash reports at the end of a command."""

    status: int
    background_pid: int
    options: str
    """Bash's `$-`: `x` for xtrace, `u` for nounset, …"""
    path: str
    cwd: str
    is_calm: bool = True
    """Nothing but the next command will print: no job, no trace, no hook at the prompt."""
    is_marked: bool = False
    """A mark on the terminal follows."""
    was_asked: bool = False
    """The command's own line was dropped, and bash printed a prompt before this end."""


@dataclass(frozen=True, slots=True)
class FoundMark:
    """The position of a mark in a piece of terminal output."""

    before: int
    after: int
    is_start: bool
    was_asked: bool
    """Bash answers a question."""


def init_line(*, terminal: str, load_rc: bool) -> bytes:
    """Make a fresh bash ours: no history, no prompt to see, no log-out for idleness.

    It was started with `HIDDEN_PROMPT` in its environment, or it would print its own one first.
    """
    rc = "[[ -r ~/.bashrc ]] && . ~/.bashrc <&255; " if load_rc else ""
    return (
        "{ \\builtin : <&255; } 2>/dev/null || \\exec 255<>" + terminal + "; "
        f"{rc}set +o history +o histexpand; "
        f"unset -v HISTFILE TMOUT MAILCHECK PROMPT_COMMAND; {_HIDE_PROMPT}; PS2= ; "
        "export -n PS1\n"
    ).encode()


def command_line(
    text: str,
    nonce: str,
    *,
    cwd: str | None = None,
    last_status: int = 0,
    options: str = "",
    marked: bool = True,
) -> bytes:
    """The line that runs `text`, in `cwd` if bash can go there, and between marks if asked for.

    Raises `CommandInvalid` for what bash cannot be given.
    """
    if "\0" in text:
        raise CommandInvalid(
            f"the command holds a NUL byte at position {text.index(chr(0))}, which no shell can "
            "be given; write it to a file instead"
        )
    if cwd is not None and "\0" in cwd:
        raise CommandInvalid(f"the command's cwd holds a NUL byte: {cwd!r}")
    start = f"{_SHOW_PROMPT};"
    if marked:
        start += f"{_mark(nonce, 'S')};"
    start += _restore(last_status)
    if "x" in options:
        # The trace of `eval` itself comes before the start mark when that is printed inside.
        text = f"{{ {start} }} >/dev/null 2>&1\n{text}"
        start = ""
    go = "" if cwd is None else f"\\builtin cd -- $'{cwd.translate(_ESCAPES)}' && "
    line = (
        f"{start}{go}\\builtin eval -- $'{text.translate(_ESCAPES)}' <&255; "
        f"{{ {_report(nonce, 'E', marked=marked)}; }} >&0 2>&0\n"
    )
    try:
        encoded = line.encode()
    except UnicodeEncodeError as error:
        raise CommandInvalid(
            f"the command holds a character that has no UTF-8 form: {error.object[error.start]!r}"
        ) from error
    if len(encoded) > MAX_COMMAND:
        raise CommandInvalid(
            f"the command is {len(encoded):,} bytes long and the limit is {MAX_COMMAND:,}; "
            "write it to a file and run that"
        )
    return encoded


def ask_line(nonce: str) -> bytes:
    """A line that only tells the end: bash reads and runs lines again."""
    report = _report(nonce, "F", marked=True).translate(_ESCAPES)
    return f"\\builtin eval $'{report}' >&0 2>&0\n".encode()


def repair_line(nonce: str, *, terminal: str) -> bytes:
    """Undo what can keep bash from telling ends: functions, disabled builtins, a lost 255."""
    return (
        b"\\unset -f builtin printf eval exec enable\n\\enable builtin printf eval exec\n"
        + terminal_line(terminal)
        + ask_line(nonce)
    )


def terminal_line(terminal: str) -> bytes:
    """A line that gives bash its own descriptor of the terminal back."""
    return f"\\exec 255<>{terminal}\n".encode()


def fence(nonce: str) -> bytes:
    """A mark that comes after all that was printed before it was written."""
    return _OPEN + nonce.encode() + b";W\x07"


def for_eyes(text: bytes, nonce: str) -> bytes:
    """`text` for people who look at the terminal; it is taken out of what is printed."""
    mark = _OPEN + nonce.encode()
    return mark + b";V\x07" + text + mark + b";v\x07"


def unfinished_show(data: bytes, nonce: bytes) -> int:
    """Length of the beginning of a text for people's eyes that `data` ends with."""
    at = data.find(_OPEN + nonce + b";V")
    return 0 if at < 0 else len(data) - at


def is_refusal(output: bytes) -> bool:
    """What bash says, and all it says, when it has no terminal to give to a command."""
    return _REFUSAL.fullmatch(output) is not None


def find_mark(data: bytes, nonce: bytes) -> FoundMark | None:
    """The first mark of `nonce` on the terminal."""
    opening = _OPEN + nonce + b";"
    at = data.find(opening)
    stop = at + len(opening) + 2
    if at < 0 or stop > len(data):
        return None
    letter = data[stop - 2 : stop - 1]
    return FoundMark(at, stop, is_start=letter == b"S", was_asked=letter == b"F")


def find_end(said: bytes, nonce: bytes) -> CommandEnd | None:
    """The end of the command of `nonce`, if it has come whole."""
    at = said.find(b"\x1b" + nonce)  # a trace of the line itself has no escape there
    if at < 0:
        return None
    body = at + 1 + len(nonce)
    stop = said.find(b"\x1f" + nonce, body)
    return None if stop < 0 else _parse(said[body:stop])


def held_back(data: bytes, nonce: bytes) -> int:
    """How many bytes at the end of `data` may be the beginning of a mark of `nonce`, or a prompt
    (what stands on the line of its mark)."""
    at = data.find(b"\x1b", max(0, len(data) - _LONGEST_MARK))
    while at >= 0:
        last = data[at:]
        if last == PROMPT:
            return len(data) - data.rfind(b"\n", 0, at) - 1
        mark = _OPEN + nonce + b";"
        if mark.startswith(last[: len(mark)]) or PROMPT.startswith(last):
            return len(last)
        at = data.find(b"\x1b", at + 1)
    return 0


def without_prompt(data: bytes) -> bytes:
    """`data` less the prompt at its end: what stands on the line of the prompt's mark."""
    if not data.endswith(PROMPT):
        return data
    return data[: data.rfind(b"\n", 0, len(data) - len(PROMPT)) + 1]


def without_marks(data: bytes) -> bytes:
    """`data` less every complete mark, whoever's it is, and what stands before a prompt's."""
    if _OPEN not in data:
        return data
    *before, last = data.split(PROMPT)
    kept = [piece[: piece.rfind(b"\n") + 1] for piece in before]
    return _ANY_MARK.sub(b"", b"".join([*kept, last]))


def unfinished_mark(data: bytes) -> int:
    """Length of the beginning of a mark, of any command, that `data` ends with."""
    at = data.rfind(_OPEN[:1], -_LONGEST_MARK)
    if at < 0 or b"\x07" in data[at:]:
        return 0
    last = data[at:]
    return len(last) if last.startswith(_OPEN) or _OPEN.startswith(last) else 0


def _restore(status: int) -> str:
    if status == 0:
        return ""
    if status == 1:
        return " ! \\builtin :;"
    return (
        f" __bascule() {{ \\builtin unset -f __bascule; \\builtin return {status}; }};"
        " __bascule && \\builtin :;"
    )


def _mark(nonce: str, letter: str) -> str:
    return f"\\builtin printf '\\e]7771;{nonce};{letter}\\a' >&255"


def _report(nonce: str, letter: str, *, marked: bool) -> str:
    # `${!:-}`: the last background job, or nothing, also under `set -u`.
    noisy = "" if marked else "[[ ${!:-}${PROMPT_COMMAND[*]:-}${PS0:-} ]] && "
    return (
        f"\\builtin printf '\\e{nonce}{letter};%s;%s;%s;%s\\037%s\\037%s\\037{nonce}' "
        '"$?" "${!:-}" "$-" "${PROMPT_COMMAND[*]:+hook}${PS0:+hook}" "${PATH-}" "${PWD-}"'
        f" && {_HIDE_PROMPT}; {noisy}{_mark(nonce, letter)}"
    )


@functools.lru_cache(maxsize=64)  # most ends are alike
def _parse(body: bytes) -> CommandEnd:
    state, path, cwd = body.decode("utf-8", "surrogateescape").split("\x1f", 2)
    letter, status, background, options, hook = state.split(";")
    is_noisy = bool(background or hook)
    return CommandEnd(
        int(status),
        int(background or -1),
        options,
        path,
        cwd,
        is_calm=not (is_noisy or _ECHOING.intersection(options)),
        is_marked=is_noisy or letter == "F",
        was_asked=letter == "F",
    )
