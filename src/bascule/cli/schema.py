"""`bascule schema`: the protocol as JSON Schema, for those who generate types from it."""

from __future__ import annotations

import json

import typer


def schema() -> None:
    """Print the JSON Schema of every action and observation."""
    from bascule.wire.schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
