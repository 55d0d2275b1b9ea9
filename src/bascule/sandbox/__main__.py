"""`python -m bascule.sandbox`: an action server that lives as long as whoever started it.

For a parent process of ours; people and other programs use `bascule sandbox`. The parent writes
its settings to our standard input, where no other process can read the key (unlike arguments and
environment), and leaves it open: its end, however it comes, is the end of the server.
"""

from __future__ import annotations

import pickle
import socket
import sys

import uvloop

from .server.serve import serve_until_orphaned


def main() -> None:
    descriptor, server, sandbox = pickle.load(sys.stdin.buffer)  # noqa: S301  # from our parent
    sock = socket.socket(fileno=descriptor)
    uvloop.run(serve_until_orphaned(server, sandbox, sock))


if __name__ == "__main__":
    main()
