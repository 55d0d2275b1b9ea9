"""ASGI applications that other packages mount below a path of the hub, behind its guard."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from bascule.core.contracts import Closable
from bascule.serving.asgi import App, Receive, Scope, Send

from .guard import IDENTITY, PathRules
from .identity import Identity
from .proxy.endpoints import EndpointPath, ResolveMountedPath

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

    def proxied_path(self, target: bytes) -> EndpointPath | str | None:
        """Which part of the hub serves a request below `prefix`.

        An `EndpointPath`: the proxy serves it from this endpoint of a session, by the proxy's own
        access rules. A text: browsers are redirected to this path of the hub. None: this mount
        serves it. `target` is the raw path and query of the request.
        """
        del target
        return None

    def needs_no_token(self, path: str) -> bool:  # noqa: ARG002
        """Whether a path needs no token; its answers must not contain data of any user."""
        return False

    def takes_files(self, path: str) -> bool:  # noqa: ARG002
        """Whether bodies at this path are file uploads, which may be as large as `max_upload`."""
        return False

    def rules_at(self, path: str) -> PathRules | None:  # noqa: ARG002
        """How the guard treats a path where clients of another product send their own kinds of
        credentials and bodies; None: as everywhere else."""
        return None


MakeMount = Callable[["Hub"], Mount]
"""Creates a mount. The hub is still under construction: store it, but do not use it yet."""


def identity_of(scope: Scope) -> Identity:
    """The identity behind the request."""
    identity: Identity = scope[IDENTITY]
    return identity


def resolve_by_mounts(mounts: tuple[Mount, ...]) -> ResolveMountedPath:
    """A function that calls `Mount.proxied_path` of the mount that serves a request target."""

    def proxied_path(target: bytes) -> EndpointPath | str | None:
        for mount in mounts:
            if target.startswith(mount.prefix.encode() + b"/"):
                return mount.proxied_path(target)
        return None

    return proxied_path


def path_predicate(
    mounts: tuple[Mount, ...], predicate: Callable[[Mount], Callable[[str], bool]]
) -> Callable[[str], bool]:
    """A function of a path: the answer of the mount there; False if no mount serves the path.

    `predicate` selects the method of the mount to ask.
    """

    def answer(path: str) -> bool:
        mount = _mount_at(mounts, path)
        return mount is not None and predicate(mount)(path)

    return answer


def mounted(app: App, mounts: tuple[Mount, ...]) -> App:
    """An app that serves the paths of `mounts` with them, and all others with `app`."""

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        mount = _mount_at(mounts, scope["path"]) if scope["type"] == "http" else None
        await (mount or app)(scope, receive, send)

    return route


def path_rules(mounts: tuple[Mount, ...]) -> Callable[[str], PathRules | None]:
    """A function of a path: the rules of the mount there."""

    def rules(path: str) -> PathRules | None:
        mount = _mount_at(mounts, path)
        return None if mount is None else mount.rules_at(path)

    return rules


def _mount_at(mounts: tuple[Mount, ...], path: str) -> Mount | None:
    for mount in mounts:
        if path == mount.prefix or path.startswith(f"{mount.prefix}/"):
            return mount
    return None
