"""The Docker network of sessions with egress. Sessions cannot reach each other over this
network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiodocker

from .container import SCOPE
from .engine import Engine


class Network:
    """A network that exists only while a session needs it, so that nothing stays in the engine."""

    def __init__(self, engine: Engine, name: str, scope: str) -> None:
        self._engine = engine
        self._name = name
        self._scope = scope
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def held(self, *, needed: bool) -> AsyncIterator[None]:
        """Hold the network while a container that joins it is created."""
        if not needed:
            yield
            return
        async with self._lock:
            await self._ensure()
            yield

    async def drop(self) -> None:
        """Remove the network, unless a container still uses it."""
        async with self._lock:
            with suppress(aiodocker.DockerError):
                network = await self._engine.docker.networks.get(self._name)
                await network.delete()

    async def _ensure(self) -> None:
        try:
            await self._engine.docker.networks.get(self._name)
        except aiodocker.DockerError as error:
            if error.status != 404:
                raise
            await self._engine.docker.networks.create(
                {
                    "Name": self._name,
                    "Driver": "bridge",
                    "CheckDuplicate": True,
                    "Labels": {SCOPE: self._scope},
                    "Options": {"com.docker.network.bridge.enable_icc": "false"},
                }
            )
