"""ASGI applications that other packages mount below a path of the hub, behind its guard."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bascule.core.contracts import Closable
from bascule.serving.asgi import App, Header, Receive, Scope, Send

from .guard import IDENTITY, PathRules
from .identity import Identity
from .proxy.endpoints import EndpointPath, ResolveMountedPath

if TYPE_CHECKING:
    from .server import Hub


@dataclass(frozen=True, slots=True)
class HostRequest:
    """What a host name means: a path of a mount, and headers."""

    prefix: str
    """Added before the path."""
    headers: tuple[Header, ...] = ()
    """Replace the client's headers of these names."""


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

    def request_at_host(self, host: str) -> HostRequest | None:  # noqa: ARG002
        """How to serve requests whose `Host` is a name that this mount owns, by its own paths.
        None: the host is not the mount's."""
        return None

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


def with_hosts(app: App, mounts: tuple[Mount, ...]) -> App:
    """An app that moves requests for the host names of mounts to the paths of these mounts.

    The guard then sees a host name of the hub's own.
    """

    async def moved(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            # Several Host headers are left to the guard, which refuses them.
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            host = hosts[0].decode("latin-1").lower() if len(hosts) == 1 else ""
            for mount in mounts:
                if (found := mount.request_at_host(host)) is not None:
                    scope = _at_path(scope, found)
                    break
        await app(scope, receive, send)

    return moved


def _at_path(scope: Scope, request: HostRequest) -> Scope:
    added: tuple[Header, ...] = ((b"host", b"localhost"), *request.headers)
    names = {name for name, _ in added}
    headers = [*added, *(each for each in scope["headers"] if each[0] not in names)]
    path, raw_path = request.prefix + scope["path"], request.prefix.encode() + scope["raw_path"]
    return {**scope, "path": path, "raw_path": raw_path, "headers": headers}


def _mount_at(mounts: tuple[Mount, ...], path: str) -> Mount | None:
    for mount in mounts:
        if path == mount.prefix or path.startswith(f"{mount.prefix}/"):
            return mount
    return None
