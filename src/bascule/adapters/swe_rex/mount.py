"""The endpoints of SWE-ReX's server for one session, at `/swerex/{session}`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

from bascule.adapters import session_files
from bascule.core.errors import BasculeError, InternalError, InvalidRequest
from bascule.core.sessions import SessionId
from bascule.hub import Hub
from bascule.hub.mounts import Mount, identity_of
from bascule.hub.replies import ERRORS
from bascule.hub.sessions.session_runtime import SessionRuntime
from bascule.serving.asgi import Receive, Scope, Send
from bascule.serving.refusals import Refused

from . import _programs
from ._messages import (
    BASH_ACTION,
    CLOSE_SESSION,
    COMMAND,
    CREATE_SESSION,
    ERROR_STATUS,
    READ_FILE,
    WRITE_FILE,
    BashInterrupt,
    RexError,
)
from ._repeats import RecentAnswers
from ._shells import RexShells
from ._text import json_response

logger = logging.getLogger(__name__)

_UPLOAD: Final = "/upload"
_MAX_PROGRAMS: Final = 32
"""Requests of one session that run programs or write files at the same time. More of them wait."""
_MAX_READS: Final = 2
"""Files of one session that are read at the same time. More of them wait."""
_Body = TypeVar("_Body")
_Answer = Callable[[Request, SessionRuntime], Awaitable[Mapping[str, Any]]]


class _RexSession:
    """State kept for one session of the hub."""

    def __init__(self) -> None:
        self.shells = RexShells()
        self.answers = RecentAnswers()
        self.programs = asyncio.Semaphore(_MAX_PROGRAMS)
        self.reads = asyncio.Semaphore(_MAX_READS)


_Slots = Callable[[_RexSession], asyncio.Semaphore]


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """One kind of request, from its body to the end of its response.

    `slots` bounds the memory that one session takes: a request holds its slot until its client has
    read the response, or has left and the request has ended.
    """

    mount: SweRexMount
    answer: _Answer
    slots: _Slots | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        state = self.mount.state_of(request)
        async with self.slots(state) if self.slots is not None else nullcontext():
            response = await self.mount.respond(self.answer, request)
            await response(scope, receive, send)


class SweRexMount(Mount):
    """Serves each session to the tokens that may act in it. SWE-ReX's `auth_token` is the token.

    The names of shells are kept in memory: after a restart of the hub, clients create their shells
    again.
    """

    prefix = "/swerex"

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._sessions: dict[SessionId, _RexSession] = {}
        # Requests for shells hold no slot: an interrupt must not wait for the command it ends.
        posts: dict[str, tuple[_Answer, _Slots | None]] = {
            "create_session": (self._create_shell, None),
            "run_in_session": (self._run, None),
            "close_session": (self._close_shell, None),
            "execute": (self._execute, _programs_of),
            "read_file": (self._read_file, _reads_of),
            "write_file": (self._write_file, _programs_of),
            "upload": (self._upload, _programs_of),
            "close": (self._close, None),
        }
        path = f"{self.prefix}/{{session}}"
        self._router = Router(
            [
                Route(f"{path}/is_alive", self._is_alive, methods=["GET"]),
                *(
                    Route(f"{path}/{name}", _Endpoint(self, answer, slots), methods=["POST"])
                    for name, (answer, slots) in posts.items()
                ),
            ],
            default=_not_found,
            redirect_slashes=False,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._router(scope, receive, send)
        except ClientDisconnect:
            return
        except Refused as refused:
            await ERRORS.send(scope, send, refused.error, refused.status)
        except BasculeError as error:
            await ERRORS.send(scope, send, error)

    async def aclose(self) -> None:
        for each in self._sessions.values():
            await each.answers.aclose()

    def takes_files(self, path: str) -> bool:
        return path.endswith(_UPLOAD)

    def state_of(self, request: Request) -> _RexSession:
        """The state of the request's session, if the caller may act in it."""
        self._runtime(request)
        return self._state(request)

    async def respond(self, answer: _Answer, request: Request) -> Response:
        runtime, state = self._runtime(request), self._state(request)

        async def answered() -> Response:
            try:
                return await json_response(await answer(request, runtime))
            except RexError as error:
                return _raised(error.path, error.message)
            except (Refused, ClientDisconnect):
                raise
            except BasculeError as error:
                return _raised("swerex.exceptions.SwerexException", error.message)
            except Exception as error:  # the edge of a request; the log has it
                logger.exception("%s %s failed", request.method, request.url.path)
                raise InternalError("The hub failed; its log has the cause") from error

        request_id = request.headers.get("x-request-id", "")
        # The id of another token's request would get that request's answer.
        own_id = f"{identity_of(request.scope).token_id} {request_id}" if request_id else ""
        return await state.answers.get(own_id, answered)

    async def _is_alive(self, request: Request) -> Response:
        """Says whether commands can run now. Resumes nothing, because clients ask often."""
        self._runtime(request)
        session_id = SessionId(request.path_params["session"])
        is_alive = self._hub.sessions.is_running_or_paused(session_id)
        message = "" if is_alive else f"The session {session_id} does not run"
        return JSONResponse({"is_alive": is_alive, "message": message})

    # Shells -----------------------------------------------------------------------------------

    async def _create_shell(self, request: Request, runtime: SessionRuntime) -> Mapping[str, Any]:
        body = await _read(request, CREATE_SESSION)
        return await self._state(request).shells.create(runtime, body)

    async def _run(self, request: Request, runtime: SessionRuntime) -> Mapping[str, Any]:
        body = await _read(request, BASH_ACTION)
        shells = self._state(request).shells
        if isinstance(body, BashInterrupt):
            return await shells.interrupt(runtime, body)
        return await shells.run(runtime, body)

    async def _close_shell(self, request: Request, runtime: SessionRuntime) -> Mapping[str, Any]:
        name = (await _read(request, CLOSE_SESSION)).session
        await self._state(request).shells.close(runtime, name)
        return {"session_type": "bash"}

    async def _close(self, request: Request, runtime: SessionRuntime) -> Mapping[str, Any]:
        """Close the shells. The session is kept, because the client did not create it."""
        await self._state(request).shells.close_all(runtime)
        return {}

    # Programs and files -------------------------------------------------------------------------

    async def _execute(self, request: Request, runtime: SessionRuntime) -> Mapping[str, Any]:
        return await _programs.execute(runtime, await _read(request, COMMAND))

    async def _read_file(self, request: Request, runtime: SessionRuntime) -> Mapping[str, Any]:
        return await _programs.read(runtime, await _read(request, READ_FILE))

    async def _write_file(self, request: Request, runtime: SessionRuntime) -> Mapping[str, Any]:
        return await _programs.write(runtime, await _read(request, WRITE_FILE))

    async def _upload(self, request: Request, runtime: SessionRuntime) -> Mapping[str, Any]:
        try:
            async with request.form(max_files=1) as form:
                file, path = form.get("file"), form.get("target_path")
                if not isinstance(file, UploadFile) or not isinstance(path, str):
                    raise InvalidRequest("The form must contain `file` and `target_path`")
                if str(form.get("unzip", "")).lower() in ("true", "1"):
                    await session_files.unpack(runtime, file, path)
                else:
                    await session_files.upload(runtime, file, path)
        except MultiPartException as error:
            raise InvalidRequest(f"The form cannot be read: {error.message}") from error
        return {}

    # --------------------------------------------------------------------------------------------

    def _runtime(self, request: Request) -> SessionRuntime:
        """The runtime of the session. Raises `NoSuchSession`, also for a session of another
        owner."""
        identity, session = identity_of(request.scope), request.path_params["session"]
        self._hub.sessions.get(identity, SessionId(session))  # only the check
        return self._hub.session(identity, session)

    def _state(self, request: Request) -> _RexSession:
        """The state of an existing session. Drops the state of sessions that no longer exist."""
        session_id = SessionId(request.path_params["session"])
        if session_id not in self._sessions:
            for each in [*self._sessions]:
                if self._hub.sessions.owner_of(each) is None:
                    del self._sessions[each]
            self._sessions[session_id] = _RexSession()
        return self._sessions[session_id]


def _programs_of(state: _RexSession) -> asyncio.Semaphore:
    return state.programs


def _reads_of(state: _RexSession) -> asyncio.Semaphore:
    return state.reads


def _raised(class_path: str, message: str) -> Response:
    error = {"message": message, "class_path": class_path, "traceback": "", "extra_info": {}}
    return JSONResponse({"swerexception": error}, ERROR_STATUS)


async def _read(request: Request, kind: TypeAdapter[_Body]) -> _Body:
    try:
        return kind.validate_json(await request.body())
    except ValidationError as error:
        raise Refused(422, InvalidRequest(f"The request is invalid: {error}")) from error


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    del receive, send
    raise Refused(404, InvalidRequest(f"There is nothing at {scope['path']!r} on this hub"))
