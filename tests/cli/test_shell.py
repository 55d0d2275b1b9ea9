from __future__ import annotations

from pathlib import Path

import pytest

from .processes import at_terminal, bascule, environment, serving

pytestmark = pytest.mark.slow


def test_a_shell_in_a_remote_sandbox_survives_leaving_it(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        there = environment(BASCULE_URL=server.url, SESSION_API_KEY=server.key, TERM="dumb")
        with at_terminal("shell", "--shell", "mine", cwd=tmp_path, env=there) as terminal:
            terminal.expect(" $ ")
            terminal.type("A=kept; cd /\r")
            terminal.expect("/ $ ")
            terminal.type("\x04")
            assert terminal.status() == 0
        seen = bascule("exec", "--shell", "mine", "echo $A $PWD", env=there)

    assert seen.stdout == "kept /\n"


def test_without_a_url_the_shell_command_starts_a_local_sandbox(tmp_path: Path) -> None:
    ran = bascule("shell", cwd=tmp_path, input="pwd\nA=1\necho $A\n")

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{tmp_path}\n1\n", "")


def test_the_shell_command_exits_with_the_status_given_to_exit(tmp_path: Path) -> None:
    with at_terminal("shell", cwd=tmp_path, env=environment(TERM="dumb")) as terminal:
        terminal.expect(" $ ")
        terminal.type("exit 3\r")
        assert terminal.status() == 3


def test_an_unreachable_sandbox_prints_a_one_sentence_error(tmp_path: Path) -> None:
    ran = bascule("shell", "--url", "http://127.0.0.1:1", "--key", "k", input="pwd\n")

    assert ran.returncode == 1
    assert "127.0.0.1:1" in ran.stderr
    assert ran.stderr.count("\n") == 1
