"""The option `--timeout` of `exec` and `session exec`."""

from __future__ import annotations

from typing import Annotated

from .signatures import CommandOption

CommandTimeout = Annotated[
    float | None,
    CommandOption(min=0.001, help="Seconds after which to stop the command. [default: no limit]"),
]
