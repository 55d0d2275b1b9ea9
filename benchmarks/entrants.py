"""Who is measured: the physical limit, ours, and our peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Entrant:
    name: str
    title: str
    """For the report: what exactly is measured."""
    module: str
    arguments: tuple[str, ...] = ()
    venv: str | None = None
    """The environment in `venvs.VENVS` it needs; None is the one the harness runs in."""
    pace: Literal["fast", "medium", "slow"] = "fast"
    """How many repetitions are bearable: a command takes well under a millisecond, a few, or
    a tenth of a second."""
    needs_editor: bool = False
    """Lives in a real VS Code in a real browser; is handed where they are."""
    only: str = ""
    """The one case it can take part in; empty: any."""
    package: str | None = None
    """Comes from npm, as `name@version`; is handed what starts it."""

    @property
    def is_peer(self) -> bool:
        return self.venv is not None


RAW = Entrant("raw-pty", "bash on a pty, blocking reads: the lower bound", "raw_pty")
BASCULE = Entrant("bascule", "Bascule in process, on uvloop", "bascule_local", ("uvloop",))
BASCULE_ASYNCIO = Entrant(
    "bascule-asyncio", "Bascule in process, on plain asyncio", "bascule_local", ("asyncio",)
)
BASCULE_TMUX = Entrant(
    "bascule-tmux",
    "Bascule in process, on uvloop, its shells on tmux",
    "bascule_local",
    ("uvloop", "tmux"),
    only="latency",
)
BASCULE_HTTP = Entrant(
    "bascule-http", "Bascule's action server over HTTP, with `RemoteRuntime`", "bascule_remote"
)
BASCULE_HTTP_BARE = Entrant(
    "bascule-http-bare",
    "the same server, with a plain socket as client",
    "bascule_remote",
    ("bare",),
)
BASCULE_WINDOW = Entrant(
    "bascule-window",
    "Bascule in a real VS Code window, through the hub",
    "bascule_window",
    pace="slow",
    needs_editor=True,
)
BASCULE_BRIDGE = Entrant(
    "bascule-bridge",
    "a script's requests to the extension's run bridge, with `vscode_bridge`'s client",
    "bascule_bridge",
    only="bridge",
)
OPENHANDS_TMUX = Entrant(
    "openhands-v1-tmux",
    "OpenHands V1's terminal tool, tmux (its default)",
    "openhands_terminal",
    venv="openhands",
    pace="slow",
)
OPENHANDS_PTY = Entrant(
    "openhands-v1-pty",
    "OpenHands V1's terminal tool, its subprocess kind",
    "openhands_terminal",
    ("subprocess",),
    venv="openhands",
    pace="medium",
)
OPENHANDS_SERVER = Entrant(
    "openhands-v1-server",
    "OpenHands V1's agent server over HTTP, a new `sh` per command (no state)",
    "openhands_server",
    venv="openhands",
    pace="medium",
)
SWE_REX = Entrant(
    "swe-rex", "SWE-ReX's local runtime, in process", "swe_rex", venv="swe-rex", pace="slow"
)
BASCULE_NETS = Entrant("bascule-nets", "Bascule's nets", "net_bascule", only="nets")
SNAKES = Entrant(
    "snakes",
    "SNAKES: `StateGraph`, `modes` and `fire`",
    "net_snakes",
    venv="snakes",
    only="nets",
)
PM4PY = Entrant(
    "pm4py",
    "PM4Py: `construct_reachability_graph`, `enabled_transitions` and `weak_execute`",
    "net_pm4py",
    venv="pm4py",
    only="nets",
)
BASCULE_CHECKPOINTS = Entrant(
    "bascule-checkpoints", "Bascule's checkpoints", "checkpoints_bascule", only="checkpoints"
)
SHADOW_GIT = Entrant("shadow-git", "a shadow git repository", "checkpoints_git", only="checkpoints")
BASCULE_RULES = Entrant(
    "bascule-rules", "command rules of sandboxes, in Python", "rules_python", only="rules"
)
BASCULE_RULES_WINDOW = Entrant(
    "bascule-rules-window",
    "command rules of windows, in Node through a pipe",
    "rules_window",
    only="rules",
)
BASCULE_LANGUAGE = Entrant(
    "bascule-language",
    "Bascule's language actions, in process",
    "language",
    ("bascule",),
    only="language",
)
BARE_LANGUAGE = Entrant(
    "bare-language", "a bare client of the same server", "language", ("bare",), only="language"
)
PLAIN_PROGRAMS = Entrant(
    "asyncio-programs",
    "`asyncio.create_subprocess_exec`",
    "programs",
    ("asyncio",),
    only="programs",
)
BASCULE_PROGRAMS = Entrant(
    "bascule-programs",
    "Bascule's programs with pipes, in process",
    "programs",
    ("bascule",),
    only="programs",
)
BASCULE_PROGRAMS_HTTP = Entrant(
    "bascule-programs-http",
    "Bascule's programs with pipes, over HTTP",
    "programs",
    ("http",),
    only="programs",
)
BASCULE_FORKS = Entrant(
    "bascule-forks", "forks of sessions, spawner `local`", "forks_bascule", only="forks"
)
BASCULE_SESSIONS = Entrant(
    "bascule-sessions",
    "sandboxes of sessions, spawner `local`",
    "local_sessions",
    only="sessions",
)
BASCULE_WORKBENCH = Entrant(
    "bascule-workbench",
    "VS Code of sessions of the spawner `local`, through the hub",
    "session_workbench",
    pace="slow",
    needs_editor=True,
    only="workbench",
)
BASCULE_PAGE = Entrant(
    "bascule-page",
    "the hub's page in Chromium, beside its hub",
    "hub_page",
    pace="slow",
    only="dashboard",
)
BASCULE_CONTAINERS = Entrant(
    "bascule-containers",
    "sandboxes of sessions, spawner `docker`",
    "docker_sessions",
    only="containers",
)
BASCULE_PROXY = Entrant(
    "bascule-proxy", "Bascule's hub before a server", "proxied", ("bascule",), only="proxy"
)
NGINX = Entrant("nginx", "nginx, one worker, 64 KB buffers", "proxied", ("nginx",), only="proxy")
CADDY = Entrant("caddy", "Caddy, on one core", "proxied", ("caddy",), only="proxy")
CHP = Entrant(
    "configurable-http-proxy",
    "JupyterHub's proxy, on Node",
    "proxied",
    ("chp",),
    only="proxy",
    package="configurable-http-proxy@5.3.0",
)
PROXIES: tuple[Entrant, ...] = (BASCULE_PROXY, NGINX, CADDY, CHP)

AGENT_STOCK = Entrant(
    "agent-stock",
    "an OpenHands V1 agent with its own tools",
    "agent_loop",
    ("stock",),
    venv="openhands-with-us",
    pace="slow",
    only="agent",
)
AGENT_BASCULE = Entrant(
    "agent-bascule",
    "the same agent with Bascule's under the same names",
    "agent_loop",
    ("bascule",),
    venv="openhands-with-us",
    only="agent",
)

V0_STOCK = Entrant(
    "openhands-v0-local",
    "OpenHands V0's client with its own server, by its local runtime",
    "openhands_v0",
    ("local",),
    venv="openhands-v0",
    pace="slow",
    only="openhands-v0",
)
V0_BASCULE = Entrant(
    "openhands-v0-bascule",
    "the same client, by its remote runtime, with an isolated session of our hub",
    "openhands_v0",
    ("bascule",),
    venv="openhands-v0",
    only="openhands-v0",
)

ENTRANTS: tuple[Entrant, ...] = (
    *(RAW, BASCULE, BASCULE_ASYNCIO, BASCULE_TMUX, BASCULE_HTTP, BASCULE_HTTP_BARE),
    *(OPENHANDS_TMUX, OPENHANDS_PTY, OPENHANDS_SERVER, SWE_REX),
    *(BASCULE_BRIDGE, BASCULE_WINDOW),
    *(BASCULE_NETS, SNAKES, PM4PY),
    *(BASCULE_CHECKPOINTS, SHADOW_GIT),
    *(BASCULE_RULES, BASCULE_RULES_WINDOW),
    *(PLAIN_PROGRAMS, BASCULE_PROGRAMS, BASCULE_PROGRAMS_HTTP),
    *(BASCULE_LANGUAGE, BARE_LANGUAGE),
    *PROXIES,
    BASCULE_SESSIONS,
    BASCULE_FORKS,
    BASCULE_WORKBENCH,
    BASCULE_PAGE,
    BASCULE_CONTAINERS,
    *(AGENT_STOCK, AGENT_BASCULE),
    *(V0_STOCK, V0_BASCULE),
)
NOT_IN_A_HURRY: frozenset[Entrant] = frozenset({OPENHANDS_PTY, OPENHANDS_SERVER})
"""Slow to load and without a goal of ours: a quick run leaves them out."""
OURS: tuple[Entrant, ...] = (
    *(BASCULE, BASCULE_ASYNCIO, BASCULE_TMUX),
    *(BASCULE_HTTP, BASCULE_HTTP_BARE),
)
