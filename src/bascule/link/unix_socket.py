"""Connects to a unix socket in a directory that other users can write to."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
import sys
from pathlib import Path
from typing import Final

_PEER: Final = struct.Struct("3i")
"""Process id, user id and group id of the peer."""


async def connect_to(path: Path, *, uid: int | None) -> socket.socket:
    """Connect to the socket at `path`. On Linux, refuse a symlink: another user could plant it.

    `uid`: user that the server must run as; None: any user. Raises `OSError`; its `errno` is None
    if this function refuses.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await _connect(sock, path)
        if uid is not None:
            peer = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            _, server_uid, _ = _PEER.unpack(peer)
            if server_uid != uid:
                raise PermissionError(f"the server at {socket_name(path)} runs as another user")
    except BaseException:
        sock.close()
        raise
    return sock


def socket_name(path: Path) -> str:
    """The socket's name for errors. It omits the hub's directories, because sessions and users see
    these errors."""
    return f"{path.parent.name}/{path.name}"


async def _connect(sock: socket.socket, path: Path) -> None:
    loop = asyncio.get_running_loop()
    if sys.platform != "linux":  # no sessions run there, so nobody can plant a symlink
        await loop.sock_connect(sock, str(path))
        return
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            raise PermissionError(f"{socket_name(path)} is not a socket")
        # By descriptor, because `path` could be replaced after the check.
        await loop.sock_connect(sock, f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
