"""Generates the nginx configuration. It names no session, so a new session needs no reload.

The session is parsed from the raw request URI (`$request_uri`). nginx matches locations against
the normalised path and decodes captures. With those, `/vscode/a/../b` would be authorized for one
session and sent to another, and an encoded line break would become a real one.

For each HTTP request to a session nginx asks the hub (`authorize`). If the hub agrees, nginx
connects to the session's socket itself. The hub answers all other requests, for example of users
who are not signed in, or for servers that have not started.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bascule.core.errors import InvalidSetting
from bascule.hub.origins import HUB, SESSION_ID

from . import authorize

TAKEN: Final = "/_bascule/nginx/"
"""Prefix of a path that ends with the hash of a configuration. nginx itself answers that path once
it has loaded the configuration."""

_SAFE_PATH: Final = re.compile(r"/[A-Za-z0-9._/+@-]*")
_MARK: Final = "@mark@"
_NUMBER: Final = "(?:0|[1-9][0-9]?)"
_KEY: Final = "~[A-Za-z0-9_-]{16,64}"
_HIDDEN: Final = (
    *("Set-Cookie", "Service-Worker-Allowed", "Clear-Site-Data", "Strict-Transport-Security"),
    *("Alt-Svc", "NEL", "Report-To", "Public-Key-Pins", "X-Sendfile"),
    *("Access-Control-Allow-Credentials", "Access-Control-Expose-Headers"),
    *("Access-Control-Allow-Origin", "Referrer-Policy"),  # `_in_place` adds these two again
)
_UNSET: Final = (
    *("Forwarded", "X-Forwarded-Port", "X-Forwarded-Server", "X-Forwarded-Scheme"),
    *("X-Forwarded-Ssl", "X-Original-URL", "X-Rewrite-URL", "Proxy-Authorization"),
    "X-Bascule-Page",
)
_PASSED: Final = (
    ("Content-Security-Policy", "content_security_policy", ""),
    ("Set-Cookie", "set_cookie", ""),
    ("Vary", "vary", ""),
    ("Access-Control-Expose-Headers", "access_control_expose_headers", ""),
    ("Referrer-Policy", "referrer_policy", "_or_its_own"),
    ("Access-Control-Allow-Origin", "access_control_allow_origin", "_or_its_own"),
)
"""Response headers that the hub sets; the last two replace the target's values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The settings that the configuration depends on; none changes while a hub runs."""

    public_url: str
    hub: str
    """Address at which nginx connects to the hub, such as `127.0.0.1:8300`."""
    certificate: Path
    certificate_key: Path
    run_dir: Path
    """Directory of the sessions' sockets."""
    apps_origin: str = ""
    sessions_origin: str = ""
    """As in the hub's settings; empty or `hub`: sessions have no names of their own."""
    sessions_certificate: Path | None = None
    sessions_certificate_key: Path | None = None
    """TLS certificate and key for the names of sessions; None: those of the hub cover them."""
    max_upload: int = 1 << 30
    has_ipv6: bool = True
    plain_port: int = 80
    """Port that redirects plain HTTP to HTTPS; 0: none."""


def render(site: Site) -> str:
    """The file for nginx's `conf.d`. Raises `InvalidSetting` for values it cannot contain."""
    public = urlsplit(site.public_url)
    if public.scheme != "https" or not public.hostname:
        raise InvalidSetting(
            f"public_url is {site.public_url!r}; for nginx it must be the https address that "
            "people use"
        )
    for path in (*_certificates(site), site.certificate, site.certificate_key, site.run_dir):
        _ensure_safe(path)
    parts = [_HEAD, _maps(), _upstream(site), _server(site, public.hostname, public.port or 443)]
    if site.apps_origin:
        parts.append(_apps_server(site))
    if site.sessions_origin not in ("", HUB):
        parts.append(_sessions_server(site))
    if site.plain_port:
        parts.append(_plain_server(site, public.hostname, public.netloc))
    text = "\n".join(parts)
    return text.replace(_MARK, hashlib.sha256(text.encode()).hexdigest()[:16])


_HEAD: Final = """\
# Made by `bascule nginx`, which makes it anew: what is changed here does not last.
"""


def _maps() -> str:
    vscode, app = f"^/vscode/{SESSION_ID}", f"^/apps/{SESSION_ID}-{_NUMBER}/{_KEY}"
    return f"""\
map $request_uri $bascule_session {{
    default "";
    "~^/vscode/(?<bascule_s1>{SESSION_ID})/" $bascule_s1;
    "~^/apps/(?<bascule_s2>{SESSION_ID})-{_NUMBER}/{_KEY}/" $bascule_s2;
}}
map $request_uri $bascule_socket {{
    default "";
    "~{vscode}/" vscode;
    "~^/apps/{SESSION_ID}-(?<bascule_n>{_NUMBER})/{_KEY}/" app$bascule_n;
}}
map $request_uri $bascule_prefix {{
    default "";
    "~(?<bascule_p1>{vscode})/" $bascule_p1;
    "~(?<bascule_p2>{app})/" $bascule_p2;
}}
map $request_uri $bascule_rest {{
    default "/";
    "~{vscode}(?<bascule_r1>/[^ ]*)$" $bascule_r1;
    "~{app}(?<bascule_r2>/[^ ]*)$" $bascule_r2;
}}
map $http_upgrade $bascule_upgrade {{
    default "";
    "~*^websocket$" websocket;
}}
map $bascule_upgrade $bascule_connection {{
    default "";
    websocket upgrade;
}}
{_in_place("referrer_policy")}
{_in_place("access_control_allow_origin")}
# What may have been done already is not done again.
map $request_method $bascule_again {{
    default @bascule_gone;
    GET @bascule_hub;
    HEAD @bascule_hub;
}}
"""


def _in_place(name: str) -> str:
    """A map that takes the hub's value of a header if set, else the target's; it is sent once."""
    return f"""\
map $bascule_{name} $bascule_{name}_or_its_own {{
    default $bascule_{name};
    "" $upstream_http_{name};
}}"""


def _upstream(site: Site) -> str:
    return f"""\
upstream bascule_hub {{
    server {site.hub};
    keepalive 32;
}}
"""


def _server(site: Site, name: str, port: int) -> str:
    return f"""\
server {{
{_tls(site, name, port)}
    location = {TAKEN}{_MARK} {{
        return 204;
    }}
{_locations(site)}
}}
"""


def _sessions_server(site: Site) -> str:
    """The server block for the origins of sessions, where the hub's own pages are not served."""
    parts = urlsplit(site.sessions_origin.replace("*.", ""))
    if parts.scheme != "https" or not parts.hostname:
        raise InvalidSetting(
            f"sessions_origin is {site.sessions_origin!r}; for nginx it must be https"
        )
    name = parts.hostname
    if "://*." in site.sessions_origin:
        name = f'"~^{SESSION_ID}\\.{re.escape(parts.hostname)}$"'
    return f"""\
server {{
{_tls(site, name, parts.port or 443, _certificates(site))}
{_locations(site)}
}}
"""


def _certificates(site: Site) -> tuple[Path, Path]:
    """Paths of the TLS certificate and its key for the origins of sessions."""
    return (
        site.sessions_certificate or site.certificate,
        site.sessions_certificate_key or site.certificate_key,
    )


def _locations(site: Site) -> str:
    return f"""\
    location / {{
{_to_hub()}
    }}
    location @bascule_hub {{
{_to_hub()}
    }}
    location @bascule_gone {{
        internal;
        default_type text/plain;
        return 502 "What should be here does not answer.\\n";
    }}
    location = {authorize.PATH} {{
        internal;
        proxy_pass http://bascule_hub;
        proxy_pass_request_body off;
        proxy_http_version 1.1;
        proxy_set_header Host $http_host;
        proxy_set_header Connection "";
        proxy_set_header Upgrade "";
        proxy_set_header Expect "";
        proxy_set_header Content-Length "";
        proxy_set_header X-Original-URI $request_uri;
        proxy_set_header X-Original-Method $request_method;
    }}
    location ~ ^/(?:vscode|apps)/ {{
{_to_session(site)}
    }}"""


def _tls(site: Site, name: str, port: int, certificates: tuple[Path, Path] | None = None) -> str:
    certificate, key = certificates or (site.certificate, site.certificate_key)
    return f"""\
{_listen(site, f"{port}", " ssl http2")}
    server_name {name};
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_session_cache shared:bascule:4m;
    client_max_body_size {site.max_upload};
    large_client_header_buffers 4 32k;
    server_tokens off;
    absolute_redirect off;"""


def _listen(site: Site, port: str, how: str = "") -> str:
    places = [port, f"[::]:{port}"] if site.has_ipv6 else [port]
    return "\n".join(f"    listen {place}{how};" for place in places)


_BUFFERS: Final = """\
        proxy_http_version 1.1;
        proxy_buffering off;
        proxy_buffer_size 64k;
        proxy_buffers 8 64k;
        proxy_busy_buffers_size 128k;
        proxy_connect_timeout 5s;
        proxy_read_timeout 1h;
        proxy_send_timeout 1h;"""


def _to_hub() -> str:
    return f"""\
        proxy_pass http://bascule_hub$request_uri;
{_BUFFERS}
        proxy_request_buffering off;
        proxy_set_header Host $http_host;
        proxy_set_header Upgrade $bascule_upgrade;
        proxy_set_header Connection $bascule_connection;
        proxy_set_header X-Real-IP $remote_addr;"""


def _to_session(site: Site) -> str:
    """Proxy lines for a session's server.

    A `proxy_set_header` in a location removes all inherited ones, so each location repeats them.
    """
    variables = "\n".join(
        f"        auth_request_set $bascule_{name} $upstream_http_x_bascule_{name};"
        for name in ("cookie", "authorization", "origin", *(name for _, name, _ in _PASSED))
    )
    unset = "\n".join(f'        proxy_set_header {name} "";' for name in _UNSET)
    hidden = "\n".join(f"        proxy_hide_header {name};" for name in _HIDDEN)
    added = "\n".join(
        f"        add_header {name} $bascule_{variable}{whose} always;"
        for name, variable, whose in _PASSED
    )
    return f"""\
        error_page 401 403 418 = @bascule_hub;
        error_page 502 504 = $bascule_again;
        if ($bascule_session = "") {{
            return 418;
        }}
        # The hub ends a WebSocket when its token is revoked, so it has to hold it.
        if ($http_upgrade) {{
            return 418;
        }}
        auth_request {authorize.PATH};
{variables}
        proxy_pass http://unix:{site.run_dir}/$bascule_session/$bascule_socket.sock:$bascule_rest;
{_BUFFERS}
        proxy_ignore_headers X-Accel-Redirect X-Accel-Expires X-Accel-Limit-Rate X-Accel-Buffering
            X-Accel-Charset;
        proxy_redirect ~^(/(?!/|vscode/|apps/).*)$ $bascule_prefix$1;
        proxy_set_header Host $http_host;
        proxy_set_header Upgrade "";
        proxy_set_header Connection $bascule_connection;
        proxy_set_header Cookie $bascule_cookie;
        proxy_set_header Authorization $bascule_authorization;
        proxy_set_header Origin $bascule_origin;
{unset}
        proxy_set_header X-Real-IP $remote_addr;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_set_header X-Forwarded-Host $http_host;
        proxy_set_header X-Forwarded-Proto $scheme;
        proxy_set_header X-Forwarded-Prefix $bascule_prefix;
        proxy_set_header X-Forwarded-Path $bascule_prefix/;
        proxy_set_header X-Original-URI $request_uri;
{hidden}
{added}"""


def _apps_server(site: Site) -> str:
    apps = urlsplit(site.apps_origin)
    if apps.scheme != "https" or not apps.hostname:
        raise InvalidSetting(f"apps_origin is {site.apps_origin!r}; for nginx it must be https")
    return f"""\
server {{
{_tls(site, apps.hostname, apps.port or 443)}
    location / {{
{_to_hub()}
    }}
}}
"""


def _plain_server(site: Site, name: str, netloc: str) -> str:
    return f"""\
server {{
{_listen(site, f"{site.plain_port}")}
    server_name {name};
    server_tokens off;
    return 308 https://{netloc}$request_uri;
}}
"""


def _ensure_safe(path: Path) -> None:
    if not _SAFE_PATH.fullmatch(str(path)):
        raise InvalidSetting(
            f"{str(path)!r} cannot stand in nginx's configuration; take an absolute path of plain "
            "letters, digits and ./_-+@"
        )
