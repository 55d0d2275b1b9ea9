from __future__ import annotations

import os
import socket
import struct

import pytest

from bascule.sandbox.session.listening_sockets import (
    ListeningSocket,
    listening_sockets,
    messages,
    read,
)


def socket_message(family: int, address: str, port: int, inode: int) -> bytes:
    """As the kernel tells of a socket (`struct inet_diag_msg`)."""
    raw = socket.inet_pton(family, address).ljust(16, b"\0")
    head = struct.pack("!BBBBHH", family, 10, 0, 0, port, 0) + raw
    return head + bytes(68 - len(head)) + struct.pack("=I", inode)


@pytest.mark.parametrize(
    ("family", "address", "host", "is_everywhere"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1", False),
        (socket.AF_INET, "0.0.0.0", "127.0.0.1", True),
        (socket.AF_INET, "172.17.0.2", "172.17.0.2", False),
        (socket.AF_INET6, "::1", "::1", False),
        (socket.AF_INET6, "::", "::1", True),
        (socket.AF_INET6, "::ffff:127.0.0.1", "127.0.0.1", False),
    ],
)
def test_socket_messages_of_the_kernel_are_parsed(
    family: int, address: str, host: str, is_everywhere: bool
) -> None:
    found = read(socket_message(family, address, 8080, 77))

    assert found == ListeningSocket(host, 8080, 77, is_everywhere)


def test_several_kernel_messages_are_parsed_at_once() -> None:
    first, second = b"12345", b"ab"
    data = struct.pack("=IHHII", 21, 20, 0, 0, 0) + first + b"\0\0\0"
    data += struct.pack("=IHHII", 18, 3, 0, 0, 0) + second

    assert list(messages(data)) == [(20, first), (3, second)]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_listening_socket_of_this_process_is_found(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        port, inode = server.getsockname()[1], os.fstat(server.fileno()).st_ino
        assert ListeningSocket(host, port, inode, False) in listening_sockets()
    assert inode not in {each.inode for each in listening_sockets()}


def test_a_connected_socket_is_not_listed_as_listening() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        assert os.fstat(client.fileno()).st_ino not in {each.inode for each in listening_sockets()}
