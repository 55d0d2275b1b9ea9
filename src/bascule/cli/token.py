"""`bascule token`: print the hub's admin token, or manage other tokens."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from bascule.core.errors import InvalidSetting
from bascule.core.printable import one_line

from .address import with_scheme
from .hub_state import running_hubs
from .hub_target import HubUrl, print_note, use_hub
from .known_names import one_of, token_names
from .signatures import CommandOption

if TYPE_CHECKING:
    from bascule.hub.identity import Scope

    from .hub_tokens import LocalTokens, RemoteTokens, TokenInfo


def token(
    create: Annotated[
        str | None,
        CommandOption(metavar="NAME", help="Create a token with this name and print it."),
    ] = None,
    scope: Annotated[
        str,
        CommandOption(
            help="Permissions of the new token: agent, window or admin.",
            autocompletion=one_of("agent", "window", "admin"),
        ),
    ] = "agent",
    owner: Annotated[
        str,
        CommandOption(
            help="Owner of the new token. With the token, an agent can use this owner's windows "
            "and sessions."
        ),
    ] = "admin",
    days: Annotated[
        float | None, CommandOption(help="Days until the new token expires. [default: never]")
    ] = None,
    every: Annotated[
        bool,
        CommandOption(
            "--list", help="List the tokens that people created: their names, not the tokens."
        ),
    ] = False,
    revoke: Annotated[
        str | None,
        CommandOption(
            metavar="NAME", help="Revoke the token with this name.", autocompletion=token_names
        ),
    ] = None,
    hub: HubUrl = None,
    config: Annotated[
        Path | None, CommandOption(help="Settings file of the hub whose tokens to use.")
    ] = None,
    state_dir: Annotated[
        Path | None, CommandOption(help="State directory of the hub whose tokens to use.")
    ] = None,
) -> int:
    """Print the admin token of the hub on this machine, or create, list or revoke other tokens.

    Uses the running hub of `bascule up` or `bascule serve`, and prints on stderr which hub this is.
    If no hub is running, reads and changes the stored tokens that the next `bascule serve` uses.

    Give each agent and each window its own token: when a window asks its user whether an agent may
    act, it shows the token's name. A new token is printed only once; the hub stores only its hash.
    """
    _check_options(create, revoke, days, every=every)
    asyncio.run(
        _act(
            _chosen(hub, config, state_dir),
            create=create,
            revoke=revoke,
            every=every,
            new=_NewToken(_scope(scope), owner, None if days is None else days * 86400),
        )
    )
    return 0


@dataclass(frozen=True, slots=True)
class _NewToken:
    """A token to create."""

    scope: Scope
    owner: str
    lifetime: float | None


async def _act(
    tokens: LocalTokens | RemoteTokens,
    *,
    create: str | None,
    revoke: str | None,
    every: bool,
    new: _NewToken,
) -> None:
    if not every and revoke is None and create is None:
        click.echo(tokens.admin())
        return
    async with tokens:
        if every:
            _show(await tokens.list())
        elif revoke is not None:
            if not await tokens.revoke(revoke):
                raise InvalidSetting(
                    f"there is no token named {revoke!r}; `bascule token --list` lists the tokens"
                )
        elif create is not None:
            made = await tokens.create(create, new.scope, owner=new.owner, lifetime=new.lifetime)
            click.echo(made)


def _chosen(
    hub: str | None, config: Path | None, state_dir: Path | None
) -> LocalTokens | RemoteTokens:
    """The tokens of the hub at `hub`, else of the last started hub on this machine, else of the hub
    that `serve` would start. Prints the choice to stderr."""
    from .hub_settings import load
    from .hub_tokens import LocalTokens, RemoteTokens

    settings = load(config, os.environ, {"state_dir": state_dir})
    running = running_hubs(settings.state())
    if hub is not None and state_dir is None and config is None:
        address = with_scheme(hub).rstrip("/")
        running = [each for each in running if each.url == address]
        if not running:
            return RemoteTokens(use_hub(hub, say=True))
    if running:
        print_note(f"hub: {running[0]}")
        return LocalTokens(settings, running[0].state)
    print_note(
        "no hub is running here; using the hub that `bascule serve` starts, with its "
        f"state in {settings.state()}. For the hub of `bascule up` or `make run`, start it first"
    )
    return LocalTokens(settings, settings.state())


def _check_options(
    create: str | None, revoke: str | None, days: float | None, *, every: bool
) -> None:
    if sum((create is not None, revoke is not None, every)) > 1:
        raise InvalidSetting("give only one of --create, --revoke and --list")
    if create is not None and not create.strip():
        raise InvalidSetting(
            "--create needs a name, which users see when asked whether the agent may act"
        )
    if days is not None and not 0 < days < math.inf:
        raise InvalidSetting(f"--days is {days:g}; it must be a number above 0")


def _show(rows: Sequence[TokenInfo]) -> None:
    """Print all tokens except those of sessions, which are removed with their session."""
    rows = [row for row in rows if row.scope != "session"]
    named = [(one_line(row.name), row) for row in rows]
    width = max((len(name) for name, _ in named), default=0)
    for name, row in named:
        owner = one_line(row.owner)
        click.echo(f"{name:{width}}  {row.scope:6}  owner {owner}, {_expiry_text(row.expires)}")


def _expiry_text(expires: float | None) -> str:
    if expires is None:
        return "never expires"
    return f"expires {datetime.fromtimestamp(expires, UTC):%Y-%m-%d %H:%M} UTC"


def _scope(text: str) -> Scope:
    if text == "agent":
        return "agent"
    if text == "window":
        return "window"
    if text == "admin":
        return "admin"
    raise InvalidSetting(f"--scope is {text!r}; it must be agent, window or admin")
