"""`bascule nginx`: configure nginx as a reverse proxy with TLS for the hub."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated

import click

from bascule.core.errors import InvalidSetting

from .signatures import CommandOption


def nginx(
    certificate: Annotated[
        Path, CommandOption(help="TLS certificate file with its chain (PEM).", show_default=False)
    ],
    key: Annotated[
        Path, CommandOption(help="Private key file of --certificate (PEM).", show_default=False)
    ],
    public_url: Annotated[
        str | None,
        CommandOption(
            help="HTTPS address that users open. [default: public_url in the hub's settings]"
        ),
    ] = None,
    sessions_origin: Annotated[
        str | None,
        CommandOption(
            help="Origin of sessions, such as https://*.sessions.example or "
            "https://hub.example:8443. [default: sessions_origin in the hub's settings]"
        ),
    ] = None,
    sessions_certificate: Annotated[
        Path | None,
        CommandOption(
            help="TLS certificate file for --sessions-origin (PEM). [default: --certificate]"
        ),
    ] = None,
    sessions_key: Annotated[
        Path | None,
        CommandOption(help="Private key file of --sessions-certificate (PEM). [default: --key]"),
    ] = None,
    config: Annotated[
        Path | None,
        CommandOption(
            help="Settings file of the hub. [default: BASCULE_CONFIG, or ./bascule.toml if it "
            "exists]"
        ),
    ] = None,
    hub: Annotated[
        str | None,
        CommandOption(
            metavar="HOST:PORT",
            help="Address at which nginx reaches the hub. [default: host and port in the "
            "hub's settings]",
        ),
    ] = None,
    file: Annotated[Path, CommandOption(help="Configuration file to write.")] = Path(
        "/etc/nginx/conf.d/bascule.conf"
    ),
    plain_port: Annotated[
        int,
        CommandOption(min=0, max=65535, help="HTTP port that redirects to HTTPS; 0: no such port."),
    ] = 80,
    program: Annotated[
        str | None,
        CommandOption("--nginx", help="Path of the nginx program. [default: nginx on the PATH]"),
    ] = None,
    main_config: Annotated[
        Path | None,
        CommandOption(help="Main configuration file of nginx. [default: nginx's own default]"),
    ] = None,
    reload: Annotated[bool, CommandOption(help="Reload a running nginx.")] = True,
    only_print: Annotated[
        bool, CommandOption("--print", help="Only print the configuration.")
    ] = False,
) -> int:
    """Write and test nginx's configuration for the hub, and reload nginx.

    Once is enough: the configuration does not depend on sessions, so new sessions need no reload.
    If nginx rejects the configuration, the previous file is restored.
    """
    from bascule.hub.proxy.nginx import Site, render
    from bascule.hub.proxy.nginx_install import Nginx

    from .hub_settings import load

    flags = {"public_url": public_url, "sessions_origin": sessions_origin}
    settings = load(config, os.environ, flags)
    if not settings.public_url:
        raise InvalidSetting(
            "there is no public address: give --public-url, the HTTPS address that users open"
        )
    text = render(
        Site(
            public_url=settings.public_url.rstrip("/"),
            hub=hub or f"{_reachable(settings.host)}:{settings.port}",
            certificate=certificate.absolute(),
            certificate_key=key.absolute(),
            run_dir=settings.run(),
            apps_origin=settings.apps_origin,
            sessions_origin=settings.sessions_origin,
            sessions_certificate=sessions_certificate and sessions_certificate.absolute(),
            sessions_certificate_key=sessions_key and sessions_key.absolute(),
            max_upload=settings.max_upload,
            has_ipv6=_has_ipv6(),
            plain_port=plain_port,
        )
    )
    if not settings.sessions_origin:
        click.echo(
            "sessions_origin is not set: browsers cannot open the VS Code and apps of "
            "sessions; docs/guides/nginx.md explains what to set",
            err=True,
        )
    if only_print:
        click.echo(text, nl=False)
        return 0
    nginx_flags = () if main_config is None else ("-c", str(main_config.absolute()))
    was_reloaded = Nginx.find(program, nginx_flags).install(
        text, file, url=settings.public_url, is_reloaded=reload
    )
    click.echo(f"wrote {file}; nginx accepts it")
    if not was_reloaded:
        click.echo("nginx was not reloaded; start it, or run `nginx -s reload`")
    click.echo(
        f"{settings.public_url.rstrip('/')}/ now leads to the hub, as soon as the hub is running"
    )
    return 0


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def _reachable(host: str) -> str:
    if host in ("0.0.0.0", ""):  # noqa: S104 - compared with, never bound
        return "127.0.0.1"
    if host == "::":
        return "[::1]"
    return f"[{host}]" if ":" in host else host
