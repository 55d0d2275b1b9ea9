"""Text of unknown origin in logs."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from bascule.cli.jsonlogs import JsonFormatter
from bascule.core.printable import OneLineFormatter

FORGED = "x\n2026-01-01 INFO bascule.hub: admin signed in\r\x1b[2J\x9b2J\u202e"


@pytest.fixture
def record() -> logging.LogRecord:
    """A failure, with text of somebody else in its message and in its traceback."""
    try:
        raise ValueError(FORGED)
    except ValueError:
        told = sys.exc_info()
    return logging.LogRecord("bascule.hub", logging.ERROR, "", 0, "%s failed", (FORGED,), told)


def test_no_line_of_a_record_looks_like_another_record(record: logging.LogRecord) -> None:
    record.stack_info = FORGED
    first, *rest = (
        OneLineFormatter("2026-02-02 %(levelname)s: %(message)s").format(record).split("\n")
    )
    assert first.startswith("2026-02-02 ERROR: x\\n2026-01-01 ")
    assert any("ValueError: x" in line for line in rest)
    assert all(line.startswith("    ") for line in rest)
    assert not set("\r\x1b\x9b\u202e") & set("".join([first, *rest]))


def test_a_json_log_record_has_no_terminal_control_characters(record: logging.LogRecord) -> None:
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["message"] == f"{FORGED} failed"
