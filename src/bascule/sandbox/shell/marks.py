"""What we say to bash, and how we know its answer: rules only, no I/O.

Commands do not travel through the terminal. Bash reads them from a channel of its own (its
descriptor 0) while what it runs has the terminal. For each command one line is written there: print
the start mark, put `$?` back to what the command before left, `eval` the text with the terminal as
its input, print the end mark with the status and state. What comes before the start mark is left
over from the command before (a prompt, a notice); a signal sent before it could tear the line apart
and make bash run a piece of it.

An interrupt makes bash drop what is left of a line. So when a signal was sent, or a prompt is seen
and no end, another line is written that prints the end mark and nothing else.

A mark is an escape sequence no terminal shows: `ESC ] 7771 ; NONCE ; … BEL`. The nonce is made for
one command and good for one start and one end, so nothing printed by accident passes for either:
not a prompt, not `set` or `env`, not the log. (A program of the same user that searches bash's
memory for it could. We do not guard against that.)

Details that would break something if changed:
- 255 is the descriptor interactive bash keeps its terminal at, closed on exec. Copying *from* it
  makes bash save the replaced descriptor above 255, out of the way of `exec 10>file`.
- `>&0 2>&0` sends what is not for the user (a trace, a DEBUG trap's output) into the channel,
  where we drop it.
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
"""What PS1 is set to: not empty, since scripts ask it whether the shell is interactive."""

_OPEN = b"\x1b]7771;"
_NONCE = r"[0-9a-f]{16}"
_ANY_MARK = re.compile(
    rb"\x1b\]7771;(?:P|%(n)s;S|%(n)s;[EF];.*?\x1f%(n)s)\x07" % {b"n": _NONCE.encode()}, re.DOTALL
)
_LONGEST_MARK = 64 << 10
_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n"})


def new_nonce() -> str:
    return os.urandom(8).hex()


@dataclass(frozen=True, slots=True)
class End:
    """What an end mark tells."""

    status: int
    background_pid: int
    options: str
    """Bash's `$-`: `x` for xtrace, `u` for nounset, …"""
    path: str
    cwd: str


@dataclass(frozen=True, slots=True)
class Found:
    """A mark in a piece of output: what came before it, the mark, and where it stops."""

    before: int
    after: int
    end: End | None
    """None for a start mark."""
    at_prompt: bool = False
    """The end was asked for: the command's own line was dropped, and a prompt was printed."""


def init_line(*, terminal: str, load_rc: bool) -> bytes:
    """Make a fresh bash ours: no history, no prompt to see, no log-out for idleness."""
    rc = "[[ -r ~/.bashrc ]] && . ~/.bashrc <&255; " if load_rc else ""
    return (
        "{ \\builtin : <&255; } 2>/dev/null || \\exec 255<>" + terminal + "; "
        f"{rc}set +o history +o histexpand; "
        "unset -v HISTFILE TMOUT MAILCHECK PROMPT_COMMAND; "
        "PS1=$'\\e]7771;P\\a' PS2=\n"
    ).encode()


def command_line(text: str, nonce: str, *, last_status: int, options: str) -> bytes:
    """The line that runs `text`. Raises `CommandInvalid` for what bash cannot be given."""
    if "\0" in text:
        raise CommandInvalid(
            f"the command holds a NUL byte at position {text.index(chr(0))}, which no shell can "
            "be given; write it to a file instead"
        )
    start = f"\\builtin printf '\\e]7771;{nonce};S\\a' >&255;{_restore(last_status)}"
    if "x" in options:
        # The trace of `eval` itself comes before the start mark when that is printed inside.
        text = f"{{ {start} }} >/dev/null 2>&1\n{text}"
        start = ""
    line = (
        f"{start}\\builtin eval $'{text.translate(_ESCAPES)}' <&255; "
        f"{{ {_report(nonce, 'E')}; }} >&0 2>&0\n"
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
    """A line that only prints the end mark: bash reads and runs lines again."""
    return f"{_report(nonce, 'F')} 2>&0\n".encode()


def repair_line(nonce: str, *, terminal: str) -> bytes:
    """Undo what can keep bash from marking ends: functions, disabled builtins, a lost 255."""
    return (
        "\\unset -f builtin printf eval exec enable\n\\enable builtin printf eval exec\n"
        f"\\exec 255<>{terminal}\n"
    ).encode() + ask_line(nonce)


def find_mark(data: bytes, nonce: bytes) -> Found | None:
    """The first complete mark of `nonce` in `data`."""
    at = data.find(_OPEN + nonce + b";")
    if at < 0:
        return None
    body = at + len(_OPEN) + len(nonce) + 1
    if data.startswith(b"S\x07", body):
        return Found(at, body + 2, None)
    close = b"\x1f" + nonce + b"\x07"
    stop = data.find(close, body)
    if stop < 0 or not data.startswith((b"E;", b"F;"), body):
        return None
    end = _parse(data[body + 2 : stop])
    return Found(at, stop + len(close), end, at_prompt=data.startswith(b"F", body))


def held_back(data: bytes, nonce: bytes) -> int:
    """How many bytes at the end of `data` may be the beginning of a mark of `nonce`, or a prompt
    (what stands on the line of its mark) that bash printed before one."""
    opening = _OPEN + nonce + b";"
    at = data.find(opening)
    if at >= 0:
        return len(data) - at
    at = data.find(b"\x1b", max(0, len(data) - len(opening)))
    while at >= 0:
        last = data[at:]
        if last == PROMPT:
            return len(data) - data.rfind(b"\n", 0, at) - 1
        if opening.startswith(last) or PROMPT.startswith(last):
            return len(last)
        at = data.find(b"\x1b", at + 1)
    return 0


def without_prompt(data: bytes) -> bytes:
    """`data` less the prompt at its end: what stands on the line of the prompt's mark."""
    if not data.endswith(PROMPT):
        return data
    return data[: data.rfind(b"\n", 0, len(data) - len(PROMPT)) + 1]


def without_marks(data: bytes) -> bytes:
    """`data` less every complete mark, whoever's it is."""
    return _ANY_MARK.sub(b"", data) if _OPEN in data else data


def without_prompts(data: bytes) -> bytes:
    """`data` less every prompt and mark."""
    *before, last = data.split(PROMPT)
    kept = [piece[: piece.rfind(b"\n") + 1] for piece in map(without_marks, before)]
    return b"".join(kept) + without_marks(last)


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


def _report(nonce: str, letter: str) -> str:
    # `${!:-}`: the last background job, or nothing, also under `set -u`.
    return (
        f"\\builtin printf '\\e]7771;{nonce};{letter};%s;%s;%s\\037%s\\037%s\\037{nonce}\\a' "
        '"$?" "${!:-}" "$-" "${PATH-}" "${PWD-}" >&255'
    )


@functools.lru_cache(maxsize=64)  # most ends are alike
def _parse(body: bytes) -> End:
    state, path, cwd = body.decode("utf-8", "surrogateescape").split("\x1f", 2)
    status, background, options = state.split(";")
    return End(int(status), int(background or -1), options, path, cwd)
