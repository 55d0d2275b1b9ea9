"""Translates OpenHands V0's request for a runtime into a request for a session.

The request contains the command that would start OpenHands' own server in its own image. The hub
never runs this command. It only reads the flags that describe the sandbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import BaseModel, Field, ValidationError

from bascule.core.errors import InvalidRequest
from bascule.core.sessions import Egress, SessionLimits, SessionSpec
from bascule.hub.sessions.messages import Name, Secret, Text, VariableName

WORKSPACE: Final = "/workspace"
STRICT: Final = "BASCULE_OPENHANDS_STRICT"
"""Environment variable in the request. If set, commands run with the limits of OpenHands' own
shell."""
ADVICE: Final = "BASCULE_OPENHANDS_ADVICE"
"""Environment variable in the request: the advice to give a model about a program that still runs.
The advice is percent-encoded, since OpenHands cannot set a variable that contains quotes."""
_EGRESS: Final = "BASCULE_EGRESS"
_DEFAULT_LIMITS: Final = SessionLimits()


class StartBody(BaseModel):
    """The body of `POST /start`. Other fields, such as the image, are ignored."""

    session_id: Annotated[Name, Field(min_length=1, max_length=150)]
    command: Annotated[Sequence[Text], Field(max_length=1000)] = ()
    environment: Annotated[dict[VariableName, Secret], Field(max_length=1000)] = {}
    resource_factor: Annotated[float | None, Field(ge=0.1, le=64)] = None


def read_start(body: object) -> StartBody:
    try:
        return StartBody.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidRequest(f"`/start` is invalid: {where}: {first['msg']}") from None


def spec_of(body: StartBody, spawner: str) -> SessionSpec:
    """The session's settings. Raises `InvalidRequest` if a session does not support the request."""
    working_dir = _flag(body.command, "--working-dir") or WORKSPACE
    if working_dir.rstrip("/") != WORKSPACE:
        raise InvalidRequest(
            f"A session's workspace is {WORKSPACE}, not {working_dir}; leave "
            "workspace_mount_path_in_sandbox as it is"
        )
    environment = dict(body.environment)
    return SessionSpec(
        name=body.session_id,
        spawner=spawner,
        environment=environment,
        limits=_limits(body.resource_factor or 1),
        egress=_egress(environment),
        user=_flag(body.command, "--username") or "openhands",
        browser="--no-enable-browser" not in body.command,
        file_layout="openhands",
    )


def _limits(factor: float) -> SessionLimits:
    assert _DEFAULT_LIMITS.memory is not None
    assert _DEFAULT_LIMITS.cpus is not None
    return SessionLimits(
        memory=int(_DEFAULT_LIMITS.memory * factor), cpus=_DEFAULT_LIMITS.cpus * factor
    )


def _egress(environment: dict[str, str]) -> Egress:
    match environment.get(_EGRESS, "off"):
        case "off":
            return Egress(mode="off")
        case "open":
            return Egress(mode="open")
        case other:
            raise InvalidRequest(f"{_EGRESS} is {other!r}; it must be off or open")


def _flag(command: Sequence[str], name: str) -> str:
    """The value after a flag; empty if the flag is not given."""
    words = list(command)
    if name not in words[:-1]:
        return ""
    return words[words.index(name) + 1]
