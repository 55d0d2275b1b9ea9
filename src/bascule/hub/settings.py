"""The settings of a hub."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bascule.core.sessions import EgressMode


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSettings:
    """Where the hub listens, who may use it, and its limits. Times are in seconds."""

    admin_token: str = field(repr=False)
    """The first token, of scope admin. There is no start without."""
    host: str = "127.0.0.1"
    port: int = 0
    """0: any free one; the hub's `url` tells which."""
    public_url: str = ""
    """The address people and windows use, behind every address the hub prints. Empty: its own."""
    state_dir: Path | None = None
    """Where tokens, window keys and sessions are kept. None: nowhere; they end with the hub."""
    database_url: str = field(default="", repr=False)
    """A database in place of a file in `state_dir`: `postgresql://user:password@host/name`."""
    allowed_hosts: tuple[str, ...] = ()
    """Names of this hub in a `Host` header, besides loopback's, `host` and that of `public_url`;
    `*`: any."""
    allowed_origins: tuple[str, ...] = ()
    """Web pages, besides the hub's own, that may call."""
    max_body: int = 32 << 20
    """Bytes of a request's body."""
    message_bytes: int = 32 << 20
    """Bytes of a Socket.IO message; told to both ends, a larger frame closes its socket."""
    heartbeat: float = 3.0
    """Time between two questions whether a window's editor answers."""
    probe_timeout: float = 15.0
    """Time an editor has to answer one."""
    forget_after: float = 300.0
    """Time after which a host that is unhealthy or gone is forgotten."""
    nonce_lifetime: float = 60.0
    pairing_lifetime: float = 600.0
    sign_in_lifetime: float = 600.0
    """Time an address that signs in is good for, once."""
    action_grace: float = 150.0
    """Time an answer over HTTP may take past the action's own time-out; a consent takes 120."""
    max_under_way: int = 10_000
    """Actions that wait for their answers at the same time; more are refused."""
    max_head: int = 64 << 10
    request_timeout: float = 20.0
    keep_alive: float = 75.0
    apps_origin: str = ""
    """An origin apart for the apps of sessions: `https://apps.example:8443`, or one for each app,
    `https://*.apps.example`. Empty: they share the hub's."""
    sessions_origin: str = ""
    """The origins of sessions: `https://*.sessions.example` gives each its own name,
    `https://hub.example:8443` puts all on one, apart from the hub's; `hub` puts them on the hub's
    own, which lets their pages act as whoever looks at them. Empty: `http://*.localhost` on this
    machine, and none elsewhere."""
    frame_origins: tuple[str, ...] = ()
    """Web pages, besides the hub's own, that may show a session in a frame."""
    run_dir: Path | None = None
    """Where the sockets of sessions are, for a proxy in front that goes to them by itself."""
    connect_timeout: float = 5.0
    """Time a session's server has to take a connection."""
    answer_timeout: float = 300.0
    """Time it has to begin an answer."""
    stall_timeout: float = 60.0
    """Time a client may leave an answer unread."""
    keep_target: float = 3.0
    """Time a connection to a session's server is kept for the next request; up to half as much
    more. Node closes at 5."""
    max_upload: int = 1 << 30
    """Bytes of a request's body for a session's server."""
    stop_grace: float = 5.0
    """Time that answers under way are given when the hub stops."""
    max_sessions: int | None = 1000
    """Sessions there may be, running or not. None, here as in the next: any number."""
    max_sessions_per_owner: int | None = None
    max_running: int | None = 200
    """Sessions that may have a sandbox, paused ones too."""
    max_running_per_owner: int | None = None
    max_memory: int | None = None
    """Bytes that the limits of running sessions may add up to."""
    max_session_memory: int | None = 32 << 30
    """Bytes that a session may have as its limit."""
    max_session_cpus: float | None = None
    max_session_processes: int | None = 8192
    max_session_disk: int | None = None
    """Bytes of the disk that a session may take with its own files, by what is measured of it."""
    max_egress: EgressMode = "proxy"
    """The most of the network that a token of scope agent may ask for. Admins may ask for all."""
    workspace_roots: tuple[Path, ...] = ()
    """Folders of this machine below which an admin may have one as a session's workspace."""
    start_timeout: float = 120.0
    """Time a sandbox has to come up, what it has to fetch included."""
    fill_timeout: float = 1800.0
    """Time to clone or unpack a workspace."""
    idle_pause: float | None = 1800.0
    """Time without keystroke, action or CPU use after which a session is paused. None: never."""
    idle_stop: float | None = 86400.0
    """Time after which a paused session is stopped. Its files stay."""
    idle_cpu: float = 0.02
    """The share of a core that is use."""
    look_every: float = 60.0
    """Time between two looks for idle sessions, and for sandboxes and rows that disagree."""
    max_archive: int = 1 << 30
    """Bytes of an archive that a workspace is made from."""
    archive_lifetime: float = 3600.0
    """Time after which an archive nobody made a session of is removed."""
    audit_days: float = 90.0
    """Days for which it is known who did what."""
    events_kept: int = 1000
    """Events kept of each session."""
    timeline_days: float = 30.0
    """Days for which it is known what was done in a session or window, and what came of it."""
    timeline_bytes: int = 256 << 20
    """Bytes of that for each session and window; the oldest go first."""

    def without_paths(self, text: str) -> str:
        """`text` without the hub's own directories, which only operators should see."""
        for directory in filter(None, (self.run_dir, self.state_dir)):
            text = text.replace(str(directory), "…")
        return text
