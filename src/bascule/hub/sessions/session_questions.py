"""Passes questions of sandboxes about commands to people, and the answers back."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bascule.core.errors import BasculeError
from bascule.core.sessions import SessionId
from bascule.hub.approvals import Approvals, AskingSession, Question
from bascule.hub.store import Store

from .rows import AuditRow, SessionRow
from .sandbox_client import SandboxClient
from .session_rules import SessionRules

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _ConnectedSession:
    row: SessionRow
    client: SandboxClient


class SessionQuestions:
    """Sends the hub's rules to sandboxes, and their questions to people.

    The agent of a session is the token that created it: rules may be for this agent only.
    """

    def __init__(self, approvals: Approvals, rules: SessionRules, store: Store) -> None:
        self.rules = rules
        self._approvals = approvals
        self._store = store
        self._connected: dict[SessionId, _ConnectedSession] = {}

    async def send_rules(self, row: SessionRow, client: SandboxClient) -> None:
        """Make a new sandbox apply the hub's rules. Raises `InvalidSetting` if they are invalid."""
        if (rules := await self.rules.rules_for(row.created_by)) is not None:
            await client.set_rules(rules)

    @contextmanager
    def connected(self, row: SessionRow, client: SandboxClient) -> Iterator[AskingSession]:
        """Accept questions of the session's sandbox during the block; then withdraw them."""

        async def on_answer(question: Question, answer: str, by: str) -> None:
            await self._on_answer(asker, question, answer, by)

        asker = AskingSession(row.id, on_answer, row.owner)
        self._connected[row.id] = _ConnectedSession(row, client)
        try:
            yield asker
        finally:
            self._connected.pop(row.id, None)
            self._approvals.withdraw(asker)

    async def handle(self, asker: AskingSession, name: str, data: Mapping[str, Any]) -> bool:
        """Handle an event of a sandbox; False if it is not about questions."""
        match name:
            case "state":
                await self._update_rules(self._connected[asker.session_id])
                for question in data["approvals"]:
                    self._ask(asker, question)
            case "approval.requested":
                self._ask(asker, data)
                return True
            case "approval.settled":
                self._approvals.settle(asker.session_id, data["id"], "its session")
                return True
        return False

    def _ask(self, asker: AskingSession, question: Mapping[str, Any]) -> None:
        agent = self._connected[asker.session_id].row.created_by
        try:
            self._approvals.ask(asker, {**question, "agent": agent})
        except BasculeError as error:
            logger.warning(
                "a question of session %s cannot be answered: %s", asker.session_id, error.message
            )

    async def _on_answer(
        self, asker: AskingSession, question: Question, answer: str, by: str
    ) -> None:
        """Send an answer to the sandbox. With `always`, add the rules first, so that no rule is
        lost."""
        session = self._connected.get(asker.session_id)
        if session is None:
            return  # the session has ended, and its question with it
        if answer == "always":
            try:
                await self._add_rules(session.row, question, by)
            except BasculeError:
                self._approvals.ask(asker, question)  # the question stays open
                raise
        await session.client.answer_question(question, answer)
        if answer == "always":
            for each in tuple(self._connected.values()):
                if each.row.created_by == session.row.created_by:
                    await self._update_rules(each)

    async def _add_rules(self, row: SessionRow, question: Question, by: str) -> None:
        rules = [each["rule"] for each in question["proposals"]]
        day = datetime.now(UTC).date()
        name = row.spec.name or row.id
        await self.rules.add(row.created_by, rules, why=f"{by} allowed it in {name} on {day}")
        detail = {"agent": row.created_by, "rules": rules, "action": question["cause"]}
        await self._store.add_audit(
            AuditRow(
                time=time.time(),
                who=by,
                owner=row.owner,
                verb="rule",
                session_id=row.id,
                detail=detail,
                user_name=by,
            )
        )

    async def _update_rules(self, session: _ConnectedSession) -> None:
        """Send the current rules to a running sandbox. If that fails, it keeps its old rules."""
        try:
            await session.client.set_rules(await self.rules.rules_for(session.row.created_by))
        except BasculeError as error:
            logger.warning(
                "session %s still uses its previous rules: %s", session.row.id, error.message
            )
