"""What every test gets: a detector that fails it when our code blocks the event loop."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import blockbuster.blockbuster as detector
import pytest

pytest.register_assert_rewrite("tests.contracts")

# The environments of `scripts/openhands` run some of these tests and have no hypothesis.
if find_spec("hypothesis") is not None:
    import hypothesis

    # By default an example that takes 0.2 s fails, which on a busy machine any of them does.
    hypothesis.settings.register_profile(
        "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("patient")

# A shell starts what ends in `&` with Ctrl-C ignored, which Python and every child would keep.
signal.signal(signal.SIGINT, signal.default_int_handler)

ALSO_BLOCKING = ("open", "pread", "pwrite", "fsync", "ftruncate", "waitpid")
"""Functions of `os` that wait for a disk or a process, of which the library does not know."""

MAY_BLOCK: tuple[tuple[str, str, str], ...] = (
    # Once per sandbox: a directory of its own; once per shell: its log.
    *((f"os.{call}", "sandbox/shell/shells.py", "ensure_dir") for call in ("mkdir", "stat")),
    ("os.open", "sandbox/shell/log.py", "__init__"),
    ("os.unlink", "sandbox/shell/log.py", "close"),
    # The log is written to the page cache as output comes; a thread would cost more than it saves.
    ("os.pwrite", "sandbox/shell/log.py", "append"),
    *(
        (f"os.{call}", "sandbox/shell/log.py", "_drop_until")
        for call in ("pread", "pwrite", "ftruncate")
    ),
    *(("os.pread", "sandbox/shell/log.py", name) for name in ("read", "_lines")),
    # /proc is memory; bash and Python are looked for on a PATH that is cached anyway.
    *((call, "sandbox/shell/bash.py", "_spawn") for call in ("os.stat", "os.access")),
    *(
        (call, "sandbox/shell/command_observations.py", "_interpreter")
        for call in ("os.stat", "os.access")
    ),
    ("os.stat", "sandbox/shell/bash.py", "_channel_readable"),
    ("os.readlink", "sandbox/shell/bash.py", "directory"),
    ("os.readlink", "sandbox/shell/bash.py", "is_starting_program"),
    ("os.readlink", "sandbox/shell/bash.py", "_descriptor"),
    ("os.open", "sandbox/shell/bash.py", "settle"),
    *(
        ("io.BufferedReader.read", "sandbox/shell/bash.py", name)
        for name in ("environment", "is_other_shell")
    ),
    # The same for a shell on tmux: its log and directory, its terminal, /proc. Where it stands is
    # written to the page cache, as the log is; so is what tmux says, by the kernel itself.
    *((f"os.{call}", "sandbox/shell/shells.py", "_make_tmux") for call in ("mkdir", "stat")),
    ("os.ftruncate", "sandbox/shell/log.py", "__init__"),
    *(("os.open", "sandbox/shell/tmux_bash.py", name) for name in ("start", "_take_terminal")),
    ("io.BufferedReader.read", "sandbox/shell/tmux_bash.py", "foreground"),
    *((f"os.{call}", "sandbox/shell/tmux.py", "_save") for call in ("open", "pwrite")),
    ("os.pread", "sandbox/shell/tmux_host.py", "_readable"),
    *((f"os.{call}", "sandbox/shell/tmux_host.py", "_trim") for call in ("open", "pwrite")),
    # Once per endpoint, FastAPI looks where it was written, for the message of an error.
    *(
        (call, "fastapi/routing.py", "_extract_endpoint_context")
        for call in ("os.stat", "io.BufferedReader.read", "io.TextIOWrapper.read")
    ),
    # A log is written where it is made.
    *(
        (f"io.{call}.write", "logging/__init__.py", "emit")
        for call in ("TextIOWrapper", "BufferedWriter")
    ),
    # The working directory is asked of the kernel, which knows it.
    ("os.path.abspath", "bridge/calls.py", "_path"),
    ("os.path.abspath", "hub/database/engine.py", "make_engine"),
    # Once per new connection to a server, asyncpg looks for the user's password and certificates.
    *(
        (call, "asyncpg/connect_utils.py", "_parse_connect_dsn_and_args")
        for call in (
            "os.stat",
            "os.path.abspath",
            "io.BufferedReader.read",
            "io.TextIOWrapper.read",
        )
    ),
    # A loop of its own in a thread of its own, for what reads files and awaits a database.
    *(
        (call, "hub/database/migrate.py", "upgrade")
        for call in (
            *("os.path.abspath", "os.stat", "os.listdir", "os.scandir", "os.access"),
            *("os.open", "os.mkdir", "os.replace", "os.rename"),
            *("io.BufferedReader.read", "io.TextIOWrapper.read", "io.BufferedWriter.write"),
        )
    ),
    # A run has a loop of its own; code in a net that does not await is waited for, as it asked.
    *(
        (call, "net/runner.py", "_call")
        for call in ("os.read", "os.waitpid", "os.stat", "time.sleep", "io.BufferedReader.read")
    ),
    *(
        (f"io.{call}.write", "net/trace.py", "write")
        for call in ("TextIOWrapper", "BufferedWriter")
    ),
    # A line for the log goes where whoever runs us has it go; that is theirs to choose.
    *(
        (f"io.{call}.write", "logging/__init__.py", name)
        for call in ("TextIOWrapper", "BufferedWriter")
        for name in ("emit", "flush")
    ),
    # /dev/null, for the child's output.
    ("os.open", "runtime/child.py", "start"),
    # Once per new connection: a socket's name is looked up, nothing is read.
    ("os.open", "link/unix_socket.py", "_connect"),
    # A frame is small beside the socket's buffer, and the keeper always reads.
    *(
        (f"socket.socket.{call}", "sandbox/shell/keeper.py", "_send")
        for call in ("send", "sendall")
    ),
)
"""(call, file, function): named places where a call that could block is right, with the reason."""


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the repository."""
    return Path(__file__).parent.parent


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory for sockets, whose names may have 107 bytes; `tmp_path` alone can take most."""
    with tempfile.TemporaryDirectory(prefix="bsc-") as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def blocking_calls() -> Iterator[list[detector.BlockingError]]:
    """Every blocking call our code made on an event loop, in the order they were refused."""
    seen: list[detector.BlockingError] = []

    class Recorded(detector.BlockingError):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            seen.append(self)

    with pytest.MonkeyPatch.context() as patch, detector.blockbuster_ctx("bascule") as active:
        patch.setattr(detector, "BlockingError", Recorded)
        for name in ALSO_BLOCKING:
            call = f"os.{name}"
            watched = detector.BlockBusterFunction(None, call, scanned_modules="bascule")
            active.functions[call] = watched.activate()
        for call, file, function in MAY_BLOCK:
            active.functions[call].can_block_in(file, function)
        yield seen


@pytest.fixture(autouse=True)
def nothing_blocks_the_loop(blocking_calls: list[detector.BlockingError]) -> Iterator[None]:
    """The call is refused where it happens; one that a broad `except` ate fails the test here."""
    blocking_calls.clear()
    yield
    if blocking_calls:
        raise blocking_calls[0]
