"""Log records as one JSON object a line, for those who collect them."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """`{"time", "level", "logger", "message"}`, with `traceback` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)  # ASCII: a terminal may show it


def use_json() -> None:
    """Write every record that goes to the root's handlers as JSON from now on."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(JsonFormatter())
