"""The endpoints of OpenHands' agent server for one session, at `/openhands/v1/{session}`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from pydantic import BaseModel, Field, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

import bascule
from bascule.adapters import session_files
from bascule.core.errors import BasculeError, InternalError, InvalidRequest, NoSuchPath
from bascule.core.sessions import SessionId
from bascule.hub import Hub
from bascule.hub.mounts import Mount, identity_of
from bascule.hub.replies import ERRORS
from bascule.hub.sessions.session_runtime import SessionRuntime
from bascule.serving.asgi import Receive, Scope, Send
from bascule.serving.refusals import Refused

from . import _git
from ._bash import BashCommands
from ._programs import ProgramRunner

logger = logging.getLogger(__name__)

AGENT_SERVER_VERSION: Final = "1.58.0"
"""The version of OpenHands' agent server that these routes follow."""

_UNAUTHENTICATED: Final = ("health", "alive", "ready")
_UPLOAD: Final = "/api/file/upload"


class _CommandRequest(BaseModel):
    """OpenHands' request to run a command."""

    command: str = Field(max_length=1 << 20)
    cwd: str | None = None
    timeout: float = Field(default=300, ge=0, le=86400)


class _Workspace:
    """State kept for one session."""

    def __init__(self, hub: Hub, session_id: SessionId) -> None:
        self.programs = ProgramRunner()
        self.commands = BashCommands(self.programs, masked=partial(hub.sessions.masked, session_id))


class WorkspaceMount(Mount):
    """Serves each session to the tokens that may act in it: the owner's tokens and the session's
    own token.

    The output of commands is kept in memory. The output is lost when the hub stops, which ends
    the commands too.
    """

    prefix = "/openhands/v1"

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._workspaces: dict[SessionId, _Workspace] = {}
        self._router = Router(
            [self._route(*each) for each in self._table()],
            default=_not_found,
            redirect_slashes=False,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._router(scope, receive, send)
        except Refused as refused:
            await ERRORS.send(scope, send, refused.error, refused.status)
        except NoSuchPath as error:
            await ERRORS.send(scope, send, error, 404)
        except BasculeError as error:
            await ERRORS.send(scope, send, error)

    async def aclose(self) -> None:
        for each in self._workspaces.values():
            await each.commands.aclose()

    def needs_no_token(self, path: str) -> bool:
        rest = path.removeprefix(f"{self.prefix}/").split("/")
        return len(rest) == 2 and rest[1] in _UNAUTHENTICATED

    def takes_files(self, path: str) -> bool:
        return path.endswith(_UPLOAD)

    def _table(self) -> list[tuple[str, str, Callable[[Request], Awaitable[Response]]]]:
        bash, events = "/api/bash", "/api/bash/bash_events"
        return [
            *(("GET", f"/{name}", self._health) for name in _UNAUTHENTICATED),
            ("GET", "/server_info", self._info),
            ("POST", f"{bash}/start_bash_command", self._start),
            ("POST", f"{bash}/execute_bash_command", self._execute),
            ("POST", f"{bash}/bash_commands/{{command}}/stop", self._stop),
            ("GET", f"{events}/search", self._search),
            ("GET", f"{events}/{{event}}", self._event),
            ("DELETE", events, self._clear),
            ("POST", _UPLOAD, self._upload),
            ("GET", "/api/file/download", self._download),
            ("GET", "/api/git/changes", self._changes),
            ("GET", "/api/git/diff", self._diff),
            ("GET", "/api/vscode/url", self._vscode),
        ]

    def _route(
        self, method: str, path: str, answer: Callable[[Request], Awaitable[Response]]
    ) -> Route:
        async def answered(request: Request) -> Response:
            try:
                return await answer(request)
            except (BasculeError, Refused):
                raise
            except ClientDisconnect as error:
                raise InvalidRequest(
                    "The client disconnected before its request was complete"
                ) from error
            except Exception as error:  # no unexpected error may leave a request; it is logged here
                logger.exception("%s %s failed", method, request.url.path)
                raise InternalError("The hub failed; its log has the cause") from error

        return Route(f"{self.prefix}/{{session}}{path}", answered, methods=[method])

    # Health -----------------------------------------------------------------------------------

    async def _health(self, request: Request) -> Response:
        """Answers without authentication, so the answer does not reveal whether a session exists:
        it is the same for a missing session and for a session that is not ready."""
        session_id = SessionId(request.path_params["session"])
        if self._hub.sessions.is_running_or_paused(session_id):
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "not ready"}, 503)

    async def _info(self, request: Request) -> Response:
        self._ensure_access(request)
        return JSONResponse(
            {
                "title": "Bascule",
                "version": AGENT_SERVER_VERSION,
                "bascule_version": bascule.__version__,
            }
        )

    # Commands ---------------------------------------------------------------------------------

    async def _start(self, request: Request) -> Response:
        runtime, command = self._runtime(request), await _command_request(request)
        return JSONResponse(self._start_command(request, runtime, command))

    async def _execute(self, request: Request) -> Response:
        runtime, command = self._runtime(request), await _command_request(request)
        event = self._start_command(request, runtime, command)
        return JSONResponse(await self._workspace(request).commands.wait_finished(event["id"]))

    def _start_command(
        self, request: Request, runtime: SessionRuntime, command: _CommandRequest
    ) -> dict[str, Any]:
        commands = self._workspace(request).commands
        return commands.start(
            runtime, command.command, directory=command.cwd, timeout=max(command.timeout, 1.0)
        )

    async def _stop(self, request: Request) -> Response:
        runtime, command = self._runtime(request), request.path_params["command"]
        if not await self._workspace(request).commands.stop(runtime, command):
            raise Refused(404, InvalidRequest(f"There is no command {command!r}"))
        return JSONResponse({"success": True})

    async def _search(self, request: Request) -> Response:
        await self._ensure_visible_and_audit(request)
        query = request.query_params
        page = self._workspace(request).commands.search(
            kind=query.get("kind__eq"),
            command_id=query.get("command_id__eq"),
            after=_number(request, "order__gt"),
            newest_first=query.get("sort_order") == "TIMESTAMP_DESC",
            page_id=query.get("page_id"),
            limit=min(_number(request, "limit") or 100, 100),
        )
        return JSONResponse(page)

    async def _event(self, request: Request) -> Response:
        await self._ensure_visible_and_audit(request)
        name = request.path_params["event"]
        event = self._workspace(request).commands.find(name)
        if event is None:
            raise Refused(404, InvalidRequest(f"There is no event {name!r}"))
        return JSONResponse(event)

    async def _clear(self, request: Request) -> Response:
        await self._ensure_visible_and_audit(request)
        return JSONResponse({"cleared_count": self._workspace(request).commands.clear()})

    # Files ------------------------------------------------------------------------------------

    async def _upload(self, request: Request) -> Response:
        runtime, path = self._runtime(request), _text(request, "path")
        try:
            async with request.form(max_files=1) as form:
                file = form.get("file")
                if not isinstance(file, UploadFile):
                    raise InvalidRequest("The form must contain one file, in the field `file`")
                size = await session_files.upload(runtime, file, path)
        except MultiPartException as error:
            raise InvalidRequest(f"The form cannot be read: {error.message}") from error
        return JSONResponse({"success": True, "file_size": size})

    async def _download(self, request: Request) -> Response:
        return await session_files.download(self._runtime(request), _text(request, "path"))

    # Git --------------------------------------------------------------------------------------

    async def _changes(self, request: Request) -> Response:
        return JSONResponse(await _git.changes(*self._git_arguments(request)))

    async def _diff(self, request: Request) -> Response:
        found = await _git.diff(*self._git_arguments(request))
        session_id = SessionId(request.path_params["session"])
        masked = partial(self._hub.sessions.masked, session_id)
        return JSONResponse({name: text and masked(text) for name, text in found.items()})

    def _git_arguments(self, request: Request) -> tuple[_git.Run, str, str]:
        """The arguments of `_git.changes` and `_git.diff`."""
        run = partial(self._workspace(request).programs.run, self._runtime(request))
        return run, _text(request, "path"), request.query_params.get("ref", "")

    # VS Code ----------------------------------------------------------------------------------

    async def _vscode(self, request: Request) -> Response:
        self._ensure_access(request)
        return JSONResponse({"url": self._hub.addresses.vscode(request.path_params["session"])})

    # ------------------------------------------------------------------------------------------

    def _ensure_access(self, request: Request) -> None:
        """Raise `NoSuchSession` if the caller may not use the session."""
        self._runtime(request)

    def _runtime(self, request: Request) -> SessionRuntime:
        """The runtime of the session, after a check that the caller may use the session. Raises
        `NoSuchSession`, also for a session of another owner."""
        identity, session = identity_of(request.scope), request.path_params["session"]
        self._hub.sessions.get(identity, SessionId(session))  # only the check
        return self._hub.session(identity, session)

    async def _ensure_visible_and_audit(self, request: Request) -> None:
        """Raises `NoSuchSession` if the caller may not see the session. Writes an audit entry if an
        admin reads another owner's output. The sandbox's actions have their own audit entries, but
        the output is stored in the hub, so reading it is not an action."""
        session_id = SessionId(request.path_params["session"])
        await self._hub.sessions.audit_reading(identity_of(request.scope), session_id, "commands")

    def _workspace(self, request: Request) -> _Workspace:
        """The state of an existing session. Drops the state of sessions that no longer exist."""
        session_id = SessionId(request.path_params["session"])
        sessions = self._hub.sessions
        if session_id not in self._workspaces:
            gone = [each for each in self._workspaces if sessions.owner_of(each) is None]
            for each in gone:
                del self._workspaces[each]
            self._workspaces[session_id] = _Workspace(self._hub, session_id)
        return self._workspaces[session_id]


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    del receive, send
    raise Refused(404, InvalidRequest(f"There is nothing at {scope['path']!r} on this hub"))


async def _command_request(request: Request) -> _CommandRequest:
    try:
        return _CommandRequest.model_validate_json(await request.body())
    except ValidationError as error:
        raise Refused(
            422, InvalidRequest(f"The request for a command is invalid: {error}")
        ) from error


def _text(request: Request, name: str) -> str:
    value = request.query_params.get(name)
    if not value:
        raise InvalidRequest(f"The query must contain `{name}`", parameter=name)
    return value


def _number(request: Request, name: str) -> int | None:
    value = request.query_params.get(name)
    if value is None:
        return None
    try:
        return int(value)
    except ValueError:
        raise InvalidRequest(f"`{name}` must be an integer, not {value!r}") from None
