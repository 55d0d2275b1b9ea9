"""The module `vscode_bridge` that the code of a net sees.

Nets import the bridge by different names, such as `from enginepy import vscode_bridge`. While a net
runs, all these names import this module. Operations that need the host of another engine raise an
error.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from bascule.core.errors import BasculeError, NoSuchOperation

BRIDGE: Final = "vscode_bridge"
PACKAGE: Final = "enginepy"
"""The package from which nets written for another engine import the bridge."""

_APPROVAL: Final = {
    "type": "object",
    "properties": {"approved": {"type": "boolean", "title": "Approved"}},
}
"""The form for a request without a schema."""


class Operation:
    """A request to the window. It is sent only when the code awaits it, returns it from an async
    inscription, or calls `result()`."""

    def __init__(self, begin: Callable[[], Any], abegin: Callable[[], Any] | None = None) -> None:
        self._begin = begin
        self._abegin = abegin

    def __await__(self) -> Generator[Any, None, Any]:
        work = self._abegin() if self._abegin is not None else _in_thread(self._begin)
        result: Generator[Any, None, Any] = work.__await__()
        return result

    def result(self) -> Any:
        return self._begin()


class WindowModule(ModuleType):
    """Forwards attributes to the bridge, and adds the names that only nets use."""

    def __init__(self, bridge: object) -> None:
        super().__init__(BRIDGE, "The VS Code window this net was started from.")
        self._bridge = bridge

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._bridge, name)

    def chat_async(self, message: str, timeout: float = 30, **options: Any) -> Operation:
        return self._operation("chat", message, timeout=timeout, **options)

    def show_form_async(self, form_spec: Mapping[str, Any], timeout: float = 300) -> Operation:
        """`form_spec` has a JSON Schema in `schema`. Without a schema, the form asks for
        approval."""
        spec = dict(form_spec)
        title = str(spec.get("title", ""))
        options = {
            "title": title,
            "value": spec.get("value", spec.get("data")),
            "ui_schema": spec.get("uiSchema", spec.get("ui_schema")),
        }
        given = {name: value for name, value in options.items() if value is not None}
        return self._operation("form", spec.get("schema") or _APPROVAL, timeout=timeout, **given)

    def participant_async(self, *_: Any, **__: Any) -> Operation:
        raise _no_such_operation("participant_async", "ask with chat_async, or show_form_async")

    def lambda_async(self, *_: Any, **__: Any) -> Operation:
        raise _no_such_operation("lambda_async", "call the function in the inscription itself")

    def http_async(self, *_: Any, **__: Any) -> Operation:
        raise _no_such_operation("http_async", "call the address in an async inscription itself")

    def _operation(self, name: str, *args: Any, **options: Any) -> Operation:
        aio = getattr(getattr(self._bridge, "aio", None), name, None)
        return Operation(
            lambda: getattr(self._bridge, name)(*args, **options),
            None if aio is None else lambda: aio(*args, **options),
        )


class UnavailableWindow:
    """Replaces the bridge if there is no bridge: every call raises `error`."""

    def __init__(self, error: BasculeError) -> None:
        self._error = error

    def is_available(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "aio":
            raise AttributeError(name)
        return self._fail

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise self._error


@contextmanager
def importable(window: WindowModule) -> Iterator[None]:
    """While open, imports of `vscode_bridge` and `enginepy.vscode_bridge` give `window`."""
    package = ModuleType(PACKAGE, "Stands for the engine some nets were written for.")
    package.__path__ = []
    package.vscode_bridge = window  # type: ignore[attr-defined]
    names: dict[str, ModuleType] = {
        BRIDGE: window,
        PACKAGE: package,
        f"{PACKAGE}.{BRIDGE}": window,
    }
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(names)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def _no_such_operation(name: str, instead: str) -> NoSuchOperation:
    return NoSuchOperation(f"There is no {name} here; {instead}", operation=name)


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Run `work` in a daemon thread: Python would wait at exit for a thread of an executor."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(value)
        else:
            done.set_exception(error)

    def run() -> None:
        value, failure = None, None
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 - raised in the task that awaits
            failure = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(target=run, name="net-operation", daemon=True).start()
    return await done
