"""The hub's line to a session's sandbox, over the socket it has on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, RemoteError
from bascule.link.http import HttpClient
from bascule.link.sse import EventReader
from bascule.runtime.remote import RemoteRuntime
from bascule.wire import error_from_wire, from_json, to_json

_NAME: Final = "http://localhost"
_QUICK: Final = 30.0
_JSON: Final = {"Content-Type": "application/json"}
_BYTES: Final = {"Content-Type": "application/octet-stream"}


class Inside(Closable):
    """What is asked of the sandbox at `socket`: actions by `runtime`, the rest by `/session/…`."""

    def __init__(self, socket: Path, key: str) -> None:
        self.runtime = RemoteRuntime(_NAME, key, socket_path=socket)
        headers = {"X-Session-API-Key": key}
        self._http = HttpClient(_NAME, headers=headers, socket_path=socket)

    async def aclose(self) -> None:
        await self.runtime.aclose()
        await self._http.aclose()

    async def workspace(self) -> Mapping[str, Any]:
        """How far the workspace is filled."""
        return dict(await self._ask("GET", "/session/workspace"))

    async def clone(
        self, url: str, ref: str, credential: Mapping[str, str] | None, *, timeout: float
    ) -> None:
        asked = {"kind": "git", "url": url, "ref": ref, "timeout": timeout}
        if credential:
            asked["credential"] = dict(credential)
        await self._ask("POST", "/session/workspace", to_json(asked), _JSON, timeout=None)

    async def unpack(self, archive: AsyncIterable[bytes]) -> None:
        await self._ask("POST", "/session/workspace", archive, _BYTES, timeout=None)

    async def ports(self) -> Sequence[Mapping[str, Any]]:
        answer = await self._ask("GET", "/session/ports")
        return list(answer["ports"])

    async def activity(self) -> Mapping[str, Any]:
        return dict(await self._ask("GET", "/session/activity"))

    async def start_vscode(self, *, window: bool, timeout: float) -> None:
        """`window`: with one that nobody has to look at."""
        asked = to_json({"window": window})
        await self._ask("POST", "/session/vscode", asked, _JSON, timeout=timeout)

    async def stop_vscode(self) -> None:
        """Text that was not saved is kept, and shown by the next one."""
        await self._ask("DELETE", "/session/vscode")

    async def events(self) -> AsyncIterator[tuple[str, Mapping[str, Any]]]:
        """What the sandbox tells, until it ends."""
        async with self._http.stream("GET", "/session/events") as reply:
            if reply.status != 200:
                _value_of(reply.status, await reply.read())
            reader = EventReader()
            async for chunk in reply.chunks():
                for event in reader.feed(chunk):
                    yield event.name, from_json(event.data)

    async def _ask(
        self,
        method: str,
        where: str,
        body: bytes | AsyncIterable[bytes] = b"",
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float | None = _QUICK,
    ) -> Any:
        reply = await self._http.request(method, where, body=body, headers=headers, timeout=timeout)
        return _value_of(reply.status, reply.body)


def _value_of(status: int, body: bytes) -> Any:
    try:
        said = from_json(body)
    except BasculeError:
        said = None
    if status == 200:
        return said
    if isinstance(said, dict) and isinstance(said.get("error"), dict):
        raise error_from_wire(said["error"])
    raise RemoteError(f"The sandbox answered with HTTP {status}", remote_code=f"http.{status}")
