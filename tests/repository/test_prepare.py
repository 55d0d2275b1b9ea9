"""What `make run` builds and installs before the first start, and what it prints."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console

from scripts.prepare import PROJECT, Component, ReportProgress, prepare, script


def console(*, is_terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), force_terminal=is_terminal, highlight=False, soft_wrap=True)


def shown(seen: Console) -> str:
    assert isinstance(seen.file, io.StringIO)
    return seen.file.getvalue()


def component(name: str, *command: str) -> Component:
    return Component(name, f"what {name} is for", script(*command))


def test_components_that_are_up_to_date_are_not_mentioned() -> None:
    for seen in (console(), console(is_terminal=True)):
        assert prepare([component("the page", "true"), component("the editor", "true")], seen) == []
        assert shown(seen) == ""


def test_a_failed_component_is_reported_and_the_others_are_made() -> None:
    made = threading.Event()
    seen = console()
    failing = component("the [page]", "sh", "-c", "echo no [network] >&2; exit 3")
    other = Component("the editor", "VS Code", lambda _: made.set())

    assert prepare([failing, other], seen) == [failing]
    assert made.is_set()
    assert shown(seen) == (
        "! the [page] could not be installed: no [network]\n"
        "  Continuing without what the [page] is for.\n"
    )


def test_components_are_built_in_parallel() -> None:
    both = threading.Barrier(2, timeout=30)

    def meet(_: ReportProgress) -> None:
        both.wait()

    assert prepare([Component("one", "", meet), Component("two", "", meet)], console()) == []


@pytest.mark.slow
def test_a_terminal_shows_progress_and_then_completion() -> None:
    seen, asked = console(is_terminal=True), threading.Event()

    def count(report: ReportProgress) -> None:
        report("packages", done=3, of=7)
        asked.wait(1.0)  # long enough to be shown

    assert prepare([Component("VS Code", "", count)], seen) == []
    assert "packages 3/7" in shown(seen)
    assert "✓" in shown(seen)


@pytest.mark.slow
def test_a_log_has_a_line_for_the_start_and_one_for_the_time_taken() -> None:
    seen = console()

    assert prepare([component("the page", "sh", "-c", "echo noise; sleep 0.7")], seen) == []
    first, second = shown(seen).splitlines()
    assert first == "run: preparing the page; the first time this takes a minute or two"
    assert second == "run: the page: 1 s"


_INTERRUPTED = """
import threading
from scripts import prepare

def wait_long(report):
    threading.Event().wait(120)

one = prepare.Component("the page", "", prepare.script("sleep", "120"))
prepare.components = lambda: (one, prepare.Component("VS Code", "", wait_long))
prepare.main()
"""


@pytest.mark.slow
def test_ctrl_c_ends_the_preparation_at_once() -> None:
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED],
        cwd=PROJECT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C reaches whatever runs at a terminal
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("run: preparing the page, VS Code;")
        os.killpg(process.pid, signal.SIGINT)
        said = process.stderr.read()

    assert process.returncode == 130
    assert said == "run: interrupted; run `make run` again to continue\n"
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("python", "why"),
    [
        ("/no/such/python", "there is no such program"),
        ("true", "not a Python 3.11 or newer"),
    ],
)
def test_setup_reports_a_python_that_cannot_be_used(python: str, why: str) -> None:
    ran = subprocess.run(
        ["scripts/setup"],
        cwd=PROJECT,
        env={**os.environ, "PYTHON": python},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert ran.returncode == 1
    assert f"PYTHON={python}: {why}" in ran.stderr
