"""Where a command finds its sandbox: options that `exec` and `shell` share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bascule.core.errors import InvalidSetting, NoSuchPath

from .address import with_scheme

if TYPE_CHECKING:
    from bascule.core.contracts import Runtime

Url = Annotated[
    str | None,
    typer.Option(envvar="BASCULE_URL", help="Address of a sandbox that runs; else a new one."),
]
Key = Annotated[
    str,
    typer.Option(
        envvar="SESSION_API_KEY",
        show_default=False,
        help="Its key. Better in the variable: arguments can be seen by others.",
    ),
]
WorkingDir = Annotated[
    Path | None, typer.Option(help="Where a new sandbox starts; by default here.")
]
Shell = Annotated[str, typer.Option(show_default=False, help="Name of the shell to use.")]


_PATIENCE = 2.0
"""Seconds a sandbox that is just starting has to begin to listen."""


@dataclass(frozen=True, slots=True)
class Place:
    """A sandbox that runs somewhere, or one to be made in a directory of this machine."""

    url: str | None
    key: str = field(repr=False)
    working_dir: Path

    def runtime(self) -> Runtime:
        """To be opened and closed by the caller. Time-outs are the caller's alone."""
        if self.url is not None:
            from bascule.runtime import RemoteRuntime

            url = with_scheme(self.url)
            runtime = RemoteRuntime(url, self.key, default_timeout=None, connect_timeout=_PATIENCE)
            if not self.key:
                raise InvalidSetting("a sandbox at --url needs its key: set SESSION_API_KEY")
            return runtime
        from bascule.runtime import LocalRuntime

        if not self.working_dir.is_dir():
            raise NoSuchPath(f"--working-dir is not a directory: {self.working_dir}")
        return LocalRuntime(self.working_dir.resolve(), default_timeout=None)
