"""A worker for one proxy: a server behind it, clients before it, and what it costs between them.

The proxy has a core to itself; server and clients share another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from benchmarks import processes
from benchmarks.peers import load
from benchmarks.peers.serve import respond
from benchmarks.peers.subject import Refused

PATH = "/vscode/benchmark12345678"
TOKEN = "a-token-of-the-benchmark"

NGINX = """daemon off; worker_processes 1; error_log stderr; pid nginx.pid;
events {{ worker_connections 1024; }}
http {{
  access_log off; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t;
  uwsgi_temp_path t; scgi_temp_path t; keepalive_requests 100000000;
  map $http_upgrade $connection_header {{ default upgrade; "" ""; }}
  upstream target {{ server 127.0.0.1:{target}; keepalive 128; keepalive_requests 100000000; }}
  server {{ listen 127.0.0.1:{port};
    location {path}/ {{ proxy_pass http://target/; proxy_http_version 1.1;
      proxy_set_header Host $http_host; proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_header; proxy_buffer_size 64k;
      proxy_buffers 8 64k; proxy_busy_buffers_size 128k; proxy_max_temp_file_size 0; }} }}
}}
"""
CADDY = """{{
  admin off
  auto_https off
}}
:{port} {{
  bind 127.0.0.1
  handle_path {path}/* {{
    reverse_proxy 127.0.0.1:{target}
  }}
}}
"""


class Proxied:
    """Answers the questions of the proxy case."""

    def __init__(self, kind: str, *handed: str) -> None:
        self._kind = kind
        self._handed = handed
        self._process: subprocess.Popen[bytes] | None = None
        self._server: asyncio.Server | None = None
        self._port = _free_port()
        self._headers = (f"Authorization: Bearer {TOKEN}",) if kind == "bascule" else ()

    async def start(self) -> None:
        """Nothing yet: a proxy that idles would be in the way of other cases."""

    async def proxy_open(self) -> dict[str, Any]:
        if self._process is None:
            await self._open()
        return {}

    async def proxy_close(self) -> dict[str, Any]:
        await self.stop()
        return {}

    async def _open(self) -> None:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(load.Server, "127.0.0.1", 0)
        target = self._server.sockets[0].getsockname()[1]
        self._process = subprocess.Popen(
            self._command(target), stdin=subprocess.DEVNULL, stdout=sys.stderr
        )
        os.sched_setaffinity(self._process.pid, {0})
        await self._ready()

    async def hello(self) -> dict[str, Any]:
        return {"versions": self._version()}

    async def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, 5)
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._server is not None:
            self._server.close()

    async def proxy_load(self, kind: str, connections: int, seconds: float) -> dict[str, Any]:
        """Rate and processor time of small requests, large answers or WebSocket messages."""
        make, rate_unit, cpu_unit = {
            "small": (self._small, 1.0, 1e6),
            "bulk": (self._bulk, load.BULK_SIZE / (1 << 20), (1 << 30) / load.BULK_SIZE),
            "sockets": (self._socket, 1.0, 1e6),
        }[kind]
        seen = await self._measure(make, connections, seconds)
        return {**seen, "rate": seen["rate"] * rate_unit, "cpu": seen["cpu"] * cpu_unit}

    def _small(self, count: Callable[[], None]) -> load.Client:
        request = load.get(f"{PATH}/small", self._port, *self._headers)
        return load.Client(request, len(load.SMALL), count)

    def _bulk(self, count: Callable[[], None]) -> load.Client:
        request = load.get(f"{PATH}/bulk", self._port, *self._headers)
        return load.Client(request, load.BULK_SIZE, count)

    def _socket(self, count: Callable[[], None]) -> load.Client:
        request = load.handshake(f"{PATH}/socket", self._port, *self._headers)
        return load.SocketClient(request, 0, count)

    async def _measure(
        self, make: Callable[[Callable[[], None]], load.Client], connections: int, seconds: float
    ) -> dict[str, Any]:
        done = 0

        def count() -> None:
            nonlocal done
            done += 1

        loop = asyncio.get_running_loop()
        clients = []
        for _ in range(connections):
            _, client = await loop.create_connection(lambda: make(count), "127.0.0.1", self._port)
            clients.append(client)
        await asyncio.sleep(seconds / 4)  # until all are under way
        pids = self._pids()
        before, began, cpu = done, time.perf_counter(), processes.cpu_seconds(pids)
        await asyncio.sleep(seconds)
        took, spent = time.perf_counter() - began, processes.cpu_seconds(pids) - cpu
        answered = done - before
        lost = sum(client.lost.done() for client in clients)
        rss = processes.memory(pids).rss
        for client in clients:
            client.close()
        await asyncio.gather(*(client.lost for client in clients))
        if not answered:
            raise RuntimeError("nothing was answered")
        return {"rate": answered / took, "cpu": spent / answered, "lost": lost, "rss": rss}

    def _pids(self) -> frozenset[int]:
        assert self._process is not None
        return processes.family(self._process.pid, "no mark of ours")

    async def _ready(self) -> None:
        """Nobody tells when a proxy listens; it is asked until it does."""
        deadline = time.monotonic() + 20
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self._port)
            except OSError:
                assert self._process is not None
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return

    def _command(self, target: int) -> list[str]:
        values = {"target": target, "port": self._port, "path": PATH}
        here = Path.cwd()
        match self._kind:
            case "bascule":
                module = "benchmarks.peers.routed_hub"
                return [sys.executable, "-m", module, str(self._port), str(target), TOKEN, PATH]
            case "nginx":
                nginx = _found("nginx", "nginx-light")
                (here / "t").mkdir(exist_ok=True)
                (here / "nginx.conf").write_text(NGINX.format(**values))
                return [nginx, "-p", str(here), "-c", "nginx.conf", "-e", "stderr"]
            case "caddy":
                caddy = _found("caddy", "caddy")
                (here / "Caddyfile").write_text(CADDY.format(**values))
                return [
                    caddy,
                    "run",
                    "--adapter",
                    "caddyfile",
                    "--config",
                    str(here / "Caddyfile"),
                ]
            case _:
                if not self._handed:
                    raise Refused("configurable-http-proxy is not installed")
                flags = ["--ip", "127.0.0.1", "--port", str(self._port), "--api-port"]
                flags += [str(_free_port()), "--default-target", f"http://127.0.0.1:{target}"]
                return [*self._handed, *flags, "--log-level", "error"]

    def _version(self) -> dict[str, str]:
        match self._kind:
            case "nginx":
                return {"nginx": _said(_found("nginx", "nginx-light"), "-v").rpartition("/")[2]}
            case "caddy":
                return {"caddy": _said(_found("caddy", "caddy"), "version").split()[0]}
            case "chp":
                return {"configurable-http-proxy": _said(*self._handed, "--version")}
        return {}


def _found(program: str, package: str) -> str:
    path = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")
    if path is None:
        raise Refused(f"{program} is not installed (Debian: apt-get install {package})")
    return path


def _said(*command: str) -> str:
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return (told.stdout or told.stderr).strip()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


if __name__ == "__main__":
    respond(Proxied(*sys.argv[1:]), run=uvloop.run)
