"""The physical limit that everything is compared with really runs what it is given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.peers.raw_pty import RawPty, RawShell


@pytest.fixture
def shell() -> Iterator[RawShell]:
    shell = RawShell({"PATH": "/usr/bin:/bin", "TERM": "xterm-256color"})
    shell.run(":")
    yield shell
    shell.close()


def test_a_command_answers_with_its_output_and_status(shell: RawShell) -> None:
    assert shell.run("echo one; (exit 7)") == (b"one\n", 7)


def test_the_raw_shell_keeps_state(shell: RawShell) -> None:
    shell.run("cd /usr; x=4")

    assert shell.run("pwd; echo $x") == (b"/usr\n4\n", 0)


def test_output_without_a_newline_does_not_end_a_command(shell: RawShell) -> None:
    assert shell.run("printf 'no newline'") == (b"no newline", 0)


def test_output_of_many_reads_arrives_whole(shell: RawShell) -> None:
    output, status = shell.run("seq 1 20000")

    assert output == b"".join(b"%d\n" % n for n in range(1, 20001))
    assert status == 0


def test_an_old_nonce_does_not_end_a_new_command(shell: RawShell) -> None:
    shell.run("true")
    stale = shell.nonce.hex()

    assert shell.run(f"printf '{_escaped(stale)}0\\n'; echo after")[0].endswith(b"after\n")


async def test_many_raw_shells_run_at_the_same_time() -> None:
    subject = RawPty()
    shells = await subject.open_all(3)
    try:
        assert await subject.together(shells, "true", 5) == 0
        assert await subject.together(shells, "false", 2) == 6
    finally:
        for shell in shells:
            shell.close()


def _escaped(digits: str) -> str:
    return "".join(f"\\x{digits[at : at + 2]}" for at in range(0, len(digits), 2))
