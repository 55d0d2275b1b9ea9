"""Fixtures and settings for all tests. A test fails if Bascule's code blocks the event loop."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import blockbuster.blockbuster as detector
import pytest

from tests.pending_tasks import describe_pending_tasks

pytest.register_assert_rewrite("tests.contracts")

# The environments of `scripts/openhands` run some of these tests and have no hypothesis.
if find_spec("hypothesis") is not None:
    import hypothesis

    # The default limit of 0.2 s per example is too short on a busy machine.
    hypothesis.settings.register_profile(
        "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("patient")

# A shell starts background commands (`&`) with SIGINT ignored. Python and its children would
# inherit this, so restore the default handler.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Images of containers often set this. Each of the many processes that tests start would compile
# every module that it imports; for OpenHands that takes seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

ALSO_BLOCKING = ("open", "pread", "pwrite", "fsync", "ftruncate", "waitpid")
"""Functions of `os` that wait for a disk or a process, and that blockbuster does not know."""

MAY_BLOCK: tuple[tuple[str, str, str], ...] = (
    # Once per sandbox: create its directory. Once per shell: open its log.
    *((f"os.{call}", "sandbox/shell/shells.py", "ensure_dir") for call in ("mkdir", "stat")),
    ("os.open", "sandbox/shell/log.py", "__init__"),
    ("os.unlink", "sandbox/shell/log.py", "close"),
    # Output is written to the log in the page cache; a thread would cost more time than it saves.
    ("os.pwrite", "sandbox/shell/log.py", "append"),
    *(
        (f"os.{call}", "sandbox/shell/log.py", "_drop_until")
        for call in ("pread", "pwrite", "ftruncate")
    ),
    *(("os.pread", "sandbox/shell/log.py", name) for name in ("read", "_lines")),
    # bash and Python are searched on PATH, whose directories are in the kernel's cache.
    *((call, "sandbox/shell/bash.py", "_spawn") for call in ("os.stat", "os.access")),
    *(
        (call, "sandbox/shell/command_observations.py", "_interpreter")
        for call in ("os.stat", "os.access")
    ),
    # /proc is in memory. Listing all processes is still refused: there may be thousands.
    ("os.stat", "sandbox/process_table.py", "exists"),
    ("os.readlink", "sandbox/process_table.py", "_link"),
    ("io.BufferedReader.read", "sandbox/process_table.py", "_read"),
    ("os.open", "sandbox/shell/bash.py", "settle"),
    # The same for a tmux shell: its log, directory and terminal. Its state is written to the page
    # cache, as the log is. The kernel copies tmux's output there too (`splice`).
    *((f"os.{call}", "sandbox/shell/shells.py", "_make_tmux") for call in ("mkdir", "stat")),
    ("os.ftruncate", "sandbox/shell/log.py", "__init__"),
    *(("os.open", "sandbox/shell/tmux_bash.py", name) for name in ("start", "_take_terminal")),
    *((f"os.{call}", "sandbox/shell/tmux.py", "_save") for call in ("open", "pwrite")),
    ("os.pread", "sandbox/shell/tmux_host.py", "_readable"),
    *((f"os.{call}", "sandbox/shell/tmux_host.py", "_trim") for call in ("open", "pwrite")),
    # Once per endpoint, FastAPI reads its source for error messages.
    *(
        (call, "fastapi/routing.py", "_extract_endpoint_context")
        for call in ("os.stat", "io.BufferedReader.read", "io.TextIOWrapper.read")
    ),
    # Once per process, pydantic looks for its plugins among the installed packages.
    *(
        (call, "pydantic/plugin/_loader.py", "get_plugins")
        for call in (
            *("os.listdir", "os.scandir", "os.stat", "os.open"),
            *("io.BufferedReader.read", "io.TextIOWrapper.read"),
        )
    ),
    # Log records are written by the code that logs.
    *(
        (f"io.{call}.write", "logging/__init__.py", "emit")
        for call in ("TextIOWrapper", "BufferedWriter")
    ),
    # Reading the working directory is a fast system call.
    ("os.path.abspath", "bridge/calls.py", "_path"),
    ("os.path.abspath", "hub/database/engine.py", "make_engine"),
    # Once per new connection, asyncpg looks for the user's password file and certificates.
    *(
        (call, "asyncpg/connect_utils.py", "_parse_connect_dsn_and_args")
        for call in (
            "os.stat",
            "os.path.abspath",
            "io.BufferedReader.read",
            "io.TextIOWrapper.read",
        )
    ),
    # Migrations run in a separate loop in a separate thread, and read files there.
    *(
        (call, "hub/database/migrate.py", "upgrade")
        for call in (
            *("os.path.abspath", "os.stat", "os.listdir", "os.scandir", "os.access"),
            *("os.open", "os.mkdir", "os.replace", "os.rename"),
            *("io.BufferedReader.read", "io.TextIOWrapper.read", "io.BufferedWriter.write"),
        )
    ),
    # A run has its own loop, and code in a net may block it.
    *(
        (call, "net/runner.py", "_call")
        for call in ("os.read", "os.waitpid", "os.stat", "time.sleep", "io.BufferedReader.read")
    ),
    *(
        (f"io.{call}.write", "net/trace.py", "write")
        for call in ("TextIOWrapper", "BufferedWriter")
    ),
    # The application chooses where log records are written, and that may block.
    *(
        (f"io.{call}.write", "logging/__init__.py", name)
        for call in ("TextIOWrapper", "BufferedWriter")
        for name in ("emit", "flush")
    ),
    # Hypothesis describes a failed example on the event loop that the example ran on.
    ("os.path.abspath", "hypothesis/internal/escalation.py", "accept"),
    # Opens /dev/null for the child's output.
    ("os.open", "runtime/child.py", "start"),
    # Once per new connection: opens the path of a socket (O_PATH), and reads nothing.
    ("os.open", "link/unix_socket.py", "_connect"),
    # A frame is small compared with the socket's buffer, and the keeper always reads.
    *(
        (f"socket.socket.{call}", "sandbox/shell/keeper.py", "_send")
        for call in ("send", "sendall")
    ),
)
"""(call, file, function): places where a call that could block is allowed, with the reason."""


@pytest.hookimpl(trylast=True)  # after the plugin of the terminal
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:  # not in the workers of pytest-xdist
        config.pluginmanager.register(_Failures(terminal))


@pytest.hookimpl(trylast=True)  # after tests were deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--no-loadscope-reorder`, start files with long tests first, then those with many."""
    if not config.getoption("loadscopereorder", True):
        sort_by_file(items)


def sort_by_file(items: list[pytest.Item]) -> None:
    """Files with the longest time limit of a test come first. Time limits of up to two minutes, the
    default, are equal: then files with more tests come first, as pytest-xdist orders them."""
    limits: dict[Path, float] = {}
    counts = Counter(item.path for item in items)
    for item in items:
        mark = item.get_closest_marker("timeout")
        limit = float(mark.args[0]) if mark and mark.args else 0.0
        limits[item.path] = max(limits.get(item.path, 120.0), limit)
    items.sort(key=lambda item: (-limits[item.path], -counts[item.path], str(item.path)))


class _Failures:
    """Names each test when it fails. A run of half an hour describes them only at its end."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.write_line(f"\n{report.when} failed: {report.nodeid}", red=True)
            self._terminal.write_line(_first_line(report))


def _first_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr).partition("\n")[0][:300]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add pending tasks to the report of a test that exceeded its time limit. Disable the garbage
    collector while pytest describes a failure.

    For the description, pytest parses the test's source. In Python 3.11.7 `ast.parse` raises
    SystemError if another thread parses at the same time (python/cpython#106905), which ends the
    whole run. Within `ast.parse`, Python switches threads only in code that the collector calls.
    """
    gc.disable()
    try:
        report = yield
    finally:
        gc.enable()
    if call.excinfo is not None and "pytest-timeout" in str(call.excinfo.value):
        report.sections.append(("Pending asyncio tasks", describe_pending_tasks()))
    return report


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the repository."""
    return Path(__file__).parent.parent


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory with a short path, for sockets: Linux limits their paths to 107 bytes, and
    `tmp_path` can use most of them."""
    with tempfile.TemporaryDirectory(prefix="bsc-") as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def blocking_calls() -> Iterator[list[detector.BlockingError]]:
    """The blocking calls of Bascule's code on an event loop, in order. Each call was refused."""
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
    """Fail the test if its code made a blocking call, even if a broad `except` caught the error."""
    blocking_calls.clear()
    yield
    if blocking_calls:
        raise blocking_calls[0]
