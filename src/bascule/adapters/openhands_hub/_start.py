"""Translates OpenHands V0's request for a runtime into a request for a session.

It sends the command with which it would start its own server in its own image. That command is
never run: what its flags say about the sandbox is read, and the rest of it left.
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
"""A variable of the environment that is asked for: be as its own shell is where ours does more."""
ADVICE: Final = "BASCULE_OPENHANDS_ADVICE"
"""Another: what can be done about a program that goes on running, in the words a model knows, and
percent-encoded, since OpenHands cannot set a variable that has quotes in it."""
_EGRESS: Final = "BASCULE_EGRESS"
_USUAL: Final = SessionLimits()


class StartBody(BaseModel):
    """`POST /start`. Fields that are not named here (the image, its class) say nothing to us."""

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
        raise InvalidRequest(f"`/start` cannot be done as asked: {where}: {first['msg']}") from None


def spec_of(asked: StartBody, spawner: str) -> SessionSpec:
    """Raises `InvalidRequest` for settings that a session does not support."""
    working_dir = _flag(asked.command, "--working-dir") or WORKSPACE
    if working_dir.rstrip("/") != WORKSPACE:
        raise InvalidRequest(
            f"A session's workspace is {WORKSPACE}, not {working_dir}; leave "
            "workspace_mount_path_in_sandbox as it is"
        )
    environment = dict(asked.environment)
    return SessionSpec(
        name=asked.session_id,
        spawner=spawner,
        environment=environment,
        limits=_limits(asked.resource_factor or 1),
        egress=_egress(environment),
        user=_flag(asked.command, "--username") or "openhands",
        browser="--no-enable-browser" not in asked.command,
        likeness="openhands",
    )


def _limits(factor: float) -> SessionLimits:
    assert _USUAL.memory is not None
    assert _USUAL.cpus is not None
    return SessionLimits(memory=int(_USUAL.memory * factor), cpus=_USUAL.cpus * factor)


def _egress(environment: dict[str, str]) -> Egress:
    match environment.get(_EGRESS, "off"):
        case "off":
            return Egress(mode="off")
        case "open":
            return Egress(mode="open")
        case other:
            raise InvalidRequest(f"{_EGRESS} is {other!r}; it has to be off or open")


def _flag(command: Sequence[str], name: str) -> str:
    """The word behind a flag; empty where it is not given."""
    words = list(command)
    if name not in words[:-1]:
        return ""
    return words[words.index(name) + 1]
