from __future__ import annotations

import os
import socket

from bascule.sandbox.session.listening import Listening, listening, parse

TABLE = b"""\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 101 1 0
   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 102 1 0
   2: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 103 1 0
"""
TABLE6 = b"""\
  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:0BB8 00000000000000000000000000000000:0000 0A 0 0 0 0 0 104
   1: 0000000000000000FFFF00000100007F:0BB9 00000000000000000000000000000000:0000 0A 0 0 0 0 0 105
"""


def test_only_sockets_that_take_connections_are_read() -> None:
    assert list(parse(TABLE)) == [
        Listening("127.0.0.1", 8080, 101, False),
        Listening("127.0.0.1", 80, 102, True),
    ]


def test_addresses_of_version_6_are_read() -> None:
    assert list(parse(TABLE6)) == [
        Listening("::1", 3000, 104, False),
        Listening("127.0.0.1", 3001, 105, False),
    ]


def test_a_socket_of_our_own_is_found_while_it_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port, inode = server.getsockname()[1], os.fstat(server.fileno()).st_ino
        assert Listening("127.0.0.1", port, inode, False) in listening()
    assert port not in {each.port for each in listening()}
