"""Applications that others mount at the hub's address, behind its guard."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from bascule.core.contracts import Closable

from .guard import IDENTITY
from .identity import Identity
from .proxy.endpoints import EndpointPath, ResolveCarried
from .replies import App, Receive, Scope, Send

if TYPE_CHECKING:
    from .server import Hub


class Mount(Closable):
    """An application that answers for every path at and below `prefix`.

    Whoever comes has been let in by the guard; what a token of their scope may do is the mount's to
    say. It is closed when the hub stops, before the hub waits for answers that are under way.
    """

    prefix: str

    @abstractmethod
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def carried(self, target: bytes) -> EndpointPath | str | None:
        """The endpoint of a session to which the proxy, with its own access rules, passes a request
        below `prefix`; or the path of the hub to which a browser is redirected. None: the
        application answers. `target` is the raw path and query."""
        del target
        return None

    def is_open(self, path: str) -> bool:  # noqa: ARG002
        """Whether a path needs no token; its answers must reveal nothing about anyone."""
        return False

    def takes_files(self, path: str) -> bool:  # noqa: ARG002
        """Whether bodies at this path are file uploads, which may be as large as `max_upload`."""
        return False


MakeMount = Callable[["Hub"], Mount]
"""Makes a mount for a hub that is still being made: it is there to be kept, not yet to be used."""


def identity_of(scope: Scope) -> Identity:
    """The identity behind the request."""
    identity: Identity = scope[IDENTITY]
    return identity


def carried_by(mounts: tuple[Mount, ...]) -> ResolveCarried:
    """The function that asks each mount for the endpoint of a request target."""

    def carried(target: bytes) -> EndpointPath | str | None:
        for mount in mounts:
            if target.startswith(mount.prefix.encode() + b"/"):
                return mount.carried(target)
        return None

    return carried


def said_by(
    mounts: tuple[Mount, ...], asked: Callable[[Mount], Callable[[str], bool]]
) -> Callable[[str], bool]:
    """The function that asks the mount at a path; False if there is none."""

    def said(path: str) -> bool:
        mount = _at(mounts, path)
        return mount is not None and asked(mount)(path)

    return said


def mounted(app: App, mounts: tuple[Mount, ...]) -> App:
    """`app` with the mounts in front of it."""

    async def joined(scope: Scope, receive: Receive, send: Send) -> None:
        mount = _at(mounts, scope["path"]) if scope["type"] == "http" else None
        await (mount or app)(scope, receive, send)

    return joined


def _at(mounts: tuple[Mount, ...], path: str) -> Mount | None:
    for mount in mounts:
        if path == mount.prefix or path.startswith(f"{mount.prefix}/"):
            return mount
    return None
