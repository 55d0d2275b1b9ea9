"""Lookups by Python's language server, as actions of a sandbox or by a bare client."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from time import perf_counter
from typing import Any

import bascule
from bascule.runtime import LocalRuntime
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from benchmarks.peers.serve import respond

_FILES = {
    "shapes.py": (
        "class Square:\n    side = 1\n\n\ndef total(shapes: list[Square]) -> float:\n"
        "    return sum(shape.side for shape in shapes)\n"
    ),
    "report.py": "from shapes import Square, total\n\nprint(total([Square()]))\n",
}
_LINE, _COLUMN = 4, 4
"""Where `total` is declared, counted from 0."""
NAMES = ("definition", "references", "hover", "workspace_symbols", "call_hierarchy")


class LanguageSubject(ABC):
    """Answers the harness; a client says how it asks."""

    async def start(self) -> None:  # noqa: B027
        """Nothing runs before the first question."""

    async def stop(self) -> None:
        await self.close()

    async def hello(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "versions": {"bascule": bascule.__version__}}

    async def language(self, servers: str, count: int) -> dict[str, Any]:
        """Median seconds of each lookup, by turns. The server is started before."""
        folder = Path.cwd() / "python"
        if not folder.exists():
            folder.mkdir()
            for name, text in _FILES.items():
                (folder / name).write_text(text)
            await self.open(folder, servers)
        for name in NAMES:
            await self.ask(name)
        taken: dict[str, list[float]] = {name: [] for name in NAMES}
        for _ in range(count):
            for name in NAMES:
                began = perf_counter()
                found = await self.ask(name)
                taken[name].append(perf_counter() - began)
                if not found:
                    raise RuntimeError(f"no answer to {name}")
        return {name: statistics.median(times) for name, times in taken.items()}

    @abstractmethod
    async def open(self, folder: Path, servers: str) -> None:
        """Start the language server of the directory `servers` for the project in `folder`."""

    @abstractmethod
    async def ask(self, name: str) -> bool:
        """Whether there was an answer."""

    @abstractmethod
    async def close(self) -> None:
        """End what `open` started."""


class BasculeLanguage(LanguageSubject):
    _runtime: LocalRuntime | None = None

    async def open(self, folder: Path, servers: str) -> None:
        env = {**os.environ, "PATH": f"{servers}:{os.environ['PATH']}"}
        shells = ShellSettings(working_dir=folder, env=env)
        self._runtime = LocalRuntime(settings=SandboxSettings(shells=shells, roots=(folder,)))
        await self._runtime.connect()

    async def ask(self, name: str) -> bool:
        assert self._runtime is not None
        if name == "workspace_symbols":
            seen = await self._runtime.workspace_symbols("total", path="shapes.py")
        else:
            seen = await getattr(self._runtime, name)("shapes.py", _LINE + 1, "total")
        return bool(seen.items)

    async def close(self) -> None:
        if self._runtime is not None:
            await self._runtime.aclose()


class BareLanguage(LanguageSubject):
    """A pipe to the server, and nothing between it and the clock but JSON."""

    _process: asyncio.subprocess.Process | None = None
    _folder: Path
    _number = 0

    async def open(self, folder: Path, servers: str) -> None:
        self._folder = folder
        self._process = await asyncio.create_subprocess_exec(
            *(f"{servers}/basedpyright-langserver", "--stdio"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        root = {"uri": folder.as_uri(), "name": "python"}
        await self._request(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": root["uri"],
                "workspaceFolders": [root],
                "capabilities": {},
            },
        )
        self._send({"method": "initialized", "params": {}})
        item = {"uri": self._uri, "languageId": "python", "version": 1}
        text = _FILES["shapes.py"]
        self._send(
            {"method": "textDocument/didOpen", "params": {"textDocument": {**item, "text": text}}}
        )

    @property
    def _uri(self) -> str:
        return (self._folder / "shapes.py").as_uri()

    async def ask(self, name: str) -> bool:
        at = {
            "textDocument": {"uri": self._uri},
            "position": {"line": _LINE, "character": _COLUMN + 1},
        }
        if name == "workspace_symbols":
            return bool(await self._request("workspace/symbol", {"query": "total"}))
        if name == "call_hierarchy":
            (item, *_) = await self._request("textDocument/prepareCallHierarchy", at)
            return bool(await self._request("callHierarchy/incomingCalls", {"item": item}))
        context = {"context": {"includeDeclaration": True}} if name == "references" else {}
        return bool(await self._request(f"textDocument/{name}", {**at, **context}))

    async def close(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _request(self, method: str, params: object) -> Any:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while True:
            message = await self._receive()
            if "method" in message and "id" in message:  # such as a request for settings
                items = (message.get("params") or {}).get("items", [])
                self._send({"id": message["id"], "result": [None for _ in items]})
            elif message.get("id") == self._number:
                return message["result"]

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def _receive(self) -> dict[str, Any]:
        assert self._process is not None
        stdout = self._process.stdout
        assert stdout is not None
        head = await stdout.readuntil(b"\r\n\r\n")
        lines = [line for line in head.decode().split("\r\n") if line.startswith("Content-Length")]
        body: dict[str, Any] = json.loads(await stdout.readexactly(int(lines[0].split(":")[1])))
        return body


if __name__ == "__main__":
    respond(BasculeLanguage() if sys.argv[1] == "bascule" else BareLanguage())
