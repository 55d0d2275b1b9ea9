"""The hub's REST calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import quote

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, HubUnreachable, RemoteError
from bascule.core.windows import Window, WindowId
from bascule.wire import error_from_wire, from_json, to_json
from bascule.wire.windows import decode_window

from .http import HttpClient, target

_QUICK_TIMEOUT: Final = 30.0
"""Timeout, in seconds, of requests that the hub answers at once."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """A code that lets one window connect, once."""

    code: str = field(repr=False)
    expires: str
    """ISO time at which the code expires."""
    link: str = field(repr=False)
    """URL that opens VS Code, which asks its user whether to connect."""


class HubCalls(Closable):
    """Calls the hub at `url` with a token. An error of the hub is raised as its own class."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._http = HttpClient(url, headers=headers, unreachable=HubUnreachable)

    @property
    def url(self) -> str:
        return self._http.url

    async def windows(self) -> Sequence[Window]:
        """Every window the token may see."""
        return [decode_window(each) for each in await self._request("GET", "/api/vscode/instances")]

    async def window(self, window_id: WindowId) -> Window:
        """The window. Raises `NoSuchWindow`."""
        return decode_window(
            await self._request("GET", target(f"/api/vscode/instance/{window_id}"))
        )

    async def pair(self) -> Pairing:
        """Create a pairing code; needs scope admin."""
        answer = await self._request("POST", "/api/vscode/pair")
        return Pairing(answer["code"], answer["expires"], answer["link"])

    async def sign_in_address(self, next_path: str, *, same_user: bool = False) -> str:
        """Create a one-time URL that signs a browser in as the caller and opens `next_path`.

        With `same_user` the URL works only for the caller's user on the hub's machine, where the
        caller must run too. Other users can read the arguments of a browser started with the URL.
        """
        body = {"next": next_path, "same_user": same_user}
        answer: str = (await self._request("POST", "/api/sign-in", body))["url"]
        return answer

    async def tokens(self) -> Sequence[Mapping[str, Any]]:
        """Every token without its secret: name, scope, owner, expires; needs scope admin."""
        answer: Sequence[Mapping[str, Any]] = await self._request("GET", "/api/tokens")
        return answer

    async def create_token(
        self, name: str, scope: str, *, owner: str = "", lifetime: float | None = None
    ) -> str:
        """Create a token and return it; the hub does not show it again. Needs scope admin.

        `owner`: by default, the owner of the caller's token.
        """
        body = {"name": name, "scope": scope, "lifetime": lifetime}
        if owner:
            body["owner"] = owner
        token: str = (await self._request("POST", "/api/tokens", body))["token"]
        return token

    async def revoke_token(self, name: str) -> bool:
        """Revoke a token; returns whether it existed. Needs scope admin."""
        reply = await self._http.request(
            "DELETE", f"/api/tokens/{quote(name)}", timeout=_QUICK_TIMEOUT
        )
        if reply.status == 404:
            return False
        value_of(reply.status, reply.body)
        return True

    async def approvals(self) -> Sequence[Mapping[str, Any]]:
        """The open questions of windows and sessions; needs scope admin."""
        answer: Sequence[Mapping[str, Any]] = await self._request("GET", "/api/approvals")
        return answer

    async def rules(self) -> Sequence[Mapping[str, Any]]:
        """The hub's rules for commands in sessions; needs scope admin."""
        answer: Sequence[Mapping[str, Any]] = await self._request("GET", "/api/rules")
        return answer

    async def answer(self, place_id: str, question_id: str, answer: str) -> None:
        """Answer a question of the window or session `place_id`; needs scope admin.

        Raises `AlreadyAnswered`, or `InvalidRequest` if the question does not admit this answer.
        """
        path = f"/api/approvals/{quote(place_id, safe='')}/{quote(question_id, safe='')}"
        await self._request("POST", path, {"answer": answer})

    async def timeline(
        self, kind: Literal["sessions", "windows"], place_id: str, *, as_list: bool = False
    ) -> AsyncIterator[bytes]:
        """The trajectory of a session or window, streamed: one event per line, or one list.

        Raises `HubUnreachable` if the connection breaks.
        """
        path = target(
            f"/api/{kind}/{place_id}/timeline.jsonl", format="json" if as_list else "jsonl"
        )
        async with self._http.stream("GET", path, timeout=_QUICK_TIMEOUT) as reply:
            if reply.status != 200:
                value_of(reply.status, await reply.read())
            async for chunk in reply.chunks():
                yield chunk

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _request(
        self,
        method: str,
        path: str,
        value: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = _QUICK_TIMEOUT,
    ) -> Any:
        body = b"" if value is None else to_json(value)
        content_type = {} if value is None else {"Content-Type": "application/json"}
        reply = await self._http.request(
            method, path, body=body, headers={**content_type, **(headers or {})}, timeout=timeout
        )
        return value_of(reply.status, reply.body)


def value_of(status: int, body: bytes) -> Any:
    """The JSON answer of the hub; raises the error it contains."""
    if status == 200:
        return from_json(body)
    try:
        answer = from_json(body)
    except BasculeError:
        answer = None
    if isinstance(answer, dict) and "code" in answer:
        raise error_from_wire(answer)
    if status in (502, 503, 504):
        raise HubUnreachable(f"The hub is not available: HTTP {status}", sent=True)
    raise RemoteError(f"HTTP {status}", remote_code=f"http.{status}")
