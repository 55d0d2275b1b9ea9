"""Errors and warnings about a net's file, with line and column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bascule.core.errors import InvalidNet

from .model import Net, Span
from .sizes import MAX_FINDINGS


class Severity(StrEnum):
    ERROR = "error"
    """The file cannot be loaded as a net."""
    WARNING = "warning"
    """The net can run, but probably not as intended."""


@dataclass(frozen=True, slots=True)
class NetDiagnostic:
    severity: Severity
    code: str
    """A stable code for programs, such as `yaml.syntax` or `arc.endpoint`."""
    message: str
    span: Span

    def __str__(self) -> str:
        return f"{self.span}: {self.severity}: {self.message} [{self.code}]"

    def as_json(self) -> dict[str, Any]:
        at = self.span
        return {
            "severity": str(self.severity),
            "code": self.code,
            "message": self.message,
            "file": at.file,
            "line": at.line,
            "column": at.column,
            "endLine": at.end_line,
            "endColumn": at.end_column,
        }


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of loading a file: a net unless the diagnostics contain an error."""

    net: Net | None
    diagnostics: Sequence[NetDiagnostic]

    def unwrap(self) -> Net:
        """The net. Raises `InvalidNet` with all diagnostics if there is no net."""
        if self.net is not None:
            return self.net
        raise InvalidNet(
            "\n".join(str(each) for each in self.diagnostics),
            diagnostics=[each.as_json() for each in self.diagnostics],
        )


class Findings:
    """Collects diagnostics while a file is read: up to `MAX_FINDINGS` errors and as many warnings.

    Further errors and warnings are only counted.
    """

    def __init__(self) -> None:
        self._errors: dict[NetDiagnostic, None] = {}
        self._warnings: dict[NetDiagnostic, None] = {}
        self._unlisted = 0

    def error(self, code: str, message: str, span: Span) -> None:
        self.add([NetDiagnostic(Severity.ERROR, code, message, span)])

    def warn(self, code: str, message: str, span: Span) -> None:
        self.add([NetDiagnostic(Severity.WARNING, code, message, span)])

    def add(self, diagnostics: Iterable[NetDiagnostic]) -> None:
        for each in diagnostics:
            found = self._errors if each.severity is Severity.ERROR else self._warnings
            if len(found) < MAX_FINDINGS or each in found:
                found[each] = None
            else:
                self._unlisted += 1

    @property
    def has_errors(self) -> bool:
        return bool(self._errors)

    def sorted(self) -> tuple[NetDiagnostic, ...]:
        """The diagnostics in the order of the file, without duplicates."""
        found = sorted(
            (*self._errors, *self._warnings),
            key=lambda each: (each.span, each.code, each.message),
        )
        if self._unlisted:
            last = found[-1]
            message = f"There are {self._unlisted:,} more problems, which are not listed"
            found.append(NetDiagnostic(last.severity, "file.more", message, last.span))
        return tuple(found)
