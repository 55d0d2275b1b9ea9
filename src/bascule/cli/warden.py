"""`bascule warden`: the privileged helper of an unprivileged hub. It starts and stops sandboxes."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

from bascule.core.errors import InvalidSetting
from bascule.core.extras import require_extra

from .hub_account import HubAccount, make_directories
from .logs import configure_logging
from .open_files import raise_open_file_limit
from .signatures import CommandOption

logger = logging.getLogger(__name__)


def warden(
    config: Annotated[
        Path | None,
        CommandOption(
            help="Settings file of the hub. [default: BASCULE_CONFIG, or ./bascule.toml if it "
            "exists]"
        ),
    ] = None,
) -> int:
    """Run the privileged helper that starts and stops sandboxes for an unprivileged hub.

    Run the warden as root from a service manager, with the same settings file as the hub. In that
    file the setting `warden` names the socket to listen on, and `user` names the user that runs the
    hub. The warden runs until SIGTERM; sandboxes keep running after that.
    """
    require_extra("hub")
    import asyncio

    from bascule.runtime.spawn.local import warden as work

    from .hub_settings import load
    from .spawners import installed_vscode, local_settings

    settings = load(config, os.environ, {})
    if settings.warden is None or not settings.user:
        raise InvalidSetting(
            "the settings `warden` (the socket to listen on) and `user` (the user the "
            "hub runs as) must be set, with the same values for the hub and the warden"
        )
    if os.geteuid() != 0:
        raise InvalidSetting("`bascule warden` must run as root")
    configure_logging("info")
    raise_open_file_limit()
    account = HubAccount.named(settings.user)
    account.set_environment()
    make_directories(settings, account)
    path = settings.warden.expanduser().absolute()
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    spawner_settings = local_settings(settings, hub_uid=account.uid, vscode=installed_vscode())
    listener = work.listening_socket(path, spawner_settings)
    logger.info("the warden listens for user %s at %s", account.name, path)
    try:
        asyncio.run(work.serve(spawner_settings, listener, is_listening=True))
    finally:
        path.unlink(missing_ok=True)
    return 0
