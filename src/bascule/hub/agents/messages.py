"""Request and response bodies of the calls about agents; validated only here."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

Short = Annotated[str, Field(max_length=4096)]
Long = Annotated[str, Field(max_length=100_000)]


class AgentPlaceBody(BaseModel):
    """The session or window in which an agent works: one of the two."""

    model_config = ConfigDict(extra="forbid")

    session_id: Short = ""
    window_id: Short = ""

    @model_validator(mode="after")
    def _ensure_one(self) -> Self:
        if bool(self.session_id) == bool(self.window_id):
            raise ValueError("give one of `session_id` and `window_id`")
        return self


class VerdictBody(AgentPlaceBody):
    """A command that an agent wants to run itself."""

    command: Long
    cwd: Short = ""


class VerdictAnswer(BaseModel):
    """The verdict of the rules. `ask`: no rule decides, so a person has to."""

    verdict: Literal["allow", "ask", "deny"]
    reason: str = ""


class AgentQuestionBody(AgentPlaceBody):
    """What an agent wants to do, for a person who has to decide on it."""

    cause: UUID
    """Id of the tool call in the timeline."""
    title: Short
    detail: Long
    """The exact command or text that is decided on."""
    reason: Short = ""


class AgentQuestionAnswer(BaseModel):
    answer: Literal["once", "deny"]
    by: str
    """Name of the person."""


class ToolCallBody(AgentPlaceBody):
    """A tool call of an agent that begins, or that has ended."""

    id: UUID
    name: Short
    arguments: dict[str, Any] = {}
    output: Long | None = None
    """Its result. None: the tool call begins."""
    failed: bool = False
    seconds: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = 0.0
