"""Log records as JSON, one object per line, for log collectors."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """Formats `{"time", "level", "logger", "message"}`, with `traceback` if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)  # ASCII only, so it is safe to show on a terminal


def use_json() -> None:
    """Format the records of all handlers of the root logger as JSON."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(JsonFormatter())
