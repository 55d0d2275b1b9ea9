"""The JSON Schema of `*.evolve.yaml`, for completion and validation in editors."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def schema_text() -> str:
    return files(__package__).joinpath("evolve.schema.json").read_text(encoding="utf-8")


def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(schema_text())
    return loaded
