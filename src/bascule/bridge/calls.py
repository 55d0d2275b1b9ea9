"""The requests that a script can send to a window, one function for each request.

A function sends nothing. It returns a `BridgeCall`: the request, and a function that reads the
answer. The blocking and the `aio` interface of `vscode_bridge` send the same calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

from bascule.core.errors import BridgeProtocol

T = TypeVar("T")

Level = Literal["info", "warning", "error"]
Severity = Literal["error", "warning", "information", "hint"]
CHAT_TIMEOUT: Final = 120.0
COMMAND_TIMEOUT: Final = 60.0
QUICK_TIMEOUT: Final = 30.0
"""Default timeouts, in seconds. Requests that wait for a person have no timeout."""


@dataclass(frozen=True, slots=True)
class BridgeCall(Generic[T]):
    type: str
    params: Mapping[str, Any]
    read: Callable[[Any], T]
    timeout: float | None = None


class ChatReply(str):
    """A language model's reply: a text, with its conversation and model."""

    conversation_id: str
    """Pass this id to `chat` to continue the conversation, or to `get_chat_history` to read the
    conversation."""
    model: str

    def __new__(cls, text: str, conversation_id: str = "", model: str = "") -> ChatReply:
        reply = super().__new__(cls, text)
        reply.conversation_id = conversation_id
        reply.model = model
        return reply


@dataclass(frozen=True, slots=True)
class ChatModel:
    id: str
    name: str
    vendor: str
    family: str
    max_input_tokens: int


@dataclass(frozen=True, slots=True)
class Position:
    """Lines and columns count from 1."""

    line: int
    column: int = 1


@dataclass(frozen=True, slots=True)
class Selection:
    path: str | None
    """None if the editor shows no file."""
    text: str
    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class Editor:
    """The active editor."""

    path: str | None
    language: str
    text: str
    is_dirty: bool
    """Whether the editor has unsaved changes. `text` includes them."""
    selection: Selection


@dataclass(frozen=True, slots=True)
class Edit:
    """New text for a range of a file. Without a range, the text replaces the whole file. A missing
    file is created."""

    path: str | os.PathLike[str]
    text: str
    start: Position | None = None
    end: Position | None = None
    """End of the range. None: the text is inserted at `start`."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    message: str
    line: int
    column: int = 1
    end_line: int | None = None
    end_column: int | None = None
    severity: Severity = "error"
    source: str = ""
    code: str = ""
    path: str = ""
    """Set on diagnostics read from the window; ignored by `set_diagnostics`."""


# Chat -------------------------------------------------------------------------------------


def chat(
    message: str,
    timeout: float | None = CHAT_TIMEOUT,
    *,
    model: str = "",
    system: str = "",
    conversation_id: str = "",
    stream: bool = False,
) -> BridgeCall[ChatReply]:
    params = {
        "message": message,
        "model": model,
        "system": system,
        "conversationId": conversation_id,
        "stream": stream,
    }
    return BridgeCall("vscode/chat", _without_empty(params), _reply, timeout)


def chat_models(*, timeout: float | None = QUICK_TIMEOUT) -> BridgeCall[list[ChatModel]]:
    """The window's language models. `chat` uses the first by default."""
    return BridgeCall("vscode/chatModels", {}, _models, timeout)


def get_chat_history(
    conversation_id: str, limit: int = 10, *, timeout: float | None = QUICK_TIMEOUT
) -> BridgeCall[list[dict[str, Any]]]:
    """The last `limit` messages of a conversation: `role`, `content` and `timestamp` of each."""
    params = {"conversationId": conversation_id, "limit": limit}
    return BridgeCall(
        "vscode/getChatHistory", params, lambda answer: list(answer["messages"]), timeout
    )


# Messages and questions -------------------------------------------------------------------


def show_message(
    message: str,
    level: Level = "info",
    *,
    buttons: Sequence[str] = (),
    modal: bool = False,
    timeout: float | None = None,
) -> BridgeCall[str | None]:
    """Show a message. With buttons, wait for a click and return the clicked button; None if the
    user dismisses the message."""
    params = {"message": message, "level": level, "buttons": list(buttons), "modal": modal}
    return BridgeCall("vscode/showMessage", params, _field("choice"), timeout)


def confirm(question: str, *, yes: str = "Yes", timeout: float | None = None) -> BridgeCall[bool]:
    """Ask in a modal dialog. True only if the user clicks the button `yes`."""
    params = {"message": question, "level": "info", "buttons": [yes], "modal": True}
    return BridgeCall("vscode/showMessage", params, lambda answer: answer["choice"] == yes, timeout)


def input_box(
    prompt: str,
    *,
    value: str = "",
    placeholder: str = "",
    password: bool = False,
    pattern: str = "",
    timeout: float | None = None,
) -> BridgeCall[str | None]:
    """Ask for a line of text; None if the user dismisses the question.

    `pattern` is a JavaScript regular expression that the whole text has to match.
    """
    params = {
        "prompt": prompt,
        "value": value,
        "placeholder": placeholder,
        "password": password,
        "pattern": pattern,
    }
    return BridgeCall("vscode/inputBox", _without_empty(params), _field("value"), timeout)


def quick_pick(
    items: Sequence[str | Mapping[str, str]],
    *,
    many: bool,
    placeholder: str = "",
    title: str = "",
    timeout: float | None = None,
) -> BridgeCall[str | list[str] | None]:
    labelled = [{"label": each} if isinstance(each, str) else dict(each) for each in items]
    params = {"items": labelled, "many": many, "placeholder": placeholder, "title": title}
    return BridgeCall("vscode/quickPick", params, _field("value"), timeout)


def form(
    schema: Mapping[str, Any],
    *,
    title: str = "",
    value: Mapping[str, Any] | None = None,
    ui_schema: Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> BridgeCall[dict[str, Any] | None]:
    """Show a form for an object's JSON Schema; None if the user closes it.

    Fields are strings, numbers, integers, booleans and `enum`s, with `title`, `description`,
    `default`, `required`, `minimum`, `maximum`, `minLength`, `maxLength` and `pattern`.
    `ui_schema` is `{name: {"ui:widget": "textarea" | "password" | "radio"}}`.
    """
    params = {"schema": schema, "title": title, "value": value, "uiSchema": ui_schema}
    return BridgeCall("vscode/form", _without_empty(params), _field("value"), timeout)


# The window -------------------------------------------------------------------------------


def execute_command(
    command: str, *args: Any, timeout: float | None = COMMAND_TIMEOUT
) -> BridgeCall[Any]:
    """Run a VS Code command and return its result, as far as JSON can represent it.

    The user is asked first, unless the settings allow the command.
    """
    params = {"command": command, "args": list(args)}
    return BridgeCall("vscode/executeCommand", params, _field("result"), timeout)


def open_file(
    path: str | os.PathLike[str],
    line: int | None = None,
    column: int = 1,
    *,
    preview: bool = True,
    beside: bool = False,
    timeout: float | None = QUICK_TIMEOUT,
) -> BridgeCall[None]:
    """Show a file, at a line and column that count from 1."""
    params = {"path": _path(path), "preview": preview, "beside": beside}
    place = {} if line is None else {"line": line, "column": column}
    return BridgeCall("vscode/openFile", params | place, _nothing, timeout)


def diff(
    left: str | os.PathLike[str],
    right: str | os.PathLike[str],
    title: str = "",
    *,
    timeout: float | None = QUICK_TIMEOUT,
) -> BridgeCall[None]:
    """Show two files or texts side by side: a `Path` names a file, a `str` is the text itself."""
    params = {"left": _side(left), "right": _side(right), "title": title}
    return BridgeCall("vscode/diff", params, _nothing, timeout)


def apply_edit(
    edits: Edit | Sequence[Edit],
    *,
    label: str = "",
    save: bool = False,
    timeout: float | None = None,
) -> BridgeCall[bool]:
    """Change files through the editor, in one undo step. False if VS Code rejected the edits and
    changed nothing. The user is asked first, unless the settings allow edits."""
    all_edits = [edits] if isinstance(edits, Edit) else edits
    params = {"edits": [_edit(each) for each in all_edits], "label": label, "save": save}
    return BridgeCall("vscode/applyEdit", params, _field("applied"), timeout)


def active_editor(*, timeout: float | None = QUICK_TIMEOUT) -> BridgeCall[Editor | None]:
    """The active editor with its text; None if no editor is active."""
    return BridgeCall("vscode/activeEditor", {"text": True}, _editor, timeout)


def selection(*, timeout: float | None = QUICK_TIMEOUT) -> BridgeCall[Selection | None]:
    """The selection in the active editor. Its text is empty if nothing is selected."""

    def read(answer: Any) -> Selection | None:
        return None if answer["editor"] is None else _selection(answer["editor"])

    return BridgeCall("vscode/activeEditor", {"text": False}, read, timeout)


def get_diagnostics(
    path: str | os.PathLike[str] | None = None, *, timeout: float | None = QUICK_TIMEOUT
) -> BridgeCall[list[Diagnostic]]:
    """The problems VS Code shows, of one file or of all."""
    params = {} if path is None else {"path": _path(path)}
    return BridgeCall("vscode/diagnostics", params, _diagnostics, timeout)


def set_diagnostics(
    path: str | os.PathLike[str],
    items: Sequence[Diagnostic],
    *,
    timeout: float | None = QUICK_TIMEOUT,
) -> BridgeCall[None]:
    """Show problems of a file. They replace the problems that this run showed for the file
    before."""
    params = {"path": _path(path), "items": [_problem(each) for each in items]}
    return BridgeCall("vscode/setDiagnostics", params, _nothing, timeout)


def clear_diagnostics(
    path: str | os.PathLike[str] | None = None, *, timeout: float | None = QUICK_TIMEOUT
) -> BridgeCall[None]:
    """Remove the problems that this run showed, of one file or of all."""
    params = {} if path is None else {"path": _path(path), "items": []}
    return BridgeCall("vscode/setDiagnostics", params, _nothing, timeout)


def output(
    channel: str,
    *,
    text: str = "",
    show: bool = False,
    clear: bool = False,
    timeout: float | None = QUICK_TIMEOUT,
) -> BridgeCall[None]:
    """Write to an output channel: first `clear` it, then append `text`, then `show` it."""
    params = {"channel": channel, "text": text, "show": show, "clear": clear}
    return BridgeCall("vscode/output", params, _nothing, timeout)


def progress(title: str, *, cancellable: bool = True) -> BridgeCall[None]:
    """Show a notification until the script adds `{"done": true}` or the user clicks Cancel."""
    return BridgeCall("vscode/progress", {"title": title, "cancellable": cancellable}, _nothing)


# Decoding answers -------------------------------------------------------------------------


def read(call: BridgeCall[T], answer: Any) -> T:
    """Decode the answer to a call. Raises `BridgeProtocol` if the answer has an unexpected form."""
    try:
        return call.read(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BridgeProtocol(
            f"The window's answer to {call.type} has an unexpected form: {answer!r:.200}"
        ) from error


def _field(name: str) -> Callable[[Any], Any]:
    return lambda answer: answer[name]


def _nothing(_: Any) -> None:
    return None


def _reply(answer: Any) -> ChatReply:
    return ChatReply(answer["response"], answer.get("conversationId", ""), answer.get("model", ""))


def _models(answer: Any) -> list[ChatModel]:
    return [
        ChatModel(
            each["id"],
            each.get("name", each["id"]),
            each.get("vendor", ""),
            each.get("family", ""),
            each.get("maxInputTokens", 0),
        )
        for each in answer["models"]
    ]


def _editor(answer: Any) -> Editor | None:
    data = answer["editor"]
    if data is None:
        return None
    return Editor(data["path"], data["language"], data["text"], data["isDirty"], _selection(data))


def _selection(data: Any) -> Selection:
    chosen = data["selection"]
    return Selection(
        data["path"], chosen["text"], _position(chosen["start"]), _position(chosen["end"])
    )


def _position(data: Any) -> Position:
    return Position(data["line"], data["column"])


def _diagnostics(answer: Any) -> list[Diagnostic]:
    return [
        Diagnostic(
            each["message"],
            each["line"],
            each["column"],
            each["endLine"],
            each["endColumn"],
            each["severity"],
            each.get("source", ""),
            each.get("code", ""),
            each["path"],
        )
        for each in answer["items"]
    ]


# Encoding parameters ----------------------------------------------------------------------


def _without_empty(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters without empty values."""
    return {name: value for name, value in params.items() if value or name in ("message", "prompt")}


def _path(path: str | os.PathLike[str]) -> str:
    """An absolute path, because the window has another working directory."""
    return os.path.abspath(path)  # noqa: PTH100  # does not resolve symlinks


def _side(side: str | os.PathLike[str]) -> dict[str, str]:
    return {"text": side} if isinstance(side, str) else {"path": _path(side)}


def _edit(edit: Edit) -> dict[str, Any]:
    data: dict[str, Any] = {"path": _path(edit.path), "text": edit.text}
    if edit.start is not None:
        end = edit.end or edit.start
        data["start"] = {"line": edit.start.line, "column": edit.start.column}
        data["end"] = {"line": end.line, "column": end.column}
    return data


def _problem(problem: Diagnostic) -> dict[str, Any]:
    return {
        "message": problem.message,
        "line": problem.line,
        "column": problem.column,
        "endLine": problem.end_line or problem.line,
        "endColumn": problem.end_column or (problem.column if problem.end_line else None),
        "severity": problem.severity,
        "source": problem.source,
        "code": problem.code,
    }
