"""A runtime for a remote sandbox, over HTTP."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote

from bascule.core.actions import Action
from bascule.core.contracts import LogMatch, OnProgress, OutputProgress
from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    InvalidAction,
    LinkError,
    LogRangeGone,
    NoSuchShell,
    RemoteError,
    SandboxDied,
    SandboxUnreachable,
    UnknownKind,
)
from bascule.core.identity import EventId
from bascule.core.observations import Observation
from bascule.core.programs import Program, ProgramHost, ProgramStatus, TerminalSize
from bascule.core.tracing import TRACEPARENT, TRACEPARENT_FIELD, Tracing
from bascule.link.http import HttpClient, StreamedReply, target
from bascule.link.sse import EventReader, ServerEvent
from bascule.sandbox.files.transfers import FileDownload
from bascule.sandbox.programs.program_request import ProgramRequest
from bascule.sandbox.server.download_chunks import pieces_of
from bascule.wire import (
    decode_observation,
    decode_progress,
    encode_action,
    error_from_wire,
    error_observation,
    from_json,
    parcel,
    to_json,
)
from bascule.wire.programs import STARTED_BY, decode_status

from .language_verbs import LanguageVerbs
from .remote_program import RemoteProgram, parsed
from .transfer import destination_of, pack, save
from .verbs import DEFAULT_TIMEOUT, prepared

DEFAULT_SHELL: Final = "main"
"""The shell of actions that name no shell."""

_GRACE_SECONDS: Final = 30.0
"""Seconds beyond an action's timeout after which the sandbox counts as lost."""
_QUICK_TIMEOUT: Final = 60.0
"""Timeout, in seconds, of requests that the sandbox answers at once."""
_START_TIMEOUT: Final = 900.0
"""Seconds for the start of a program, in which a person may be asked."""
_CANCEL_TIMEOUT: Final = 5.0
"""Seconds to wait until the sandbox has cancelled an action."""
_MAX_ENVELOPE_BYTES: Final = 1 << 20
"""Maximum bytes of an event besides its observation."""
_GONE_STATUSES: Final = frozenset({404, 502, 503, 504})
"""HTTP statuses for a sandbox that is gone or paused, in answers without one of our errors."""
_ACTION_HEADERS: Final = {"Content-Type": "application/json", "X-Bascule-Cancel": "interrupt"}
_RAW_BODY_HEADERS: Final = {"Content-Type": "application/octet-stream"}
_PLAIN_HEADERS: Final = {**_ACTION_HEADERS, "Accept": parcel.MEDIA_TYPE}
_EVENT_HEADERS: Final = {**_ACTION_HEADERS, "Accept": "text/event-stream"}


class RemoteRuntime(LanguageVerbs, ProgramHost):
    """Runs actions in the sandbox whose action server is at `url`.

    An action that was sent is never sent again. If the connection breaks, `SandboxUnreachable`
    says in its detail (`sent`) whether the sandbox may have executed the action. A cancelled `act`
    returns when the sandbox has ended the action, or if the sandbox does not answer. Closing leaves
    the sandbox as it is.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        default_timeout: float | None = DEFAULT_TIMEOUT,
        connect_timeout: float = 10.0,
        tls: ssl.SSLContext | None = None,
        socket_path: Path | None = None,
        socket_uid: int | None = None,
        max_reply: int = 1 << 30,
        name: str = "",
        tracing: Tracing | None = None,
    ) -> None:
        """`socket_path`: the unix socket of the server; `url` is then only a name.

        `socket_uid`: the user id that the server must have. `max_reply`: maximum bytes of an
        answer. `name`: the server's name in errors, instead of its address.
        `tracing`: makes a span of each action.
        """
        self._http = HttpClient(
            url,
            headers={"X-Session-API-Key": key},
            connect_timeout=connect_timeout,
            tls=tls,
            socket_path=socket_path,
            socket_uid=socket_uid,
            max_reply=max_reply,
            name=name,
        )
        self._tracing = tracing
        self._max_event = max_reply + _MAX_ENVELOPE_BYTES
        self.default_timeout = default_timeout
        self._capabilities: frozenset[str] = frozenset()

    @property
    def url(self) -> str:
        return self._http.url

    @property
    def capabilities(self) -> frozenset[str]:
        return self._capabilities

    async def connect(self) -> None:
        """Wait until the server listens, and check the key."""
        await self._http.wait_until_listening()
        answer = await self._request_json("GET", "/capabilities")
        if not isinstance(answer, dict) or not isinstance(answer.get("capabilities"), list):
            message = (
                f"{self.url} is not a Bascule action server: it does not list its capabilities"
            )
            raise RemoteError(message, remote_code="")
        self._capabilities = frozenset(answer["capabilities"])

    async def aclose(self) -> None:
        await self._http.aclose()

    async def act(self, action: Action, *, on_progress: OnProgress | None = None) -> Observation:
        try:
            action = prepared(action, self.default_timeout)
            event = encode_action(action)
        except BasculeError as error:
            return error_observation(error, action.id)
        return await self.send(action, event, on_progress=on_progress)

    async def send(
        self, action: Action, event: Mapping[str, Any], *, on_progress: OnProgress | None = None
    ) -> Observation:
        """Send an action like `act`, for callers that already have the encoded form, `event`, of a
        valid action.

        The default timeout is not applied.
        """
        if self._tracing is None:
            return await self._send(action, event, on_progress)
        attributes = {"bascule.action": action.kind}
        with self._tracing.span(f"act {action.kind}", "client", attributes=attributes) as span:
            observation = await self._send(action, event, on_progress)
            span.set_observation(observation)
            return observation

    async def _send(
        self, action: Action, event: Mapping[str, Any], on_progress: OnProgress | None
    ) -> Observation:
        try:
            body = to_json({"action": event})
            if on_progress is None:
                return await self._act(action, body)
            return await self._act_and_watch(action, body, on_progress)
        except asyncio.CancelledError:
            await self._cancel(action.id)
            raise
        except (LinkError, SandboxDied, AccessDenied):
            raise
        except BasculeError as error:
            return error_observation(error, action.id)

    async def upload(self, source: Path, destination: str) -> None:
        packed = await asyncio.to_thread(pack, source)
        path = await asyncio.to_thread(destination_of, packed, source, destination)
        await self._send_file(packed, path, unpacks=packed.is_zip)

    async def unpack(self, archive: Path, destination: str) -> None:
        """Unpack a zip file into the directory `destination`, created if missing; for hubs."""
        await self._send_file(await asyncio.to_thread(pack, archive), destination, unpacks=True)

    async def _send_file(self, packed: FileDownload, destination: str, *, unpacks: bool) -> None:
        url_path = target(
            "/upload_file",
            destination=destination,
            filename=packed.name,
            recursive="true" if unpacks else None,
        )
        async with aclosing(pieces_of(packed, asyncio.to_thread)) as pieces:
            reply = await self._http.request(
                "POST", url_path, body=pieces, headers=_RAW_BODY_HEADERS
            )
        _ensure_ok(reply.status, reply.body)

    async def download(self, path: str, destination: Path) -> Path:
        url_path = target("/download_files", path=path, raw="true")
        async with self._stream("GET", url_path) as reply:
            name = _file_name(reply.headers.get("content-disposition", ""))
            return await save(reply.chunks(), name, destination)

    async def read_log(self, shell: str = "", *, start: int = 0, end: int | None = None) -> bytes:
        url_path = target(f"/shells/{shell or DEFAULT_SHELL}/log", start=start, end=end)
        reply = await self._http.request("GET", url_path, timeout=_QUICK_TIMEOUT)
        _ensure_ok(reply.status, reply.body)
        return reply.body

    async def search_log(
        self, pattern: str, shell: str = "", *, start: int = 0, limit: int = 100
    ) -> Sequence[LogMatch]:
        path = f"/shells/{shell or DEFAULT_SHELL}/log/search"
        answer = await self._request_json(
            "GET", target(path, pattern=pattern, start=start, limit=limit)
        )
        return [LogMatch(match["offset"], match["text"]) for match in answer["matches"]]

    # Programs -----------------------------------------------------------------------------

    async def start_program(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        user: str = "",
        terminal: TerminalSize | None = None,
        secret_env: Mapping[str, str] | None = None,
        unread_limit: float | None = None,
        joins_stderr: bool = False,
        waits_for_reader: bool = False,
    ) -> Program:
        return await self.start_program_for(
            "",
            argv,
            env=env,
            cwd=cwd,
            user=user,
            terminal=terminal,
            secret_env=secret_env,
            unread_limit=unread_limit,
            joins_stderr=joins_stderr,
            waits_for_reader=waits_for_reader,
        )

    async def start_program_for(
        self,
        token_id: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        user: str = "",
        terminal: TerminalSize | None = None,
        secret_env: Mapping[str, str] | None = None,
        unread_limit: float | None = None,
        joins_stderr: bool = False,
        waits_for_reader: bool = False,
    ) -> Program:
        """Start a program that `end_programs_of` ends, when the hub's token is revoked."""
        body = ProgramRequest(
            argv=argv,
            env=env or {},
            cwd=cwd,
            user=user,
            terminal=terminal,
            secret_env=secret_env or {},
            unread_limit=unread_limit,
            joins_stderr=joins_stderr,
            waits_for_reader=waits_for_reader,
        ).to_json()
        headers = {**_ACTION_HEADERS, **({STARTED_BY: token_id} if token_id else {})}
        reply = await self._http.request(
            "POST", "/programs", body=to_json(body), headers=headers, timeout=_START_TIMEOUT
        )
        _ensure_ok(reply.status, reply.body)
        return RemoteProgram(self._http, decode_status(parsed(reply.body)).id, _ensure_ok)

    async def end_programs_of(
        self, token_id: str, *, is_revoked: bool = True, timeout: float | None = _QUICK_TIMEOUT
    ) -> None:
        """End the programs that were started for a token of a hub. A revoked token starts no
        others in this sandbox."""
        kept = {} if is_revoked else {"revoked": "0"}
        url_path = target("/programs", started_by=token_id, **kept)
        await self._request_json("DELETE", url_path, timeout=timeout)

    async def find_program(self, program_id: str) -> Program:
        reply = await self._http.request(
            "GET", target(f"/programs/{program_id}"), timeout=_QUICK_TIMEOUT
        )
        _ensure_ok(reply.status, reply.body)
        return RemoteProgram(self._http, decode_status(parsed(reply.body)).id, _ensure_ok)

    async def list_programs(
        self, *, timeout: float | None = _QUICK_TIMEOUT
    ) -> Sequence[ProgramStatus]:
        answer = await self._request_json("GET", "/programs", timeout=timeout)
        found = answer.get("programs") if isinstance(answer, dict) else None
        if not isinstance(found, list):
            raise RemoteError(f"{self.url} does not list its programs", remote_code="")
        return [decode_status(each) for each in found]

    # One action ---------------------------------------------------------------------------

    async def _act(self, action: Action, body: bytes) -> Observation:
        reply = await self._http.request(
            "POST",
            "/execute_action",
            body=body,
            headers=_with_traceparent(_PLAIN_HEADERS),
            timeout=_response_timeout(action),
        )
        _ensure_ok(reply.status, reply.body)
        is_parcel = reply.headers.get("content-type") == parcel.MEDIA_TYPE
        with self._reading_answers():
            event = parcel.unpack(reply.body) if is_parcel else from_json(reply.body)
            return decode_observation(event)

    async def _act_and_watch(
        self, action: Action, body: bytes, on_progress: OnProgress
    ) -> Observation:
        url_path, patience = "/execute_action", _response_timeout(action)
        observation: Observation | None = None
        headers = _with_traceparent(_EVENT_HEADERS)
        async with self._stream("POST", url_path, body=body, headers=headers) as reply:
            try:
                async with asyncio.timeout(patience):
                    async for event in _events(reply, self._max_event):
                        observation = await self._handle_event(event, on_progress) or observation
            except TimeoutError:
                raise self._lost(f"did not answer within {patience} seconds") from None
        if observation is None:
            raise self._lost("ended its answer early")
        return observation

    async def _handle_event(
        self, event: ServerEvent, on_progress: OnProgress
    ) -> Observation | None:
        """Pass output to `on_progress`. Returns the observation if `event` contains it, otherwise
        None."""
        with self._reading_answers():
            data = from_json(event.data)
            if event.name == "observation":
                return decode_observation(data)
            progress = decode_progress(data) if event.name == "output" else None
        if progress is not None:
            on_progress(progress)
        elif event.name == "skipped":
            await self._fill_gap(data["shell"], data["offset"], data["end"], on_progress)
        elif event.name == "error":
            raise error_from_wire(data["error"])
        return None

    @contextmanager
    def _reading_answers(self) -> Iterator[None]:
        """Turn an unreadable answer into `RemoteError`. The action itself may have succeeded."""
        try:
            yield
        except (InvalidAction, UnknownKind) as error:
            message = f"{self.url} sent an answer that this version cannot read: {error.message}"
            raise RemoteError(message, remote_code=error.code) from error

    async def _fill_gap(self, shell: str, start: int, end: int, on_progress: OnProgress) -> None:
        """Read the missing output of the stream in the shell's log, unless the log has dropped this
        output too."""
        try:
            missed = await self.read_log(shell, start=start, end=end)
        except (LogRangeGone, NoSuchShell):
            return
        on_progress(OutputProgress(shell, start, missed))

    async def _cancel(self, action_id: EventId) -> None:
        """Make the sandbox end the action, and wait until the action has ended.

        The server ends the action anyway, because our connection is closed. The wait ensures that
        the next command does not start while the cancelled one still runs.
        """
        url_path = target(f"/actions/{action_id}/cancel")
        with suppress(LinkError, RemoteError):
            await self._http.request("POST", url_path, timeout=_CANCEL_TIMEOUT)

    # Requests -------------------------------------------------------------------------------

    async def _request_json(
        self, method: str, url_path: str, *, timeout: float | None = _QUICK_TIMEOUT
    ) -> Any:
        reply = await self._http.request(method, url_path, timeout=timeout)
        _ensure_ok(reply.status, reply.body)
        return from_json(reply.body)

    @asynccontextmanager
    async def _stream(
        self,
        method: str,
        url_path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[StreamedReply]:
        async with self._http.stream(method, url_path, body=body, headers=headers) as reply:
            if reply.status != 200:
                _ensure_ok(reply.status, await reply.read())
            yield reply

    def _lost(self, event: str) -> SandboxUnreachable:
        return SandboxUnreachable(f"{self.url} {event}", url=self.url, sent=True)


async def _events(reply: StreamedReply, limit: int) -> AsyncIterator[ServerEvent]:
    reader = EventReader(limit=limit)
    async for chunk in reply.chunks():
        for event in reader.feed(chunk):
            yield event


def _response_timeout(action: Action) -> float | None:
    return None if action.timeout is None else action.timeout + _GRACE_SECONDS


def _ensure_ok(status: int, body: bytes) -> None:
    if status != 200:
        raise _error_in(status, body)


def _error_in(status: int, body: bytes) -> BasculeError:
    """The error in the JSON body of an answer. Without such a body, an error for the HTTP
    status."""
    try:
        answer = from_json(body)
    except BasculeError:
        answer = None
    if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
        return error_from_wire(answer["error"])
    text = body[:500].decode(errors="replace")
    if status in _GONE_STATUSES:
        return SandboxUnreachable(
            f"The sandbox is gone or paused: HTTP {status}: {text}", sent=True
        )
    return RemoteError(f"HTTP {status}: {text}", remote_code=f"http.{status}")


def _file_name(disposition: str) -> str:
    """The file name in `Content-Disposition`; only its last path component."""
    name = unquote(disposition.partition("filename*=UTF-8''")[2])
    return PurePosixPath(name).name or "download"


def _with_traceparent(headers: Mapping[str, str]) -> Mapping[str, str]:
    """`headers`, and the current span if there is one."""
    traceparent = TRACEPARENT.get()
    return {**headers, TRACEPARENT_FIELD: traceparent} if traceparent else headers
