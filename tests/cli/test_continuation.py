from __future__ import annotations

from pathlib import Path

import pytest

from bascule.cli.continuation import is_unfinished

UNFINISHED = ["for i in 1 2; do", "echo 'a", "cat <<END", "echo a \\", "f() {", "a &&", "a |", "$("]
FINISHED = ["ls", "for i in 1; do :; done", "cat <<END\nx\nEND", "echo \\\\", ")", "# quote '", ""]


@pytest.mark.parametrize("command", UNFINISHED)
def test_an_incomplete_bash_command_is_unfinished(command: str) -> None:
    assert is_unfinished(command)


@pytest.mark.parametrize("command", FINISHED)
def test_a_complete_or_invalid_command_is_not_unfinished(command: str) -> None:
    assert not is_unfinished(command)


def test_checking_for_continuation_runs_no_command(tmp_path: Path) -> None:
    is_unfinished(f"touch {tmp_path}/ran; for i in 1; do")

    assert list(tmp_path.iterdir()) == []


def test_without_bash_every_line_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    assert not is_unfinished("echo 'a")
