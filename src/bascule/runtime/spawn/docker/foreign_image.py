"""Images that do not contain Bascule, such as a benchmark's. Pure rules, no I/O."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bascule.core.errors import SandboxStartFailed
from bascule.runtime.spawn.session_paths import PATH

from .settings import COMMAND, DockerSettings

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}
"""Names of architectures: as the kernel calls them, and as images call them."""
_NAME, _ID = 0, 2
"""Fields of a line in `passwd` and `group`."""


@dataclass(frozen=True, slots=True)
class ForeignImage:
    """What the container of an image without Bascule needs."""

    portable: Path
    """The portable copy of Python and Bascule on the host."""
    path: str = PATH
    """The image's own PATH."""
    accounts: Mapping[str, str] = field(default_factory=dict)
    """The image's own files `passwd` and `group`, by name."""

    def with_accounts(self, ours: Mapping[str, str]) -> dict[str, str]:
        """The image's files with the lines of the session's user and group."""
        return {name: _merged(self.accounts.get(name, ""), text) for name, text in ours.items()}


def is_foreign(settings: DockerSettings, image: Mapping[str, Any]) -> bool:
    """Whether an image lacks Bascule. Images based on Bascule's own image have its entrypoint."""
    if settings.command != COMMAND:
        return False  # the setting says where Bascule is
    entrypoint = (image.get("Config") or {}).get("Entrypoint") or [""]
    return bool(entrypoint[0] != settings.command[0])


def ensure_can_run(name: str, image: Mapping[str, Any]) -> None:
    """Raise `SandboxStartFailed` if the portable copy cannot run in the image."""
    system, architecture = image.get("Os", "linux"), image.get("Architecture", "")
    here = _ARCHITECTURES.get(platform.machine(), platform.machine())
    if system != "linux" or architecture not in ("", here):
        raise SandboxStartFailed(
            f"The image {name} is for {system}/{architecture}, and this machine runs linux/{here}"
        )


def no_shell(name: str) -> SandboxStartFailed:
    return SandboxStartFailed(
        f"The image {name} has no /bin/sh, which a sandbox needs. Use an image with a shell, such "
        "as one made from Debian, Ubuntu or Alpine"
    )


def _merged(theirs: str, ours: str) -> str:
    """The image's lines (`theirs`) with the session's lines (`ours`) added.

    A line of ours is left out if the image has the same name or id. The exception is the line of
    the session's own user, the only one that is not in `_SYSTEM`: it replaces such lines.
    """
    lines = [line.split(":") for line in theirs.splitlines() if line.count(":") >= _ID]
    names, ids = {line[_NAME] for line in lines}, {line[_ID] for line in lines}
    new = [line.split(":") for line in ours.splitlines()]
    added = [line for line in new if line[_NAME] not in names and line[_ID] not in ids]
    own = [line for line in new if line not in added and line[_NAME] not in _SYSTEM]
    kept = [
        line
        for line in lines
        if not any(line[_NAME] == each[_NAME] or line[_ID] == each[_ID] for each in own)
    ]
    return "".join(":".join(line) + "\n" for line in (*kept, *own, *added))


_SYSTEM: Final = frozenset({"root", "nobody", "nogroup"})
