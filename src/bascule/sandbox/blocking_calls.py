"""The contract of functions that run blocking calls in threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

_Result = TypeVar("_Result")


class InThread(Protocol):
    """Runs a blocking call in a thread."""

    def __call__(self, work: Callable[..., _Result], *args: Any) -> Awaitable[_Result]: ...
