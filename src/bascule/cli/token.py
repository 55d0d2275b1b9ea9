"""`bascule token`: show the hub's first token, or make others."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bascule.core.errors import InvalidSetting
from bascule.core.printable import one_line

from .address import with_scheme
from .hub_state import running_hubs
from .hub_target import HubUrl, tell, use_hub
from .known_names import one_of, token_names

if TYPE_CHECKING:
    from bascule.hub.identity import Scope

    from .hub_tokens import LocalTokens, RemoteTokens, TokenInfo


def token(
    create: Annotated[
        str | None, typer.Option(metavar="NAME", help="Create a token with this name and print it.")
    ] = None,
    scope: Annotated[
        str,
        typer.Option(
            help="Permissions of the new token: agent, window or admin.",
            autocompletion=one_of("agent", "window", "admin"),
        ),
    ] = "agent",
    owner: Annotated[
        str, typer.Option(help="Owner of the new token; it sees this owner's windows and sessions.")
    ] = "admin",
    days: Annotated[
        float | None, typer.Option(help="Days until the new token expires. [default: never]")
    ] = None,
    every: Annotated[
        bool,
        typer.Option("--list", help="List the tokens that people created, without their secrets."),
    ] = False,
    revoke: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Revoke the token with this name.", autocompletion=token_names
        ),
    ] = None,
    hub: HubUrl = None,
    config: Annotated[Path | None, typer.Option(help="Settings file of the hub.")] = None,
    state_dir: Annotated[Path | None, typer.Option(help="State directory of the hub.")] = None,
) -> int:
    """Print the admin token of the hub on this machine, or create, list or revoke other tokens.

    Uses the running hub of `bascule up` or `bascule serve` and names it on stderr. If no hub is
    running, uses the hub that the next `bascule serve` starts.

    Give each agent and window its own token: users see its name when asked whether an agent may
    act. A token is printed once; the hub stores only its hash.
    """
    _ensure_meant(create, revoke, days, every=every)
    asyncio.run(
        _act(
            _chosen(hub, config, state_dir),
            create=create,
            revoke=revoke,
            every=every,
            new=_New(_scope(scope), owner, None if days is None else days * 86400),
        )
    )
    return 0


@dataclass(frozen=True, slots=True)
class _New:
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
    new: _New,
) -> None:
    if not every and revoke is None and create is None:
        typer.echo(tokens.admin())
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
            typer.echo(made)


def _chosen(
    hub: str | None, config: Path | None, state_dir: Path | None
) -> LocalTokens | RemoteTokens:
    """Those of the hub at `hub`, else of the one started last here, else of the one that `serve`
    would start. Says on stderr which it is."""
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
        tell(f"hub: {running[0]}")
        return LocalTokens(settings, running[0].state)
    tell(
        "no hub is running here; using the hub that `bascule serve` starts, with its "
        f"state in {settings.state()}. For the hub of `bascule up` or `make run`, start it first"
    )
    return LocalTokens(settings, settings.state())


def _ensure_meant(
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
    """Those that people created: a session's own token goes with the session."""
    rows = [row for row in rows if row.scope != "session"]
    named = [(one_line(row.name), row) for row in rows]
    width = max((len(name) for name, _ in named), default=0)
    for name, row in named:
        owner = one_line(row.owner)
        typer.echo(f"{name:{width}}  {row.scope:6}  owner {owner}, {_until(row.expires)}")


def _until(expires: float | None) -> str:
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
