"""E2B's code interpreter: cells of Python in contexts."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from bascule.core.errors import BasculeError, InvalidRequest, NoSuchProgram, NotSupported
from bascule.hub.sessions.sandbox_client import SandboxClient
from bascule.hub.sessions.sandbox_messages import CellEndMessage, CodeContextMessage
from bascule.serving.asgi import read_body
from bascule.serving.refusals import Refused
from bascule.wire import from_json, to_json

from ._fields import text_of, texts_of
from ._sandbox import OpenSandbox

_PYTHON: Final = "python"
_BASH: Final = "bash"
_FORMATS: Final[Mapping[str, str]] = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
}
"""E2B's names of the media types of a result. All others are in `extra`."""
_DEFAULT: Final = "default"
"""Id of the context for requests that name none."""

Line = dict[str, Any]


class Interpreter:
    """The calls of the code interpreter. Cells run as actions of the session: rules for commands
    and records apply to them."""

    async def answer(self, sandbox: OpenSandbox, request: Request, rest: str) -> Response | None:
        """The answer to a request; None if there is nothing at this path."""
        words = rest.strip("/").split("/")
        match request.method, words:
            case "POST", ["execute"]:
                body = await _body(request)
                context, code = await self._cell(sandbox, body)
                return StreamingResponse(
                    _lines(sandbox, context, code, texts_of(body, "env_vars")),
                    media_type="application/x-ndjson",
                )
            case "POST", ["contexts"]:
                body = await _body(request)
                _ensure_language(text_of(body, "language") or _PYTHON)
                cwd = await sandbox.path(text_of(body, "cwd"))
                client = await sandbox.client()
                return JSONResponse(_described(await client.create_context(cwd)))
            case "GET", ["contexts"]:
                found = await (await sandbox.client()).contexts()
                return JSONResponse([_described(each) for each in found])
            case "DELETE", ["contexts", context_id]:
                await (await sandbox.client()).remove_context(context_id)
                return Response(status_code=204)
            case "POST", ["contexts", context_id, "restart"]:
                context_id = await self._context(sandbox, context_id)
                await (await sandbox.client()).restart_context(context_id)
                return Response(status_code=204)
        return None

    async def _cell(self, sandbox: OpenSandbox, body: Mapping[str, Any]) -> tuple[str, str]:
        """The context and the code of a request."""
        code, language = text_of(body, "code"), text_of(body, "language") or _PYTHON
        if language == _BASH:
            code = f"%%bash\n{code}"
        else:
            _ensure_language(language)
        return await self._context(sandbox, text_of(body, "context_id")), code

    async def _context(self, sandbox: OpenSandbox, context_id: str) -> str:
        """The context with this id. Without an id the default context, created if missing."""
        client = await sandbox.client()
        if context_id in ("", _DEFAULT):
            return (await client.create_context(await sandbox.home(), _DEFAULT)).id
        if context_id not in {each.id for each in await client.contexts()}:
            raise Refused(404, NoSuchProgram(f"There is no context {context_id!r}"))
        return context_id


async def _lines(
    sandbox: OpenSandbox, context: str, code: str, variables: Mapping[str, str]
) -> AsyncGenerator[bytes, None]:
    client = await sandbox.client()
    try:
        await sandbox.cell_starts(code)
        if variables:
            setting = f"import os as _os; _os.environ.update({dict(variables)!r}); del _os"
            async for _ in client.run_in_context(context, setting, timeout=None):
                pass
        async for line in _results(client, context, code):
            yield to_json(line) + b"\n"
    except BasculeError as error:
        yield to_json(_error(type(error).__name__, error.message, "")) + b"\n"
    yield to_json({"type": "end_of_execution"}) + b"\n"


async def _results(client: SandboxClient, context: str, code: str) -> AsyncGenerator[Line, None]:
    has_error = False
    async with aclosing(client.run_in_context(context, code, timeout=None)) as results:
        async for each in results:
            if not isinstance(each, CellEndMessage):
                line = _line(each)
                if line is not None:
                    has_error = has_error or line["type"] == "error"
                    yield line
                continue
            if each.count is not None:
                yield {"type": "number_of_executions", "execution_count": each.count}
            if each.error and not has_error:
                yield _error("ExecutionError", each.error, each.error)


def _line(output: Mapping[str, Any]) -> Line | None:
    match output.get("output_type"):
        case "stream":
            name = "stderr" if output.get("name") == "stderr" else "stdout"
            return {"type": name, "text": str(output.get("text", "")), "timestamp": time.time_ns()}
        case "execute_result" | "display_data" as kind:
            return _result(output.get("data"), is_main=kind == "execute_result")
        case "error":
            traceback = output.get("traceback")
            lines = traceback if isinstance(traceback, list) else []
            return _error(
                str(output.get("ename", "")),
                str(output.get("evalue", "")),
                "\n".join(map(str, lines)),
            )
    return None


def _result(data: object, *, is_main: bool) -> Line:
    result: Line = {"type": "result", "is_main_result": is_main}
    extra: dict[str, Any] = {}
    for kind, value in (data if isinstance(data, dict) else {}).items():
        if kind in _FORMATS:
            result[_FORMATS[kind]] = value
        else:
            extra[str(kind)] = value
    return result | ({"extra": extra} if extra else {})


def _error(name: str, value: str, traceback: str) -> Line:
    return {"type": "error", "name": name, "value": value, "traceback": traceback}


def _ensure_language(language: str) -> None:
    if language.lower() not in (_PYTHON, "python3"):
        raise NotSupported(
            f"Cells in {language!r} are not supported; use python or bash, or run a command"
        )


def _described(context: CodeContextMessage) -> Line:
    return {"id": context.id, "language": _PYTHON, "cwd": context.cwd}


async def _body(request: Request) -> dict[str, Any]:
    value = from_json(await read_body(request.receive) or b"{}")
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object")
    return value
