"""What the command line prints of a session, a window or a file of somebody else moves no cursor
and hides no text."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import at_terminal, bascule, environment

pytestmark = pytest.mark.slow

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[1;31mX\x9b2J\u202e\u061c\u200f\u2028\r\x08"
HARMFUL = "\x1b\x9b\x07\x08\u202e\u061c\u200f\u2028"
SESSION = "a" * 25
NOW = "2026-01-01T00:00:00+00:00"
ROW: dict[str, Any] = {
    "id": SESSION,
    "name": ESCAPES,
    "state": "failed",
    "stage": ESCAPES,
    "cause": f"first{ESCAPES}\nsecond",
    "owner": ESCAPES,
    "created_by": ESCAPES,
    "created": NOW,
    "updated": NOW,
    "last_active": NOW,
    "workspace": {"kind": "git", "url": ESCAPES},
    "runtime": "sandbox",
    "shells": "pty",
    "spawner": "local",
    "image": ESCAPES,
    "limits": {"memory": None, "cpus": None, "processes": None},
    "egress": {"mode": "off", "domains": [ESCAPES]},
    "environment": [ESCAPES],
    "secrets": [ESCAPES],
    "vscode_url": "http://127.0.0.1/vscode/x/",
    "metadata": {},
}
WINDOW = {
    "window_id": "0" * 8 + "-0000-0000-0000-" + "0" * 12,
    "connection_id": "x",
    "name": ESCAPES,
    "folders": [{"name": ESCAPES, "path": f"/{ESCAPES}"}],
    "status": "healthy",
    "vscode_version": ESCAPES,
    "remote": "local",
    "capabilities": [],
    "session_id": "",
}
ANSWERS: dict[str, Any] = {
    "/api/sessions": [ROW, {**ROW, "id": "b" * 25, "owner": "other"}],
    f"/api/sessions/{SESSION}": ROW,
    f"/api/sessions/{SESSION}/ports": [{"n": 0, "port": 80, "command": ESCAPES, "url": "http://x"}],
    f"/api/sessions/{SESSION}/logs": {"text": f"said{ESCAPES}\nmore"},
    "/api/vscode/instances": [WINDOW],
}


class _Hub(BaseHTTPRequestHandler):
    """Answers as a hub would, with text of a hostile session in it."""

    def do_GET(self) -> None:
        self._answer(200, ANSWERS.get(self.path.partition("?")[0], {}))

    def do_POST(self) -> None:
        self._answer(409, {"code": "state.invalid", "message": f"no{ESCAPES}", "detail": {}})

    def _answer(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "words",
    [
        ("session", "list"),
        ("session", "show", SESSION),
        ("session", "logs", SESSION),
        ("session", "pause", SESSION),
        ("session", "list", "--json"),
        ("windows",),
        ("windows", "export", "none"),
    ],
    ids=" ".join,
)
def test_no_escape_sequence_of_a_session_reaches_the_terminal(
    hub: str, words: tuple[str, ...]
) -> None:
    env = environment(BASCULE_HUB=hub, BASCULE_TOKEN="x")
    done = bascule(*words, env=env)
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert "2J" in said or words[:2] == ("windows", "export"), said
    assert not set(HARMFUL) & set(said), said


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["for people", "json"])
def test_no_escape_sequence_of_a_recording_reaches_the_terminal(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """In a command, in what it printed then and prints now, in a path, and in a kind of event."""
    ran = {"metadata": {"exit_code": 1, "working_dir": f"/{ESCAPES}"}}
    run = {"command": f"printf %s '{ESCAPES}'  # {ESCAPES}"}
    long = {"command": f"printf '%s\\n' '{ESCAPES}' 2"}
    events = [
        {"id": 1, "action": "run", "args": run},
        {"id": 2, "cause": 1, "observation": "run", "content": f"was{ESCAPES}", "extras": ran},
        {"id": 3, "action": "run", "args": long},
        {"id": 4, "cause": 3, "observation": "run", "content": f"{ESCAPES}\n3\n", "extras": ran},
        {"id": 5, "action": "read", "args": {"path": f"/workspace/{ESCAPES}"}},
        {"id": 6, "cause": 5, "observation": "read", "content": ESCAPES, "extras": {}},
        {"id": 7, "action": ESCAPES, "args": {}},
    ]
    file = tmp_path / "did.json"
    file.write_text(json.dumps(events))
    done = bascule("replay", str(file), "--local", *words, env=environment())
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert done.returncode == 1, said
    assert said.count("2J") > 10, said
    assert not set(HARMFUL) & set(said), said


_NET = """
pnml:
  net:
    - id: NAME
      page:
        - id: main
          place:
            - {id: NAME, marking: 1}
            - {id: stuck}
          transition:
            - {id: NAME2, arcs: [{source: NAME}, {target: stuck}]}
            - {id: NAME3, arcs: [{source: NAME, weight: 9}, {target: stuck}]}
"""


@pytest.mark.parametrize(
    "words",
    [
        *(("net", "check"), ("net", "check", "--json"), ("net", "simulate"), ("run",)),
        *(("net", "simulate", "--json"), ("net", "explore"), ("net", "explore", "--json")),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("is_wrong", [False, True], ids=["right", "wrong"])
def test_no_escape_sequence_of_a_net_reaches_the_terminal(
    tmp_path: Path, words: tuple[str, ...], is_wrong: bool
) -> None:
    """At a terminal: elsewhere the library removes some of them."""
    text = _NET
    for name in ("NAME3", "NAME2", "NAME"):
        text = text.replace(name, json.dumps(ESCAPES + name[4:]))
    if is_wrong:
        text += f"            - {{id: x, arcs: [{{source: {json.dumps(ESCAPES + 'x')}}}]}}\n"
    file = tmp_path / "net.evolve.yaml"
    file.write_text(text)
    with at_terminal(*words, str(file), cwd=tmp_path, env=environment()) as terminal:
        status = terminal.status()
    said = terminal.seen
    assert (status == 2) is is_wrong, said
    assert "Traceback" not in said
    assert "2J" in said or words[:2] == ("net", "check"), said
    assert not set(HARMFUL) & set(said.replace("\x1b[K", "")), said  # which removes a progress
