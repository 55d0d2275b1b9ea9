"""ASGI applications that other packages mount below a path of the hub, behind its guard."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from bascule.core.contracts import Closable
from bascule.serving.asgi import App, Receive, Scope, Send

from .guard import IDENTITY
from .identity import Identity
from .proxy.endpoints import EndpointPath, ResolveCarried

if TYPE_CHECKING:
    from .server import Hub


class Mount(Closable):
    """An application that serves every path at and below `prefix`.

    The guard has authenticated the caller; the mount checks which scopes may do what. The hub
    closes the mount when it stops, before it waits for pending responses.
    """

    prefix: str

    @abstractmethod
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def carried(self, target: bytes) -> EndpointPath | str | None:
        """Let the proxy serve a request below `prefix`, with the proxy's own access rules.

        Returns the endpoint of a session for the request, or a path of the hub to which a browser
        is redirected. None: the application serves it. `target` is the raw path and query.
        """
        del target
        return None

    def is_open(self, path: str) -> bool:  # noqa: ARG002
        """Whether a path needs no token; its answers must reveal nothing about anyone."""
        return False

    def takes_files(self, path: str) -> bool:  # noqa: ARG002
        """Whether bodies at this path are file uploads, which may be as large as `max_upload`."""
        return False


MakeMount = Callable[["Hub"], Mount]
"""Creates a mount. The hub is still under construction: store it, but do not use it yet."""


def identity_of(scope: Scope) -> Identity:
    """The identity behind the request."""
    identity: Identity = scope[IDENTITY]
    return identity


def carried_by(mounts: tuple[Mount, ...]) -> ResolveCarried:
    """A function that calls `Mount.carried` of the mount that serves a request target."""

    def carried(target: bytes) -> EndpointPath | str | None:
        for mount in mounts:
            if target.startswith(mount.prefix.encode() + b"/"):
                return mount.carried(target)
        return None

    return carried


def answered_by(
    mounts: tuple[Mount, ...], predicate: Callable[[Mount], Callable[[str], bool]]
) -> Callable[[str], bool]:
    """A function from a path to the answer of the mount at that path; False without a mount."""

    def answer(path: str) -> bool:
        mount = _mount_at(mounts, path)
        return mount is not None and predicate(mount)(path)

    return answer


def mounted(app: App, mounts: tuple[Mount, ...]) -> App:
    """An app that serves the paths of `mounts` with them, and all others with `app`."""

    async def joined(scope: Scope, receive: Receive, send: Send) -> None:
        mount = _mount_at(mounts, scope["path"]) if scope["type"] == "http" else None
        await (mount or app)(scope, receive, send)

    return joined


def _mount_at(mounts: tuple[Mount, ...], path: str) -> Mount | None:
    for mount in mounts:
        if path == mount.prefix or path.startswith(f"{mount.prefix}/"):
            return mount
    return None
