"""`bascule sandbox PORT`: run a sandbox with an action server, started by programs.

The options and environment variables are those of OpenHands' own action server. They are parsed
with argparse, because importing click would delay the start of every session.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from bascule.core.errors import InvalidSetting, PermissionRefused, UsageError
from bascule.sandbox.browser.settings import BrowserSettings, find_chromium
from bascule.sandbox.ipython.settings import IPythonSettings
from bascule.sandbox.settings import SandboxSettings, ServerSettings
from bascule.sandbox.shell.keeper import ShellAccount
from bascule.sandbox.shell.settings import ShellSettings, find_account

from .logs import configure_logging
from .open_files import raise_open_file_limit
from .shell_kinds import HELP, with_kinds
from .tracing import exported_traces

if TYPE_CHECKING:
    from bascule.sandbox.command_rules import CommandRules

logger = logging.getLogger(__name__)

PLUGINS = ("agent_skills", "jupyter", "vscode")
"""Plugin names that OpenHands requests. A sandbox logs a warning for those it does not provide."""

PROVIDED = frozenset({"jupyter"})
"""Plugins that are provided. Jupyter starts with the first cell, even if it is not requested."""

_EPILOG = """\
environment:
  SESSION_API_KEY            key that requests must send in the header X-Session-API-Key (required)
  NO_CHANGE_TIMEOUT_SECONDS  seconds without output after which a running command is reported
                             as still running (default: 10)
  BASCULE_SHELLS             same as --shells
  BASCULE_LOG                log level: debug, info, warning or error (default: info)
"""


@dataclass(frozen=True, slots=True)
class SandboxArguments:
    """The parsed and checked arguments of `bascule sandbox`."""

    server: ServerSettings
    sandbox: SandboxSettings
    unavailable: tuple[str, ...]
    has_traces: bool = False


def sandbox(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or SIGINT."""
    launch = parse(arguments, os.environ)
    configure_logging("info")
    raise_open_file_limit()
    for name in launch.unavailable:
        logger.warning("%s is not available in this version and is skipped", name)
    # Imported here: uvloop belongs to an extra that `--help` must not need.
    import uvloop

    from bascule.sandbox.server.serve import serve

    with exported_traces("bascule-sandbox", is_enabled=launch.has_traces) as tracing:
        uvloop.run(serve(launch.server, launch.sandbox, tracing=tracing))
    return 0


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> SandboxArguments:
    """Parse the arguments and environment variables."""
    given = _parser().parse_args(arguments)
    account = find_account(given.username, given.user_id)
    shells = ShellSettings(
        working_dir=_working_dir(
            given.working_dir,
            account,
            is_made=given.username is not None or given.user_id is not None,
        ),
        soft_timeout=_soft_timeout(environment),
        account=account,
    )
    state_dir = given.state_dir and Path(given.state_dir).absolute()
    shells = with_kinds(shells, given.shells, environment, state_dir=state_dir)
    shells = replace(shells, keep_for=given.keep_shells)
    browser = BrowserSettings(
        enabled=given.enable_browser is not False, refused=tuple(given.block_for_pages)
    )
    checkpoints = given.checkpoints and Path(given.checkpoints).absolute()
    if checkpoints:
        from bascule.checkpoints.store import suitable_workspace

        suitable_workspace(shells.working_dir, checkpoints)
    wanted = [f"the plugin {name}" for name in given.plugins if name not in PROVIDED]
    wanted += ["the browser"] if given.enable_browser and find_chromium(browser) is None else []
    wanted += ["BrowserGym"] if given.browsergym_eval_env else []
    return SandboxArguments(
        ServerSettings(
            key=environment.get("SESSION_API_KEY", ""), host=given.host, port=given.port
        ),
        SandboxSettings(
            shells=shells,
            ipython=IPythonSettings(python=given.python),
            browser=browser,
            rules=_rules(given.rules),
            checkpoints=checkpoints or None,
        ),
        tuple(wanted),
        has_traces=given.traces,
    )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="bascule sandbox",
        description="Run a sandbox as an HTTP server: persistent bash shells, IPython, files, "
        "search, a browser.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("port", type=_port, metavar="PORT", help="port to listen on; 0 picks a free port")
    add(
        "--working-dir",
        required=True,
        metavar="DIR",
        help="directory where shells start (required). A missing directory is created only if "
        "--username or --user-id is given",
    )
    add(
        "--host",
        default="127.0.0.1",
        metavar="HOST",
        help="address to listen on (default: %(default)s)",
    )
    add("--shells", metavar="KIND", help=HELP)
    add(
        "--traces",
        action="store_true",
        help="export traces of actions with OpenTelemetry, as the variables OTEL_* say",
    )
    add(
        "--state-dir",
        metavar="DIR",
        help="directory for the state and sockets of tmux shells. If the server is killed, a new "
        "server with the same directory takes over the shells. The path must be short, because "
        "socket paths are limited (default: a directory for each --working-dir in "
        "$XDG_RUNTIME_DIR/bascule, or in /tmp/bascule-UID if XDG_RUNTIME_DIR is not set)",
    )
    add(
        "--keep-shells",
        type=_seconds,
        default=ShellSettings().keep_for,
        metavar="SECONDS",
        help="seconds that tmux shells keep running after the server was killed; 0: they end at "
        "once (default: %(default)g)",
    )
    add(
        "--rules",
        metavar="FILE",
        help="TOML file with rules for commands; a command that needs approval is refused, because "
        "nobody is asked (default: every command runs)",
    )
    add(
        "--checkpoints",
        metavar="DIR",
        help="directory where checkpoints are stored, outside of --working-dir; a checkpoint can "
        "undo the changes of an action (default: no checkpoints)",
    )
    add(
        "--plugins",
        nargs="*",
        default=(),
        choices=PLUGINS,
        metavar="NAME",
        help=f"OpenHands plugins to load: {', '.join(PLUGINS)}; a plugin that is not available is "
        "skipped with a warning",
    )
    add(
        "--username",
        metavar="U",
        help="name of the user to run shells as (default: the current user)",
    )
    add("--user-id", type=int, metavar="N", help="id of the user to run shells as")
    add(
        "--python",
        default="",
        metavar="PATH",
        help="Python interpreter for IPython cells (default: the interpreter that runs bascule)",
    )
    add(
        "--enable-browser",
        action=argparse.BooleanOptionalAction,
        help="enable or disable browser actions (default: enabled if Chromium is installed)",
    )
    add(
        "--block-for-pages",
        type=_address,
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="address that web pages in the sandbox's browser may not reach, such as the hub's "
        "address; repeatable",
    )
    add(
        "--keep-from-pages",  # the name of --block-for-pages before version 0.2
        dest="block_for_pages",
        type=_address,
        action="append",
        help=argparse.SUPPRESS,
    )
    add(
        "--browsergym-eval-env",
        metavar="X",
        help="BrowserGym environment (not supported; accepted for OpenHands)",
    )
    return parser


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (try {self.prog} --help)")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 65535")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), _port(port)


def _working_dir(text: str, account: ShellAccount | None, *, is_made: bool) -> Path:
    """The working directory. It is created if missing and `is_made`: OpenHands, which names an
    account, relies on this. For other callers a missing directory is an error."""
    path = Path(text).resolve()
    if path.is_dir():
        return path
    if not is_made and not path.exists():
        raise InvalidSetting(f"--working-dir does not exist: {path}; check the path, or create it")
    try:
        path.mkdir(parents=True)
        if account is not None:
            shutil.chown(path, account.uid, account.gid)
    except FileExistsError:
        raise InvalidSetting(f"--working-dir is not a directory: {path}") from None
    except OSError as error:
        raise PermissionRefused(f"cannot create --working-dir {path}: {error}") from error
    return path


def _rules(file: str | None) -> CommandRules | None:
    if file is None:
        return None
    from bascule.sandbox.command_rules import CommandRules  # most sandboxes have no rules

    return CommandRules.read(Path(file))


def _soft_timeout(environment: Mapping[str, str]) -> float:
    text = environment.get("NO_CHANGE_TIMEOUT_SECONDS", "10")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 < seconds < float("inf"):
        raise InvalidSetting(
            f"NO_CHANGE_TIMEOUT_SECONDS is {text!r}; it must be a number of seconds above 0"
        )
    return seconds
