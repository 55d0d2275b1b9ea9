"""A request to start a program: validates it, and writes it as a shell command for rules."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bascule.core.errors import InvalidRequest, MessageTooLarge, NoSuchPath, NotADirectory
from bascule.core.programs import TerminalSize

_MAX_BYTES: Final = 3 << 19
"""Maximum bytes of argv and of the given variables together. The kernel allows about 2 MiB, with
the variables of the sandbox."""
_MAX_WORD_BYTES: Final = (128 << 10) - 1
"""Maximum bytes of one word or variable, as in the kernel."""
_SHOWN_CHARACTERS: Final = 128 << 10
_SHOWN_WORDS: Final = 100
_MAX_SIDE: Final = 1000
_HIDDEN: Final = "'***'"
"""Stands for the value of a secret variable."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KEYS: Final = frozenset(
    {
        *("argv", "env", "cwd", "user", "terminal", "secret_env", "unread_limit", "joins_stderr"),
        "waits_for_reader",
    }
)
_MAX_UNREAD: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRequest:
    """A program to start. Raises `InvalidRequest` if no program can be started with it."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    user: str = ""
    terminal: TerminalSize | None = None
    secret_env: Mapping[str, str] = field(default_factory=dict)
    """More variables, whose values are not part of `as_command`."""
    unread_limit: float | None = None
    """Seconds without a reader of the output after which the program is ended."""
    joins_stderr: bool = False
    """stderr goes to the pipe of stdout."""
    waits_for_reader: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.argv, str) or not self.argv:
            raise InvalidRequest(f"`argv` must be a list of at least one text, not {self.argv!r}")
        for where, given in (("env", self.env), ("secret_env", self.secret_env)):
            if not isinstance(given, Mapping):
                raise InvalidRequest(
                    f"`{where}` must be an object of texts, not {_shown(where, given)}"
                )
        if both := self.env.keys() & self.secret_env.keys():
            raise InvalidRequest(f"{min(both)!r} is in `env` and in `secret_env`; use one of them")
        size = 0
        for name, value in (
            *(("argv", each) for each in self.argv),
            *((f"env.{name}", value) for name, value in self.env.items()),
            *((f"secret_env.{name}", value) for name, value in self.secret_env.items()),
            ("cwd", self.cwd),
            ("user", self.user),
        ):
            size += (word_size := _checked_bytes(name, value))
            if word_size > _MAX_WORD_BYTES:
                raise MessageTooLarge(
                    f"`{name[:100]}` has {word_size} bytes, and one word has at most "
                    f"{_MAX_WORD_BYTES}; write long values to a file or to stdin",
                    limit=_MAX_WORD_BYTES,
                )
        if size > _MAX_BYTES:
            raise MessageTooLarge(
                f"argv and env have {size} bytes, more than {_MAX_BYTES}; write long values to a "
                "file or to stdin",
                limit=_MAX_BYTES,
            )
        if not self.argv[0]:
            raise InvalidRequest("`argv[0]` is empty; it must name a program")
        for name in (*self.env, *self.secret_env):
            if not _NAME.fullmatch(name):
                raise InvalidRequest(
                    f"{name!r} cannot name a variable: use letters, digits and `_`, and no digit "
                    "at the start"
                )
        if self.terminal is not None:
            ensure_size(self.terminal)
        if not isinstance(self.joins_stderr, bool):
            raise InvalidRequest(f"`joins_stderr` must be true or false, not {self.joins_stderr!r}")
        if self.unread_limit is not None:
            _ensure_seconds(self.unread_limit)
        if not isinstance(self.waits_for_reader, bool):
            raise InvalidRequest(
                f"`waits_for_reader` must be true or false, not {self.waits_for_reader!r}"
            )

    @classmethod
    def from_json(cls, body: object) -> ProgramRequest:
        """Validate the JSON body of a request."""
        if not isinstance(body, dict):
            raise InvalidRequest("The body must be an object with `argv`")
        if unknown := body.keys() - _KEYS:
            names = ", ".join(sorted(map(repr, unknown)))
            raise InvalidRequest(f"Unknown fields: {names}; there are {', '.join(sorted(_KEYS))}")
        argv = body.get("argv")
        if not isinstance(argv, list):
            raise InvalidRequest(f"`argv` must be a list of texts, not {argv!r}")
        terminal = body.get("terminal")
        return cls(
            argv=argv,
            env=_or(body.get("env"), {}),
            cwd=_or(body.get("cwd"), ""),
            user=_or(body.get("user"), ""),
            terminal=None if terminal is None else terminal_size(terminal),
            secret_env=_or(body.get("secret_env"), {}),
            unread_limit=body.get("unread_limit"),
            joins_stderr=_or(body.get("joins_stderr"), False),
            waits_for_reader=_or(body.get("waits_for_reader"), False),
        )

    def to_json(self) -> dict[str, Any]:
        """The JSON body of a request."""
        size = self.terminal
        return {
            "argv": list(self.argv),
            "env": dict(self.env),
            "cwd": self.cwd,
            "user": self.user,
            "terminal": size and {"columns": size.columns, "rows": size.rows},
            "secret_env": dict(self.secret_env),
            "unread_limit": self.unread_limit,
            "joins_stderr": self.joins_stderr,
            "waits_for_reader": self.waits_for_reader,
        }

    def shown_argv(self) -> tuple[str, ...]:
        """The argv for descriptions of the program; shortened if it is very long."""
        if sum(map(len, self.argv)) <= _SHOWN_CHARACTERS:
            return tuple(self.argv)
        limit = _SHOWN_CHARACTERS // _SHOWN_WORDS
        words = [f"{each[:limit]}…" if len(each) > limit else each for each in self.argv]
        return tuple(words[:_SHOWN_WORDS] + ["…"] * (len(words) > _SHOWN_WORDS))

    def as_command(self, *, user: str = "") -> str:
        """The program as a command of a shell, which rules judge and people see.

        `user`: the Unix user, if it is not the sandbox's own.
        """
        words = [f"{name}={shlex.quote(value)}" for name, value in self.env.items()]
        words += [f"{name}={_HIDDEN}" for name in self.secret_env]
        if user:
            words += ["runuser", "-u", shlex.quote(user), "--"]
        first = self.argv[0]
        # shlex leaves `a=b` as it is, which a shell would read as an assignment.
        words.append(f"'{first}'" if "=" in first and "'" not in first else shlex.quote(first))
        return " ".join([*words, *map(shlex.quote, self.argv[1:])])

    def directory(self, working_dir: str) -> str:
        """The directory to start in. Blocks the calling thread."""
        directory = os.path.normpath(Path(working_dir, self.cwd))
        if not (mode := _mode(directory)):
            raise NoSuchPath(
                f"the program's cwd does not exist or cannot be reached: {directory}",
                path=directory,
            )
        if not stat.S_ISDIR(mode):
            raise NotADirectory(
                f"the program's cwd is not a directory: {directory}", path=directory
            )
        return directory

    def executable(self, directory: str, search_path: str) -> str:
        """The path of the program. Raises `NoSuchPath`. Blocks the calling thread."""
        name = self.argv[0]
        if "/" in name:
            path = Path(directory, name)
            if not _mode(path):
                raise NoSuchPath(
                    f"there is no program {name!r} in {directory}, or it cannot be reached",
                    path=str(path),
                )
            return str(path)
        for each in search_path.split(os.pathsep):
            path = Path(directory, each, name)
            if stat.S_ISREG(_mode(path)) and os.access(path, os.X_OK):
                return str(path)
        raise NoSuchPath(
            f"there is no program {name!r} in PATH, which is {search_path!r}", path=name
        )


def terminal_size(value: object) -> TerminalSize:
    """The size of a terminal from JSON. Raises `InvalidRequest`."""
    if not isinstance(value, dict) or value.keys() - {"columns", "rows"}:
        raise InvalidRequest("`terminal` must be an object with `columns` and `rows`")
    size = TerminalSize(**value)
    ensure_size(size)
    return size


def ensure_size(size: TerminalSize) -> None:
    for side in (size.columns, size.rows):
        if type(side) is not int or not 0 < side <= _MAX_SIDE:
            raise InvalidRequest(f"A terminal has 1 to {_MAX_SIDE} columns and rows, not {side!r}")


def _ensure_seconds(seconds: object) -> None:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < float(str(seconds)) <= _MAX_UNREAD:
        raise InvalidRequest(
            f"`unread_limit` must be between 0 and {_MAX_UNREAD:g} seconds, not {seconds!r}"
        )


def _checked_bytes(name: str, value: object) -> int:
    if not isinstance(value, str):
        raise InvalidRequest(f"`{name}` must be a text, not {_shown(name, value)}")
    if "\0" in value:
        raise InvalidRequest(f"`{name}` contains a NUL byte, which no program can receive")
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        raise InvalidRequest(f"`{name}` is not valid Unicode: {_shown(name, value)}") from None


def _shown(name: str, value: object) -> str:
    """A value for messages, which logs keep: of a secret variable only the type."""
    if name.partition(".")[0] == "secret_env":
        return f"a {type(value).__name__} (its value is hidden)"
    return repr(value)


def _mode(path: str | Path) -> int:
    """The mode of a file; 0 if it does not exist or cannot be reached.

    `Path.exists` and `Path.is_file` raise an error for a name that is too long, and for a file in a
    directory without permission.
    """
    try:
        return Path(path).stat().st_mode
    except OSError:
        return 0


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
