"""Names that a hub knows, for Tab: those of its sessions, windows and tokens.

A hub that is far away or gone has none: whoever presses Tab waits for nobody and reads no errors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

import typer

from bascule.core.errors import BasculeError

_PATIENCE: Final = "0.3"
"""Seconds that a hub has to answer, unless BASCULE_COMPLETION_TIMEOUT gives it others."""

Names = Sequence[tuple[str, str]]
"""Each with a few words on it."""


def one_of(*words: str) -> Callable[[], Sequence[str]]:
    """Those that are the same everywhere."""
    return lambda: words


def session_names(ctx: typer.Context) -> Names:
    """By name; those without one, or whose name others have, by id."""
    found = _of_hub(ctx, "/api/sessions")
    names = [each["name"] for each in found]
    return [
        (each["name"] if names.count(each["name"] or None) == 1 else each["id"], each["state"])
        for each in found
    ]


def window_names(ctx: typer.Context) -> Names:
    """By folder, which people know; windows without one by id."""
    return [
        (each["folders"][0]["path"] if each["folders"] else each["id"], each["name"])
        for each in _of_hub(ctx, "/api/vscode/instances")
        if each["status"] != "gone"
    ]


def token_names(ctx: typer.Context) -> Names:
    """Those that people made: a session's own goes with it."""
    found = _of_hub(ctx, "/api/tokens")
    return [(each["name"], each["scope"]) for each in found if each["scope"] != "session"]


def _of_hub(ctx: typer.Context, where: str) -> Sequence[Any]:
    from bascule.link.quick_get import quick_get

    from .hub_target import find_hub

    try:
        place = find_hub(ctx.params.get("hub"))
    except BasculeError:
        return ()
    patience = float(os.environ.get("BASCULE_COMPLETION_TIMEOUT", _PATIENCE))
    return quick_get(place.url, place.token, where, within=patience) or ()
