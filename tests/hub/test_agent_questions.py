"""Questions about agents while the hub stops."""

from __future__ import annotations

import inspect

import pytest

from bascule.core.errors import HubUnreachable
from bascule.hub.agents.messages import AgentQuestionBody
from bascule.hub.agents.questions import AgentQuestions
from bascule.hub.approvals import Approvals
from bascule.hub.changes import HubChanges


async def test_a_stopping_hub_refuses_a_question_and_waits_for_nobody() -> None:
    async def gone() -> None:
        raise AssertionError("nothing waits for the caller")

    questions = AgentQuestions(Approvals(HubChanges()))
    questions.finish()
    waiting = gone()  # a warning that it was never awaited is an error
    body = AgentQuestionBody.model_construct(session_id="s", window_id="")
    with pytest.raises(HubUnreachable, match="stopping"):
        await questions.ask(body, agent="a", owner="o", gone=waiting)
    assert inspect.getcoroutinestate(waiting) == inspect.CORO_CLOSED
