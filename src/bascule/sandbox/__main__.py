"""`python -m bascule.sandbox`: an action server that stops when its parent process exits.

Only Bascule itself starts it; people and other programs use `bascule sandbox`. The parent writes
the settings to the server's stdin, because other processes can read arguments and environment, and
the settings hold the key. The parent leaves stdin open; end of file stops the server.
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
