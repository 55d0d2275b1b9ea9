"""Messages of JSON-RPC 2.0, one per line: decode them, and encode answers. Rules only, no I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NoReturn

PARSE_ERROR: Final = -32700
INVALID_MESSAGE: Final = -32600
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
CANCELLED: Final = -32800
NOT_FOUND: Final = -32002
"""ACP's code for a file that does not exist."""

MessageId = str | int
_SHOWN: Final = 200
"""Maximum characters of an invalid message in an error."""


class MessageKind(Enum):
    REQUEST = "request"
    NOTIFICATION = "notification"
    ANSWER = "answer"


class InvalidMessage(Exception):
    """A line that is no valid message. `message_id`: the id to answer with, if there is one."""

    def __init__(self, code: int, message: str, message_id: MessageId | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.message_id = message_id


@dataclass(frozen=True, slots=True)
class RpcMessage:
    """One message. `line` has the bytes that arrived, so that an unchanged message is passed on
    exactly, with all fields that this version does not know."""

    kind: MessageKind
    body: Mapping[str, Any]
    line: bytes

    @property
    def id(self) -> MessageId:
        found: MessageId = self.body["id"]
        return found

    @property
    def method(self) -> str:
        return str(self.body.get("method", ""))

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters; empty if they are missing or no object."""
        found = self.body.get("params")
        return found if isinstance(found, Mapping) else {}

    @property
    def result(self) -> Mapping[str, Any]:
        """The result of an answer; empty if it is an error or no object."""
        found = self.body.get("result")
        return found if isinstance(found, Mapping) else {}

    def changed(self, **fields: Any) -> RpcMessage:
        """This message with other values of fields of the message itself."""
        body = {**self.body, **fields}
        return RpcMessage(self.kind, body, encode(body))


def decode(line: bytes) -> RpcMessage:
    """Decode one line. Raises `InvalidMessage`."""
    try:
        body = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        shown = line[:_SHOWN].decode(errors="replace")
        raise InvalidMessage(PARSE_ERROR, f"This is not JSON ({error}): {shown}") from None
    if not isinstance(body, dict):
        found = "a batch" if isinstance(body, list) else f"{body!r:.200}"
        raise InvalidMessage(INVALID_MESSAGE, f"A message must be one JSON object, not {found}")
    has_id, method = "id" in body, body.get("method")
    message_id = body.get("id")
    is_id = isinstance(message_id, str | int) and not isinstance(message_id, bool)
    if method is not None and not isinstance(method, str):
        raise InvalidMessage(
            INVALID_MESSAGE, f"`method` must be a text, not {method!r:.200}", _if(is_id, message_id)
        )
    if has_id and not is_id:
        raise InvalidMessage(
            INVALID_MESSAGE, f"`id` must be a text or an integer, not {message_id!r:.200}"
        )
    if method is not None:
        kind = MessageKind.REQUEST if has_id else MessageKind.NOTIFICATION
    elif has_id and ("result" in body) != ("error" in body):
        kind = MessageKind.ANSWER
    else:
        raise InvalidMessage(
            INVALID_MESSAGE,
            "A message needs a `method`, or an `id` with either `result` or `error`",
        )
    if body.get("jsonrpc") != "2.0":
        body = {**body, "jsonrpc": "2.0"}
        return RpcMessage(kind, body, encode(body))
    return RpcMessage(kind, body, line)


def encode(body: Mapping[str, Any]) -> bytes:
    """The line of a message, without the newline."""
    # Escapes everything beyond ASCII: JSON can have surrogates that UTF-8 cannot encode.
    return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()


def result(message_id: MessageId, value: Mapping[str, Any]) -> bytes:
    """The answer to a request."""
    return encode({"jsonrpc": "2.0", "id": message_id, "result": value})


def error(
    message_id: MessageId | None, code: int, message: str, data: Mapping[str, Any] | None = None
) -> bytes:
    """The answer to a request that failed."""
    found: dict[str, Any] = {"code": code, "message": message}
    if data:
        found["data"] = data
    return encode({"jsonrpc": "2.0", "id": message_id, "error": found})


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed in JSON")


def _if(condition: bool, value: Any) -> Any:
    return value if condition else None
