"""The settings of the session that a sample gets."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from bascule.core.errors import InvalidSetting

CONFIG_FILE: Final = "bascule.toml"
"""Name of the configuration file that Inspect finds by itself beside a task."""


class SessionConfig(BaseModel):
    """The body of `POST /api/sessions`, such as `spawner`, `image`, `egress` and `limits`. The hub
    checks the fields."""

    model_config = ConfigDict(extra="allow", frozen=True)


def session_body(config: BaseModel | str | None) -> dict[str, Any]:
    """The body for a new session. Raises `InvalidSetting`."""
    if config is None:
        return {}
    if isinstance(config, BaseModel):
        if not isinstance(config, SessionConfig):
            raise InvalidSetting(
                f"The sandbox bascule takes a SessionConfig or a TOML file, not a "
                f"{type(config).__name__}"
            )
        return config.model_dump()
    try:
        return tomllib.loads(Path(config).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidSetting(
            f"The settings of the sandbox cannot be read from {config!r}: {error}"
        ) from error
