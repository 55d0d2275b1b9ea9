"""`bascule nginx`: put nginx, with TLS, before the hub."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from bascule.core.errors import InvalidSetting


def nginx(
    certificate: Annotated[
        Path, typer.Option(help="The certificate, with its chain (PEM).", show_default=False)
    ],
    key: Annotated[Path, typer.Option(help="The certificate's key (PEM).", show_default=False)],
    public_url: Annotated[
        str | None, typer.Option(help="The https address that people use.")
    ] = None,
    sessions_origin: Annotated[
        str | None,
        typer.Option(
            help="Origins of sessions, https://*.sessions.example or https://hub.example:8443."
        ),
    ] = None,
    sessions_certificate: Annotated[
        Path | None,
        typer.Option(help="Certificate of the sessions' names (PEM); default: --certificate."),
    ] = None,
    sessions_key: Annotated[
        Path | None, typer.Option(help="Key of --sessions-certificate (PEM); default: --key.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The hub's settings file.")] = None,
    hub: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Where nginx reaches the hub; by default as its settings say."
        ),
    ] = None,
    file: Annotated[Path, typer.Option(help="The file for nginx.")] = Path(
        "/etc/nginx/conf.d/bascule.conf"
    ),
    plain_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port that leads to https; 0 for none.")
    ] = 80,
    program: Annotated[str | None, typer.Option("--nginx", help="The program.")] = None,
    main_config: Annotated[
        Path | None, typer.Option(help="Main configuration of nginx, when not the usual one.")
    ] = None,
    reload: Annotated[bool, typer.Option(help="Have a running nginx take it.")] = True,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the configuration and do nothing.")
    ] = False,
) -> int:
    """Write nginx's configuration for the hub, test it, install it, and reload nginx.

    It is written once: it names no session, so new sessions need no reload. When nginx does not
    take it, what was there before is put back.
    """
    from bascule.hub.proxy.nginx import Site, render
    from bascule.hub.proxy.nginx_install import Nginx

    from .hub_settings import load

    flags = {"public_url": public_url, "sessions_origin": sessions_origin}
    settings = load(config, os.environ, flags)
    if not settings.public_url:
        raise InvalidSetting("--public-url names the https address that people use; there is none")
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
        typer.echo(
            "sessions_origin is not set: browsers will not open VS Code and apps of sessions; "
            "docs/guides/nginx.md tells what to set",
            err=True,
        )
    if only_print:
        typer.echo(text, nl=False)
        return 0
    nginx_flags = () if main_config is None else ("-c", str(main_config.absolute()))
    took = Nginx.find(program, nginx_flags).install(
        text, file, url=settings.public_url, is_reloaded=reload
    )
    typer.echo(f"{file} is written, and nginx takes it")
    if not took:
        typer.echo("nginx has not been reloaded; start it, or `nginx -s reload`")
    typer.echo(f"{settings.public_url.rstrip('/')}/ leads to the hub, once it runs there")
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
