"""What `make run` makes before the first start, and what is seen of it."""

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

from scripts.prepare import PROJECT, Part, Tell, prepare, script


def console(*, is_terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), force_terminal=is_terminal, highlight=False, soft_wrap=True)


def shown(seen: Console) -> str:
    assert isinstance(seen.file, io.StringIO)
    return seen.file.getvalue()


def part(name: str, *command: str) -> Part:
    return Part(name, f"what {name} is for", script(*command))


def test_what_is_there_is_not_mentioned() -> None:
    for seen in (console(), console(is_terminal=True)):
        assert prepare([part("the page", "true"), part("the editor", "true")], seen) == []
        assert shown(seen) == ""


def test_what_cannot_be_had_is_told_with_its_reason_and_the_rest_is_made() -> None:
    made = threading.Event()
    seen = console()
    lacking = part("the [page]", "sh", "-c", "echo no [network] >&2; exit 3")
    other = Part("the editor", "VS Code", lambda tell: made.set())

    assert prepare([lacking, other], seen) == [lacking]
    assert made.is_set()
    assert shown(seen) == (
        "! the [page] could not be installed: no [network]\n"
        "  Continuing without what the [page] is for.\n"
    )


def test_all_is_made_at_once() -> None:
    both = threading.Barrier(2, timeout=30)

    def meet(tell: Tell) -> None:
        both.wait()

    assert prepare([Part("one", "", meet), Part("two", "", meet)], console()) == []


@pytest.mark.slow
def test_a_person_sees_how_far_it_is_and_then_what_it_took() -> None:
    seen, asked = console(is_terminal=True), threading.Event()

    def count(tell: Tell) -> None:
        tell("packages", done=3, of=7)
        asked.wait(1.0)  # longer than what is passed over in silence

    assert prepare([Part("VS Code", "", count)], seen) == []
    assert "packages 3/7" in shown(seen)
    assert "✓" in shown(seen)


@pytest.mark.slow
def test_a_log_has_a_line_for_what_began_and_one_for_what_it_took() -> None:
    seen = console()

    assert prepare([part("the page", "sh", "-c", "echo noise; sleep 0.7")], seen) == []
    first, second = shown(seen).splitlines()
    assert first == "run: preparing the page; the first time this takes a minute or two"
    assert second == "run: the page: 1 s"


_INTERRUPTED = """
import threading
from scripts import prepare

def wait_long(tell):
    threading.Event().wait(120)

one = prepare.Part("the page", "", prepare.script("sleep", "120"))
prepare.parts = lambda: (one, prepare.Part("VS Code", "", wait_long))
prepare.main()
"""


@pytest.mark.slow
def test_ctrl_c_ends_it_at_once_and_says_so() -> None:
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
def test_a_python_that_cannot_be_used_is_said(python: str, why: str) -> None:
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
