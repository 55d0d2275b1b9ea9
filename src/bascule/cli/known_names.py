"""Names of a hub's sessions, windows and tokens, for Tab completion.

A slow or unreachable hub gives no names: Tab must not wait or print errors.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import click

from bascule.core.errors import BasculeError

from .signatures import Candidates

_TIMEOUT: Final = "0.3"
"""Seconds to wait for a hub. BASCULE_COMPLETION_TIMEOUT overrides it."""

Names = Sequence[tuple[str, str]]
"""Names, each with a short description."""


def one_of(*words: str) -> Candidates:
    """Candidates that do not depend on a hub."""
    return lambda _: words


def session_names(ctx: click.Context) -> Names:
    """The names of sessions; the id if a session has no name or shares it with another."""
    found = _get_from_hub(ctx, "/api/sessions")
    names = [each["name"] for each in found]
    return [
        (each["name"] if names.count(each["name"] or None) == 1 else each["id"], each["state"])
        for each in found
    ]


def window_names(ctx: click.Context) -> Names:
    """The folders of windows; the id of a window without a folder."""
    return [
        (each["folders"][0]["path"] if each["folders"] else each["id"], each["name"])
        for each in _get_from_hub(ctx, "/api/vscode/instances")
        if each["status"] != "gone"
    ]


def token_names(ctx: click.Context) -> Names:
    """The names of tokens, without the tokens of sessions, which are removed with their session."""
    found = _get_from_hub(ctx, "/api/tokens")
    return [(each["name"], each["scope"]) for each in found if each["scope"] != "session"]


def _get_from_hub(ctx: click.Context, path: str) -> Sequence[Any]:
    from bascule.link.quick_get import quick_get

    from .hub_target import find_hub

    try:
        target = find_hub(ctx.params.get("hub"))
    except BasculeError:
        return ()
    timeout = float(os.environ.get("BASCULE_COMPLETION_TIMEOUT", _TIMEOUT))
    return quick_get(target.url, target.token, path, within=timeout) or ()
