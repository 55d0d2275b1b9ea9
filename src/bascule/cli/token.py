"""`bascule token`: show the hub's first token, or make others."""

from __future__ import annotations

import asyncio
import math
import os
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

    _ensure_meant(create, revoke, days)
    settings = load(config, os.environ, {"state_dir": state_dir})
    state = settings.state()
    admin = os.environ.get("BASCULE_TOKEN") or admin_token(state)
    if revoke is not None:
        asyncio.run(_revoke(settings, revoke))
    elif create is not None:
        lifetime = None if days is None else days * 86400
        made = asyncio.run(_create(settings, create, _scope(scope), owner=owner, lifetime=lifetime))
        typer.echo(made)
    else:
        typer.echo(admin)
    return 0


def _ensure_meant(create: str | None, revoke: str | None, days: float | None) -> None:
    if create is not None and revoke is not None:
        raise InvalidSetting("--create and --revoke are two things; do one after the other")
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


async def _revoke(settings: HubFile, name: str) -> None:
    async with _store(settings) as store:
        await store.open()
        if not await store.remove_token(name):
            raise InvalidSetting(f"There is no token named {name!r}")


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
