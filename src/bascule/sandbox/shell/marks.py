"""The protocol with bash: the lines we send, bash's reports, and marks on the terminal. No I/O.

Commands do not travel through the terminal. Bash reads them from the channel, a socket that is its
descriptor 0, while the programs it runs use the terminal. For each command we write one line to the
channel. The line restores `$?` of the previous command, runs `eval` on the text with the terminal
as stdin, and then reports the end on the channel, with the exit code and the shell's state. The
command's output is in the terminal by then, and we read it before we accept the end.

So as long as the shell is calm, its output contains none of our text. If something else may print
between two commands (a job notice, a prompt hook, a trace, the first prompt), the line also prints
marks to the terminal. Only output between the start mark and the end mark belongs to the command.

An interrupt makes bash drop the rest of a line, so there is no report. But bash then prints its
prompt. Each line makes the prompt visible at its beginning and hides it at its end, so we see a
prompt only if bash dropped the rest of a line. If we see the prompt and have no report, we send a
query: another line that only reports the end.

A mark on the terminal is an escape sequence that terminals do not display:
`ESC ] 7771 ; NONCE ; S BEL`. Each command has its own nonce, which is valid for one start and one
end. So nothing that is printed by accident (a prompt, `set`, `env`, the log) counts as a mark. (A
program of the same user could find the nonce in bash's memory. We do not protect against that.)

Details that would break something if changed:
- Interactive bash keeps its terminal at descriptor 255, close-on-exec. Redirecting *from* 255 makes
  bash save the replaced descriptor above 255, where it cannot collide with `exec 10>file`.
- `>&0 2>&0` also sends traces and the output of DEBUG traps into the channel, where we drop them.
- The same builtin (`printf`) reports the end and hides the prompt, so neither can fail without the
  other. An assignment to PS1 would not work: if PS1 is read-only, bash drops the rest of the line.
- `eval --`: the text may begin with a dash.
- `\\builtin` ignores aliases, and functions with the names of builtins.
- Every line begins with a simple command: after a syntax error inside `eval`, bash reads a leading
  `{` or `!` as a plain word.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from bascule.core.errors import CommandInvalid

MAX_COMMAND = 16 << 20
"""Maximum bytes of a command line. Bash itself copies the text several times."""

PROMPT = b"\x1b]7771;P\x07"
"""The output of PS1 while bash executes a line. PS1 is never unset, because scripts test it to see
whether the shell is interactive."""

PARKED = b"\x1b]7771;H\x07"
"""The output of a tmux pane when its terminal is ready for bash."""

_MARK_START = b"\x1b]7771;"
_ANY_MARK = re.compile(rb"\x1b\]7771;(?:P|[0-9a-f]{16};[SEF])\x07")
OURS = re.compile(rb"\x1b\]7771;([0-9a-f]{16});(?:W\x07|V\x07.*?\x1b\]7771;\1;v\x07)", re.DOTALL)
"""Text that we write to a terminal ourselves: a fence mark, which arrives after all earlier output,
and text between two marks, which only people at the terminal see."""
_REFUSAL = re.compile(rb"[^\n]+: 255: Bad file descriptor\n")
_SHOW_PROMPT = "\\builtin printf -v PS1 '\\e]7771;P\\a'"
HIDDEN_PROMPT = "\\[\\]"
"""The value of PS1 between two lines; it prints nothing."""
_HIDE_PROMPT = "\\builtin printf -v PS1 '\\\\[\\\\]'"
_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n"})
_MAX_MARK = 32
_ECHOING_OPTIONS = frozenset("vx")
"""Options in `$-` that make bash print the lines it reads (`v`) or executes (`x`)."""


def new_nonce() -> str:
    return os.urandom(8).hex()


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """Bash's report at the end of a command."""

    status: int
    background_pid: int
    options: str
    """Bash's `$-`: `x` for xtrace, `u` for nounset, …"""
    path: str
    cwd: str
    is_calm: bool = True
    """Nothing but the next command will print: there is no background job, no trace and no prompt
    hook."""
    is_marked: bool = False
    """An end mark on the terminal follows."""
    was_asked: bool = False
    """The report is a reply to a query: bash dropped the command's line and printed a prompt."""


@dataclass(frozen=True, slots=True)
class FoundMark:
    """The position of a mark in a piece of terminal output."""

    before: int
    after: int
    is_start: bool
    was_asked: bool
    """The mark belongs to the reply to a query."""


def init_line(*, terminal: str, load_rc: bool, aliases: bool = True) -> bytes:
    """The first line for a new bash: no history, invisible prompt, no automatic logout.

    `aliases`: whether bash expands aliases. Without them, bash runs exactly the name in the text.

    Bash is started with `HIDDEN_PROMPT` as PS1; otherwise it would print its own prompt first.
    """
    rc = "[[ -r ~/.bashrc ]] && . ~/.bashrc <&255; " if load_rc else ""
    return (
        "{ \\builtin : <&255; } 2>/dev/null || \\exec 255<>" + terminal + "; "
        f"{rc}set +o history +o histexpand; {'' if aliases else 'shopt -u expand_aliases; '}"
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
    """The line that runs `text`, in `cwd` if given, and between marks if `marked`.

    Raises `CommandInvalid` for a text that cannot be sent to bash.
    """
    if "\0" in text:
        raise CommandInvalid(
            f"the command contains a NUL byte at position {text.index(chr(0))}, which no shell can "
            "be given; write it to a file instead"
        )
    if cwd is not None and "\0" in cwd:
        raise CommandInvalid(f"the command's cwd contains a NUL byte: {cwd!r}")
    start = f"{_SHOW_PROMPT};"
    if marked:
        start += f"{_mark(nonce, 'S')};"
    start += _restore(last_status)
    if "x" in options:
        # Print the start mark inside `eval`, so that the trace of `eval` itself comes before it.
        text = f"{{ {start} }} >/dev/null 2>&1\n{text}"
        start = ""
    change_directory = "" if cwd is None else f"\\builtin cd -- $'{cwd.translate(_ESCAPES)}' && "
    line = (
        f"{start}{change_directory}\\builtin eval -- $'{text.translate(_ESCAPES)}' <&255; "
        f"{{ {_report(nonce, 'E', marked=marked)}; }} >&0 2>&0\n"
    )
    try:
        encoded = line.encode()
    except UnicodeEncodeError as error:
        raise CommandInvalid(
            "the command contains a character that has no UTF-8 form: "
            f"{error.object[error.start]!r}"
        ) from error
    if len(encoded) > MAX_COMMAND:
        raise CommandInvalid(
            f"the command is {len(encoded):,} bytes long and the limit is {MAX_COMMAND:,}; "
            "write it to a file and run that"
        )
    return encoded


def ask_line(nonce: str) -> bytes:
    """The query: a line that only reports the end. The report shows that bash reads lines again."""
    report = _report(nonce, "F", marked=True).translate(_ESCAPES)
    return f"\\builtin eval $'{report}' >&0 2>&0\n".encode()


def types_line(nonce: str, names: Sequence[str]) -> bytes:
    """A line that reports what bash would run for each name, as `type -t` says."""
    queries = "".join(
        f"\\builtin type -t -- $'{name.translate(_ESCAPES)}'; \\builtin printf '\\037'; "
        for name in names
    )
    report = f"\\builtin printf '\\e{nonce}T'; {queries}\\builtin printf '{nonce}'"
    # Traces go to stderr, which nobody reads here.
    line = f"\\builtin eval $'{report.translate(_ESCAPES)}' >&0 2>/dev/null\n"
    return line.encode("utf-8", "surrogateescape")


def find_types(data: bytes, nonce: bytes) -> Sequence[str] | None:
    """The types in a reply to `types_line`, empty for a name that bash does not know; None if the
    reply is missing or incomplete."""
    _, _, rest = data.partition(b"\x1b" + nonce + b"T")
    body, end, _ = rest.partition(b"\x1f" + nonce)
    if not end:
        return None
    return [each.strip() for each in body.decode("utf-8", "replace").split("\x1f")]


def repair_line(nonce: str, *, terminal: str) -> bytes:
    """Lines that repair bash's reports (functions, disabled builtins, closed 255), and a query."""
    return (
        b"\\unset -f builtin printf eval exec enable\n\\enable builtin printf eval exec\n"
        + terminal_line(terminal)
        + ask_line(nonce)
    )


def terminal_line(terminal: str) -> bytes:
    """A line that makes bash reopen its own descriptor of the terminal."""
    return f"\\exec 255<>{terminal}\n".encode()


def fence(nonce: str) -> bytes:
    """A mark that arrives after all output that was printed before it."""
    return _MARK_START + nonce.encode() + b";W\x07"


def terminal_only(text: bytes, nonce: str) -> bytes:
    """Wrap `text` for people at the terminal; it is removed from the shell's output."""
    mark = _MARK_START + nonce.encode()
    return mark + b";V\x07" + text + mark + b";v\x07"


def unfinished_terminal_only(data: bytes, nonce: bytes) -> int:
    """Length of an incomplete `terminal_only` text at the end of `data`."""
    at = data.find(_MARK_START + nonce + b";V")
    return 0 if at < 0 else len(data) - at


def is_refusal(output: bytes) -> bool:
    """Whether `output` is just bash's error for a missing descriptor 255."""
    return _REFUSAL.fullmatch(output) is not None


def find_mark(data: bytes, nonce: bytes) -> FoundMark | None:
    """Find the first mark of `nonce` in terminal output."""
    opening = _MARK_START + nonce + b";"
    at = data.find(opening)
    stop = at + len(opening) + 2
    if at < 0 or stop > len(data):
        return None
    letter = data[stop - 2 : stop - 1]
    return FoundMark(at, stop, is_start=letter == b"S", was_asked=letter == b"F")


def find_end(data: bytes, nonce: bytes) -> CommandEnd | None:
    """Find the report of the command with `nonce`; None if it is missing or incomplete."""
    at = data.find(b"\x1b" + nonce)  # a trace of our own line has no ESC before the nonce
    if at < 0:
        return None
    body = at + 1 + len(nonce)
    stop = data.find(b"\x1f" + nonce, body)
    return None if stop < 0 else _parse(data[body:stop])


def held_back(data: bytes, nonce: bytes) -> int:
    """Number of bytes at the end of `data` that may be the beginning of a mark of `nonce`, or a
    prompt (the whole line before the prompt's mark)."""
    at = data.find(b"\x1b", max(0, len(data) - _MAX_MARK))
    while at >= 0:
        last = data[at:]
        if last == PROMPT:
            return len(data) - data.rfind(b"\n", 0, at) - 1
        mark = _MARK_START + nonce + b";"
        if mark.startswith(last[: len(mark)]) or PROMPT.startswith(last):
            return len(last)
        at = data.find(b"\x1b", at + 1)
    return 0


def without_prompt(data: bytes) -> bytes:
    """Remove the prompt at the end of `data`: the whole line that ends in the prompt's mark."""
    if not data.endswith(PROMPT):
        return data
    return data[: data.rfind(b"\n", 0, len(data) - len(PROMPT)) + 1]


def without_marks(data: bytes) -> bytes:
    """Remove all complete marks of any command, and the text before a prompt's mark on its line."""
    if _MARK_START not in data:
        return data
    *before, last = data.split(PROMPT)
    kept = [piece[: piece.rfind(b"\n") + 1] for piece in before]
    return _ANY_MARK.sub(b"", b"".join([*kept, last]))


def unfinished_mark(data: bytes) -> int:
    """Length of an incomplete mark, of any command, at the end of `data`."""
    at = data.rfind(_MARK_START[:1], -_MAX_MARK)
    if at < 0 or b"\x07" in data[at:]:
        return 0
    last = data[at:]
    return len(last) if last.startswith(_MARK_START) or _MARK_START.startswith(last) else 0


def _restore(status: int) -> str:
    """Return commands that set `$?` to `status`."""
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
    # `${!:-}`: the last background job, or empty; works under `set -u` too.
    if_noisy = "" if marked else "[[ ${!:-}${PROMPT_COMMAND[*]:-}${PS0:-} ]] && "
    return (
        f"\\builtin printf '\\e{nonce}{letter};%s;%s;%s;%s\\037%s\\037%s\\037{nonce}' "
        '"$?" "${!:-}" "$-" "${PROMPT_COMMAND[*]:+hook}${PS0:+hook}" "${PATH-}" "${PWD-}"'
        f" && {_HIDE_PROMPT}; {if_noisy}{_mark(nonce, letter)}"
    )


@functools.lru_cache(maxsize=64)  # most reports are equal
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
        is_calm=not (is_noisy or _ECHOING_OPTIONS.intersection(options)),
        is_marked=is_noisy or letter == "F",
        was_asked=letter == "F",
    )
