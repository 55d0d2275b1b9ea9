"""A page on loopback to browse."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_TEXT = "The quick brown fox"
_PAGE = (
    "<!DOCTYPE html><title>Page</title><h1>A page</h1>"
    + "".join(f"<p>{_TEXT} jumps over <a href='/{n}'>dog {n}</a>.</p>" for n in range(40))
    + "<form><input placeholder='Name'><button>Send</button></form>"
).encode()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(_PAGE)))
        self.end_headers()
        self.wfile.write(_PAGE)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def one_page() -> Iterator[tuple[str, str]]:
    """Its address, and words that are in it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/", _TEXT
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
