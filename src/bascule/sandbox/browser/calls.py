"""Parses the calls of `browse_interactive`, such as `click('12')`, without executing code.

Names and parameters are those of BrowserGym, which agents know. A text may contain only calls with
literal arguments. It is parsed as Python, but never evaluated.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bascule.core.errors import InvalidAction

MAX_CALLS: Final = 100
MAX_TEXT: Final = 1 << 20
MAX_NUMBER: Final = 10**9
"""Largest number in an argument (pixels, milliseconds)."""
MAX_NOOP_MS: Final = 30_000
"""Maximum milliseconds of one `noop`."""

_REQUIRED: Final = object()


@dataclass(frozen=True, slots=True)
class CallParameter:
    name: str
    kinds: tuple[type, ...]
    default: Any = _REQUIRED

    @property
    def is_required(self) -> bool:
        return self.default is _REQUIRED

    @property
    def description(self) -> str:
        """Description of valid values, for error messages."""
        kinds = " or ".join(kind.__name__ for kind in self.kinds)
        return f"{kinds}, up to {MAX_NUMBER}" if {int, float} & set(self.kinds) else kinds

    def __str__(self) -> str:
        return self.name if self.is_required else f"{self.name}={self.default!r}"


@dataclass(frozen=True, slots=True)
class BrowserCall:
    """One call to execute in the browser."""

    name: str
    arguments: Mapping[str, Any]
    text: str
    """The source text of the call."""


def _text(name: str, default: Any = _REQUIRED) -> CallParameter:
    return CallParameter(name, (str,), default)


def _number(name: str, default: Any = _REQUIRED) -> CallParameter:
    return CallParameter(name, (int, float), default)


def _texts(name: str, default: Any = _REQUIRED) -> CallParameter:
    return CallParameter(name, (str, list), default)


_BID = CallParameter("bid", (str, int))
_BUTTON = _text("button", "left")
_POSITION = (_number("x"), _number("y"))

CALLS: Final[Mapping[str, tuple[CallParameter, ...]]] = {
    "goto": (_text("url"),),
    "go_back": (),
    "go_forward": (),
    "noop": (_number("wait_ms", 1000),),
    "scroll": (_number("delta_x"), _number("delta_y")),
    "click": (_BID, _BUTTON, _texts("modifiers", [])),
    "dblclick": (_BID, _BUTTON, _texts("modifiers", [])),
    "hover": (_BID,),
    "fill": (_BID, _text("value"), CallParameter("enable_autocomplete_menu", (bool,), False)),
    "clear": (_BID,),
    "check": (_BID,),
    "uncheck": (_BID,),
    "select_option": (_BID, _texts("options")),
    "press": (_BID, _text("key_comb")),
    "focus": (_BID,),
    "drag_and_drop": (CallParameter("from_bid", (str, int)), CallParameter("to_bid", (str, int))),
    "upload_file": (_BID, _texts("file")),
    "keyboard_press": (_text("key"),),
    "keyboard_type": (_text("text"),),
    "keyboard_insert_text": (_text("text"),),
    "keyboard_down": (_text("key"),),
    "keyboard_up": (_text("key"),),
    "mouse_move": _POSITION,
    "mouse_down": (*_POSITION, _BUTTON),
    "mouse_up": (*_POSITION, _BUTTON),
    "mouse_click": (*_POSITION, _BUTTON),
    "mouse_dblclick": (*_POSITION, _BUTTON),
    "mouse_drag_and_drop": tuple(map(_number, ("from_x", "from_y", "to_x", "to_y"))),
    "tab_new": (),
    "tab_close": (),
    "tab_focus": (CallParameter("index", (int,)),),
    "answer_dialogs": (CallParameter("accept", (bool,), True), _text("text", "")),
    "send_msg_to_user": (_text("text"),),
    "report_infeasible": (_text("reason"),),
}
"""Every call and its parameters. `answer_dialogs`, which BrowserGym does not have, sets the answer
to all later dialogs of pages (`confirm`, `prompt`)."""


def parse_calls(text: str) -> Sequence[BrowserCall]:
    """Parse one or more calls. Raises `InvalidAction` with the call that is invalid."""
    if len(text) > MAX_TEXT:
        raise InvalidAction(f"The calls are {len(text)} characters long; the maximum is {MAX_TEXT}")
    try:
        statements = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InvalidAction(f"{_short(text)} is not a call: {what}. {_allowed()}") from None
    if not statements:
        raise InvalidAction(f"The text contains no call. {_allowed()}")
    if len(statements) > MAX_CALLS:
        raise InvalidAction(f"{len(statements)} calls at once; the maximum is {MAX_CALLS}")
    return [_read(statement, text.strip()) for statement in statements]


def _read(statement: ast.stmt, whole: str) -> BrowserCall:
    text = ast.get_source_segment(whole, statement) or ""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        raise InvalidAction(f"{_short(text)} is not a call. {_allowed()}")
    call = statement.value
    if not isinstance(call.func, ast.Name) or call.func.id not in CALLS:
        raise InvalidAction(f"{_short(text)} is not a known call. {_allowed()}")
    name = call.func.id
    try:
        positional = [ast.literal_eval(each) for each in call.args]
        named = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise InvalidAction(
            f"{_short(text)}: arguments must be strings, numbers, True, False or lists"
        ) from None
    return BrowserCall(name, _bound(name, positional, named, text), text)


def _bound(
    name: str, positional: Sequence[Any], named: Mapping[str | None, Any], text: str
) -> dict[str, Any]:
    """Return the arguments by parameter name, with defaults. Raises `InvalidAction`."""
    parameters = CALLS[name]
    bound: dict[str, Any] = {}
    if len(positional) > len(parameters):
        raise _invalid_call(
            name, text, f"it takes {len(parameters)} arguments, not {len(positional)}"
        )
    for parameter, value in zip(parameters, positional, strict=False):
        bound[parameter.name] = value
    for key, value in named.items():
        if key is None or key not in {each.name for each in parameters}:
            raise _invalid_call(name, text, f"it has no parameter {key!r}")
        if key in bound:
            raise _invalid_call(name, text, f"{key} is given twice")
        bound[key] = value
    for parameter in parameters:
        if parameter.name not in bound:
            if parameter.is_required:
                raise _invalid_call(name, text, f"{parameter.name} is missing")
            bound[parameter.name] = parameter.default
        elif not _has_kind(bound[parameter.name], parameter.kinds):
            raise _invalid_call(name, text, f"{parameter.name} must be {parameter.description}")
        if int in parameter.kinds and str in parameter.kinds:
            bound[parameter.name] = str(bound[parameter.name])
    if name == "noop" and not 0 <= bound["wait_ms"] <= MAX_NOOP_MS:
        raise _invalid_call(name, text, f"wait_ms must be 0 to {MAX_NOOP_MS} milliseconds")
    return bound


def _has_kind(value: object, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, int | float) and not abs(value) <= MAX_NUMBER:
        return False
    if isinstance(value, list):
        return list in kinds and all(isinstance(each, str) for each in value)
    return isinstance(value, kinds)


def _invalid_call(name: str, text: str, what: str) -> InvalidAction:
    return InvalidAction(f"{_short(text)}: {what}; it is {_signature(name)}")


def _signature(name: str) -> str:
    return f"{name}({', '.join(map(str, CALLS[name]))})"


def _allowed() -> str:
    return "Calls are: " + ", ".join(map(_signature, CALLS))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 200 else text[:199] + "…")
