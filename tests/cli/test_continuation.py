from __future__ import annotations

from pathlib import Path

import pytest

from bascule.cli.continuation import is_unfinished

UNFINISHED = ["for i in 1 2; do", "echo 'a", "cat <<END", "echo a \\", "f() {", "a &&", "a |", "$("]
FINISHED = ["ls", "for i in 1; do :; done", "cat <<END\nx\nEND", "echo \\\\", ")", "# quote '", ""]


@pytest.mark.parametrize("command", UNFINISHED)
def test_bash_would_ask_for_more(command: str) -> None:
    assert is_unfinished(command)


@pytest.mark.parametrize("command", FINISHED)
def test_this_can_be_run_or_is_simply_wrong(command: str) -> None:
    assert not is_unfinished(command)


def test_nothing_is_run_to_find_out(tmp_path: Path) -> None:
    is_unfinished(f"touch {tmp_path}/ran; for i in 1; do")

    assert list(tmp_path.iterdir()) == []


def test_without_bash_every_line_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    assert not is_unfinished("echo 'a")
