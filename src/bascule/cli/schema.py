"""`bascule schema`: print the protocol as JSON Schema, for generating types."""

from __future__ import annotations

import json

import click


def schema() -> None:
    """Print the JSON Schema of every action and observation."""
    from bascule.wire.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
