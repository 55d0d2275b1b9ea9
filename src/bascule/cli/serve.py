"""`bascule serve`: run the hub."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from bascule.core.extras import require_extra

from .hub_state import lock_state, published_address
from .known_names import one_of
from .logs import configure_logging
from .open_files import raise_open_file_limit
from .signatures import CommandOption

if TYPE_CHECKING:
    from bascule.hub import Hub


def serve(
    port: Annotated[
        int | None,
        CommandOption(
            min=0, max=65535, help="Port to listen on; 0 picks a free port. [default: 8300]"
        ),
    ] = None,
    host: Annotated[
        str | None, CommandOption(help="Address to listen on. [default: 127.0.0.1]")
    ] = None,
    config: Annotated[
        Path | None,
        CommandOption(
            help="Settings file. [default: BASCULE_CONFIG, or ./bascule.toml if it exists]"
        ),
    ] = None,
    public_url: Annotated[
        str | None,
        CommandOption(
            help="Address at which browsers, windows and agents reach the hub. [default: "
            "http://HOST:PORT]"
        ),
    ] = None,
    state_dir: Annotated[
        Path | None,
        CommandOption(
            help="Directory for tokens, window keys and sessions. [default: ~/.local/state/bascule]"
        ),
    ] = None,
    allow_unisolated: Annotated[
        bool | None,
        CommandOption(
            "--allow-unisolated",
            help="Start sessions even if this machine cannot isolate them from each other and "
            "from the host.",
        ),
    ] = None,
    oidc_issuer: Annotated[
        str | None,
        CommandOption(
            help="URL of the OpenID provider at which users sign in. [default: none, only tokens]"
        ),
    ] = None,
    oidc_client_id: Annotated[
        str | None, CommandOption(help="Id of this hub at the OpenID provider.")
    ] = None,
    oidc_client_secret_file: Annotated[
        Path | None,
        CommandOption(
            help="File with the hub's secret at the OpenID provider. [default: the variable "
            "BASCULE_OIDC_CLIENT_SECRET]"
        ),
    ] = None,
    log_format: Annotated[
        str | None,
        CommandOption(
            help="Log format: text or json. [default: text]", autocompletion=one_of("text", "json")
        ),
    ] = None,
    traces: Annotated[
        bool | None,
        CommandOption(
            "--traces",
            help="Export traces of actions with OpenTelemetry, as the variables OTEL_* say.",
        ),
    ] = None,
) -> int:
    """Run the hub, which connects VS Code windows, sessions and agents, until SIGINT or SIGTERM.

    Settings come from the settings file, BASCULE_* environment variables and options; later sources
    override earlier ones. The first start creates the admin token, and `bascule token` prints it.
    If BASCULE_TOKEN is set, its value is the admin token instead.
    """
    require_extra("hub")
    import uvloop

    from bascule.hub import serve as serve_hub
    from bascule.hub.tokens import admin_token

    from .hub_account import switch_user, warn_if_root
    from .hub_settings import load
    from .jsonlogs import use_json
    from .machine import checks
    from .mounts import adapter_mounts
    from .spawners import make_spawners
    from .tracing import exported_traces

    flags = {
        "port": port,
        "host": host,
        "public_url": public_url,
        "state_dir": state_dir,
        "allow_unisolated": allow_unisolated,
        "oidc_issuer": oidc_issuer,
        "oidc_client_id": oidc_client_id,
        "oidc_client_secret_file": oidc_client_secret_file,
        "log_format": log_format,
        "traces": traces,
    }
    settings = load(config, os.environ, flags)
    configure_logging("info")
    if settings.log_format == "json":
        use_json()
    raise_open_file_limit()
    warden = switch_user(settings)
    token = os.environ.get("BASCULE_TOKEN") or admin_token(settings.state())
    with contextlib.ExitStack() as stack:

        def on_started(hub: Hub) -> None:
            stack.enter_context(published_address(settings.state(), hub.local_url))
            _print_summary(hub)
            warn_if_root()

        stack.enter_context(lock_state(settings.state()))
        spawners = make_spawners(settings, warden)
        tracing = stack.enter_context(exported_traces("bascule-hub", is_enabled=settings.traces))
        hub = serve_hub(
            settings.settings(token),
            on_started=on_started,
            spawners=spawners,
            mounts=adapter_mounts(),
            checks=checks,
            tracing=tracing,
        )
        uvloop.run(hub)
    return 0


def _print_summary(hub: Hub) -> None:
    """Print only the address to stdout, for programs that start the hub, and never the token."""
    print(hub.url, flush=True)  # noqa: T201
    print("`bascule token` prints the token to sign in with", file=sys.stderr)  # noqa: T201
