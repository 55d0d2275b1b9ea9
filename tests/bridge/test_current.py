"""Which bridge a process has: explicit, debug, run, hub; and what it leaves in the environment."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from bascule.bridge import BridgeClient, NullTransport
from bascule.bridge.current import CurrentBridge
from bascule.core.errors import BridgeUnavailable, InvalidSetting
from bascule.testing.bridge import FakeEditor

from .serving import TOKEN, BridgeServer


@pytest.fixture
def server() -> Iterator[BridgeServer]:
    with BridgeServer() as server:
        yield server


def _environ(server: BridgeServer, prefix: str = "EVOLVE_RUN_BRIDGE_") -> dict[str, str]:
    return {
        f"{prefix}ADDR": server.endpoint.address,
        f"{prefix}TOKEN": TOKEN,
        f"{prefix}SESSION": "session-1",
        "PATH": "kept",
    }


def test_without_environment_variables_a_bridge_call_fails_at_once_with_advice() -> None:
    started = time.monotonic()

    with pytest.raises(RuntimeError, match="Open Bridged Terminal") as caught:
        CurrentBridge({}).bridge().request("vscode/chat")

    assert isinstance(caught.value, BridgeUnavailable)
    assert time.monotonic() - started < 1
    assert not CurrentBridge({}).bridge().is_available()


@pytest.mark.parametrize("prefix", ["EVOLVE_RUN_BRIDGE_", "RUN_BRIDGE_"])
def test_a_bridge_is_made_from_run_variables_which_are_then_removed(
    server: BridgeServer, prefix: str
) -> None:
    environ = _environ(server, prefix)
    current = CurrentBridge(environ)

    bridge = current.bridge()

    assert (bridge.kind, bridge.is_available()) == ("run", True)
    assert environ == {"PATH": "kept"}
    assert current.bridge() is bridge
    bridge.close()


def test_a_child_process_gets_the_bridge_variables_only_through_child_env(
    server: BridgeServer,
) -> None:
    current = CurrentBridge(_environ(server))
    handed = current.child_env()

    assert handed["EVOLVE_RUN_BRIDGE_TOKEN"] == TOKEN
    again = CurrentBridge(handed).bridge()
    assert again.is_available()
    again.close()
    assert CurrentBridge({}).child_env() == {}


def test_a_chosen_bridge_overrides_a_debug_bridge_which_overrides_a_run_bridge(
    server: BridgeServer,
) -> None:
    current = CurrentBridge(_environ(server))
    chosen, debugged = FakeEditor().bridge(), BridgeClient(NullTransport())

    current.use_debug(debugged)
    assert current.bridge() is debugged
    current.use(chosen)
    assert current.bridge() is chosen
    current.use(None)
    assert current.bridge() is debugged
    current.use_debug(None)
    assert current.bridge().kind == "run"
    current.bridge().close()


def test_the_terminal_bridge_is_used_only_on_request_and_without_a_window(
    server: BridgeServer,
) -> None:
    assert CurrentBridge({"BASCULE_BRIDGE": "terminal"}).bridge().kind == "terminal"
    assert CurrentBridge({**_environ(server), "BASCULE_BRIDGE": "terminal"}).bridge().kind == "run"
    assert CurrentBridge({**_environ(server), "BASCULE_BRIDGE": "none"}).bridge().kind == "none"
    current = CurrentBridge({})
    assert current.bridge().kind == "none"
    current.use_terminal()
    assert current.bridge().kind == "terminal"
    with pytest.raises(InvalidSetting, match="'termnial'"):
        CurrentBridge({"BASCULE_BRIDGE": "termnial"}).bridge()


@pytest.mark.slow
def test_a_forked_child_opens_its_own_bridge(server: BridgeServer) -> None:
    """In a process of its own: this one has threads, with which nobody should fork."""
    code = (
        "import os, sys, vscode_bridge\n"
        "assert vscode_bridge.is_available()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os._exit(0 if vscode_bridge.is_available() else 1)\n"
        "_, status = os.waitpid(pid, 0)\n"
        "assert vscode_bridge.is_available()\n"
        "print(status)\n"
    )
    env = {**os.environ, **_environ(server), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ("0\n", "")
    assert len(server.headers) == 2


@pytest.mark.slow
def test_a_script_exits_with_nothing_on_stderr(server: BridgeServer) -> None:
    code = "import vscode_bridge; print(vscode_bridge.is_available())"
    env = {**os.environ, **_environ(server), "PATH": os.environ["PATH"]}

    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code],
        env=env,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
