"""A client of the Kubernetes API, for the few kinds of objects and calls that sessions need."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import aiohttp

from bascule.core.contracts import Closable
from bascule.core.errors import SandboxUnreachable

from .cluster_access import ClusterAccess

JsonObject = Mapping[str, Any]

_TIMEOUT: Final = 30.0
"""Seconds until a call other than a watch or a followed log fails."""
_TOKEN_LIFETIME: Final = 60.0
"""Seconds after which a token file is read again. Kubernetes replaces tokens after an hour."""
_MAX_ANSWER_BYTES: Final = 256 << 20
_MAX_LOG_BYTES: Final = 4 << 20
_MAX_EVENT_BYTES: Final = 8 << 20
"""An object in etcd has at most 1.5 MiB."""


class ResourceKind(Enum):
    """The kinds of objects in use, by their name in URLs. All are in the API's core group."""

    PODS = "pods"
    CLAIMS = "persistentvolumeclaims"
    EVENTS = "events"

    @property
    def plural(self) -> str:
        return self.value


class ApiRefused(Exception):
    """The API server answered with an error."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        """A word for programs, such as `AlreadyExists` or `Forbidden`."""
        self.message = message


@dataclass(frozen=True, slots=True)
class ObjectList:
    """The objects of one kind at one moment."""

    items: Sequence[JsonObject]
    version: str
    """A watch from this version misses no change."""


class KubernetesApi(Closable):
    """Calls to the API server about the objects of one namespace.

    Raises `ApiRefused` for an error of the server, and `SandboxUnreachable` if there is no answer.
    Calls are not repeated: the caller knows whether that is safe.
    """

    def __init__(self, access: ClusterAccess, namespace: str = "") -> None:
        """`namespace`: empty for the namespace of the credentials."""
        self.access = access
        self.namespace = namespace or access.namespace
        self._session: aiohttp.ClientSession | None = None
        self._token = ""
        self._token_until = 0.0

    async def open(self) -> None:
        # No limit of connections: each watch and each followed log has its own.
        connector = aiohttp.TCPConnector(ssl=self.access.tls or False, limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT),
            headers={"Accept": "application/json", "User-Agent": "bascule"},
        )

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    # Objects ------------------------------------------------------------------------------

    async def create(self, kind: ResourceKind, body: JsonObject) -> JsonObject:
        """Create an object. Status 409 if the name is taken."""
        return await self._json("POST", self._url(kind), body=body)

    async def get(self, kind: ResourceKind, name: str) -> JsonObject | None:
        try:
            return await self._json("GET", self._url(kind, name))
        except ApiRefused as refused:
            if refused.status == 404:
                return None
            raise

    async def list(self, kind: ResourceKind, *, labels: str = "", fields: str = "") -> ObjectList:
        """All objects that match the selectors."""
        answer = await self._json("GET", self._url(kind), query=_selectors(labels, fields))
        version = (answer.get("metadata") or {}).get("resourceVersion", "")
        return ObjectList(items=answer.get("items") or (), version=version)

    async def patch(
        self, kind: ResourceKind, name: str, changes: JsonObject, *, version: str = ""
    ) -> JsonObject:
        """Merge `changes` into the object. Status 409 if `version` is given and is not the object's
        resource version any more."""
        if version:
            metadata = {**(changes.get("metadata") or {}), "resourceVersion": version}
            changes = {**changes, "metadata": metadata}
        return await self._json(
            *("PATCH", self._url(kind, name)),
            body=changes,
            content_type="application/merge-patch+json",
        )

    async def delete(
        self, kind: ResourceKind, name: str, *, grace: int | None = None, uid: str = ""
    ) -> bool:
        """Ask for the end of an object; False if it does not exist.

        `grace`: seconds between SIGTERM and SIGKILL in a pod. `uid`: status 409 if the object of
        this name is another one.
        """
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            await self._json("DELETE", self._url(kind, name), body=options)
        except ApiRefused as refused:
            if refused.status == 404:
                return False
            raise
        return True

    async def watch(
        self,
        kind: ResourceKind,
        *,
        version: str,
        duration: float,
        silence: float,
        labels: str = "",
        fields: str = "",
    ) -> AsyncGenerator[JsonObject, None]:
        """The changes after `version`, as the server sends them, until it ends the answer.

        The server ends it after `duration` seconds. Without a byte for `silence` seconds, the
        connection counts as lost.
        """
        query = {
            **_selectors(labels, fields),
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(duration)),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_TIMEOUT, sock_read=silence)
        with _connection_errors(self.access.server):
            async with self._request(
                "GET", self._url(kind), query=query, timeout=timeout
            ) as response:
                await _ensure_accepted(response)
                async with aclosing(_lines(response.content)) as lines:
                    async for line in lines:
                        yield _parse_object(line)

    async def log(self, pod: str, *, lines: int) -> str:
        """The last lines of a pod's log; empty if no container has started."""
        query = {"tailLines": str(lines), "limitBytes": str(_MAX_LOG_BYTES)}
        try:
            with _connection_errors(self.access.server):
                async with self._request(
                    "GET", f"{self._url(ResourceKind.PODS, pod)}/log", query=query
                ) as response:
                    await _ensure_accepted(response)
                    return (await response.read()).decode(errors="replace")
        except ApiRefused as refused:
            if refused.status in (400, 404):
                return ""
            raise

    async def first_log_line(self, pod: str, *, timeout: float) -> str:
        """Wait for the first whole line of a pod's log; empty if the log ends without one."""
        query = {"follow": "true", "limitBytes": str(64 << 10)}
        waiting = aiohttp.ClientTimeout(total=timeout)
        with _connection_errors(self.access.server):
            async with self._request(
                "GET", f"{self._url(ResourceKind.PODS, pod)}/log", query=query, timeout=waiting
            ) as response:
                await _ensure_accepted(response)
                async with aclosing(_lines(response.content)) as lines:
                    async for line in lines:
                        return line.decode(errors="replace")
        return ""

    # Requests -----------------------------------------------------------------------------

    def _url(self, kind: ResourceKind, name: str = "") -> str:
        server, namespace = self.access.server, self.namespace
        url = f"{server}/api/v1/namespaces/{namespace}/{kind.plural}"
        return f"{url}/{name}" if name else url

    async def _json(
        self,
        method: str,
        url: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
        content_type: str = "application/json",
    ) -> JsonObject:
        with _connection_errors(self.access.server):
            async with self._request(
                method, url, query=query, body=body, content_type=content_type
            ) as response:
                await _ensure_accepted(response)
                return _parse_object(await _read(response.content))

    def _request(
        self,
        method: str,
        url: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
        content_type: str = "application/json",
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> _Request:
        return _Request(self, method, url, query, body, content_type, timeout)

    async def _headers(self) -> dict[str, str]:
        now = asyncio.get_running_loop().time()
        if now >= self._token_until:
            self._token = await asyncio.to_thread(self.access.read_token)
            self._token_until = now + _TOKEN_LIFETIME
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}


class _Request:
    """One request, as an async context manager with the response."""

    def __init__(
        self,
        api: KubernetesApi,
        method: str,
        url: str,
        query: Mapping[str, str] | None,
        body: JsonObject | None,
        content_type: str,
        timeout: aiohttp.ClientTimeout | None,
    ) -> None:
        self._api = api
        self._method, self._url, self._query = method, url, query
        self._body, self._type = body, content_type
        self._timeout = timeout or aiohttp.ClientTimeout(total=_TIMEOUT)
        self._response: aiohttp.ClientResponse | None = None

    async def __aenter__(self) -> aiohttp.ClientResponse:
        session = self._api._session
        if session is None:
            raise SandboxUnreachable("The spawner is not open")
        headers = await self._api._headers()
        if self._body is not None:
            headers["Content-Type"] = self._type
        self._response = await session.request(
            self._method,
            self._url,
            params=self._query,
            data=None if self._body is None else json.dumps(self._body).encode(),
            headers=headers,
            timeout=self._timeout,
            allow_redirects=False,  # the token must not go to another server
        )
        return self._response

    async def __aexit__(self, *_: object) -> None:
        assert self._response is not None
        self._response.close()  # a response that was read to its end keeps its connection


def _selectors(labels: str, fields: str) -> dict[str, str]:
    both = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in both.items() if value}


async def _read(content: aiohttp.StreamReader) -> bytes:
    pieces, size = [], 0
    async for piece in content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > _MAX_ANSWER_BYTES:
            raise SandboxUnreachable(f"An answer of the cluster exceeds {_MAX_ANSWER_BYTES} bytes")
    return b"".join(pieces)


async def _lines(content: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
    """The complete lines. A line that was cut off at the end is dropped."""
    rest = b""
    async for piece in content.iter_any():
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            if line:
                yield line
        if len(rest) > _MAX_EVENT_BYTES:
            raise SandboxUnreachable(f"A line of the cluster exceeds {_MAX_EVENT_BYTES} bytes")


def _parse_object(text: bytes) -> JsonObject:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise SandboxUnreachable(f"The cluster sent invalid JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise SandboxUnreachable("The cluster sent JSON that is not an object")
    return parsed


async def _ensure_accepted(response: aiohttp.ClientResponse) -> None:
    if response.status < 300:
        return
    text = (await response.content.read(64 << 10)).decode(errors="replace")
    try:
        status = json.loads(text)
        reason, message = str(status.get("reason", "")), str(status.get("message", ""))
    except (ValueError, AttributeError):
        reason, message = "", text.strip()
    raise ApiRefused(response.status, reason, message or f"HTTP status {response.status}")


@contextmanager
def _connection_errors(server: str) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:  # includes `TimeoutError`
        reason = str(error) or type(error).__name__
        raise SandboxUnreachable(f"The cluster at {server} does not answer: {reason}") from error
