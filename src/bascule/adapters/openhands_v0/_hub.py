"""Starts and stops the session of a conversation through a hub's OpenHands V0 endpoints."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import urlencode

from bascule.core.errors import BasculeError, HubUnreachable, InvalidSetting, RemoteError
from bascule.link.http import HttpClient, HttpReply, target
from bascule.wire import from_json, to_json

_START_TIMEOUT: Final = 180.0
"""Seconds that OpenHands waits for a runtime to start."""
_QUICK_TIMEOUT: Final = 60.0


@dataclass(frozen=True, slots=True)
class HubRuntime:
    """A runtime of the hub, which is one of its sessions."""

    session_id: str
    runtime_id: str
    key: str = field(repr=False)
    """A token for this session only."""
    web_hosts: Mapping[str, int]

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        runtime_id = answer["runtime_id"]
        hosts = answer.get("work_hosts", {})
        key = answer["session_api_key"]
        return cls(runtime_id.rpartition("/")[2], runtime_id, key, hosts)


@dataclass(frozen=True, slots=True)
class HubRuntimes:
    """Client of a hub's OpenHands V0 endpoints."""

    url: str
    token: str = field(repr=False)

    @classmethod
    def from_environment(cls) -> Self | None:
        """The client for BASCULE_HUB; None if this variable is not set. Raises `InvalidSetting` if
        BASCULE_TOKEN is missing."""
        url, token = os.environ.get("BASCULE_HUB", ""), os.environ.get("BASCULE_TOKEN", "")
        if url and not token:
            raise InvalidSetting("BASCULE_HUB is set and BASCULE_TOKEN is not")
        return cls(url.rstrip("/"), token) if url else None

    def find(self, conversation: str) -> HubRuntime | None:
        answer = self._request_json("GET", target(f"/sessions/{conversation}"), allow_missing=True)
        return None if answer is None else HubRuntime.of(answer)

    def start(
        self, conversation: str, flags: list[str], environment: Mapping[str, str]
    ) -> HubRuntime:
        """Start or create the conversation's runtime, and wait until the runtime is ready."""
        request_body = {
            "session_id": conversation,
            "command": flags,
            "environment": dict(environment),
        }
        answer = self._request_json("POST", "/start", request_body, timeout=_START_TIMEOUT)
        assert answer is not None
        return HubRuntime.of(answer)

    def remove(self, conversation: str) -> None:
        """Remove the conversation's runtime and its files, if it exists."""
        if (found := self.find(conversation)) is not None:
            self._request_json(
                "POST", "/stop", {"runtime_id": found.runtime_id}, allow_missing=True
            )

    def stop(self, runtime: HubRuntime) -> None:
        """Stop a runtime's processes and keep its files."""
        self._send("POST", f"/api/sessions/{runtime.session_id}/stop", allow_missing=True)

    def _request_json(
        self,
        method: str,
        url_path: str,
        value: Mapping[str, Any] | None = None,
        *,
        allow_missing: bool = False,
        timeout: float = _QUICK_TIMEOUT,
    ) -> Mapping[str, Any] | None:
        url_path = f"/openhands/v0{url_path}"
        return self._send(method, url_path, value, allow_missing=allow_missing, timeout=timeout)

    def _send(
        self,
        method: str,
        url_path: str,
        value: Mapping[str, Any] | None = None,
        *,
        allow_missing: bool,
        timeout: float = _QUICK_TIMEOUT,
    ) -> Mapping[str, Any] | None:
        """Send a request and block until the answer arrives. None for a 404 if `allow_missing`."""
        body = b"" if value is None else to_json(value)
        # Use a separate thread: OpenHands also calls this from a thread that runs an event loop,
        # where `asyncio.run` would fail.
        with ThreadPoolExecutor(1) as pool:
            request = self._request(method, url_path, body, timeout)
            reply = pool.submit(asyncio.run, request).result()
        if reply.status == 404 and allow_missing:
            return None
        try:
            answer: Mapping[str, Any] = from_json(reply.body)
        except BasculeError:
            answer = {}
        if reply.status < 400:
            return answer
        message = answer.get("message") or f"HTTP {reply.status}"
        code = str(answer.get("code") or f"http.{reply.status}")
        raise RemoteError(f"The hub at {self.url} refused: {message}", remote_code=code)

    async def _request(self, method: str, url_path: str, body: bytes, timeout: float) -> HttpReply:
        headers = {"X-API-Key": self.token, "Content-Type": "application/json"}
        async with HttpClient(self.url, headers=headers, unreachable=HubUnreachable) as hub:
            return await hub.request(method, url_path, body=body, timeout=timeout)


def vscode_address(url: str, runtime: HubRuntime, folder: str) -> str:
    """The URL for a browser. With the hub's setting `frame_origins`, OpenHands' page can show this
    URL in a frame."""
    return f"{url}?{urlencode({'tkn': runtime.key, 'folder': folder}, safe='/')}"
