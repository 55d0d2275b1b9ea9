"""`/session/rules` and `/session/approvals`: the hub's rules, and questions that it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from bascule.core.errors import AccessDenied, AlreadyAnswered, InvalidRequest
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.server.requests import json_body, json_response

from .session_events import SessionEvents

if TYPE_CHECKING:
    from bascule.sandbox.command_questions import ApprovalAnswer, CommandQuestion
    from bascule.sandbox.command_rules import CommandRules

_PROXY_HEADER: Final = "x-forwarded-for"
"""Header of every request that a reverse proxy passes on."""


@dataclass(frozen=True, slots=True)
class _OpenQuestion:
    message: Mapping[str, Any]
    answer: asyncio.Future[ApprovalAnswer]


class SessionApprovals:
    """Applies the rules that the hub sends, and passes questions to the hub.

    Only the hub itself may use these routes. Agents reach this server through the hub's reverse
    proxy, and must not change the rules or answer questions about their own commands.
    """

    def __init__(self, events: SessionEvents, *, is_isolated: bool) -> None:
        self._events = events
        self._default = "allow" if is_isolated else "ask"
        self._sandbox: Sandbox
        self._open: dict[str, _OpenQuestion] = {}

    def open(self, sandbox: Sandbox) -> list[BaseRoute]:
        self._sandbox = sandbox
        return [
            Route("/session/rules", self.report_rules, methods=["GET"]),
            Route("/session/rules", self.set_rules, methods=["PUT"]),
            Route("/session/rules/verdict", self.judge, methods=["POST"]),
            Route("/session/approvals/{question_id}", self.answer, methods=["POST"]),
        ]

    def pending(self) -> list[Mapping[str, Any]]:
        """The open questions, for a hub that has just connected."""
        return [each.message for each in self._open.values()]

    async def ask(self, question: CommandQuestion) -> ApprovalAnswer:
        """Ask a person through the hub. Cancelling withdraws the question."""
        asked = _OpenQuestion(question.as_json(), asyncio.get_running_loop().create_future())
        self._open[question.id] = asked
        self._events.publish("approval.requested", **asked.message)
        try:
            return await asked.answer
        finally:
            del self._open[question.id]
            self._events.publish("approval.settled", id=question.id)

    async def report_rules(self, request: Request) -> Response:
        """The rules, who made them, and how many commands each decided on."""
        _ensure_from_hub(request)
        gate = self._sandbox.gate
        return json_response({"rules": [] if gate is None else await gate.report()})

    async def set_rules(self, request: Request) -> Response:
        """Apply rules from now on, as `CommandRules.as_json` encodes them.

        A `default` of null means `allow` in a session that is isolated, otherwise `ask`. If the
        body is null instead of rules, no rules apply any more.
        """
        _ensure_from_hub(request)
        value = await json_body(request)
        if value is not None:
            if not isinstance(value, dict):
                raise InvalidRequest("The body must be rules for commands, or null")
            value = {**value, "default": value.get("default") or self._default}
        if value is not None or self._sandbox.gate is not None:
            self._sandbox.apply_rules(await asyncio.to_thread(_rules, value))
        if self._sandbox.gate is not None:
            self._sandbox.gate.ask = self.ask
        return json_response({})

    async def judge(self, request: Request) -> Response:
        """What the rules say about a command: `{"command", "cwd"}`. Asks nobody."""
        _ensure_from_hub(request)
        value = await json_body(request)
        match value:
            case {"command": str(command), "cwd": str(cwd)}:
                gate = self._sandbox.gate
                verdict, reason = ("ask", "") if gate is None else await gate.judge(command, cwd)
            case _:
                raise InvalidRequest("The body must have `command` and `cwd`, both texts")
        return json_response({"verdict": str(verdict), "reason": reason})

    async def answer(self, request: Request) -> Response:
        """Answer a question: `{"answer", "cause", "digest"}`, the last two as in the question."""
        _ensure_from_hub(request)
        value = await json_body(request)
        asked = self._open.get(request.path_params["question_id"])
        if asked is None or asked.answer.done():
            raise AlreadyAnswered("The question is no longer open")
        if not isinstance(value, dict) or value.get("answer") not in asked.message["choices"]:
            raise InvalidRequest(f"`answer` must be one of {', '.join(asked.message['choices'])}")
        if any(value.get(name) != asked.message[name] for name in ("cause", "digest")):
            raise InvalidRequest("The answer belongs to another action or another text")
        asked.answer.set_result(value["answer"])
        return json_response({})


def _ensure_from_hub(request: Request) -> None:
    if _PROXY_HEADER in request.headers:
        raise AccessDenied("Only the hub itself reads and sets rules and answers questions")


def _rules(value: Mapping[str, Any] | None) -> CommandRules:
    """Decode rules; None allows everything. Imports modules from disk."""
    from bascule.rules import CommandVerdict
    from bascule.sandbox import command_gate  # noqa: F401 - so that the loop need not import it
    from bascule.sandbox.command_rules import CommandRules

    if value is None:
        return CommandRules(default=CommandVerdict.ALLOW)
    return CommandRules.from_json(value)
