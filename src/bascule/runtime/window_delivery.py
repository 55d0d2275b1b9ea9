"""Delivers one action to a VS Code window: sends it again after a lost connection, never twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from bascule.core.actions import Action
from bascule.core.contracts import OnProgress, OutputProgress
from bascule.core.errors import (
    BasculeError,
    HubUnreachable,
    LinkError,
    NoSuchWindow,
    OutcomeUnknown,
    WindowGone,
    WindowUnhealthy,
)
from bascule.core.observations import Observation
from bascule.core.windows import ACTION_LIFE, WindowId

RECONNECT_TIMEOUT: Final = 60.0
"""Seconds to wait for a lost window or hub."""
_GRACE_SECONDS: Final = 150.0
"""Seconds beyond an action's timeout to wait for an answer. The user has 120 of them to consent."""
_TEMPORARY_ERRORS: Final = (WindowGone, WindowUnhealthy, HubUnreachable, NoSuchWindow)
"""Temporary errors: the same action may be sent again afterwards."""


class SendAction(Protocol):
    """Sends the action once; see `WindowLink.act`."""

    def __call__(self, *, on_progress: OnProgress | None, age: float) -> Awaitable[Observation]: ...


class WindowDelivery:
    """The delivery of one action to a window; knows whether the action may have arrived.

    `send` sends the action. `returned` waits until the window accepts actions again. The window
    runs each id once, so it is safe to send the action again after a lost connection, for up to
    `reconnect_timeout` seconds and within the action's timeout.
    """

    def __init__(
        self,
        action: Action,
        window_id: WindowId,
        *,
        send: SendAction,
        returned: Callable[[], Awaitable[None]],
        on_progress: OnProgress | None = None,
        reconnect_timeout: float = RECONNECT_TIMEOUT,
    ) -> None:
        self._action = action
        self._window_id = window_id
        self._send = send
        self._returned = returned
        self._on_progress = on_progress
        self._reconnect_timeout = reconnect_timeout
        self._output_bytes = 0
        self._error: BasculeError | None = None
        """The error of the last attempt."""
        self._first_sent: float | None = None
        """Time of the first attempt with which the action may have arrived."""
        self._attempt_started: float | None = None
        """When the current attempt began."""

    async def run(self) -> Observation:
        """Send the action until it is answered, or until no answer is possible any more.

        Raises `OutcomeUnknown` if the window may have executed the action, and the `LinkError` if
        the action was never sent.
        """
        try:
            async with asyncio.timeout(_time_limit(self._action)):
                while True:
                    try:
                        return await self._attempt()
                    except _TEMPORARY_ERRORS as error:
                        self._note_failure(error)
                        await self._wait_for_return(error)
        except TimeoutError:
            if self._error is not None and not self._may_have_arrived:
                raise _as_link_error(self._error) from None
            kind = self._action.kind
            raise self._outcome_unknown(
                f"The window did not answer the {kind} action within its timeout"
            ) from None

    async def _attempt(self) -> Observation:
        age = self._age
        self._attempt_started = time.monotonic()
        watch = None if self._on_progress is None else self._watch
        return await self._send(on_progress=watch, age=age)

    def _note_failure(self, error: BasculeError) -> None:
        if error.detail.get("sent", True) and self._first_sent is None:
            self._first_sent = self._attempt_started
        self._attempt_started = None
        self._error = error

    async def _wait_for_return(self, error: BasculeError) -> None:
        try:
            async with asyncio.timeout(self._reconnect_timeout):
                await self._returned()
        except TimeoutError:
            if not self._may_have_arrived:
                raise _as_link_error(error) from None
            reason = (
                f"{error.message}, and did not reconnect within {self._reconnect_timeout:g} seconds"
            )
            raise self._outcome_unknown(reason) from error
        if self._age > ACTION_LIFE:
            reason = f"{error.message}, and reconnected too late to remember the action"
            raise self._outcome_unknown(reason) from error

    @property
    def _may_have_arrived(self) -> bool:
        return self._first_sent is not None or self._attempt_started is not None

    @property
    def _age(self) -> float:
        """Seconds since the action may have reached the window; 0 if it cannot have arrived."""
        first = self._attempt_started if self._first_sent is None else self._first_sent
        return 0.0 if first is None else time.monotonic() - first

    def _watch(self, progress: OutputProgress) -> None:
        self._output_bytes += len(progress.data)
        if self._on_progress is not None:
            self._on_progress(progress)

    def _outcome_unknown(self, reason: str) -> OutcomeUnknown:
        """The error for an action whose outcome is unknown."""
        output_bytes, age = self._output_bytes, self._age
        progress = (
            f"it had started: {output_bytes} bytes of its output arrived"
            if output_bytes
            else "it may have started"
        )
        return OutcomeUnknown(
            f"{reason}; it is unknown whether the action ran. It was sent {age:.1f} seconds ago, "
            f"and {progress}",
            window_id=self._window_id,
            id=self._action.id,
            sent=True,
            seconds=round(age, 1),
            output_bytes=output_bytes,
        )


def _time_limit(action: Action) -> float | None:
    return None if action.timeout is None else action.timeout + _GRACE_SECONDS


def _as_link_error(error: BasculeError) -> BasculeError:
    """A window that was connected and is no longer registered counts as gone."""
    return error if isinstance(error, LinkError) else WindowGone(error.message, sent=False)
