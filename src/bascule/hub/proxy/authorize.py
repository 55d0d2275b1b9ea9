"""Answers nginx's authorization subrequest: may nginx connect to a session's socket itself?

nginx sends the head of each request here (`auth_request`). On 204, nginx proxies the request with
the headers of this response. On 403, nginx passes the request to the hub, which proxies or
redirects it, starts a stopped server, or explains an error. So nginx needs to know only paths.
"""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Final

from bascule.core.errors import BasculeError
from bascule.serving.asgi import Header, Receive, Scope, Send
from bascule.serving.refusals import Refused

from .access_control import AccessControl, Admission
from .cookies import without_hub_cookies
from .credentials import has_credentials
from .endpoints import read_target
from .request import RequestHead
from .routes import UpstreamServer, socket_path

PATH: Final = "/_bascule/authorize"

_POLICY: Final = b"content-security-policy"
_PASSED_HEADERS: Final = frozenset(
    {
        *(_POLICY, b"set-cookie", b"referrer-policy", b"vary"),
        *(b"access-control-allow-origin", b"access-control-expose-headers"),
    }
)


class Authorize:
    """The ASGI app at `PATH`. It reveals no more than a response to the original request would."""

    def __init__(self, access_control: AccessControl, run_dir: Path | None) -> None:
        self._access_control = access_control
        self._run_dir = run_dir

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        headers = await self._headers(scope)
        status = 403 if headers is None else 204
        await send({"type": "http.response.start", "status": status, "headers": headers or []})
        await send({"type": "http.response.body", "body": b""})

    async def _headers(self, scope: Scope) -> list[Header] | None:
        request = _original_request(scope)
        requested = read_target(request.target)
        is_direct = requested is not None and (requested.endpoint.kind == "vscode" or requested.key)
        if not is_direct or self._run_dir is None:
            return None
        try:
            admitted = await self._access_control.admit(request)
        except (Refused, BasculeError):
            return None
        if not isinstance(admitted, Admission) or not await self._can_nginx_proxy(admitted):
            return None
        if await has_credentials(request, admitted.requested, self._access_control.is_token):
            return None
        cookie = without_hub_cookies(b"; ".join(request.header_values(b"cookie")))
        headers = [
            (b"x-bascule-cookie", cookie),
            (b"x-bascule-authorization", admitted.authorization),
            (b"x-bascule-origin", admitted.origin or request.header(b"origin")),
            *(
                (b"x-bascule-" + n, v)
                for n, v in admitted.response_rules.added
                if n in _PASSED_HEADERS
            ),
        ]
        return [(name, value) for name, value in headers if value]

    async def _can_nginx_proxy(self, admitted: Admission) -> bool:
        """Whether nginx can proxy the request: the socket is at the path that nginx computes, and
        the target needs neither its prefix nor additional headers."""
        target, endpoint = admitted.target, admitted.requested.endpoint
        assert self._run_dir is not None
        if target.keeps_prefix or target.headers:
            return False
        if target.socket != socket_path(self._run_dir, endpoint):
            return False
        return await asyncio.to_thread(_is_socket, target)


def _is_socket(target: UpstreamServer) -> bool:
    """Whether the path is a socket of the right owner, not a symlink."""
    try:
        socket_stat = os.lstat(str(target.socket))
    except OSError:
        return False
    return stat.S_ISSOCK(socket_stat.st_mode) and target.uid in (None, socket_stat.st_uid)


def _original_request(scope: Scope) -> RequestHead:
    headers: list[Header] = scope["headers"]
    by_name = dict(headers)
    return RequestHead(
        method=by_name.get(b"x-original-method", b"GET"),
        target=by_name.get(b"x-original-uri", b""),
        version="1.1",
        headers=[pair for pair in headers if pair[0] not in (b"content-length", b"upgrade")],
        peer="",
    )
