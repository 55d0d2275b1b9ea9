"""Pages on loopback for the browser to meet, friendly and otherwise."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

FORM: Final = """<title>A form</title><h1>Order</h1>
<form action="/done"><label>Name <input name="name"></label>
<input name="mail" placeholder="Enter mail" value="old">
<select name="size" aria-label="Size"><option value="s">Small<option value="l">Large</select>
<label><input type="checkbox" name="gift"> Gift</label>
<button>Send</button></form>
<button onclick="said.textContent = 'Pressed ' + (++n)">Press</button><p id="said"></p>
<div ondblclick="said.textContent='twice'" style="cursor:pointer">Double</div>
<div onmouseover="said.textContent='over'" style="cursor:pointer">Hover here</div>
<script>let n = 0; const said = document.getElementById('said')</script>"""

PAGES: Final[dict[str, str]] = {
    "/": "<title>Home</title><h1>Welcome</h1><p>Read the <a href='/next'>next page</a>.</p>"
    "<ul><li>one<li>two</ul><script>nothing</script><p hidden>secret</p>",
    "/next": "<title>Next</title><h1>Next page</h1>",
    "/form": FORM,
    "/frames": "<title>Frames</title><h1>Outside</h1><iframe src='/inner'></iframe>"
    "<iframe src='//localhost:{port}/inner'></iframe>",
    "/inner": "<button onclick=\"this.textContent='Pressed'\">Inner</button>"
    "<iframe srcdoc='<p>Innermost</p>'></iframe>",
    "/shadow": "<title>Shadow</title><x-card>light</x-card><script>"
    "customElements.define('x-card', class extends HTMLElement { constructor() { super();"
    "this.attachShadow({ mode: 'open' }).innerHTML = '<slot></slot><button>In the dark</button>';"
    "this.shadowRoot.querySelector('button').onclick = e => e.target.textContent = 'Found' } })"
    "</script>",
    "/dialogs": "<title>Dialogs</title><button onclick=\"alert('Mind this')\">Alert</button>"
    "<button onclick=\"out.textContent = confirm('Sure?')\">Confirm</button>"
    "<button onclick=\"out.textContent = prompt('Who?', 'nobody')\">Prompt</button>"
    "<p id='out'></p>",
    "/upload": "<title>Upload</title><input type='file' onchange=\"this.files[0].text()"
    '.then(t => out.textContent = t)"><button onclick=\'document.querySelector("input").click()\'>'
    "Pick</button><p id='out'></p>",
    "/tabs": "<title>Tabs</title><a href='/next' target='_blank'>Open</a>",
    "/spinner": "<title>Spinner</title><h1>Loads for ever</h1><img src='/never'>",
    "/stuck": "<title>Stuck</title><button onclick='for (;;);'>Hang</button>",
    "/drag": "<title>Drag</title><div draggable='true' style='cursor:pointer'>Thing</div>"
    "<div style='cursor:pointer' ondragover='event.preventDefault()'"
    " ondrop=\"this.textContent='Dropped'\">Target</div>",
    "/tall": "<title>Tall</title><div style='height:5000px'>top</div><button>Below</button>",
    "/late": "<title>Late</title><button onclick=\"fetch('/slow').then(r => r.text())"
    ".then(t => out.textContent = t)\">Load</button><p id='out'></p>",
}


class PageServer:
    """Serves until closed. `asked` has every path that was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.news = threading.Condition()
        self.released = threading.Event()
        pages = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with pages.news:
                    pages.asked.append(self.path)
                    pages.news.notify_all()
                pages.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.pages = dict(PAGES)
        self.scripts: dict[str, str] = {}
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_for(self, path: str, times: int, timeout: float) -> bool:
        """Blocks until the page has been asked for that often; False if it was not in time."""

        def enough() -> bool:
            return sum(urlsplit(each).path == path for each in self.asked) >= times

        with self.news:
            return self.news.wait_for(enough, timeout)

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(to.path)
        if parts.path == "/never":
            self.released.wait()
        elif parts.path == "/redirect":
            to.send_response(302)
            to.send_header("Location", parse_qs(parts.query)["to"][0])
            to.end_headers()
        elif parts.path == "/file":
            send(to, b"the data", "application/octet-stream", 'attachment; filename="../a b.bin"')
        elif parts.path == "/done":
            send(to, f"<title>Done</title><p>{parts.query}</p>".encode())
        elif parts.path == "/slow":
            self.released.wait(0.3)
            send(to, b"arrived", "text/plain")
        elif parts.path == "/big":
            row = "<p>Row {} with <a href='/{}'>a link</a> and words enough to fill a line</p>"
            send(
                to, ("<title>Big</title>" + "".join(map(row.format, *[range(70_000)] * 2))).encode()
            )
        elif parts.path in self.scripts:
            send(to, self.scripts[parts.path].encode(), "text/javascript")
        elif parts.path in self.pages:
            send(to, self.pages[parts.path].replace("{port}", str(self.port)).encode())
        else:
            to.send_error(404)

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def send(
    to: BaseHTTPRequestHandler, body: bytes, kind: str = "text/html", disposition: str = ""
) -> None:
    to.send_response(200)
    to.send_header("Content-Type", kind)
    to.send_header("Content-Length", str(len(body)))
    if disposition:
        to.send_header("Content-Disposition", disposition)
    to.end_headers()
    to.wfile.write(body)


@contextmanager
def serving_pages() -> Iterator[PageServer]:
    server = PageServer()
    try:
        yield server
    finally:
        server.close()
