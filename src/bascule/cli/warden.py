"""`bascule warden`: what needs root for sessions, apart from a hub that has no rights."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from bascule.core.errors import InvalidSetting

from .hub_account import HubAccount, make_directories
from .logs import configure_logging
from .open_files import allow_many

logger = logging.getLogger(__name__)


def warden(
    config: Annotated[
        Path | None,
        typer.Option(
            help="Settings file of the hub. [default: BASCULE_CONFIG, or ./bascule.toml if it "
            "exists]"
        ),
    ] = None,
) -> int:
    """Run the privileged helper that starts and stops sandboxes for an unprivileged hub.

    Run it as root from a service manager, with the hub's own settings file: `warden` is the socket
    to listen on, `user` the user the hub runs as. It runs until SIGTERM; sandboxes keep running
    after it ends.
    """
    import asyncio

    from bascule.runtime.spawn.local import warden as work

    from .hub_settings import load
    from .spawners import local_settings, vscode_place

    settings = load(config, os.environ, {})
    if settings.warden is None or not settings.user:
        raise InvalidSetting(
            "the settings `warden` (the socket to listen on) and `user` (the user the "
            "hub runs as) must be set, with the same values for the hub and the warden"
        )
    if os.geteuid() != 0:
        raise InvalidSetting("`bascule warden` must run as root")
    configure_logging("info")
    allow_many()
    account = HubAccount.named(settings.user)
    account.be_at_home()
    make_directories(settings, account)
    path = settings.warden.expanduser().absolute()
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    given = local_settings(settings, hub_uid=account.uid, vscode=vscode_place())
    place = work.listening(path, given)
    logger.info("the warden listens for user %s at %s", account.name, path)
    try:
        asyncio.run(work.serve(given, place, is_listening=True))
    finally:
        path.unlink(missing_ok=True)
    return 0
