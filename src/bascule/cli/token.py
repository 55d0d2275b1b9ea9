"""`bascule token`: show the hub's first token, or make others."""

from __future__ import annotations

import asyncio
import math
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bascule.core.errors import InvalidSetting

from .known_names import one_of, token_names

if TYPE_CHECKING:
    from bascule.hub.identity import Scope
    from bascule.hub.store import Store

    from .hub_settings import HubFile


def token(
    create: Annotated[
        str | None, typer.Option(metavar="NAME", help="Make a token of this name and show it.")
    ] = None,
    scope: Annotated[
        str,
        typer.Option(
            help="What it may do: agent, window or admin.",
            autocompletion=one_of("agent", "window", "admin"),
        ),
    ] = "agent",
    owner: Annotated[str, typer.Option(help="Whose windows it sees.")] = "admin",
    days: Annotated[float | None, typer.Option(help="Days until it expires.")] = None,
    every: Annotated[
        bool, typer.Option("--list", help="List the tokens that were made, without the secrets.")
    ] = False,
    revoke: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="End the token of this name.", autocompletion=token_names
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The hub's settings file.")] = None,
    state_dir: Annotated[Path | None, typer.Option(help="The hub's state directory.")] = None,
) -> int:
    """Show the admin token of the hub on this machine; with --create, make another token.

    Give agents and windows tokens of their own: the name is what users see when asked whether
    an agent may act. A token is shown once; the hub keeps only its hash.
    """
    from bascule.hub.tokens import admin_token

    from .hub_settings import load

    _ensure_meant(create, revoke, days, every=every)
    settings = load(config, os.environ, {"state_dir": state_dir})
    state = settings.state()
    admin = os.environ.get("BASCULE_TOKEN") or admin_token(state)
    if every:
        asyncio.run(_list(settings))
    elif revoke is not None:
        asyncio.run(_revoke(settings, revoke))
    elif create is not None:
        lifetime = None if days is None else days * 86400
        made = asyncio.run(_create(settings, create, _scope(scope), owner=owner, lifetime=lifetime))
        typer.echo(made)
    else:
        typer.echo(admin)
    return 0


def _ensure_meant(
    create: str | None, revoke: str | None, days: float | None, *, every: bool
) -> None:
    if sum((create is not None, revoke is not None, every)) > 1:
        raise InvalidSetting(
            "--create, --revoke and --list are different things; do one after the other"
        )
    if create is not None and not create.strip():
        raise InvalidSetting("--create needs a name, which users see when asked about the agent")
    if days is not None and not 0 < days < math.inf:
        raise InvalidSetting(f"--days is {days:g}; it has to be a number above 0")


async def _create(
    settings: HubFile, name: str, scope: Scope, *, owner: str, lifetime: float | None
) -> str:
    from bascule.hub.tokens import Tokens

    async with _store(settings) as store:
        await store.open()
        return await Tokens(store, "").create(name, scope, owner=owner, lifetime=lifetime)


async def _list(settings: HubFile) -> None:
    """Those that people made: a session's own goes with it."""
    async with _store(settings) as store:
        await store.open()
        rows = [row for row in await store.list_tokens() if row.scope != "session"]
    width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        typer.echo(f"{row.name:{width}}  {row.scope:6}  of {row.owner}, {_until(row.expires)}")


def _until(expires: float | None) -> str:
    if expires is None:
        return "for good"
    return f"until {datetime.fromtimestamp(expires, UTC):%Y-%m-%d %H:%M} UTC"


async def _revoke(settings: HubFile, name: str) -> None:
    async with _store(settings) as store:
        await store.open()
        if not await store.remove_token(name):
            raise InvalidSetting(
                f"There is no token named {name!r}; `bascule token --list` shows them"
            )


def _store(settings: HubFile) -> Store:
    from bascule.hub.database.address import database_address
    from bascule.hub.database.store import SqlStore

    return SqlStore(database_address(settings.database_url, settings.state()))


def _scope(text: str) -> Scope:
    if text == "agent":
        return "agent"
    if text == "window":
        return "window"
    if text == "admin":
        return "admin"
    raise InvalidSetting(f"--scope is {text!r}; it can be agent, window or admin")
