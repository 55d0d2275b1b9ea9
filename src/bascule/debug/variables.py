"""The values of a halted net as DAP variables, which an editor can expand and change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from bascule.core.errors import UsageError

_MAX_TEXT_CHARACTERS = 2000
Setter: TypeAlias = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    value: Any
    change: Setter | None = None
    """Sets another value; None for a read-only variable."""


class Handles:
    """DAP variable references of expandable values. They are valid until the net continues."""

    def __init__(self) -> None:
        self._held: list[Callable[[], Sequence[Variable]]] = []

    def clear(self) -> None:
        self._held.clear()

    def hold(self, children: Callable[[], Sequence[Variable]]) -> int:
        self._held.append(children)
        return len(self._held)

    def children(self, reference: int) -> Sequence[Variable]:
        if not 0 < reference <= len(self._held):
            raise UsageError(
                f"The variable reference {reference} is no longer valid; the net has continued"
            )
        return self._held[reference - 1]()

    def to_dap(self, variable: Variable) -> dict[str, Any]:
        """A variable as the debug adapter protocol describes it."""
        value = variable.value
        shape: dict[str, Any] = {
            "name": variable.name,
            "value": text_of(value),
            "type": type(value).__name__,
            "variablesReference": 0,
        }
        parts = _parts(value, variable.change)
        if parts is not None:
            shape["variablesReference"] = self.hold(lambda: parts)
        if variable.change is None:
            shape["presentationHint"] = {"attributes": ["readOnly"]}
        return shape


def text_of(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_TEXT_CHARACTERS else text[: _MAX_TEXT_CHARACTERS - 1] + "…"


def _parts(value: Any, change: Setter | None) -> list[Variable] | None:
    if isinstance(value, Mapping):
        return [
            Variable(str(key), each, change and _key_setter(value, key, change))
            for key, each in value.items()
        ]
    if isinstance(value, list | tuple):
        return [
            Variable(str(index), each, change and _item_setter(value, index, change))
            for index, each in enumerate(value)
        ]
    return None


def _key_setter(whole: Mapping[Any, Any], key: Any, change: Setter) -> Setter:
    return lambda new: change({**whole, key: new})


def _item_setter(whole: Sequence[Any], index: int, change: Setter) -> Setter:
    def replace(new: Any) -> None:
        parts = [*whole[:index], new, *whole[index + 1 :]]
        change(tuple(parts) if isinstance(whole, tuple) else parts)

    return replace
