"""Rewords a hub's refusal of a new session in terms of command-line options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from bascule.core.errors import InvalidRequest, UsageError

_OPTIONS: Final[Mapping[str, str]] = {
    "name": "--name",
    "spawner": "--spawner",
    "runtime": "--runtime",
    "shells": "--shells",
    "image": "--image",
    "environment": "--env",
    "secrets": "--secret",
    "egress.mode": "--egress",
    "egress.domains": "--domain",
    "limits.memory": "--memory",
    "limits.cpus": "--cpus",
    "limits.processes": "--processes",
    "workspace.url": "--git",
    "workspace.ref": "--ref",
    "workspace.folder": "--folder",
    "workspace.credential.password": "--git-token",
    "workspace.credential.private_key": "--git-key",
}
"""The options by field of the request's body."""
_SIZE: Final = re.compile(r"\b\d{7,}\b")


def in_options(error: InvalidRequest, given: Mapping[str, str]) -> UsageError:
    """The same error with the option instead of the field, and the value given for it.

    `given`: values by option, as typed. The caller leaves out secrets.
    """
    field = str(error.detail.get("field", "")).removeprefix("body.")
    option = _option_of(field)
    if not option:
        return error
    message = error.message.partition(": ")[2] or error.message
    message = message.removeprefix("Value error, ").replace("Input should", "it should")
    if option == "--memory":
        message = _SIZE.sub(lambda match: _as_size(int(match[0])), message)
    value = f" {given[option]}" if given.get(option) else ""
    return UsageError(f"{option}{value}: {message}")


def _option_of(field: str) -> str:
    parts = field.split(".")
    for end in range(len(parts), 0, -1):
        if option := _OPTIONS.get(".".join(parts[:end])):
            return option
    return ""


def _as_size(count: int) -> str:
    """A size in the syntax of --memory."""
    for unit, shift in (("T", 40), ("G", 30), ("M", 20)):
        if count >= 1 << shift and not count % (1 << shift):
            return f"{count >> shift}{unit}"
    return str(count)
