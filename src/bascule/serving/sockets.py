"""Sockets to listen on: TCP, on one or both loopback addresses, and unix sockets."""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path

from bascule.core.errors import InvalidSetting

_MAX_ATTEMPTS = 20
"""Maximum number of free ports to try until one is free on both loopback addresses."""
_BACKLOG = 256


def bound_socket(host: str, port: int, *, who: str) -> socket.socket:
    """Return a bound socket. Raises `InvalidSetting` with a suggestion.

    `who`: name of the server, for the error message.
    """
    try:
        return bind_tcp(host, port)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidSetting(
            f"{who} cannot listen on {host}:{port}: {reason}. {_advice(error)}"
        ) from error


def loopback_twin(sock: socket.socket) -> socket.socket | None:
    """Bind the same port on the other loopback address: ::1 for 127.0.0.1 and the reverse.

    Names below `localhost` resolve to both addresses, and browsers differ in which they try first.
    A program that listened on the other address would receive our users' requests and cookies.
    Returns None if `sock` covers neither or both loopback addresses, or if the machine has no such
    address. Raises `OSError` if another program holds the port there.
    """
    host, port = sock.getsockname()[:2]
    is_v6 = sock.family == socket.AF_INET6
    is_dual = is_v6 and not sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    if host == "::" and is_dual:
        return None
    if host not in ("127.0.0.1", "0.0.0.0", "::1", "::"):  # noqa: S104 - compared with
        return None
    other, family = ("127.0.0.1", socket.AF_INET) if is_v6 else ("::1", socket.AF_INET6)
    try:
        other_loopback = socket.socket(family, socket.SOCK_STREAM)
    except OSError:  # a kernel without IPv6
        return None
    try:
        other_loopback.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            other_loopback.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        other_loopback.bind((other, port))
    except BaseException as error:
        other_loopback.close()
        if isinstance(error, OSError) and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            return None
        raise
    return other_loopback


def bound_pair(host: str, port: int, *, who: str) -> list[socket.socket]:
    """Like `bound_socket`, plus its `loopback_twin` if there is one.

    With `port` 0, the chosen port is free on both addresses.
    """
    for attempt in range(_MAX_ATTEMPTS):
        sock = bound_socket(host, port, who=who)
        try:
            other_loopback = loopback_twin(sock)
        except OSError as error:
            sock.close()
            if port or attempt + 1 == _MAX_ATTEMPTS:
                raise InvalidSetting(
                    f"{who} cannot listen on port {port} of both 127.0.0.1 and [::1]: another "
                    "program has it on one of them, and would receive our requests. "
                    + _advice(error)
                ) from error
        else:
            return [sock] if other_loopback is None else [sock, other_loopback]
    raise AssertionError("unreachable")


def bind_tcp(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet. Raises `OSError`.

    Several sockets may be bound to one port in this way, as long as only one listens.
    """
    info = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = info[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock


def unix_listener(path: Path, *, mode: int = 0o660) -> socket.socket:
    """Return a listening unix socket at `path`, replacing any file there. This function blocks.

    By default, only the owner and the group may connect.
    """
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(mode)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


async def stop_accepting(server: asyncio.Server) -> None:
    """Close a server, after all connections that it has accepted were passed to their protocols.

    `Server.close` alone leaks a connection that was accepted, but has no transport yet: asyncio
    creates none for a closed server, and does not close the socket either.
    """
    loop = asyncio.get_running_loop()
    for sock in server.sockets:
        loop.remove_reader(sock)  # accepts no more connections
    # One pass of the event loop for each step: the transport is created, `connection_made` is
    # called, a handler of streams starts.
    for _ in range(3):
        await asyncio.sleep(0)
    server.close()


def local_url(host: str, port: int) -> str:
    """Return the URL at which programs on this machine reach a server that listens on `host`."""
    loopback_address = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104  # compared with
    name = loopback_address.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def _advice(error: Exception) -> str:
    if isinstance(error, socket.gaierror | UnicodeError):
        return "This machine cannot resolve the name; 127.0.0.1 is the machine itself"
    if isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL:
        return "This machine does not have the address; 0.0.0.0 means all its addresses"
    return "Port 0 chooses a free port"
