"""The breakpoints that the editor has set, by file.

The debuggee handles breakpoints at places and transitions of a net, debugpy those in Python code.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bascule.net import Net

from .breakpoints import BoundBreakpoint, BreakpointTarget, bind, binding_status
from .dap_server import Body, number_in


@dataclass(slots=True)
class SourceFile:
    """The breakpoints of a file, as the editor requested them."""

    path: str
    requested: list[Mapping[str, Any]]
    ids: list[int]
    bound: list[BoundBreakpoint | None]
    """The element to which each breakpoint is bound, if the file is a net."""
    is_net: bool

    def python_indices(self) -> list[int]:
        """Indices of the breakpoints in Python code."""
        if not self.is_net:
            return list(range(len(self.requested)))
        return [
            index
            for index, bound in enumerate(self.bound)
            if bound is not None and bound.target is BreakpointTarget.CODE
        ]

    def answers(self, from_python: Sequence[Mapping[str, Any]] = ()) -> list[Body]:
        """The answers for the editor. `from_python`: debugpy's answers for Python code."""
        answers = [self._answer(index) for index in range(len(self.requested))]
        for index, answer in zip(self.python_indices(), from_python, strict=False):
            for name in ("verified", "line", "message"):
                if name in answer:
                    answers[index][name] = answer[name]
        return answers

    def _answer(self, index: int) -> Body:
        shape: Body = {"id": self.ids[index], "source": {"path": self.path}}
        if self.is_net:
            return shape | binding_status(self.bound[index])
        return shape | {"verified": False, "line": self.requested[index]["line"]}


class SourceBreakpoints:
    """All files with breakpoints. A call of `set` replaces all earlier breakpoints of the file."""

    def __init__(self) -> None:
        self._files: dict[str, SourceFile] = {}
        self._ids = itertools.count(1)
        self._python_ids: dict[int, int] = {}
        """The adapter's id of each breakpoint, by debugpy's id."""

    def __iter__(self) -> Iterator[SourceFile]:
        return iter(tuple(self._files.values()))

    def set(self, path: str, requested: Sequence[Mapping[str, Any]], net: Net | None) -> SourceFile:
        """Set the breakpoints of a file. `net`: the net in the file, or None."""
        lines = [number_in(each, "line") for each in requested]
        file = SourceFile(
            path=path,
            requested=list(requested),
            ids=[next(self._ids) for _ in requested],
            bound=[bind(net, line) if net else None for line in lines],
            is_net=net is not None,
        )
        self._files[path] = file
        return file

    def ensure_net(self, path: str) -> None:
        """Add the net at `path` even without breakpoints: a step into its code will need a
        breakpoint."""
        if path and not any(is_same_file(known, path) for known in self._files):
            self._files[path] = SourceFile(path, [], [], [], is_net=True)

    def for_debuggee(self, program: str) -> list[Body]:
        """The breakpoints at places and transitions of the net `program`."""
        return [
            {
                "id": id_,
                "target": bound.target,
                "element": bound.element,
                **{
                    name: requested.get(name)
                    for name in ("condition", "hitCondition", "logMessage")
                },
            }
            for file in self._files.values()
            if is_same_file(file.path, program)
            for requested, id_, bound in zip(file.requested, file.ids, file.bound, strict=True)
            if bound is not None and bound.target is not BreakpointTarget.CODE
        ]

    def record_python_ids(self, file: SourceFile, answers: Sequence[Mapping[str, Any]]) -> None:
        """Remember the ids that debugpy gave the breakpoints of a file."""
        for index, answer in zip(file.python_indices(), answers, strict=False):
            if "id" in answer:
                self._python_ids[int(answer["id"])] = file.ids[index]

    def ids_of(self, python_ids: Sequence[int]) -> list[int]:
        """The adapter's ids of debugpy's breakpoints. Unknown ids are left out."""
        return [self._python_ids[each] for each in python_ids if each in self._python_ids]


def is_same_file(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
