"""Finds the sandbox of a command: options that `exec` and `shell` share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from bascule.core.errors import InvalidSetting, NoSuchPath

from .address import with_scheme
from .signatures import CommandOption

if TYPE_CHECKING:
    from bascule.core.contracts import Runtime

Url = Annotated[
    str | None,
    CommandOption(
        envvar="BASCULE_URL", help="Address of a running sandbox. [default: a new sandbox]"
    ),
]
Key = Annotated[
    str,
    CommandOption(
        envvar="SESSION_API_KEY",
        show_default=False,
        help="Key of the sandbox at --url. Better set the variable: other users of this machine "
        "can see the arguments of a program.",
    ),
]
WorkingDir = Annotated[
    Path | None,
    CommandOption(help="Working directory of a new sandbox. [default: the current directory]"),
]
Shell = Annotated[
    str,
    CommandOption(
        show_default=False,
        help="Which of the sandbox's shells to use, by name; a new name starts a new shell. "
        "[default: main]",
    ),
]


_CONNECT_TIMEOUT = 2.0
"""Seconds to wait until a starting sandbox listens."""


@dataclass(frozen=True, slots=True)
class SandboxTarget:
    """A running sandbox at a URL, or a new one in a directory of this machine."""

    url: str | None
    key: str = field(repr=False)
    working_dir: Path

    def runtime(self) -> Runtime:
        """The runtime, which the caller opens and closes. It has no default timeout."""
        if self.url is not None:
            from bascule.runtime import RemoteRuntime

            url = with_scheme(self.url)
            runtime = RemoteRuntime(
                url, self.key, default_timeout=None, connect_timeout=_CONNECT_TIMEOUT
            )
            if not self.key:
                raise InvalidSetting("the sandbox at --url needs a key: set SESSION_API_KEY")
            return runtime
        from bascule.runtime import LocalRuntime

        if not self.working_dir.is_dir():
            raise NoSuchPath(f"--working-dir is not a directory: {self.working_dir}")
        return LocalRuntime(self.working_dir.resolve(), default_timeout=None)
