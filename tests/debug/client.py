"""An editor's end of a debug session. Every message it gets is held against the protocol."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jsonschema

from bascule.wire.dap import Decoder, encode

TIMEOUT = 60.0
ADAPTER = (sys.executable, "-m", "bascule", "debug-adapter")
OURS = ("customRequest",)
"""Events the protocol does not know."""


class Refused(Exception):
    """A request was answered with success: false."""


@cache
def _schema() -> dict[str, Any]:
    found = importlib.util.find_spec("debugpy")
    assert found is not None
    assert found.origin is not None
    bundle = Path(found.origin).parent / "_vendored/pydevd/_pydevd_bundle/_debug_adapter"
    schema: dict[str, Any] = json.loads((bundle / "debugProtocol.json").read_text())
    return schema


@cache
def _validator(definition: str) -> jsonschema.Draft4Validator:
    schema = _schema()
    assert definition in schema["definitions"], f"the protocol has no {definition}"
    return jsonschema.Draft4Validator(
        {"$ref": f"#/definitions/{definition}", "definitions": schema["definitions"]}
    )


def validate(message: Mapping[str, Any]) -> None:
    if message["type"] == "event":
        name = message["event"]
        definition = "Event" if name in OURS else name[0].upper() + name[1:] + "Event"
    elif not message["success"]:
        definition = "ErrorResponse"
    else:
        name = message["command"]
        definition = name[0].upper() + name[1:] + "Response"
        if definition not in _schema()["definitions"]:
            definition = "Response"
    _validator(definition).validate(message)


class Editor:
    """Starts an adapter, asks it, and keeps what it says."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.output = ""
        self.on_event: Callable[[dict[str, Any]], None] | None = None
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._changed = asyncio.Condition()
        self._seen = 0
        self._seq = 0

    async def __aenter__(self) -> Self:
        self.process = await asyncio.create_subprocess_exec(
            *ADAPTER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            async with asyncio.timeout(TIMEOUT):
                await self.process.wait()
                await self._reading
        except TimeoutError:
            self.process.kill()
            raise

    async def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The body of the answer."""
        self._seq += 1
        message = {
            "seq": self._seq,
            "type": "request",
            "command": command,
            "arguments": arguments,
        }
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[self._seq] = answer
        assert self.process.stdin is not None
        self.process.stdin.write(encode(message))
        async with asyncio.timeout(TIMEOUT):
            told = await answer
        if not told["success"]:
            raise Refused(told["message"])
        return told.get("body") or {}

    async def event(self, name: str) -> dict[str, Any]:
        """The body of the next event of that name that was not asked for before."""
        async with asyncio.timeout(TIMEOUT), self._changed:
            while True:
                for spot in range(self._seen, len(self.events)):
                    if self.events[spot]["event"] == name:
                        self._seen = spot + 1
                        return self.events[spot].get("body") or {}
                await self._changed.wait()

    async def start(
        self, program: Path, *, breakpoints: list[dict[str, Any]] | None = None, **launch: Any
    ) -> list[dict[str, Any]]:
        """Do what an editor does until the net runs; returns what became of the breakpoints."""
        await self.request("initialize", adapterID="evolve", linesStartAt1=True)
        await self.event("initialized")
        launching = asyncio.create_task(self.request("launch", program=str(program), **launch))
        told = await self.request(
            "setBreakpoints", source={"path": str(program)}, breakpoints=breakpoints or []
        )
        await self.request("setExceptionBreakpoints", filters=["inscription"])
        await self.request("configurationDone")
        await launching
        return list(told["breakpoints"])

    async def stopped(self) -> tuple[str, str, int]:
        """Wait for a stop: its reason, the name of the top frame and its line."""
        stop = await self.event("stopped")
        top = (await self.frames())[0]
        return stop["reason"], top["name"], top["line"]

    async def frames(self) -> list[dict[str, Any]]:
        return list((await self.request("stackTrace", threadId=1))["stackFrames"])

    async def scope(self, name: str, frame: int = 0) -> dict[str, dict[str, Any]]:
        """The variables of a scope of a frame, by name."""
        frames = await self.frames()
        scopes = (await self.request("scopes", frameId=frames[frame]["id"]))["scopes"]
        found = next(each for each in scopes if each["name"] == name)
        return await self.children(found["variablesReference"])

    async def children(self, reference: int) -> dict[str, dict[str, Any]]:
        told = await self.request("variables", variablesReference=reference)
        return {each["name"]: {**each, "in": reference} for each in told["variables"]}

    async def end(self) -> int:
        """Wait for the end; returns the exit status."""
        status = await self.event("exited")
        await self.event("terminated")
        return int(status["exitCode"])

    async def _read(self) -> None:
        assert self.process.stdout is not None
        decoder = Decoder()
        while data := await self.process.stdout.read(1 << 16):
            for message in decoder.feed(data):
                validate(message)
                await self._take(message)

    async def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "response":
            self._answers.pop(message["request_seq"]).set_result(message)
            return
        if message["event"] == "output" and message["body"].get("category") != "console":
            self.output += message["body"]["output"]
        if self.on_event is not None:
            self.on_event(message)
        async with self._changed:
            self.events.append(message)
            self._changed.notify_all()
