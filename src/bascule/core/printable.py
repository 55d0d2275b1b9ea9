"""Makes untrusted text safe for a terminal and for log lines."""

from __future__ import annotations

import logging
import re
from types import TracebackType
from typing import Final

_HARMFUL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
"""Control characters except tab and newline (escape sequences begin with them), and Unicode
characters that change the writing direction or start a new line."""

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
"""The return type of `sys.exc_info`."""


def printable(text: str) -> str:
    """`text` with control characters as escapes (`\\x1b`); newlines and tabs stay."""
    return _HARMFUL.sub(_escape, text)


def one_line(text: str) -> str:
    """`text` with all control characters as escapes, including newlines and tabs."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


class OneLineFormatter(logging.Formatter):
    """Writes each message on one line and indents tracebacks, so that untrusted text in a message
    cannot forge a log record."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 - the library's name
        return _indent(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - the library's name
        return _indent(super().formatStack(stack_info))


def _indent(text: str) -> str:
    return "\n".join(f"    {printable(line)}" for line in text.split("\n"))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
