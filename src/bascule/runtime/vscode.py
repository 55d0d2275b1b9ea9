"""A runtime in a VS Code window."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from bascule.core.actions import Action
from bascule.core.contracts import LogMatch, OnProgress, OutputProgress, WindowLink
from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    HubUnreachable,
    InvalidSetting,
    LinkError,
    NoSuchWindow,
    NotSupported,
    NoWindow,
    OutcomeUnknown,
    UsageError,
    VersionMismatch,
    WindowGone,
    WindowUnhealthy,
)
from bascule.core.observations import Observation
from bascule.core.window_choice import choose
from bascule.core.windows import ACTION_LIFE, Window
from bascule.link.hub import HubLink
from bascule.wire import error_observation

from .verbs import prepared
from .window_verbs import WindowVerbs

_GRACE: Final = 150.0
"""Seconds an answer may take past the action's own time-out: the user has 120 to consent."""
_WINDOWS_RETURN: Final = 12.0
"""Seconds in which windows have connected again to a hub that was restarted."""
_LOSSES: Final = (WindowGone, WindowUnhealthy, HubUnreachable, NoSuchWindow)
"""What passes: the same action may be sent again afterwards."""
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 2.0


class VSCodeRuntime(WindowVerbs):
    """Runs actions in a VS Code window that is connected to a hub.

    `window` is the window's id, a path in one of its folders, or its name; without one there has
    to be just one window. Hub, token and window come from BASCULE_HUB, BASCULE_TOKEN and
    BASCULE_WINDOW where they are not given; in the hub's own process, `link` is handed in
    instead.

    An action is done once. When window or hub are lost on the way, or the window's editor stops
    answering, it is sent again under the same id once they are back, for up to `patience` seconds
    and as long as the action has time; the window answers what it has done already from memory.
    Where nobody can tell what became of it, `OutcomeUnknown` is raised, with `sent`, `seconds`
    and `output_bytes` in its detail. An action that never left gets the `LinkError` that kept it
    from leaving. Files cannot be uploaded or downloaded, and logs not read: a window has no such
    actions.
    """

    def __init__(
        self,
        hub_url: str = "",
        token: str = "",
        *,
        window: str = "",
        link: WindowLink | None = None,
        default_timeout: float | None = 120.0,
        patience: float = 60.0,
        connect_patience: float | None = None,
    ) -> None:
        """`connect_patience`: seconds that `connect` waits for hub and window; None: `patience`."""
        self._selector = window or os.environ.get("BASCULE_WINDOW", "")
        self._link = link or _link(hub_url, token)
        self.default_timeout = default_timeout
        self._patience = patience
        self._connect_patience = patience if connect_patience is None else connect_patience
        self._window: Window | None = None
        self._closed = False

    @property
    def window(self) -> Window:
        """The chosen window, as it was then."""
        if self._window is None:
            raise UsageError("The runtime is not connected; use `async with` or `connect`")
        return self._window

    @property
    def capabilities(self) -> frozenset[str]:
        return self.window.capabilities

    async def connect(self) -> None:
        """Find the window.

        Raises `NoWindow`, `AmbiguousWindow`, or the reason the hub is unreachable.

        A hub that is not reached is tried again for `connect_patience` seconds. So is a hub without
        the window, but for no longer than a window takes to come back to a restarted hub.
        """
        if self._closed:
            raise UsageError("This runtime was closed; make another")
        if self._window is not None:
            return
        try:
            await self._reach_hub()
            self._window = await self._find_window()
        except BaseException:
            await self._link.aclose()
            raise

    async def act(self, action: Action, *, on_progress: OnProgress | None = None) -> Observation:
        if self._closed:
            raise UsageError("This runtime was closed; make another")
        try:
            action = prepared(action, self.default_timeout)
            return await self._act(action, on_progress)
        except (LinkError, AccessDenied, VersionMismatch):
            raise
        except BasculeError as error:
            if self._closed:
                raise
            return error_observation(error, action.id)

    async def _reach_hub(self) -> None:
        deadline = time.monotonic() + self._connect_patience
        delay = _FIRST_DELAY
        while True:
            try:
                return await self._link.connect()
            except HubUnreachable:
                if time.monotonic() + delay > deadline:
                    raise
            # There is no event for a hub that comes up.
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)

    async def _find_window(self) -> Window:
        deadline = time.monotonic() + min(self._connect_patience, _WINDOWS_RETURN)
        while True:
            changed = asyncio.ensure_future(self._link.changed())
            try:
                return choose(await self._link.windows(), self._selector)
            except (NoWindow, HubUnreachable):
                done, _ = await asyncio.wait({changed}, timeout=deadline - time.monotonic())
                if not done:
                    raise
            finally:
                changed.cancel()

    async def upload(self, source: Path, destination: str) -> None:  # noqa: ARG002
        _cannot("upload")

    async def download(self, path: str, destination: Path) -> Path:  # noqa: ARG002
        _cannot("download")

    async def read_log(
        self,
        shell: str = "",  # noqa: ARG002
        *,
        start: int = 0,  # noqa: ARG002
        end: int | None = None,  # noqa: ARG002
    ) -> bytes:
        _cannot("log")

    async def search_log(
        self,
        pattern: str,  # noqa: ARG002
        shell: str = "",  # noqa: ARG002
        *,
        start: int = 0,  # noqa: ARG002
        limit: int = 100,  # noqa: ARG002
    ) -> Sequence[LogMatch]:
        _cannot("log")

    async def aclose(self) -> None:
        """Disconnect from the window. Programs in its shells continue."""
        self._closed = True
        await self._link.aclose()

    async def _act(self, action: Action, on_progress: OnProgress | None) -> Observation:
        """Send the action until there is an answer, or none is possible."""
        sending = _Sending(action, on_progress)
        try:
            async with asyncio.timeout(_time_for(action)):
                while True:
                    try:
                        return await self._send(sending)
                    except _LOSSES as error:
                        sending.failed(error)
                        await self._wait_for_return(sending, error)
        except TimeoutError:
            if sending.error is not None and not sending.may_have_left:
                raise _as_link_error(sending.error) from None
            raise self._unknown(
                sending, f"The window did not answer the {action.kind} action in the time it had"
            ) from None

    async def _send(self, sending: _Sending) -> Observation:
        age = sending.begin()
        watch = None if sending.on_progress is None else sending.watch
        return await self._link.act(self.window.id, sending.action, on_progress=watch, age=age)

    async def _wait_for_return(self, sending: _Sending, error: BasculeError) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await self._link.returned(self.window.id)
        except TimeoutError:
            if not sending.may_have_left:
                raise _as_link_error(error) from None
            why = f"{error.message}, and did not come back within {self._patience:g} seconds"
            raise self._unknown(sending, why) from error
        if sending.age > ACTION_LIFE:
            why = f"{error.message}, and came back too late to know of the action"
            raise self._unknown(sending, why) from error

    def _unknown(self, sending: _Sending, why: str) -> OutcomeUnknown:
        """The error for an action of which nobody knows whether it was done."""
        seen = sending.output_bytes
        begun = f"it had begun: {seen} bytes of its output came" if seen else "it may have begun"
        return OutcomeUnknown(
            f"{why}; whether the action was done is not known. It was sent "
            f"{sending.age:.1f} seconds ago, and {begun}",
            window_id=self.window.id,
            id=sending.action.id,
            sent=True,
            seconds=round(sending.age, 1),
            output_bytes=seen,
        )


class _Sending:
    """An action being sent: whether it may have reached the window, and since when."""

    def __init__(self, action: Action, on_progress: OnProgress | None) -> None:
        self.action = action
        self.on_progress = on_progress
        self.output_bytes = 0
        self.error: BasculeError | None = None
        """What the last try failed with."""
        self._first: float | None = None
        self._this: float | None = None

    @property
    def may_have_left(self) -> bool:
        return self._first is not None or self._this is not None

    @property
    def age(self) -> float:
        """Seconds since it may have reached the window; 0 if it cannot have."""
        first = self._this if self._first is None else self._first
        return 0.0 if first is None else time.monotonic() - first

    def begin(self) -> float:
        """Note that it is sent now; returns its age before that."""
        age = self.age
        self._this = time.monotonic()
        return age

    def failed(self, error: BasculeError) -> None:
        if error.detail.get("sent", True) and self._first is None:
            self._first = self._this
        self._this = None
        self.error = error

    def watch(self, progress: OutputProgress) -> None:
        self.output_bytes += len(progress.data)
        if self.on_progress is not None:
            self.on_progress(progress)


def _link(hub_url: str, token: str) -> WindowLink:
    url = hub_url or os.environ.get("BASCULE_HUB", "")
    token = token or os.environ.get("BASCULE_TOKEN", "")
    if not url:
        raise InvalidSetting("No hub was given; pass its URL, or set BASCULE_HUB")
    if not token:
        raise InvalidSetting("The hub needs a token; pass one of scope agent, or set BASCULE_TOKEN")
    return HubLink(url, token)


def _time_for(action: Action) -> float | None:
    return None if action.timeout is None else action.timeout + _GRACE


def _as_link_error(error: BasculeError) -> BasculeError:
    """A window that was connected and is no longer registered counts as gone."""
    return error if isinstance(error, LinkError) else WindowGone(error.message, sent=False)


def _cannot(capability: str) -> NoReturn:
    raise NotSupported(
        f"A VS Code window has no {capability!r}; use `read`, `write` and `run`", kind=capability
    )
