"""Serves OpenHands V0's remote runtime API with OpenHands' own action server, for a comparison with
the hub. `scripts/openhands_tests --own` starts it.

The command of each start request runs unchanged, except for the port, in a directory tree that
`scripts/openhands_place` makes to look like OpenHands' image.

    python openhands_own.py ENVIRONMENT DIRECTORY     prints the URL it serves
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MAKE_PLACE = Path(__file__).with_name("openhands_place")
PORT_AFTER = "openhands.runtime.action_execution_server"


class Runtimes:
    """The action servers that were started, by the session ids of their clients."""

    def __init__(self, environment: Path, place: Path) -> None:
        self._environment = environment
        self._place = place
        self._base = Path(os.path.realpath(environment / "bin/python")).parent.parent
        self._servers: dict[str, tuple[subprocess.Popen[bytes], int]] = {}

    def start(self, asked: dict[str, Any]) -> dict[str, str]:
        name = asked["session_id"]
        port = _free_port()
        command = [str(word) for word in asked["command"]]
        command[command.index(PORT_AFTER) + 1] = str(port)
        new = self._place / name
        new.mkdir()
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", str(MAKE_PLACE)]
        words += [str(new), str(self._environment), str(self._base), *command]
        given = {str(key): str(value) for key, value in asked.get("environment", {}).items()}
        own = {
            "PATH": os.defpath + ":/usr/sbin:/sbin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # otherwise it downloads a list of prices
        }
        with (self._place / f"{name}.log").open("wb") as log:
            log.write(shlex.join(command).encode() + b"\n")
            log.flush()
            process = subprocess.Popen(
                words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**own, **given}
            )
        self._servers[name] = process, port
        return self.shown(name)

    def shown(self, name: str) -> dict[str, str]:
        process, port = self._servers[name]
        state = "failed" if process.poll() is not None else "ready" if _answers(port) else "pending"
        url = f"http://127.0.0.1:{port}"
        return {"runtime_id": name, "url": url, "status": "running", "pod_status": state}

    def stop(self, name: str) -> dict[str, str]:
        process, _ = self._servers.pop(name)
        process.kill()  # ends every process of its PID namespace
        process.wait()
        shutil.rmtree(self._place / name)
        return {"runtime_id": name}

    def stop_all(self) -> None:
        for name in list(self._servers):
            self.stop(name)


def handler(runtimes: Runtimes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            word, _, rest = self.path.strip("/").partition("/")
            if word in ("sessions", "runtime"):
                self._answer(runtimes.shown, rest)
            else:
                self._reply(404, {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            word = self.path.strip("/")
            if word == "start":
                self._answer(runtimes.start, body)
            elif word == "stop":
                self._answer(runtimes.stop, body["runtime_id"])
            else:
                self._reply(404, {})

        def _answer(self, what: Any, asked: Any) -> None:
            try:
                self._reply(200, what(asked))
            except KeyError:
                self._reply(404, {"detail": "no such runtime"})

        def _reply(self, status: int, answer: dict[str, str]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing; the test report has the results."""

    return Handler


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main(environment: str, place: str) -> None:
    runtimes = Runtimes(Path(environment), Path(place))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(runtimes))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    try:
        server.serve_forever()
    finally:
        runtimes.stop_all()


if __name__ == "__main__":
    main(*sys.argv[1:])
