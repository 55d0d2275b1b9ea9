"""The present state of all objects of one kind, kept up to date by list and watch."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, TypeVar

from bascule.core.contracts import Closable
from bascule.core.errors import SandboxUnreachable

from .api import ApiRefused, JsonObject, KubernetesApi, ResourceKind

logger = logging.getLogger(__name__)

Found = TypeVar("Found")

_GONE: Final = 410
"""Status of a watch from a version that the server has forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTimes:
    """Time limits of a watch, in seconds."""

    duration: float = 60.0
    """After this time the server ends a watch, and the next one follows from the same version."""
    silence: float = 75.0
    """A connection without a byte for this time counts as lost. Longer than `duration`: the server
    may have nothing to report."""
    first_delay: float = 0.2
    """Before the first new attempt after a failure; each further delay is twice as long."""
    max_delay: float = 10.0


class ObjectWatch(Closable):
    """The objects of one kind with certain labels, by name, from `open` until `aclose`.

    After a lost connection, the objects stay as they were last seen until the server answers again.
    After a failure all objects are listed again, so no change is missed.
    """

    def __init__(
        self,
        api: KubernetesApi,
        kind: ResourceKind,
        *,
        labels: str,
        times: WatchTimes | None = None,
    ) -> None:
        self._api = api
        self._kind = kind
        self._labels = labels
        self._times = times or WatchTimes()
        self._objects: dict[str, JsonObject] = {}
        self._version = ""
        self._changed: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def objects(self) -> Mapping[str, JsonObject]:
        return self._objects

    async def open(self) -> None:
        """List the objects and start to watch. Raises if the first list fails."""
        await self._list()
        self._task = asyncio.create_task(self._run(), name=f"watch {self._kind.plural}")

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def wait_until(self, find: Callable[[Mapping[str, JsonObject]], Found | None]) -> Found:
        """Wait until `find` returns something other than None for the present objects."""
        while (found := find(self._objects)) is None:
            if self._changed is None or self._changed.done():
                self._changed = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._changed)
        return found

    async def _run(self) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                # A server that ends every watch at once must not be asked without a pause.
                is_failure = loop.time() < began + self._times.first_delay
            except (ApiRefused, SandboxUnreachable) as error:
                logger.info("a watch was interrupted: %s", error)
                self._version = ""
                # After status 410 the objects are listed again. The first time this needs no pause.
                is_failure = not (_is_too_old(error) and failures == 0)
                failures += 1
            if not is_failure:
                failures = 0 if self._version else failures
                continue
            # No event reports that the server is up again. The delay is random so that several
            # hubs do not all return at once.
            delay = min(self._times.first_delay * 2 ** min(failures, 16), self._times.max_delay)
            await asyncio.sleep(delay * random.uniform(0.5, 1.5))  # noqa: S311

    async def _list(self) -> None:
        found = await self._api.list(self._kind, labels=self._labels)
        self._objects = {_name(each): each for each in found.items}
        self._version = found.version
        self._notify()

    async def _watch(self) -> None:
        changes = self._api.watch(
            self._kind,
            version=self._version,
            labels=self._labels,
            duration=self._times.duration,
            silence=self._times.silence,
        )
        async with aclosing(changes):
            async for change in changes:
                self._apply(change)

    def _apply(self, change: JsonObject) -> None:
        kind, changed = change.get("type"), change.get("object") or {}
        if kind == "ERROR":
            raise ApiRefused(
                int(changed.get("code") or 0),
                str(changed.get("reason", "")),
                str(changed.get("message", "")),
            )
        metadata = changed.get("metadata") or {}
        if kind in ("ADDED", "MODIFIED"):
            self._objects[_name(changed)] = changed
        elif kind == "DELETED":
            self._objects.pop(_name(changed), None)
        self._version = metadata.get("resourceVersion", self._version)
        if kind != "BOOKMARK":
            self._notify()

    def _notify(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)


def _name(found: JsonObject) -> str:
    name = (found.get("metadata") or {}).get("name")
    if not isinstance(name, str):
        raise SandboxUnreachable("The cluster sent an object without a name")
    return name


def _is_too_old(error: Exception) -> bool:
    return isinstance(error, ApiRefused) and error.status == _GONE
