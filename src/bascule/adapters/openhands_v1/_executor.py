"""Base class of the tool executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from openhands.sdk.tool import Action, Observation, ToolExecutor

from bascule.core.observations import Error
from bascule.core.observations import Observation as Seen

from ._conversation_runtime import RuntimeHold

if TYPE_CHECKING:
    from openhands.sdk.conversation import LocalConversation

A = TypeVar("A", bound=Action)
O = TypeVar("O", bound=Observation)  # noqa: E741


class RuntimeExecutor(ToolExecutor[A, O], Generic[A, O]):
    """Runs a tool's calls in the conversation's runtime, and masks secrets in every result."""

    def __init__(self, held: RuntimeHold) -> None:
        self._held = held
        self._runtime = held.runtime

    def __call__(self, action: A, conversation: LocalConversation | None = None) -> O:
        observation = self._do(action, conversation)
        if conversation is None:
            return observation
        masked: O = conversation.state.secret_registry.mask_secrets_in_model(observation)
        return masked

    def close(self) -> None:
        self._held.release()

    def _do(self, action: A, conversation: LocalConversation | None) -> O:
        raise NotImplementedError


def failure(seen: Seen) -> str:
    """Why an action failed; empty if it succeeded. Any observation may have an error code."""
    if isinstance(seen, Error) or bool(getattr(seen, "error_id", None)):
        return seen.content.removeprefix("ERROR:").strip() or "It failed without a reason given"
    return ""
