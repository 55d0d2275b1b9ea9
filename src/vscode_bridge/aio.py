"""`vscode_bridge` for asyncio: the same calls and the same window. Cancelling a call also cancels
the request in the window."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import Literal, ParamSpec, TypeVar, overload

from bascule.bridge import calls
from bascule.bridge.calls import BridgeCall, ChatReply
from bascule.bridge.current import current_bridge as _current_bridge

from ._progress import AsyncProgress
from ._stream import AsyncChatStream

__all__ = [
    "AsyncChatStream",
    "AsyncProgress",
    "OutputChannel",
    "active_editor",
    "apply_edit",
    "chat",
    "chat_models",
    "confirm",
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
]

P = ParamSpec("P")
T = TypeVar("T")


async def _ask(call: BridgeCall[T]) -> T:
    answer = await _current_bridge.bridge().arequest(call.type, call.params, timeout=call.timeout)
    return calls.read(call, answer)


def _awaited(make: Callable[P, BridgeCall[T]]) -> Callable[P, Awaitable[T]]:
    @wraps(make)
    async def ask(*args: P.args, **kwargs: P.kwargs) -> T:
        return await _ask(make(*args, **kwargs))

    return ask


async def is_available() -> bool:
    return await asyncio.to_thread(_current_bridge.bridge().is_available)


@overload
def chat(
    message: str,
    timeout: float | None = calls.CHAT_TIMEOUT,
    *,
    model: str = "",
    system: str = "",
    conversation_id: str = "",
    stream: Literal[False] = False,
) -> Awaitable[ChatReply]: ...
@overload
def chat(
    message: str,
    timeout: float | None = calls.CHAT_TIMEOUT,
    *,
    model: str = "",
    system: str = "",
    conversation_id: str = "",
    stream: Literal[True],
) -> AsyncChatStream: ...
def chat(
    message: str,
    timeout: float | None = calls.CHAT_TIMEOUT,
    *,
    model: str = "",
    system: str = "",
    conversation_id: str = "",
    stream: bool = False,
) -> Awaitable[ChatReply] | AsyncChatStream:
    """Like `vscode_bridge.chat`: await the reply, or iterate with `async for` if `stream`."""
    call = calls.chat(
        message,
        timeout,
        model=model,
        system=system,
        conversation_id=conversation_id,
        stream=stream,
    )
    return AsyncChatStream(_current_bridge.bridge(), call) if stream else _ask(call)


chat_models = _awaited(calls.chat_models)
get_chat_history = _awaited(calls.get_chat_history)
show_message = _awaited(calls.show_message)
confirm = _awaited(calls.confirm)
input_box = _awaited(calls.input_box)
form = _awaited(calls.form)
execute_command = _awaited(calls.execute_command)
open_file = _awaited(calls.open_file)
diff = _awaited(calls.diff)
apply_edit = _awaited(calls.apply_edit)
active_editor = _awaited(calls.active_editor)
selection = _awaited(calls.selection)


@overload
async def quick_pick(
    items: Sequence[str | Mapping[str, str]],
    *,
    many: Literal[False] = False,
    placeholder: str = "",
    title: str = "",
    timeout: float | None = None,
) -> str | None: ...
@overload
async def quick_pick(
    items: Sequence[str | Mapping[str, str]],
    *,
    many: Literal[True],
    placeholder: str = "",
    title: str = "",
    timeout: float | None = None,
) -> list[str] | None: ...
async def quick_pick(
    items: Sequence[str | Mapping[str, str]],
    *,
    many: bool = False,
    placeholder: str = "",
    title: str = "",
    timeout: float | None = None,
) -> str | list[str] | None:
    """Like `vscode_bridge.quick_pick`."""
    return await _ask(
        calls.quick_pick(items, many=many, placeholder=placeholder, title=title, timeout=timeout)
    )


def progress(title: str, total: float | None = None, *, cancellable: bool = True) -> AsyncProgress:
    """Like `vscode_bridge.progress`, for `async with`; Cancel also interrupts the block."""
    return AsyncProgress(_current_bridge.bridge(), title, total, cancellable=cancellable)


class diagnostics:  # noqa: N801  # a namespace: `await diagnostics.get()`
    """The Problems view."""

    get = staticmethod(_awaited(calls.get_diagnostics))
    set = staticmethod(_awaited(calls.set_diagnostics))
    clear = staticmethod(_awaited(calls.clear_diagnostics))


class OutputChannel:
    """A channel in the Output view. The first write creates the channel. It stays after the run."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def append(self, text: str) -> None:
        await _ask(calls.output(self.name, text=text))

    async def print(self, *values: object, sep: str = " ", end: str = "\n") -> None:
        await self.append(sep.join(map(str, values)) + end)

    async def show(self) -> None:
        await _ask(calls.output(self.name, show=True))

    async def clear(self) -> None:
        await _ask(calls.output(self.name, clear=True))


output = OutputChannel
