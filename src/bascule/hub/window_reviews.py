"""The pending changes of agents that windows publish, and answers to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import socketio
from pydantic import BaseModel, ValidationError

from bascule.core.errors import BasculeError, EditConflict, InvalidRequest, OutcomeUnknown
from bascule.core.printable import one_line
from bascule.core.windows import WindowId
from bascule.wire import to_json

from .changes import HubChanges
from .registry import Host, Registry
from .review_messages import ReviewAnswerBody, ReviewDone, ReviewHunks, ReviewList
from .socketio_server import WINDOW

logger = logging.getLogger(__name__)

MAX_LIST_BYTES: Final = 128 << 10
"""Maximum bytes of a list as JSON. The extension's `LIST_BYTES` is lower."""
_MAX_HUNKS_BYTES: Final = 1 << 20
"""Maximum bytes of the hunks of a file as JSON."""
_MAX_MESSAGE_LENGTH: Final = 1000
"""Maximum characters of a window's error message."""
_SHOW_TIMEOUT: Final = 30.0
"""Seconds for a window to send the hunks of a file."""
_ANSWER_TIMEOUT: Final = 120.0
"""Seconds for a window to keep or undo changes: undoing writes and saves each file."""

_Model = TypeVar("_Model", bound=BaseModel)


class WindowReviews:
    """The lists of all windows, as their hosts last sent them. The window applies answers itself.

    Each host of a window has its own list. The hub shows the list of the newest healthy host that
    sent one, and sends answers to the same host.
    """

    def __init__(
        self, server: socketio.AsyncServer, registry: Registry, changes: HubChanges
    ) -> None:
        self._server = server
        self._registry = registry
        self._changes = changes
        self._lists: dict[Host, ReviewList] = {}
        self._lost: dict[Host, asyncio.Future[None]] = {}
        """Futures that are done when a host with a pending request is lost."""
        server.on("review.changed", self._on_changed, namespace=WINDOW)

    def of(self, window_id: WindowId) -> ReviewList:
        """The list of a window; empty if it sent none. Raises `NoSuchWindow`."""
        host = self._host(window_id)
        return ReviewList() if host is None else self._lists[host]

    async def show(self, window_id: WindowId, file: str, version: str) -> ReviewHunks:
        """The hunks of a file. Raises `EditConflict` if it has another version now."""
        request = {"file": file, "version": version}
        return await self._request(
            window_id, "review.show", request, ReviewHunks, timeout=_SHOW_TIMEOUT
        )

    async def answer(self, window_id: WindowId, body: ReviewAnswerBody, *, by: str) -> ReviewDone:
        """Keep or undo changes.

        Raises `EditConflict` if a file has another version now, and `OutcomeUnknown` if the window
        does not reply.
        """
        if len(body.files) > 1 and any(each.hunk is not None for each in body.files):
            raise InvalidRequest("An answer about a hunk names one file only")
        request = {**body.model_dump(exclude_none=True), "by": by}
        logger.info("%s: %s %d files in window %s", by, body.answer, len(body.files), window_id)
        return await self._request(
            window_id, "review.answer", request, ReviewDone, timeout=_ANSWER_TIMEOUT
        )

    def withdraw(self, host: Host) -> None:
        """Remove the list of a host that is gone, and end the calls that wait for it."""
        if (lost := self._lost.pop(host, None)) is not None:
            lost.set_result(None)
        if self._lists.pop(host, None) is not None:
            self._changes.publish("review", host.window_id)

    # ----------------------------------------------------------------------------------------

    def _host(self, window_id: WindowId) -> Host | None:
        hosts = [each for each in self._registry.connected_hosts(window_id) if each in self._lists]
        return max(hosts, key=lambda host: (host.is_healthy, host.number), default=None)

    async def _on_changed(self, sid: str, data: object) -> None:
        host = self._registry.host_of(sid)
        if host is None:
            return
        try:
            self._lists[host] = _decode(data, ReviewList, limit=MAX_LIST_BYTES)
        except BasculeError as error:
            # The earlier list no longer matches the window's files.
            self._lists.pop(host, None)
            logger.warning(
                "the changes in window %s can be reviewed only there: %s",
                host.window_id,
                error.message,
            )
        self._changes.publish("review", host.window_id)

    async def _request(
        self,
        window_id: WindowId,
        event: str,
        request: Mapping[str, Any],
        model: type[_Model],
        *,
        timeout: float,
    ) -> _Model:
        host = self._host(window_id)
        if host is None:
            raise EditConflict(f"The window {window_id} has no pending changes any more")
        reply = await self._call(host, event, request, timeout)
        if isinstance(reply, Mapping) and isinstance(error := reply.get("error"), Mapping):
            # Always this error: a window must not choose the status of the hub's answer.
            raise EditConflict(one_line(str(error.get("message"))[:_MAX_MESSAGE_LENGTH]))
        value = reply.get("value") if isinstance(reply, Mapping) else None
        try:
            return _decode(value, model, limit=_MAX_HUNKS_BYTES)
        except InvalidRequest as error:
            raise EditConflict(f"The window {window_id} sent an invalid answer") from error

    async def _call(
        self, host: Host, event: str, request: Mapping[str, Any], timeout: float
    ) -> object:
        """The reply of a host. Raises `OutcomeUnknown` if the host is lost or does not reply."""
        loop = asyncio.get_running_loop()
        lost = self._lost.setdefault(host, loop.create_future())
        call = asyncio.ensure_future(
            self._server.call(event, request, to=host.sid, namespace=WINDOW, timeout=timeout)
        )
        try:
            await asyncio.wait({call, lost}, return_when=asyncio.FIRST_COMPLETED)
            if call.done():
                return call.result()
            reason = "lost its connection"
        except socketio.exceptions.TimeoutError:
            reason = f"did not answer within {timeout:g} seconds"
        finally:
            call.cancel()
        raise OutcomeUnknown(
            f"The window {host.window_id} {reason}; look at its list of changes again"
        )


def _decode(data: object, model: type[_Model], *, limit: int) -> _Model:
    """Validate a message of a window.

    Raises `InvalidRequest`, or `InvalidAction` if `data` contains text that is not Unicode.
    """
    size = len(to_json(data))
    if size > limit:
        raise InvalidRequest(f"It has {size:,} bytes; {limit:,} is the maximum")
    try:
        return model.model_validate(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidRequest(f"Its field {where!r} is wrong: {first['msg']}") from None
