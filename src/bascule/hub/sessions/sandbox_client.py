"""The hub's client for a session's sandbox, over the sandbox's unix socket on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, MessageTooLarge, RemoteError
from bascule.link.http import HttpClient, StreamedReply, target
from bascule.link.sse import EventReader
from bascule.runtime.remote import RemoteRuntime
from bascule.wire import error_from_wire, from_json, to_json

from .sandbox_messages import (
    CellEndMessage,
    CodeContextList,
    CodeContextMessage,
    FileChangeMessage,
    FileEntryList,
    FileEntryMessage,
    FileNames,
    MergeResults,
    Port,
    PortList,
    RuleUse,
    RuleUses,
    RuleVerdict,
    SandboxActivity,
    SandboxEntry,
    SandboxInfo,
    TerminalOutput,
    TerminalState,
    TimelineBegin,
    TimelinePosition,
    WorkspaceState,
    parse_event,
    parse_message,
)

_BASE_URL: Final = "http://localhost"
_TIMEOUT: Final = 30.0
_MAX_ANSWER_BYTES: Final = 1 << 20
"""Maximum bytes of an answer or event. Answers of a real sandbox are far smaller."""
_MAX_MERGE_BYTES: Final = 64 << 20
"""Maximum bytes of the results of a merge, which has one result for each path."""
_MAX_LISTING_BYTES: Final = 8 << 20
"""Maximum bytes of a listing of files with their properties."""
_JSON_HEADERS: Final = {"Content-Type": "application/json"}
_BINARY_HEADERS: Final = {"Content-Type": "application/octet-stream"}


@dataclass(frozen=True, slots=True)
class SandboxDownload:
    """A file or directory being downloaded from a session."""

    size: int | None
    """Number of bytes; None: unknown."""
    is_zip: bool
    chunks: AsyncGenerator[bytes, None]


class SandboxClient(Closable):
    """Calls the sandbox at `socket`: actions through `runtime`, everything else at `/session/…`.

    The server there runs as `uid`, but may be another program of the session. So the client limits
    observations to `max_reply` bytes and validates all other answers.
    """

    def __init__(self, socket: Path, key: str, *, uid: int | None, max_reply: int) -> None:
        name = f"The sandbox of session {socket.parent.name}"
        self.runtime = RemoteRuntime(
            _BASE_URL, key, socket_path=socket, socket_uid=uid, max_reply=max_reply, name=name
        )
        self._http = HttpClient(
            _BASE_URL,
            headers={"X-Session-API-Key": key},
            socket_path=socket,
            socket_uid=uid,
            max_reply=_MAX_ANSWER_BYTES,
            name=name,
        )
        self._max_event = max_reply + _MAX_ANSWER_BYTES

    async def aclose(self) -> None:
        await self.runtime.aclose()
        await self._http.aclose()

    async def workspace(self) -> WorkspaceState:
        return parse_message(WorkspaceState, await self._request("GET", "/session/workspace"))

    async def clone(
        self, url: str, ref: str, credential: Mapping[str, str] | None, *, timeout: float
    ) -> None:
        body = {"kind": "git", "url": url, "ref": ref, "timeout": timeout}
        if credential:
            body["credential"] = dict(credential)
        await self._request(
            "POST", "/session/workspace", to_json(body), _JSON_HEADERS, timeout=None
        )

    async def unpack(self, archive: AsyncIterable[bytes]) -> None:
        await self._request("POST", "/session/workspace", archive, _BINARY_HEADERS, timeout=None)

    async def merge(
        self, changes: AsyncIterable[bytes], *, title: str, dry_run: bool
    ) -> MergeResults:
        """Merge the changes of a fork, encoded by `encode_changes`, into the workspace."""
        path = target("/session/changes", title=title, dry_run=int(dry_run))
        async with self._http.stream("POST", path, body=changes, headers=_BINARY_HEADERS) as reply:
            body = await _read_at_most(reply, _MAX_MERGE_BYTES)
        return await asyncio.to_thread(
            lambda: parse_message(MergeResults, _decode_answer(reply.status, body))
        )

    async def ports(self) -> Sequence[Port]:
        return parse_message(PortList, await self._request("GET", "/session/ports")).ports

    async def declared_ports(self) -> Mapping[int, int]:
        """Port numbers of apps whose addresses are fixed in advance, by app number."""
        answer = parse_message(PortList, await self._request("GET", "/session/ports"))
        return {each.n: each.port for each in answer.declared}

    async def activity(self) -> SandboxActivity:
        return parse_message(SandboxActivity, await self._request("GET", "/session/activity"))

    async def start_vscode(self, *, window: bool, timeout: float) -> None:
        """Start VS Code. `window`: also open a headless window."""
        body = to_json({"window": window})
        await self._request("POST", "/session/vscode", body, _JSON_HEADERS, timeout=timeout)

    async def stop_vscode(self) -> None:
        """Stop VS Code. Unsaved text is kept and restored by the next start."""
        await self._request("DELETE", "/session/vscode")

    async def set_rules(self, rules: Mapping[str, Any] | None) -> None:
        """Make the sandbox decide on commands by `rules` from now on; None: everything runs."""
        await self._request("PUT", "/session/rules", to_json(rules), _JSON_HEADERS)

    async def judge(self, command: str, cwd: str) -> RuleVerdict:
        """What the rules say about a command that a program in the sandbox runs."""
        body = to_json({"command": command, "cwd": cwd})
        answer = await self._request("POST", "/session/rules/verdict", body, _JSON_HEADERS)
        return parse_message(RuleVerdict, answer)

    async def rule_uses(self) -> Sequence[RuleUse]:
        """What the rules for commands decided since the sandbox started."""
        return parse_message(RuleUses, await self._request("GET", "/session/rules")).rules

    async def answer_question(self, question: Mapping[str, Any], answer: str) -> None:
        """Answer a question of the sandbox. Raises `AlreadyAnswered` if it is no longer asked."""
        message = {"answer": answer, "cause": question["cause"], "digest": question["digest"]}
        path = target(f"/session/approvals/{question['id']}")
        await self._request("POST", path, to_json(message), _JSON_HEADERS)

    async def events(self) -> AsyncIterator[tuple[str, Mapping[str, Any]]]:
        """Events of the sandbox until it ends. Skips kinds of events that the hub does not know."""
        async with self._http.stream("GET", "/session/events") as reply:
            if reply.status != 200:
                _decode_answer(reply.status, await reply.read())
            reader = EventReader(limit=_MAX_ANSWER_BYTES)
            async for chunk in reply.chunks():
                for event in reader.feed(chunk):
                    data = parse_event(event.name, from_json(event.data))
                    if data is not None:
                        yield event.name, data

    async def timeline(
        self, *, after: int, epoch: str, output: bool
    ) -> AsyncGenerator[tuple[TimelineBegin, list[SandboxEntry]], None]:
        """Entries of the sandbox's timeline in batches, each batch with the `TimelineBegin` of its
        epoch.

        With `output`, also the output of running commands. Raises `MessageTooLarge` in place of an
        entry larger than an observation may be.
        """
        path = target("/session/timeline", after=after, epoch=epoch, output=int(output))
        async with self._http.stream("GET", path) as reply:
            if reply.status != 200:
                _decode_answer(reply.status, await reply.read())
            reader, begin = EventReader(limit=self._max_event), TimelineBegin()
            async for chunk in reply.chunks():
                entries: list[SandboxEntry] = []
                too_large: MessageTooLarge | None = None
                try:
                    for event in reader.feed(chunk):
                        if event.name == "begin":
                            begin = parse_message(TimelineBegin, from_json(event.data))
                            yield begin, []
                        elif event.name == "entry":
                            entries.append(parse_message(SandboxEntry, from_json(event.data)))
                except MessageTooLarge as error:
                    too_large = error
                if entries:
                    yield begin, entries
                if too_large is not None:
                    raise too_large

    async def timeline_last(self) -> TimelinePosition:
        """The newest position in the timeline; every answered action is at or before it."""
        return parse_message(TimelinePosition, await self._request("GET", "/session/timeline/last"))

    # Files ----------------------------------------------------------------------------------

    async def list_files(self, path: str) -> Sequence[str]:
        """Names in a directory; directories end with a slash. An empty path is the workspace."""
        found = await self._request("POST", "/list_files", to_json({"path": path}), _JSON_HEADERS)
        return parse_message(FileNames, {"names": found}).names

    async def workspace_dir(self) -> str:
        return parse_message(SandboxInfo, await self._request("GET", "/capabilities")).working_dir

    @asynccontextmanager
    async def download(self, path: str) -> AsyncIterator[SandboxDownload]:
        """Download a file as it is, or a directory as a zip."""
        async with self._http.stream("GET", target("/download_files", path=path, raw=1)) as reply:
            if reply.status != 200:
                _decode_answer(reply.status, await reply.read())
            size = reply.headers.get("content-length", "")
            is_zip = reply.headers.get("content-type") == "application/zip"
            yield SandboxDownload(int(size) if size.isdecimal() else None, is_zip, reply.chunks())

    async def entry(self, path: str) -> FileEntryMessage:
        """The file or directory at an absolute path."""
        return parse_message(
            FileEntryMessage, await self._request("GET", target("/filesystem/entry", path=path))
        )

    async def entries(self, path: str, *, depth: int) -> Sequence[FileEntryMessage]:
        """The entries of a directory, and of those in it up to `depth` levels."""
        where = target("/filesystem/entries", path=path, depth=depth)
        async with self._http.stream("GET", where, timeout=_TIMEOUT) as reply:
            body = await _read_at_most(reply, _MAX_LISTING_BYTES)
        return await asyncio.to_thread(
            lambda: parse_message(FileEntryList, _decode_answer(reply.status, body)).entries
        )

    async def move_file(self, source: str, destination: str) -> FileEntryMessage:
        body = to_json({"source": source, "destination": destination})
        answer = await self._request("POST", "/filesystem/move", body, _JSON_HEADERS)
        return parse_message(FileEntryMessage, answer)

    async def write_file(self, path: str, content: AsyncIterable[bytes]) -> FileEntryMessage:
        """Replace or create a file. If `content` raises an error, the file stays as it was."""
        where = target("/filesystem/file", path=path)
        answer = await self._request("POST", where, content, _BINARY_HEADERS, timeout=None)
        return parse_message(FileEntryMessage, answer)

    async def watch_files(
        self, path: str, *, recursive: bool
    ) -> AsyncGenerator[FileChangeMessage | None, None]:
        """Changes in a directory. The first item is None, once the directory is watched; None again
        when nothing changes."""
        where = target("/filesystem/watch", path=path, recursive=int(recursive))
        async with self._http.stream("GET", where, timeout=_TIMEOUT) as reply:
            if reply.status != 200:
                _decode_answer(reply.status, await reply.read())
            rest = b""
            async for chunk in reply.chunks():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield _change(line)
                if len(rest) > _MAX_ANSWER_BYTES:
                    raise MessageTooLarge("The sandbox answered with too long a line")

    # Contexts -------------------------------------------------------------------------------

    async def create_context(self, cwd: str, context_id: str = "") -> CodeContextMessage:
        """A new kernel, which starts in an existing directory, or the existing one with this id."""
        body = to_json({"cwd": cwd, "id": context_id})
        answer = await self._request("POST", "/contexts", body, _JSON_HEADERS)
        return parse_message(CodeContextMessage, answer)

    async def contexts(self) -> Sequence[CodeContextMessage]:
        return parse_message(CodeContextList, await self._request("GET", "/contexts")).contexts

    async def restart_context(self, context_id: str) -> None:
        await self._request("POST", target(f"/contexts/{quote(context_id, safe='')}/restart"))

    async def remove_context(self, context_id: str) -> None:
        await self._request("DELETE", target(f"/contexts/{quote(context_id, safe='')}"))

    async def run_in_context(
        self, context_id: str, code: str, *, timeout: float | None
    ) -> AsyncGenerator[Mapping[str, Any] | CellEndMessage, None]:
        """The rich results of a cell as they arrive, and its end."""
        body = to_json({"code": code, "timeout": timeout})
        path = f"/contexts/{quote(context_id, safe='')}/execute"
        async with self._http.stream("POST", path, body=body, headers=_JSON_HEADERS) as reply:
            if reply.status != 200:
                _decode_answer(reply.status, await reply.read())
            rest = bytearray()
            async for chunk in reply.chunks():
                rest += chunk
                while (end := rest.find(b"\n")) >= 0:
                    line = from_json(bytes(rest[:end]))
                    del rest[: end + 1]
                    if isinstance(line, dict) and isinstance(line.get("output"), dict):
                        yield line["output"]
                    elif isinstance(line, dict) and "end" in line:
                        yield parse_message(CellEndMessage, line["end"])
                if len(rest) > self._max_event:
                    raise MessageTooLarge(f"A result is larger than {self._max_event} bytes")

    # Terminals ------------------------------------------------------------------------------

    async def open_terminal(self, name: str, *, columns: int, rows: int) -> Mapping[str, Any]:
        body = to_json({"columns": columns, "rows": rows})
        return parse_message(
            TerminalState, await self._request("POST", _terminal_path(name), body, _JSON_HEADERS)
        ).model_dump()

    async def type(self, name: str, keys: Mapping[str, Any]) -> None:
        await self._request("POST", f"{_terminal_path(name)}/keys", to_json(keys), _JSON_HEADERS)

    async def close_terminal(self, name: str) -> None:
        await self._request("DELETE", _terminal_path(name))

    async def terminal_output(
        self, name: str, *, start: int
    ) -> AsyncGenerator[tuple[str, Mapping[str, Any]], None]:
        """Frames of a terminal's output as they arrive."""
        path = target(f"{_terminal_path(name)}/output", start=start)
        async with self._http.stream("GET", path) as reply:
            if reply.status != 200:
                _decode_answer(reply.status, await reply.read())
            reader = EventReader(limit=_MAX_ANSWER_BYTES)
            async for chunk in reply.chunks():
                for event in reader.feed(chunk):
                    if event.name == "output":
                        yield (
                            event.name,
                            parse_message(TerminalOutput, from_json(event.data)).model_dump(),
                        )
                    elif event.name == "ended":
                        yield event.name, {}

    async def _request(
        self,
        method: str,
        path: str,
        body: bytes | AsyncIterable[bytes] = b"",
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float | None = _TIMEOUT,
    ) -> Any:
        reply = await self._http.request(method, path, body=body, headers=headers, timeout=timeout)
        return _decode_answer(reply.status, reply.body)


async def _read_at_most(reply: StreamedReply, limit: int) -> bytes:
    body = bytearray()
    async for chunk in reply.chunks():
        body += chunk
        if len(body) > limit:
            raise MessageTooLarge(f"The sandbox answered with more than {limit} bytes")
    return bytes(body)


def _change(line: bytes) -> FileChangeMessage | None:
    value = from_json(line)
    if isinstance(value, dict) and isinstance(value.get("error"), dict):
        raise error_from_wire(value["error"])
    return parse_message(FileChangeMessage, value) if value else None


def _terminal_path(name: str) -> str:
    return f"/session/terminals/{name}"


def _decode_answer(status: int, body: bytes) -> Any:
    try:
        answer = from_json(body)
    except BasculeError:
        answer = None
    if status == 200:
        return answer
    if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
        raise error_from_wire(answer["error"])
    raise RemoteError(f"The sandbox answered with HTTP {status}", remote_code=f"http.{status}")
