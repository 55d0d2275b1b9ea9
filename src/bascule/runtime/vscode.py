"""A runtime in a VS Code window."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from functools import partial
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
    NotSupported,
    NoWindow,
    UsageError,
    VersionMismatch,
)
from bascule.core.observations import Observation
from bascule.core.tracing import Tracing
from bascule.core.window_choice import choose
from bascule.core.windows import Window
from bascule.link.hub import HubLink
from bascule.wire import error_observation

from .verbs import DEFAULT_TIMEOUT, prepared
from .window_delivery import RECONNECT_TIMEOUT, WindowDelivery
from .window_verbs import WindowVerbs

_RECONNECT_TIMEOUT: Final = 12.0
"""Seconds within which windows reconnect to a restarted hub."""
_FIRST_DELAY_SECONDS: Final = 0.1
_MAX_DELAY_SECONDS: Final = 2.0


class VSCodeRuntime(WindowVerbs):
    """Runs actions in a VS Code window that is connected to a hub.

    `window` is the window's id, a path in one of its folders, or its name; if empty, there must be
    exactly one window. Hub, token and window default to BASCULE_HUB, BASCULE_TOKEN and
    BASCULE_WINDOW. The hub's own process passes `link` instead.

    An action runs at most once. If the window or the hub is lost, or the window's editor stops
    answering, the action is sent again with the same id after the reconnection, for up to
    `patience` seconds and within the action's timeout. A window that has already run the action
    sends the stored observation.
    If the outcome cannot be known, `OutcomeUnknown` is raised, with `sent`, `seconds` and
    `output_bytes` in its detail. An action that was never sent raises the `LinkError` that
    prevented it. A window cannot upload or download files, or read logs.
    """

    def __init__(
        self,
        hub_url: str = "",
        token: str = "",
        *,
        window: str = "",
        link: WindowLink | None = None,
        default_timeout: float | None = DEFAULT_TIMEOUT,
        patience: float = RECONNECT_TIMEOUT,
        connect_patience: float | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        """`connect_patience`: seconds that `connect` waits for hub and window; None: `patience`.

        `tracing`: makes a span of each action.
        """
        self._tracing = tracing
        self._selector = window or os.environ.get("BASCULE_WINDOW", "")
        self._link = link or _link(hub_url, token)
        self.default_timeout = default_timeout
        self._patience = patience
        self._connect_patience = patience if connect_patience is None else connect_patience
        self._window: Window | None = None
        self._closed = False

    @property
    def window(self) -> Window:
        """The chosen window, as it was at `connect`."""
        if self._window is None:
            raise UsageError("The runtime is not connected; use `async with` or `connect`")
        return self._window

    @property
    def capabilities(self) -> frozenset[str]:
        return self.window.capabilities

    async def connect(self) -> None:
        """Find the window.

        Raises `NoWindow`, `AmbiguousWindow`, or the reason the hub is unreachable.

        Retries an unreachable hub for `connect_patience` seconds. If only the window is missing,
        `connect` waits no longer than windows need to reconnect to a restarted hub.
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
            return await self._traced(action, on_progress)
        except (LinkError, AccessDenied, VersionMismatch):
            raise
        except BasculeError as error:
            if self._closed:
                raise
            return error_observation(error, action.id)

    async def _traced(self, action: Action, on_progress: OnProgress | None) -> Observation:
        if self._tracing is None:
            return await self._deliver(action, on_progress)
        attributes = {"bascule.action": action.kind}
        with self._tracing.span(f"act {action.kind}", "client", attributes=attributes) as span:
            observation = await self._deliver(action, on_progress)
            span.set_observation(observation)
            return observation

    async def _deliver(self, action: Action, on_progress: OnProgress | None) -> Observation:
        window_id = self.window.id
        delivery = WindowDelivery(
            action,
            window_id,
            send=partial(self._link.act, window_id, action),
            returned=partial(self._link.wait_until_healthy, window_id),
            on_progress=on_progress,
            reconnect_timeout=self._patience,
        )
        return await delivery.run()

    async def _reach_hub(self) -> None:
        deadline = time.monotonic() + self._connect_patience
        delay = _FIRST_DELAY_SECONDS
        while True:
            try:
                return await self._link.connect()
            except HubUnreachable:
                if time.monotonic() + delay > deadline:
                    raise
            # No event reports that a hub is up.
            await asyncio.sleep(delay)
            delay = min(2 * delay, _MAX_DELAY_SECONDS)

    async def _find_window(self) -> Window:
        deadline = time.monotonic() + min(self._connect_patience, _RECONNECT_TIMEOUT)
        while True:
            changed = asyncio.ensure_future(self._link.wait_for_change())
            try:
                return choose(await self._link.windows(), self._selector)
            except (NoWindow, HubUnreachable):
                done, _ = await asyncio.wait({changed}, timeout=deadline - time.monotonic())
                if not done:
                    raise
            finally:
                changed.cancel()

    async def upload(self, source: Path, destination: str) -> None:  # noqa: ARG002
        _unsupported("upload")

    async def download(self, path: str, destination: Path) -> Path:  # noqa: ARG002
        _unsupported("download")

    async def read_log(
        self,
        shell: str = "",  # noqa: ARG002
        *,
        start: int = 0,  # noqa: ARG002
        end: int | None = None,  # noqa: ARG002
    ) -> bytes:
        _unsupported("log")

    async def search_log(
        self,
        pattern: str,  # noqa: ARG002
        shell: str = "",  # noqa: ARG002
        *,
        start: int = 0,  # noqa: ARG002
        limit: int = 100,  # noqa: ARG002
    ) -> Sequence[LogMatch]:
        _unsupported("log")

    async def aclose(self) -> None:
        """Disconnect from the window. Programs in its shells continue."""
        self._closed = True
        await self._link.aclose()


def _link(hub_url: str, token: str) -> WindowLink:
    url = hub_url or os.environ.get("BASCULE_HUB", "")
    token = token or os.environ.get("BASCULE_TOKEN", "")
    if not url:
        raise InvalidSetting("No hub was given; pass its URL, or set BASCULE_HUB")
    if not token:
        raise InvalidSetting("The hub needs a token; pass one of scope agent, or set BASCULE_TOKEN")
    return HubLink(url, token)


def _unsupported(capability: str) -> NoReturn:
    raise NotSupported(
        f"A VS Code window has no {capability!r}; use `read`, `write` and `run`", kind=capability
    )
