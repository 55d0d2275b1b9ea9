"""A VS Code window as a place where actions get done."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from bascule.core.actions import Action
from bascule.core.contracts import LogMatch, OnProgress, WindowLink
from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    HubUnreachable,
    InvalidSetting,
    LinkError,
    NoSuchWindow,
    NotSupported,
    OutcomeUnknown,
    UsageError,
    VersionMismatch,
    WindowGone,
)
from bascule.core.observations import Observation
from bascule.core.window_choice import choose
from bascule.core.windows import Window
from bascule.link.hub import HubLink
from bascule.wire import error_observation

from .verbs import prepared
from .window_verbs import WindowVerbs

_GRACE: Final = 150.0
"""Seconds an answer may take past the action's own time-out: the user has 120 to consent."""


class VSCodeRuntime(WindowVerbs):
    """Does actions in a VS Code window that is connected to a hub.

    `window` is the window's id, a path in one of its folders, or its name; without one there has
    to be just one window. Hub, token and window come from BASCULE_HUB, BASCULE_TOKEN and
    BASCULE_WINDOW where they are not given; in the hub's own process, `link` is handed in
    instead.

    An action is done once. When window or hub are lost on the way it is sent again under the
    same id, for up to `patience` seconds and as long as the action has time; the window answers
    what it has done already from memory. Where nobody can tell what became of it,
    `OutcomeUnknown` is raised; where the window's editor is dead, `WindowUnhealthy`. Files
    cannot be uploaded or downloaded, and logs not read: a window has no such actions.
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
    ) -> None:
        self._selector = window or os.environ.get("BASCULE_WINDOW", "")
        self._link = link or _link(hub_url, token)
        self.default_timeout = default_timeout
        self._patience = patience
        self._window: Window | None = None
        self._closed = False

    @property
    def window(self) -> Window:
        """The window that was picked, as it was then."""
        if self._window is None:
            raise UsageError("The runtime is not connected; use `async with` or `connect`")
        return self._window

    @property
    def capabilities(self) -> frozenset[str]:
        return self.window.capabilities

    async def connect(self) -> None:
        """Find the window. Raises `NoWindow`, `AmbiguousWindow`, or why the hub is not reached."""
        if self._closed:
            raise UsageError("This runtime was closed; make another")
        if self._window is not None:
            return
        try:
            await self._link.connect()
            self._window = choose(await self._link.windows(), self._selector)
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
        """Let go of the window. What runs in its shells goes on."""
        self._closed = True
        await self._link.aclose()

    async def _act(self, action: Action, on_progress: OnProgress | None) -> Observation:
        """Send until there is an answer, or none can be had."""
        was_sent = False
        try:
            async with asyncio.timeout(_time_for(action)):
                while True:
                    try:
                        return await self._link.act(self.window.id, action, on_progress=on_progress)
                    except (WindowGone, HubUnreachable, NoSuchWindow) as error:
                        was_sent = was_sent or bool(error.detail.get("sent", True))
                        await self._wait_for_return(error, was_sent=was_sent)
        except TimeoutError:
            raise OutcomeUnknown(
                f"The window did not answer the {action.kind} action in the time it had; "
                "it may still be at it",
                window_id=self.window.id,
                id=action.id,
            ) from None

    async def _wait_for_return(self, error: BasculeError, *, was_sent: bool) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await self._link.returned(self.window.id)
        except TimeoutError:
            if not was_sent:
                raise _as_link_error(error) from None
            raise OutcomeUnknown(
                f"{error.message}, and did not come back within {self._patience:g} seconds; "
                "whether the action was done is not known",
                window_id=self.window.id,
            ) from error


def _link(hub_url: str, token: str) -> WindowLink:
    url = hub_url or os.environ.get("BASCULE_HUB", "")
    token = token or os.environ.get("BASCULE_TOKEN", "")
    if not url:
        raise InvalidSetting("Which hub? Give its address, or set BASCULE_HUB")
    if not token:
        raise InvalidSetting("The hub needs a token: give one of scope agent, or set BASCULE_TOKEN")
    return HubLink(url, token)


def _time_for(action: Action) -> float | None:
    return None if action.timeout is None else action.timeout + _GRACE


def _as_link_error(error: BasculeError) -> BasculeError:
    """A window that was there and is not registered any more is gone."""
    return error if isinstance(error, LinkError) else WindowGone(error.message, sent=False)


def _cannot(capability: str) -> NoReturn:
    raise NotSupported(
        f"A VS Code window has no {capability!r}; use `read`, `write` and `run`", kind=capability
    )
