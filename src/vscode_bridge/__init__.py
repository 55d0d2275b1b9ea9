"""Talk to the VS Code window from which this program was started.

    import vscode_bridge as vscode

    if vscode.confirm("Rename everything?"):
        vscode.show_message(vscode.chat("A good name for a bridge?"))

This module works in a net that VS Code runs or debugs, and in a terminal of the command 'Bascule:
Open Bridged Terminal'. Every call blocks until its answer arrives; `vscode_bridge.aio` has the same
calls for asyncio. Many threads may call at once. A failed call raises a `BridgeError`, which is a
`RuntimeError`. Without a window, the error is `BridgeUnavailable`, whose message says what to do. A
question that the user dismisses returns None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar, overload

from bascule.bridge import calls
from bascule.bridge.calls import (
    BridgeCall,
    ChatModel,
    ChatReply,
    Diagnostic,
    Edit,
    Editor,
    Position,
    Selection,
)
from bascule.bridge.current import current_bridge as _current_bridge
from bascule.core.errors import (
    BridgeBusy,
    BridgeCancelled,
    BridgeClosed,
    BridgeError,
    BridgeFailed,
    BridgeProtocol,
    BridgeRefused,
    BridgeRemoteError,
    BridgeTimeout,
    BridgeTooLarge,
    BridgeUnavailable,
    ChatBlocked,
    ChatUnavailable,
    CommandFailed,
    InvalidParams,
    NotAllowed,
    NotSerializable,
    UnknownRequest,
)

from ._progress import Progress
from ._stream import ChatStream

if TYPE_CHECKING:
    from bascule.core.contracts import Bridge

__all__ = [
    "BridgeBusy",
    "BridgeCancelled",
    "BridgeClosed",
    "BridgeError",
    "BridgeFailed",
    "BridgeProtocol",
    "BridgeRefused",
    "BridgeRemoteError",
    "BridgeTimeout",
    "BridgeTooLarge",
    "BridgeUnavailable",
    "ChatBlocked",
    "ChatModel",
    "ChatReply",
    "ChatStream",
    "ChatUnavailable",
    "CommandFailed",
    "Diagnostic",
    "Edit",
    "Editor",
    "InvalidParams",
    "NotAllowed",
    "NotSerializable",
    "OutputChannel",
    "Position",
    "Progress",
    "Selection",
    "UnknownRequest",
    "active_editor",
    "apply_edit",
    "chat",
    "chat_models",
    "child_env",
    "confirm",
    "current_bridge",
    "diagnostics",
    "diff",
    "execute_command",
    "form",
    "get_chat_history",
    "input_box",
    "is_available",
    "open_file",
    "output",
    "progress",
    "quick_pick",
    "selection",
    "show_message",
    "use",
    "use_terminal",
]

P = ParamSpec("P")
T = TypeVar("T")


def _ask(call: BridgeCall[T]) -> T:
    answer = _current_bridge.bridge().request(call.type, call.params, timeout=call.timeout)
    return calls.read(call, answer)


def _blocking(make: Callable[P, BridgeCall[T]]) -> Callable[P, T]:
    @wraps(make)
    def ask(*args: P.args, **kwargs: P.kwargs) -> T:
        return _ask(make(*args, **kwargs))

    return ask


# The bridge -------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether a window answers right now. Takes at most a second and never raises."""
    return _current_bridge.bridge().is_available()


def current_bridge() -> Bridge:
    """The bridge that the functions of this module use, for custom requests."""
    return _current_bridge.bridge()


def use(bridge: Bridge | None) -> None:
    """Use this bridge from now on; None chooses a bridge by the environment again."""
    _current_bridge.use(bridge)


def use_terminal() -> None:
    """Ask in the terminal if there is no window. BASCULE_BRIDGE=terminal does the same."""
    _current_bridge.use_terminal()


def child_env() -> dict[str, str]:
    """Environment variables with which a program you start reaches the same window.

    They are removed from `os.environ`, so that no other program inherits them. Pass them on with
    `env={**os.environ, **child_env()}`.
    """
    return _current_bridge.child_env()


# Chat -------------------------------------------------------------------------------------


@overload
def chat(
    message: str,
    timeout: float | None = calls.CHAT_TIMEOUT,
    *,
    model: str = "",
    system: str = "",
    conversation_id: str = "",
    stream: Literal[False] = False,
) -> ChatReply: ...
@overload
def chat(
    message: str,
    timeout: float | None = calls.CHAT_TIMEOUT,
    *,
    model: str = "",
    system: str = "",
    conversation_id: str = "",
    stream: Literal[True],
) -> ChatStream: ...
def chat(
    message: str,
    timeout: float | None = calls.CHAT_TIMEOUT,
    *,
    model: str = "",
    system: str = "",
    conversation_id: str = "",
    stream: bool = False,
) -> ChatReply | ChatStream:
    """Ask a language model of the window and return its reply, a `str` with `conversation_id`
    and `model`. With `stream`, return a `ChatStream` of the reply's pieces instead.

    `model` is an id, family or name from `chat_models`. `system` precedes the message. The
    `conversation_id` of an earlier reply continues that conversation. Raises `ChatUnavailable` if
    there is no such model.
    """
    call = calls.chat(
        message,
        timeout,
        model=model,
        system=system,
        conversation_id=conversation_id,
        stream=stream,
    )
    return ChatStream(_current_bridge.bridge(), call) if stream else _ask(call)


chat_models = _blocking(calls.chat_models)
get_chat_history = _blocking(calls.get_chat_history)

# Messages and questions -------------------------------------------------------------------

show_message = _blocking(calls.show_message)
confirm = _blocking(calls.confirm)
input_box = _blocking(calls.input_box)
form = _blocking(calls.form)


@overload
def quick_pick(
    items: Sequence[str | Mapping[str, str]],
    *,
    many: Literal[False] = False,
    placeholder: str = "",
    title: str = "",
    timeout: float | None = None,
) -> str | None: ...
@overload
def quick_pick(
    items: Sequence[str | Mapping[str, str]],
    *,
    many: Literal[True],
    placeholder: str = "",
    title: str = "",
    timeout: float | None = None,
) -> list[str] | None: ...
def quick_pick(
    items: Sequence[str | Mapping[str, str]],
    *,
    many: bool = False,
    placeholder: str = "",
    title: str = "",
    timeout: float | None = None,
) -> str | list[str] | None:
    """Let the user pick one of `items`, or several with `many`. None if the user dismisses the
    question.

    An item is a string, or a mapping with `label`, `description` and `detail`. The label is
    returned.
    """
    return _ask(
        calls.quick_pick(items, many=many, placeholder=placeholder, title=title, timeout=timeout)
    )


def progress(title: str, total: float | None = None, *, cancellable: bool = True) -> Progress:
    """A notification during a `with` block. `update` raises `BridgeCancelled` after Cancel."""
    return Progress(_current_bridge.bridge(), title, total, cancellable=cancellable)


# The window -------------------------------------------------------------------------------

execute_command = _blocking(calls.execute_command)
open_file = _blocking(calls.open_file)
diff = _blocking(calls.diff)
apply_edit = _blocking(calls.apply_edit)
active_editor = _blocking(calls.active_editor)
selection = _blocking(calls.selection)


class diagnostics:  # noqa: N801  # a namespace: `diagnostics.get()`
    """The Problems view."""

    get = staticmethod(_blocking(calls.get_diagnostics))
    set = staticmethod(_blocking(calls.set_diagnostics))
    clear = staticmethod(_blocking(calls.clear_diagnostics))


class OutputChannel:
    """A channel in the Output view. The first write creates the channel. It stays after the run."""

    def __init__(self, name: str) -> None:
        self.name = name

    def append(self, text: str) -> None:
        _ask(calls.output(self.name, text=text))

    def print(self, *values: object, sep: str = " ", end: str = "\n") -> None:
        self.append(sep.join(map(str, values)) + end)

    def show(self) -> None:
        _ask(calls.output(self.name, show=True))

    def clear(self) -> None:
        _ask(calls.output(self.name, clear=True))


output = OutputChannel
