"""Sandboxes as processes of this machine, each with its own namespaces, limits and user."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bascule.core.contracts import OnStage, Spawner
from bascule.core.errors import SandboxStartFailed, SandboxUnreachable
from bascule.core.sessions import Egress, RunningSandbox, SandboxPlan, SessionId, Usage
from bascule.runtime.spawn.egress.networks import own_addresses
from bascule.runtime.spawn.egress.proxy import EgressProxy, Resolve
from bascule.runtime.spawn.egress.rules import EgressRules

from .client import WardenClient, warden_child
from .directories import EGRESS_SOCKET, egress_dir
from .messages import egress_from_wire, plan_to_wire, running_from_wire, usage_from_wire
from .settings import LocalSettings

logger = logging.getLogger(__name__)


class LocalSpawner(Spawner):
    """Sends requests to a warden, a process with the privileges that sandboxes need. The warden
    listens at a given socket, or is a child process with the privileges of this process. If the
    warden dies, the spawner starts a new warden or reconnects; sandboxes keep running.

    The proxies of sessions whose egress is `proxy` run here, in the hub.
    """

    kind = "local"

    def __init__(
        self,
        settings: LocalSettings,
        *,
        warden: socket.socket | Path | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        """`warden`: a connected socket of `start_warden`, or the path where a warden listens.
        `resolve`: how egress proxies look up names."""
        self.settings = settings
        self.notices: tuple[str, ...] = ()
        """Warnings for the operator about the isolation of sessions; set by `open`."""
        self._warden = warden
        self._resolve = resolve
        self._client = WardenClient()
        self._child: asyncio.subprocess.Process | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._proxies: dict[SessionId, EgressProxy] = {}
        self._closed = False

    async def open(self) -> None:
        await asyncio.to_thread(_make_dirs, self.settings)
        machine = await self._request("look")
        self.notices = tuple(machine["notices"])
        await self._serve_egress()

    async def start(self, plan: SandboxPlan, *, on_stage: OnStage | None = None) -> RunningSandbox:
        is_proxy_new = plan.session_id not in self._proxies and plan.egress.mode == "proxy"
        if is_proxy_new:
            await self._open_proxy(plan.session_id, plan.egress)
        try:
            answer = await self._request("start", on_stage=on_stage, plan=plan_to_wire(plan))
        except BaseException as error:
            if is_proxy_new:
                await self._close_proxy(plan.session_id, for_good=True)
            if isinstance(error, SandboxUnreachable):
                raise SandboxStartFailed(f"The sandbox did not start: {error}") from error
            raise
        return running_from_wire(answer)

    async def running(self) -> Sequence[RunningSandbox]:
        answer = await self._request("running")
        running = [running_from_wire(each) for each in answer["running"]]
        for session_id in set(self._proxies) - {each.session_id for each in running}:
            await self._close_proxy(session_id, for_good=True)
        return running

    async def pause(self, session_id: SessionId) -> None:
        await self._request("pause", session_id=session_id)

    async def resume(self, session_id: SessionId) -> None:
        await self._request("resume", session_id=session_id)

    async def stop(self, session_id: SessionId, *, grace: float = 10.0) -> None:
        await self._request("stop", session_id=session_id, grace=grace)
        await self._close_proxy(session_id, for_good=True)

    async def wait_for_unexpected_end(self, session_id: SessionId) -> str:
        while True:
            with contextlib.suppress(SandboxUnreachable):  # sandboxes outlive a warden
                return str(await self._request("ended", session_id=session_id))
            self._ensure_open()

    async def usage(self, session_id: SessionId) -> Usage:
        return usage_from_wire(await self._request("usage", session_id=session_id))

    async def log_tail(self, session_id: SessionId, *, lines: int = 100) -> str:
        return str(await self._request("last_words", session_id=session_id, lines=lines))

    async def disk(self, directory: Path) -> int:
        return int(await self._request("disk", directory=str(directory)))

    async def remove(self, directory: Path) -> None:
        await self._request("remove", directory=str(directory))

    async def aclose(self) -> None:
        self._closed = True
        if self._connecting is not None:
            await asyncio.gather(self._connecting, return_exceptions=True)
        for session_id in tuple(self._proxies):
            await self._close_proxy(session_id, for_good=False)
        await self._client.aclose()
        if self._child is not None:
            await self._child.wait()

    # The warden ------------------------------------------------------------------------

    async def _request(self, do: str, *, on_stage: OnStage | None = None, **params: Any) -> Any:
        """Send a request to the warden. If the warden dies, send the request once more.

        A start is not repeated: an interrupted start undoes itself.
        """
        client = await self._connected()
        try:
            return await client.request(do, on_stage=on_stage, **params)
        except SandboxUnreachable:
            if do == "start":
                raise
        return await (await self._connected()).request(do, on_stage=on_stage, **params)

    async def _connected(self) -> WardenClient:
        """The connection to the warden.

        Connecting continues if the caller is cancelled: other callers wait for the connection, and
        a started but unconnected warden would never exit.
        """
        if not self._client.is_open:
            connecting = self._connecting
            if connecting is None or connecting.done():
                connecting = self._connecting = asyncio.create_task(self._connect())
            await asyncio.wait({connecting})
            connecting.result()
        return self._client

    async def _connect(self) -> None:
        self._ensure_open()
        if isinstance(self._warden, socket.socket) and self._warden.fileno() < 0:
            raise SandboxUnreachable("The warden has ended; restart it together with the hub")
        await self._client.aclose()
        self._client = WardenClient()
        link: socket.socket | Path
        if self._warden is None:
            if self._child is not None:
                await self._child.wait()
            link, self._child = await warden_child(self.settings)
        else:
            link = self._warden
        await self._client.connect(link)

    def _ensure_open(self) -> None:
        if self._closed:
            raise SandboxUnreachable("The spawner was closed")

    # Egress ----------------------------------------------------------------------------

    async def _serve_egress(self) -> None:
        """Open egress proxies for sandboxes that an earlier hub left running."""
        answer = await self._request("running")
        for session_id, egress in answer["egress"].items():
            if egress["mode"] == "proxy":
                await self._open_proxy(SessionId(session_id), egress_from_wire(egress))

    async def _open_proxy(self, session_id: SessionId, egress: Egress) -> None:
        rules = EgressRules(egress.domains, own_addresses=await asyncio.to_thread(own_addresses))
        path = egress_dir(self.settings.run_dir, session_id) / EGRESS_SOCKET
        proxy = self._proxies[session_id] = EgressProxy(path, rules, self._resolve)
        await proxy.open()

    async def _close_proxy(self, session_id: SessionId, *, for_good: bool) -> None:
        """Close the proxy. While a sandbox sees the proxy's directory, the directory stays for the
        next hub."""
        if (proxy := self._proxies.pop(session_id, None)) is not None:
            await proxy.aclose()
        if for_good:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(egress_dir(self.settings.run_dir, session_id).rmdir)


def _make_dirs(settings: LocalSettings) -> None:
    """Create directories if permitted; a warden with more rights creates the others."""
    with contextlib.suppress(PermissionError):
        settings.run_dir.mkdir(parents=True, exist_ok=True)
        (settings.run_dir / "egress").mkdir(exist_ok=True, mode=0o700)
        os.chmod(settings.run_dir / "egress", 0o700)  # noqa: PTH101
