"""`bascule warden`: what needs root for sessions, apart from a hub that has no rights."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from bascule.core.errors import InvalidSetting

from .account import Account, make_places
from .logs import configure_logging
from .open_files import allow_many

logger = logging.getLogger(__name__)


def warden(
    config: Annotated[
        Path | None, typer.Option(help="The hub's settings file; by default as `serve` finds it.")
    ] = None,
) -> int:
    """Start and end the sandboxes of a hub that runs as another user, until SIGTERM.

    For a service manager, as root, with the hub's own settings: `warden` is the socket to listen
    on, `user` the one who may ask there. Sandboxes outlive it.
    """
    import asyncio

    from bascule.runtime.spawn.local import warden as work

    from .hub_settings import load
    from .spawners import local_settings, vscode_place

    settings = load(config, os.environ, {})
    if settings.warden is None or not settings.user:
        raise InvalidSetting(
            "the settings `warden`, a socket to listen on, and `user`, who may ask there, have to "
            "be set, for the hub as for its warden"
        )
    if os.geteuid() != 0:
        raise InvalidSetting("a warden apart from its hub has a use only as root")
    configure_logging("info")
    allow_many()
    account = Account.named(settings.user)
    account.be_at_home()
    make_places(settings, account)
    path = settings.warden.expanduser().absolute()
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    given = local_settings(settings, hub_uid=account.uid, vscode=vscode_place())
    place = work.listening(path, given)
    logger.info("the warden answers %s at %s", account.name, path)
    try:
        asyncio.run(work.serve(given, place, is_listening=True))
    finally:
        path.unlink(missing_ok=True)
    return 0
