"""Starts and stops the session of a conversation through a hub's OpenHands V0 endpoints."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import urlencode

import httpx

from bascule.core.errors import HubUnreachable, InvalidSetting, RemoteError

_START: Final = 180.0
"""Seconds that OpenHands gives a runtime to come up."""
_QUICK: Final = 60.0


@dataclass(frozen=True, slots=True)
class HubRuntime:
    """A runtime of the hub, which is one of its sessions."""

    session_id: str
    runtime_id: str
    key: str = field(repr=False)
    """Opens that session and nothing else."""
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
        """None: no hub is named. Raises `InvalidSetting` for one without a token."""
        url, token = os.environ.get("BASCULE_HUB", ""), os.environ.get("BASCULE_TOKEN", "")
        if url and not token:
            raise InvalidSetting("BASCULE_HUB is set and BASCULE_TOKEN is not")
        return cls(url.rstrip("/"), token) if url else None

    def find(self, conversation: str) -> HubRuntime | None:
        answer = self._ask("GET", f"/sessions/{conversation}", may_miss=True)
        return None if answer is None else HubRuntime.of(answer)

    def start(
        self, conversation: str, flags: list[str], environment: Mapping[str, str]
    ) -> HubRuntime:
        """Start the conversation's runtime, or a new one, and wait until it is ready."""
        asked = {
            "session_id": conversation,
            "command": flags,
            "environment": dict(environment),
        }
        answer = self._ask("POST", "/start", asked, timeout=_START)
        assert answer is not None
        return HubRuntime.of(answer)

    def remove(self, conversation: str) -> None:
        """Remove the conversation's runtime and its files, if it exists."""
        if (found := self.find(conversation)) is not None:
            self._ask("POST", "/stop", {"runtime_id": found.runtime_id}, may_miss=True)

    def stop(self, runtime: HubRuntime) -> None:
        """Stop a runtime's processes and keep its files."""
        where = f"{self.url}/api/sessions/{runtime.session_id}/stop"
        self._send("POST", where, None, may_miss=True, timeout=_QUICK)

    def _ask(
        self,
        method: str,
        where: str,
        body: Mapping[str, Any] | None = None,
        *,
        may_miss: bool = False,
        timeout: float = _QUICK,
    ) -> Mapping[str, Any] | None:
        address = f"{self.url}/openhands/v0{where}"
        return self._send(method, address, body, may_miss=may_miss, timeout=timeout)

    def _send(
        self,
        method: str,
        address: str,
        body: Mapping[str, Any] | None,
        *,
        may_miss: bool,
        timeout: float,
    ) -> Mapping[str, Any] | None:
        """Send a request; None for a 404 if `may_miss`."""
        try:
            reply = httpx.request(
                method, address, json=body, headers={"X-API-Key": self.token}, timeout=timeout
            )
        except httpx.HTTPError as error:
            raise HubUnreachable(f"The hub at {self.url} does not answer: {error}") from error
        if reply.status_code == 404 and may_miss:
            return None
        try:
            answer: Mapping[str, Any] = reply.json()
        except ValueError:
            answer = {}
        if reply.is_success:
            return answer
        said = answer.get("message") or f"HTTP {reply.status_code}"
        code = str(answer.get("code") or f"http.{reply.status_code}")
        raise RemoteError(f"The hub at {self.url} refused: {said}", remote_code=code)


def vscode_address(url: str, runtime: HubRuntime, folder: str) -> str:
    """For a browser, also in a frame of OpenHands' own page (the hub's setting `frame_origins`)."""
    return f"{url}?{urlencode({'tkn': runtime.key, 'folder': folder}, safe='/')}"
