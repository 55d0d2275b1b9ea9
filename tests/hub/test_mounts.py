"""Requests for the host names of mounts."""

from __future__ import annotations

from typing import Any

from bascule.hub.mounts import HostRequest, Mount, with_hosts
from bascule.serving.asgi import Receive, Scope, Send


class _Named(Mount):
    prefix = "/named"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    async def aclose(self) -> None: ...

    def request_at_host(self, host: str) -> HostRequest | None:
        return HostRequest(self.prefix) if host == "name.example" else None


async def test_only_a_request_with_one_host_header_is_moved() -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def nothing(*_: Any) -> Any: ...

    mount = _Named()
    names = (b"name.example",), (b"other.example", b"name.example"), ()
    for hosts in names:
        headers = [(b"host", each) for each in hosts]
        scope = {"type": "http", "path": "/p", "raw_path": b"/p", "headers": headers}
        await with_hosts(app, (mount,))(scope, nothing, nothing)
    assert [each["path"] for each in seen] == ["/named/p", "/p", "/p"]
    assert len(seen[1]["headers"]) == 2  # for the guard, which refuses the request
