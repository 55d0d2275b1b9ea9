"""Tables and lines that are redrawn, as people see them."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import pytest

from bascule.cli.terminal import Terminal


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_in_a_pipe_has_no_styles_and_is_never_folded() -> None:
    pipe = io.StringIO()
    Terminal(pipe).print_table([[("ID", "bold"), "URL"], ["1", "u" * 300]], fold=[1])
    assert pipe.getvalue() == f"ID   URL\n1    {'u' * 300}\n"


def test_a_table_on_a_narrow_screen_wraps_only_wrappable_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "16")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen()
    Terminal(screen).print_table([["abcd", "0123456789"]], gap=2, fold=[1])
    assert screen.getvalue() == "abcd  0123456789\n"
    Terminal(screen).print_table([["abcde", "0123456789"]], gap=2, fold=[1])
    assert screen.getvalue().endswith("abcde  012345678\n       9\n")


def test_columns_stay_aligned_with_wide_characters() -> None:
    pipe = io.StringIO()
    Terminal(pipe).print_table([["漢字", "x"], ["abcd", "y"]], gap=1)
    assert pipe.getvalue() == "漢字 x\nabcd y\n"


def test_styles_are_used_only_on_a_terminal() -> None:
    assert Terminal(io.StringIO()).styled("text", "red") == "text"


@pytest.mark.slow
def test_stages_are_redrawn_in_place_and_erased_at_the_end() -> None:
    code = (
        "import sys, time\n"
        "from bascule.cli.stage_progress import show_stages\n"
        "with show_stages() as say:\n"
        "    say('first'); time.sleep(0.25); say('second'); time.sleep(0.25)\n"
        "    with say.hidden(): print('between', file=sys.stderr)\n"
    )
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen([sys.executable, "-c", code], stderr=theirs, env=environment):
        os.close(theirs)
        seen = b""
        while True:
            try:
                seen += os.read(ours, 4096)
            except OSError:  # the program has closed its end
                break
    os.close(ours)
    text = seen.decode()
    assert "✓ first 0:00" in text
    assert "second 0:00" in text
    # As many lines were removed as were drawn, so only what was printed stays.
    assert text.count("\033[1A") == text.count("\n") - 1
