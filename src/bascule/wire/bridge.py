"""The JSON messages between a script and its window. Uses the standard library only, because
every script that uses a bridge loads this module.

    hello      {type: "bridge/hello", params: {protocol, …}}           first message of both sides
    request    {id, type: "vscode/…", params: {…, timeout?}}           `timeout` in milliseconds
    response   {id, success: true, result} | {id, success: false, error: {code, message, detail}}
    cancel     {type: "$/cancel", params: {id}}                        to the window
    progress   {type: "$/progress", params: {id, value}}               either way, before the answer
    event      {type: "event", event, body}                            either way, not answered

In a debug session, messages to the window are the body of a `customRequest` event, and messages
from the window are the arguments of a `customRequestResponse` request. `to_dap` and `from_dap`
convert them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from bascule.core import errors
from bascule.core.errors import (
    BridgeError,
    BridgeProtocol,
    BridgeRemoteError,
    BridgeTooLarge,
    InvalidParams,
)

from .plain import plain, well_formed

PROTOCOL: Final = 1
SUBPROTOCOL: Final = "bascule.bridge.v1"
"""The WebSocket subprotocol of a bridge."""
MAX_MESSAGE: Final = 4 << 20
"""Maximum bytes of one message, in both directions."""

HELLO: Final = "bridge/hello"
PING: Final = "bridge/ping"
_CANCEL: Final = "$/cancel"
_PROGRESS: Final = "$/progress"
_EVENTS: Final = ("event", "dapEvent")
"""`dapEvent` is the type that other products use."""

_write: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""One shared encoder: `json.dumps` with these options would create an encoder on each call."""

RequestId: TypeAlias = str | int


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of one side. `about` has all fields except `protocol`."""

    protocol: int
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    id: RequestId
    type: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to a request: `error` if there is one, else `result`."""

    id: RequestId
    result: Any = None
    error: BridgeError | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    id: RequestId


@dataclass(frozen=True, slots=True)
class Piece:
    """A partial result before the answer, or an addition to a request."""

    id: RequestId
    value: Any


@dataclass(frozen=True, slots=True)
class Event:
    event: str
    body: Mapping[str, Any]


Message: TypeAlias = Hello | Request | Response | Cancel | Piece | Event


def encode(message: Message, *, limit: int = MAX_MESSAGE) -> str:
    """Encode a message.

    Raises `InvalidParams` for values JSON cannot express, and `BridgeTooLarge`.
    """
    shape = _shape(message)
    try:
        text = _write(shape)
        size = len(text) if text.isascii() else len(text.encode())
    # An unsupported type, NaN, a cycle or a lone surrogate. `plain` replaces lone surrogates and
    # raises an error that names any other value.
    except (TypeError, ValueError):
        text = _write(plain(shape, _refuse))
        size = len(text.encode())
    if size > limit:
        raise BridgeTooLarge(
            f"The message has {size:,} bytes and may have {limit:,}; send less at a time",
            size=size,
            limit=limit,
        )
    return text


def decode(text: str | bytes) -> Message:
    """Decode a message. Raises `BridgeProtocol` if it is invalid. Unknown fields are ignored."""
    try:
        shape = json.loads(text if isinstance(text, str) else text.decode())
    except (ValueError, RecursionError) as error:
        raise BridgeProtocol(f"This is not JSON: {error}") from error
    return _message(shape)


def to_dap(message: Message) -> dict[str, Any]:
    """The body of the `customRequest` event that carries `message` to the window."""
    shape = _shape(message)
    if "id" in shape:
        shape["requestId"] = shape.pop("id")
    return shape


def from_dap(arguments: Mapping[str, Any]) -> Message:
    """The message in the arguments of a `customRequestResponse`. Raises `BridgeProtocol`."""
    shape = dict(arguments)
    if "requestId" in shape:
        shape["id"] = shape.pop("requestId")
    return _message(shape)


def error_to_wire(error: BridgeError) -> dict[str, Any]:
    code = error.remote_code if isinstance(error, BridgeRemoteError) else error.code
    return {
        "code": code,
        "message": well_formed(error.message),
        "detail": plain(dict(error.detail), repr),
    }


def error_from_wire(data: object) -> BridgeError:
    """The error that a window reported. Never raises. `data` may also be a plain string."""
    if isinstance(data, str):
        return BridgeRemoteError(data)
    if not isinstance(data, Mapping):
        return BridgeRemoteError(
            f"The window reported an error in an unknown format: {data!r:.200}"
        )
    code, detail = str(data.get("code", "")), data.get("detail")
    message = str(data.get("message") or f"The window reported {code or 'an error'}")
    cls = _CLASSES.get(code, BridgeRemoteError)
    error = (
        BridgeRemoteError(message, remote_code=code) if cls is BridgeRemoteError else cls(message)
    )
    # Set afterwards: a key of `detail` may clash with a parameter of the constructor.
    error.detail = dict(detail) if isinstance(detail, Mapping) else {}
    return error


_CLASSES: Final[Mapping[str, type[BridgeError]]] = {
    value.code: value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, BridgeError) and value is not BridgeError
}


def _shape(message: Message) -> dict[str, Any]:
    match message:
        case Hello(protocol, about):
            return {"type": HELLO, "params": {"protocol": protocol, **about}}
        case Request(id, type, params):
            return {"id": id, "type": type, "params": params}
        case Response(id, result, None):
            return {"id": id, "success": True, "result": result}
        case Response(id, _, error):
            assert error is not None
            return {"id": id, "success": False, "error": error_to_wire(error)}
        case Cancel(id):
            return {"type": _CANCEL, "params": {"id": id}}
        case Piece(id, value):
            return {"type": _PROGRESS, "params": {"id": id, "value": value}}
        case Event(event, body):
            return {"type": "event", "event": event, "body": body}


def _message(shape: object) -> Message:
    if not isinstance(shape, dict):
        raise BridgeProtocol("A message is an object")
    kind, request_id = shape.get("type"), shape.get("id")
    if kind in _EVENTS:
        return Event(_text(shape, "event"), _object(shape, "body"))
    if "success" in shape:
        if shape["success"]:
            return Response(_id(request_id), shape.get("result"))
        return Response(_id(request_id), error=error_from_wire(shape.get("error")))
    params = _object(shape, "params")
    match kind:
        case "bridge/hello":
            return Hello(
                _number(params, "protocol"), {k: v for k, v in params.items() if k != "protocol"}
            )
        case "$/cancel":
            return Cancel(_id(params.get("id")))
        case "$/progress":
            return Piece(_id(params.get("id")), params.get("value"))
        case _:
            return Request(_id(request_id), _text(shape, "type"), params)


def _text(shape: Mapping[str, Any], name: str) -> str:
    value = shape.get(name)
    if not isinstance(value, str):
        raise BridgeProtocol(f"'{name}' of a message must be a string, not {value!r:.100}")
    return value


def _number(shape: Mapping[str, Any], name: str) -> int:
    value = shape.get(name)
    if type(value) is not int:
        raise BridgeProtocol(f"'{name}' of a message must be a number, not {value!r:.100}")
    return value


def _object(shape: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = shape.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BridgeProtocol(f"'{name}' of a message must be an object, not {value!r:.100}")
    return value


def _id(value: object) -> RequestId:
    if isinstance(value, str) or type(value) is int:
        return value
    raise BridgeProtocol(f"The 'id' of a message must be a string or a number, not {value!r:.100}")


def _refuse(value: object) -> Any:
    kind = type(value).__name__
    raise InvalidParams(f"A bridge carries JSON only, and {value!r:.100} ({kind}) is not JSON")
