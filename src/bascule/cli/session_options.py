"""Turns command-line options into the request for a new session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from bascule.core.errors import InvalidSetting, UsageError

_SIZES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NONE: Final = "none"


def source(*, git: str, ref: str, folder: str, archive: Path | None) -> dict[str, Any]:
    """The source of the workspace in the request."""
    if sum(map(bool, (git, folder, archive))) > 1:
        raise UsageError("give only one of --git, --folder and --archive")
    if git:
        return {"kind": "git", "url": git, "ref": ref}
    if ref:
        raise UsageError("--ref needs --git")
    if folder:
        return {"kind": "folder", "folder": folder}
    return {"kind": "archive" if archive else "empty"}


def credential(*, git: str, token: str, key: Path | None) -> dict[str, str]:
    """The credential for cloning the repository; empty if none is given."""
    if (token or key) and not git:
        raise UsageError("--git-token and --git-key need --git")
    given = {}
    if token:
        _, given["password"] = this_process_variable(token, option="--git-token")
        given["username"] = urlsplit(git).username or "git"
    if key is not None:
        try:
            given["private_key"] = key.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read --git-key {key}: {error}") from error
    return given


def variable(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise UsageError(f"--env {text!r} has no value; write NAME=VALUE")
    return name, value


def this_process_variable(name: str, *, option: str = "--secret") -> tuple[str, str]:
    if name not in os.environ:
        raise InvalidSetting(f"{option} {name}: this environment variable is not set here")
    return name, os.environ[name]


def limits(memory: str | None, cpus: str | None, processes: str | None) -> dict[str, Any]:
    """The given limits. The value `none` means: no limit."""
    given: dict[str, Any] = {}
    if memory is not None:
        given["memory"] = None if memory == _NONE else _bytes(memory)
    if cpus is not None:
        given["cpus"] = None if cpus == _NONE else _number("--cpus", cpus)
    if processes is not None:
        count = None if processes == _NONE else int(_number("--processes", processes))
        given["processes"] = count
    return given


def egress(mode: str | None, domains: Sequence[str]) -> dict[str, Any] | None:
    """The egress settings. Domains without a mode imply `proxy`. None: use the hub's default."""
    if mode is None and not domains:
        return None
    if domains and mode not in (None, "proxy"):
        raise UsageError(f"--domain works only with --egress proxy, not {mode}")
    return {"mode": mode or "proxy", "domains": list(domains)}


def _bytes(text: str) -> int:
    size = text.upper().removesuffix("B").removesuffix("I")
    unit = size[-1:] if size[-1:].isalpha() else ""
    if unit not in _SIZES:
        raise UsageError(f"--memory {text!r} is not a size; write for example 4G, 512M or none")
    return int(_number("--memory", size.removesuffix(unit)) * _SIZES[unit])


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{option} {text!r} is neither a number nor none") from None
