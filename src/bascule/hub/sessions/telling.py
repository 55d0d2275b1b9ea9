"""What a sandbox tells of itself, checked here: programs of its session can answer in its place.

They run as the same user and can put a socket of theirs where the sandbox's own is. What they say
is then kept, shown to people and reckoned with, so it has to have the right form and size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bascule.core.errors import SandboxUnreachable

Short = Annotated[str, Field(max_length=4096)]
Moment = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Number = Annotated[int, Field(ge=0, lt=1 << 31)]
_Told = TypeVar("_Told", bound="_Telling")


class _Telling(BaseModel):
    """Fields of a newer sandbox are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Activity(_Telling):
    """Signs of life, in Unix time, and what the session's processes have used."""

    last_action: Moment | None = None
    last_keystroke: Moment | None = None
    cpu_seconds: Moment


class Standing(_Telling):
    """How far the workspace is filled."""

    state: Literal["empty", "filling", "ready", "failed"]


class Port(_Telling):
    """An app that listens."""

    n: Annotated[int, Field(ge=0, lt=100)]
    port: Annotated[int, Field(ge=1, lt=1 << 16)]
    command: Short = ""


class DeclaredPort(_Telling):
    """One that has an address before anybody listens there."""

    n: Annotated[int, Field(ge=0, lt=100)]
    port: Annotated[int, Field(ge=1, lt=1 << 16)]


class Ports(_Telling):
    ports: Annotated[list[Port], Field(max_length=1000)]
    declared: Annotated[list[DeclaredPort], Field(max_length=100)] = []


class _PortClosed(_Telling):
    n: Number
    port: Number


class _Progress(_Telling):
    stage: Short
    percent: Annotated[int, Field(ge=0, le=100)]


class _Filled(_Telling):
    commit: Short = ""


class _NotFilled(_Telling):
    cause: Short


class _Started(_Telling):
    pid: Number


class _VSCode(_Telling):
    running: bool


class _State(_Telling):
    """How things stand when one begins to listen; for the hub alone."""

    vscode: _VSCode


_EVENTS: Final[Mapping[str, type[_Telling]]] = {
    "state": _State,
    "port.opened": Port,
    "port.closed": _PortClosed,
    "workspace.progress": _Progress,
    "workspace.ready": _Filled,
    "workspace.failed": _NotFilled,
    "vscode.started": _Started,
    "vscode.stopped": _Telling,
}
"""The events of a sandbox that are heard; the hub's own have other names."""


def told(kind: type[_Told], said: object) -> _Told:
    """Raises `SandboxUnreachable`: whoever answers, it is not the sandbox."""
    try:
        return kind.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the answer"
        raise SandboxUnreachable(
            f"The sandbox answers strangely: {where}: {first['msg']}"
        ) from None


def told_event(name: str, data: object) -> Mapping[str, Any] | None:
    """What of an event is passed on; None: nothing, it is of no kind we know."""
    kind = _EVENTS.get(name)
    return None if kind is None else told(kind, data).model_dump()
