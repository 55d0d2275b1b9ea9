"""Parses the option `--shells`, which `up` and `sandbox` share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

from bascule.core.errors import InvalidSetting
from bascule.sandbox.shell.settings import ShellKind, ShellSettings

from .user_dirs import make_runtime_dir, sandbox_dir

VARIABLE = "BASCULE_SHELLS"
HELP = (
    "kind of all shells: pty or tmux; or a list with the kind of each named shell, such as "
    "main=tmux,build=pty (default: pty)"
)


def with_kinds(
    settings: ShellSettings,
    given: str | None,
    environment: Mapping[str, str],
    *,
    state_dir: Path | None = None,
) -> ShellSettings:
    """`settings` with the kinds of `given`, or else of the environment.

    tmux shells survive a killed server; `state_dir` is where the next server finds them. The
    default depends on the working directory. It is also set without tmux shells if it exists, so
    that old shells there are ended.
    """
    origin, text = ("--shells", given) if given else (VARIABLE, environment.get(VARIABLE, ""))
    kinds = dict(_read(word, origin) for word in text.split(",") if word)
    settings = replace(settings, kind=kinds.pop("", "pty"), kinds=kinds)
    if state_dir is None:
        default_dir = sandbox_dir(settings.working_dir)
        if "tmux" in (settings.kind, *kinds.values()):
            make_runtime_dir()
            state_dir = default_dir
        elif default_dir.exists():
            state_dir = default_dir
    return replace(settings, state_dir=state_dir)


def _read(word: str, origin: str) -> tuple[str, ShellKind]:
    name, _, kind = word.strip().rpartition("=")
    if kind not in _KINDS:
        raise InvalidSetting(
            f"{origin}: {kind!r} is not a kind of shell; use one of: {_kind_list()}"
        )
    return name, cast("ShellKind", kind)


def _kind_list() -> str:
    return ", ".join(_KINDS)


_KINDS: Iterable[str] = get_args(ShellKind)
