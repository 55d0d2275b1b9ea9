"""Terminal transport: asks questions in the terminal if there is no window, for example in CI."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from bascule.core.errors import (
    BridgeError,
    BridgeFailed,
    BridgeUnavailable,
    ChatUnavailable,
    InvalidParams,
    UnknownRequest,
)
from bascule.wire.bridge import PING, Cancel, Message, Piece, Request, RequestId, Response

from .transport import TransportReceiver

Params = Mapping[str, Any]


class TerminalTransport:
    """Answers requests itself: prints to `output`, reads from `input`, one question at a time.

    After the end of the input, every question counts as dismissed, as if the user had closed it.
    Requests that need a window fail with `BridgeUnavailable`.
    """

    kind = "terminal"

    def __init__(self, input: TextIO | None = None, output: TextIO | None = None) -> None:
        self._input = input
        self._output = output
        self._question_lock = threading.Lock()
        self._bars: dict[RequestId, str] = {}
        self._receiver: TransportReceiver

    def start(self, receiver: TransportReceiver) -> None:
        self._receiver = receiver
        receiver.connected(is_same_peer=False)

    def send(self, message: Message) -> None:
        match message:
            case Request(id, "vscode/progress", params):
                self._bars[id] = params["title"]
                self._show(params["title"])
            case Request():
                # Ask in a thread: a person may take long, and the caller may be an event loop.
                threading.Thread(target=self._answer, args=(message,), daemon=True).start()
            case Piece(id, value) if id in self._bars:
                self._bar(id, value)
            case Cancel(id):
                self._bars.pop(id, None)

    def close(self) -> None: ...

    def _answer(self, request: Request) -> None:
        try:
            with self._question_lock:
                response = Response(request.id, self._handle(request.type, request.params))
        except BridgeError as error:
            response = Response(request.id, error=error)
        except (OSError, KeyError, TypeError, ValueError) as error:
            response = Response(request.id, error=BridgeFailed(f"{request.type} failed: {error}"))
        self._receiver.received(response)

    def _handle(self, type: str, params: Params) -> Any:
        handlers: Mapping[str, Callable[[Params], Any]] = {
            PING: lambda _: {},
            "vscode/showMessage": self._message,
            "vscode/inputBox": self._text,
            "vscode/quickPick": self._pick,
            "vscode/form": self._form,
            "vscode/openFile": self._show_location,
            "vscode/output": self._write_output,
            "vscode/diff": self._diff,
            "vscode/diagnostics": lambda _: {"items": []},
            "vscode/setDiagnostics": self._problems,
            "vscode/activeEditor": lambda _: {"editor": None},
            "vscode/chatModels": lambda _: {"models": []},
            "vscode/chat": _no_model,
        }
        handler = handlers.get(type)
        if handler is None and type.startswith("vscode/"):
            raise BridgeUnavailable(f"{type} needs a VS Code window, and there is only a terminal")
        if handler is None:
            raise UnknownRequest(f"The terminal does not support the request {type!r}")
        return handler(params)

    # Questions ----------------------------------------------------------------------------

    def _message(self, params: Params) -> Any:
        level, buttons = params.get("level", "info"), params.get("buttons", [])
        self._show(params["message"] if level == "info" else f"{level}: {params['message']}")
        return {"choice": self._choose(buttons) if buttons else None}

    def _text(self, params: Params) -> Any:
        value, pattern = params.get("value", ""), params.get("pattern", "")
        hint = f" [{value}]" if value else ""
        while (line := self._ask(f"{params['prompt']}{hint}: ")) is not None:
            text = line or value
            if not pattern or re.fullmatch(pattern, text):
                return {"value": text}
            self._show(f"The value must match {pattern}")
        return {"value": None}

    def _pick(self, params: Params) -> Any:
        labels = [item["label"] for item in params["items"]]
        if heading := params.get("title") or params.get("placeholder"):
            self._show(heading)
        if params.get("many"):
            return {"value": self._choose_many(labels)}
        return {"value": self._choose(labels)}

    def _form(self, params: Params) -> Any:
        schema = params["schema"]
        value = dict(params.get("value") or {})
        self._show(params.get("title") or schema.get("title") or "Form")
        for name, field in schema.get("properties", {}).items():
            answer = self._field(name, field, value.get(name, field.get("default")))
            if answer is _DISMISSED:
                return {"value": None}
            if answer is not None:
                value[name] = answer
            elif name in schema.get("required", ()):
                raise InvalidParams(f"The form needs {name!r}")
        return {"value": value}

    def _field(self, name: str, field: Params, default: Any) -> Any:
        hint = f" [{default}]" if default is not None else ""
        choices = f" ({', '.join(map(str, field['enum']))})" if "enum" in field else ""
        while (line := self._ask(f"{field.get('title', name)}{choices}{hint}: ")) is not None:
            if not line:
                return default
            try:
                return _parse_field(line, field)
            except ValueError as error:
                self._show(str(error))
        return _DISMISSED

    def _choose(self, labels: list[str]) -> str | None:
        self._list(labels)
        while line := self._ask("Number, or nothing: "):
            if line in labels:
                return line
            if line.isdecimal() and 0 < int(line) <= len(labels):
                return labels[int(line) - 1]
        return None

    def _choose_many(self, labels: list[str]) -> list[str] | None:
        self._list(labels)
        line = self._ask("Numbers, with commas: ")
        if line is None:
            return None
        chosen = [int(each) for each in re.findall(r"\d+", line)]
        return [labels[each - 1] for each in chosen if 0 < each <= len(labels)]

    def _list(self, labels: list[str]) -> None:
        for number, label in enumerate(labels, 1):
            self._show(f"  {number}  {label}")

    # Output -------------------------------------------------------------------------------

    def _show_location(self, params: Params) -> Any:
        at = f":{params['line']}:{params['column']}" if "line" in params else ""
        self._show(f"{params['path']}{at}")

    def _write_output(self, params: Params) -> Any:
        if params.get("text"):
            self._show(f"[{params['channel']}] {params['text'].rstrip()}")

    def _diff(self, params: Params) -> Any:
        from difflib import unified_diff  # imported here: this module is slow to load

        (old, before), (new, after) = _side(params["left"]), _side(params["right"])
        lines = unified_diff(before.splitlines(), after.splitlines(), old, new, lineterm="")
        for line in lines:
            self._show(line)

    def _problems(self, params: Params) -> Any:
        for each in params.get("items", ()):
            place = f"{params['path']}:{each['line']}:{each['column']}"
            self._show(f"{place}: {each['severity']}: {each['message']}")

    def _bar(self, id: RequestId, value: Params) -> None:
        if value.get("done"):
            self._bars.pop(id)
            self._receiver.received(Response(id, {}))
        elif value.get("message"):
            self._show(f"{self._bars[id]}: {value['message']}")

    def _ask(self, question: str) -> str | None:
        """Read one line of input; None at the end of the input."""
        print(question, end="", file=self._screen, flush=True)
        line = (self._input or sys.stdin).readline()
        if not line:
            self._show("")
            return None
        return line.rstrip("\n")

    def _show(self, text: str) -> None:
        print(text, file=self._screen, flush=True)

    @property
    def _screen(self) -> TextIO:
        return self._output or sys.stderr


_DISMISSED = object()


def _parse_field(line: str, field: Params) -> Any:
    if "enum" in field:
        found = [each for each in field["enum"] if str(each) == line]
        if not found:
            raise ValueError("This is not one of the choices")
        return found[0]
    match field.get("type"):
        case "integer":
            return int(line)
        case "number":
            return float(line)
        case "boolean":
            return line.lower() in ("y", "yes", "true", "1")
        case _:
            return line


def _side(side: Params) -> tuple[str, str]:
    return (side["path"], Path(side["path"]).read_text()) if "path" in side else ("", side["text"])


def _no_model(_: Params) -> Any:
    raise ChatUnavailable("A terminal has no language model; chat needs a VS Code window")
