"""The settings of a hub."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bascule.core.sessions import EgressMode

from .accounts.oidc_settings import OidcSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSettings:
    """Where the hub listens, who may use it, and its limits. Times are in seconds."""

    admin_token: str = field(repr=False)
    """The first token, of scope `admin`. The hub does not start without this token."""
    host: str = "127.0.0.1"
    port: int = 0
    """0: any free port, which `Hub.url` then contains."""
    public_url: str = ""
    """The URL that people and windows use; all URLs that the hub prints start with it. Empty: the
    hub's local URL."""
    state_dir: Path | None = None
    """Directory for tokens, window keys, sessions and records. None: there are no sessions, and
    without a `database_url` nothing survives the hub."""
    database_url: str = field(default="", repr=False)
    """A database instead of a file in `state_dir`: `postgresql://user:password@host/name`."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names of this hub in addition to loopback names, `host` and the name in `public_url`;
    `*`: any."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may call the hub, in addition to its own."""
    max_body: int = 32 << 20
    """Maximum bytes of a request's body."""
    message_bytes: int = 32 << 20
    """Maximum bytes of a Socket.IO message. The hub tells clients this limit; a larger frame closes
    the client's socket."""
    heartbeat: float = 3.0
    """Time between two probes of a window's editor."""
    probe_timeout: float = 15.0
    """Time for an editor to answer a probe."""
    forget_after: float = 300.0
    """Time after which the hub forgets a host that is unhealthy or disconnected."""
    nonce_lifetime: float = 60.0
    """Time for a window to register with the nonce of its socket."""
    pairing_lifetime: float = 600.0
    """Time for which a pairing code is valid."""
    sign_in_lifetime: float = 600.0
    """Time for which a one-time sign-in URL is valid."""
    action_grace: float = 150.0
    """Time that an action over HTTP gets in addition to its own timeout. A user has 120 seconds to
    answer a question about it."""
    max_under_way: int = 10_000
    """Maximum number of actions that wait for answers at the same time; more are refused."""
    max_head: int = 64 << 10
    """Maximum bytes of the head of a request, or of a response of a session's server."""
    request_timeout: float = 20.0
    """Time for a client to send the next part of its request."""
    keep_alive: float = 75.0
    """Time after which an idle client connection is closed."""
    apps_origin: str = ""
    """A separate origin for the apps of sessions: `https://apps.example:8443`, or one for each app,
    `https://*.apps.example`. Empty: apps have the origin of their session."""
    sessions_origin: str = ""
    """The origins of sessions. `https://*.sessions.example` gives each session its own name.
    `https://hub.example:8443` gives all sessions one origin, other than the hub's. `hub` puts
    sessions on the hub's origin, where their pages can act as the user who views them. Empty:
    `http://*.localhost` on this machine, and none elsewhere."""
    e2b_domain: str = ""
    """Domain of the API for E2B's clients: `api.DOMAIN` is its control plane, and
    `PORT-SESSION.DOMAIN` a port of a sandbox. Empty: the API is only at the path `/e2b`."""
    frame_origins: tuple[str, ...] = ()
    """Origins of web pages that may show a session in a frame, in addition to the hub's own."""
    run_dir: Path | None = None
    """Directory of the sockets of sessions, for a proxy such as nginx that connects to them itself.
    None: `run` in `state_dir`."""
    connect_timeout: float = 5.0
    """Time for a session's server to accept a connection."""
    answer_timeout: float = 300.0
    """Time for a session's server to start its response."""
    oidc: OidcSettings | None = None
    """The OpenID provider at which users sign in with their accounts. None: only with tokens."""
    stall_timeout: float = 60.0
    """Time after which a client that reads nothing of its response is disconnected."""
    keep_target: float = 3.0
    """Time to keep an idle connection to a session's server; it may be kept up to half as long
    again. Node closes idle connections after 5 seconds."""
    max_upload: int = 1 << 30
    """Maximum bytes of a request's body for a session's server."""
    stop_grace: float = 5.0
    """Time for pending responses to end when the hub stops."""
    max_sessions: int | None = 1000
    """Maximum number of sessions, running or not. None, here as in the next settings: no limit."""
    max_sessions_per_owner: int | None = None
    max_running: int | None = 200
    """Maximum number of sessions that have a sandbox, including paused ones."""
    max_running_per_owner: int | None = None
    max_memory: int | None = None
    """Maximum bytes for the sum of the memory limits of running sessions."""
    max_session_memory: int | None = 32 << 30
    """Highest memory limit of one session, in bytes."""
    max_session_cpus: float | None = None
    max_session_processes: int | None = 8192
    max_session_disk: int | None = None
    """Maximum bytes on disk of a session's own files, which the hub measures regularly."""
    max_fork_files: int | None = 1_000_000
    """Maximum number of files and directories in a workspace that is forked or merged."""
    max_egress: EgressMode = "proxy"
    """The most open egress mode that a token of scope `agent` may request. Admins may request
    any."""
    workspace_roots: tuple[Path, ...] = ()
    """Folders of this machine below which an admin may choose a folder as a session's workspace."""
    rules: Path | None = None
    """TOML file with rules for commands in sessions; people's answers extend it. None: `rules.toml`
    in `state_dir`, if it exists."""
    rules_default: Literal["", "allow", "ask"] = ""
    """The verdict on commands in sessions that no rule matches. Empty: `allow` in isolated
    sessions, otherwise `ask`; and without a file of rules everything runs."""
    question_timeout: float = 120.0
    """Time for a person to answer a question of a session."""
    start_timeout: float = 120.0
    """Time for a sandbox to start, including its downloads."""
    fill_timeout: float = 1800.0
    """Time to clone or unpack a workspace."""
    idle_pause: float | None = 1800.0
    """Time without keystroke, action or CPU use after which a session is paused. None: never."""
    idle_stop: float | None = 86400.0
    """Time after which a paused session is stopped. Its files stay."""
    idle_cpu: float = 0.02
    """The share of a CPU core from which CPU use counts as activity."""
    reconcile_interval: float = 60.0
    """Time between two checks for idle sessions, and for differences between sandboxes and rows."""
    max_archive: int = 1 << 30
    """Maximum bytes of an uploaded archive."""
    archive_lifetime: float = 3600.0
    """Time after which the hub deletes an archive that no session uses."""
    audit_days: float = 90.0
    """Days to keep entries of the audit log."""
    events_kept: int = 1000
    """Newest events to keep of each session."""
    timeline_days: float = 30.0
    """Days to keep the recorded actions and observations of a session or window."""
    timeline_bytes: int = 256 << 20
    """Maximum bytes of these records for each session and window; the oldest are deleted first."""

    def without_paths(self, text: str) -> str:
        """`text` without the hub's own directories, which only operators should see."""
        for directory in filter(None, (self.run_dir, self.state_dir)):
            text = text.replace(str(directory), "…")
        return text
