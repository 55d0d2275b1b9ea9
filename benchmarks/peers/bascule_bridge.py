"""Ours from a script to a window's run bridge and back, beside a bare WebSocket echo.

The server is the extension's own, in plain Node: what VS Code would take is not measured. The echo
is the same library in the same process, asked by the same client library, with messages as long.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

from websockets.sync.client import connect

import bascule
from bascule.bridge import BridgeClient, Endpoint, RunTransport
from benchmarks.peers.measurements import percentile
from benchmarks.peers.serve import respond
from benchmarks.peers.subject import Refused

ROOT = Path(__file__).parents[2]
PARAMS = {"message": "What is 2+2?"}
ANSWER = '{"id":"00000000-1","success":true,"result":{"message":"What is 2+2?"}}'
WARMUP = 200


class BasculeBridge:
    """The question the bridge case asks. Node runs from the first one on."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._bridge: BridgeClient | None = None
        self._echo: Any = None

    async def start(self) -> None:
        """There is nothing to start: it would be in the way of other cases."""

    async def stop(self) -> None:
        self._stack.close()

    async def hello(self) -> dict[str, Any]:
        versions = {"bascule": bascule.__version__}
        return {"pid": os.getpid(), "versions": versions, "server_pid": None}

    async def round_trips(self, pieces: int, each: int) -> dict[str, Any]:
        """Both ways by turns: `each` times in each piece. In a thread, as a script is."""
        return await asyncio.to_thread(self._round_trips, pieces, each)

    def _round_trips(self, pieces: int, each: int) -> dict[str, Any]:
        if self._bridge is None:
            self._open()
        ways: dict[str, Callable[[], bool]] = {"echo": self._echoed, "bridge": self._asked}
        for way in ways.values():
            _timed(way, WARMUP)
        times: dict[str, list[float]] = {name: [] for name in ways}
        wrong = 0
        for _ in range(pieces):
            for name, way in ways.items():
                seconds, failed = _timed(way, each)
                times[name] += seconds
                wrong += failed
        medians = {name: statistics.median(all_) for name, all_ in times.items()}
        worst = {f"{name}_p95": percentile(all_, 95) for name, all_ in times.items()}
        return {**medians, **worst, "wrong": wrong}

    def _asked(self) -> bool:
        assert self._bridge is not None
        return bool(self._bridge.request("bridge/ping", PARAMS) == PARAMS)

    def _echoed(self) -> bool:
        self._echo.send(ANSWER)
        return bool(self._echo.recv() == ANSWER)

    def _open(self) -> None:
        told = self._serve()
        address, token = (told[f"EVOLVE_RUN_BRIDGE_{name}"] for name in ("ADDR", "TOKEN"))
        self._bridge = BridgeClient(RunTransport(Endpoint(address, token)))
        self._stack.callback(self._bridge.close)
        self._echo = self._stack.enter_context(connect(told["echo"], compression=None, proxy=None))

    def _serve(self) -> dict[str, str]:
        modules = ROOT / "extension" / "node_modules"
        if not (modules / ".bin/esbuild").exists():
            raise Refused("the extension's tools are not installed (scripts/node_modules)")
        bundle = Path(self._stack.enter_context(tempfile.TemporaryDirectory()), "server.js")
        source = Path(__file__).with_name("bridge_server.ts")
        flags = ("--bundle", "--platform=node", "--target=node20", "--log-level=error")
        subprocess.run(
            [modules / ".bin/esbuild", source, *flags, f"--outfile={bundle}"],
            env={**os.environ, "NODE_PATH": str(modules)},
            check=True,
        )
        server = subprocess.Popen(
            ["node", bundle], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._stack.callback(_end, server)
        assert server.stdout is not None
        told: dict[str, str] = json.loads(server.stdout.readline())
        return told


def _timed(way: Callable[[], bool], count: int) -> tuple[list[float], int]:
    seconds, wrong = [], 0
    for _ in range(count):
        began = perf_counter()
        is_right = way()
        seconds.append(perf_counter() - began)
        wrong += not is_right
    return seconds, wrong


def _end(server: subprocess.Popen[str]) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.close()
    server.stdout.close()
    server.wait(10)


if __name__ == "__main__":
    respond(BasculeBridge())
