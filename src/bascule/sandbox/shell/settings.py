"""Settings of shells."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bascule.core.errors import InvalidSetting

from .keeper import ShellAccount

ShellKind = Literal["pty", "tmux"]
"""pty: fastest. tmux: people can attach, and the shell can survive a crash of the server."""

OUTPUT_LIMIT = 30_000
"""Characters; OpenHands' clients truncate at the same length."""

_NOT_INHERITED = frozenset(
    {
        *("BASH_ENV", "ENV", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS3", "PS4", "HISTFILE"),
        *("TMOUT", "MAIL", "COLUMNS", "LINES", "OLDPWD", "SHLVL", "SHELLOPTS", "BASHOPTS", "_"),
        *("SESSION_API_KEY", "BASCULE_TOKEN"),
        *("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"),
    }
)
"""Variables that change the behaviour of bash, describe another terminal, or are secrets."""

_DEFAULTS = {
    "TERM": "xterm-256color",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellSettings:
    working_dir: Path = field(default_factory=Path.cwd)
    env: Mapping[str, str] | None = None
    """The whole environment of shells. None: the server's environment without its secrets."""
    soft_timeout: float = 10.0
    """Seconds without new output after which `run` returns and a non-`blocking` command runs on."""
    output_limit: int = OUTPUT_LIMIT
    max_shells: int = 64
    log_dir: Path | None = None
    """Directory of the logs. None: a temporary directory, removed when the sandbox is closed."""
    log_limit: int = 64 << 20
    """Bytes of output kept on disk for each shell."""
    account: ShellAccount | None = None
    load_rc: bool = False
    """Read ~/.bashrc at start. Off by default, so that shells do not depend on the user's files."""
    aliases: bool = True
    """Whether new shells expand aliases. Off where rules decide on commands by their names."""
    rows: int = 40
    columns: int = 120
    kind: ShellKind = "pty"
    kinds: Mapping[str, ShellKind] = field(default_factory=dict)
    """Overrides `kind` for single shells, by name."""
    state_dir: Path | None = None
    """If this server is killed, its tmux shells survive, and the next server with the same
    `state_dir` takes them over. Nothing else may use the directory; it is removed when the sandbox
    is closed. None: the shells end with the server."""
    keep_for: float = 3600.0
    """Seconds that tmux shells wait for the next server before they are ended."""


def shell_environment(settings: ShellSettings) -> dict[str, str]:
    """Return a shell's initial environment. Sets a terminal type, `cat` as pager, and UTF-8."""
    source = os.environ if settings.env is None else settings.env
    env = {name: value for name, value in source.items() if name not in _NOT_INHERITED}
    if settings.env is None:
        env["PAGER"] = env["GIT_PAGER"] = "cat"  # `less` from the environment would wait for a key
        env["TERM"] = _DEFAULTS["TERM"]
    env = {**_DEFAULTS, **env}
    if not any(env.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG")):
        env["LANG"] = "C.UTF-8"
    if account := settings.account:
        env |= {"HOME": account.home, "USER": account.name, "LOGNAME": account.name}
    env.setdefault("HOME", str(Path.home()))
    env["SHELL"] = "/bin/bash"
    return env


def find_account(username: str | None, user_id: int | None) -> ShellAccount | None:
    """Return the account to run shells as; None if it is the server's own.

    Raises `InvalidSetting` if there is no such user, or the server may not switch to it.
    """
    try:
        entry = (
            pwd.getpwnam(username)
            if username
            else pwd.getpwuid(os.getuid() if user_id is None else user_id)
        )
    except KeyError as error:
        wanted = username or user_id
        raise InvalidSetting(
            f"there is no user {wanted!r} on this machine; make it with `useradd -m {wanted}`, "
            "or leave the setting out to use the present user"
        ) from error
    if user_id is not None and entry.pw_uid != user_id:
        raise InvalidSetting(
            f"the user {username!r} has id {entry.pw_uid} here, not {user_id}; name one of the two"
        )
    if entry.pw_uid == os.getuid():
        return None
    if os.getuid() != 0:
        raise InvalidSetting(
            f"only root can run shells as {entry.pw_name!r}; start as root, or as that user"
        )
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return ShellAccount(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)
