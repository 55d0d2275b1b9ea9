from __future__ import annotations

import resource
import socket
import threading
from pathlib import Path

import pytest

from bascule.cli import machine


def install(directory: Path, name: str, script: str) -> None:
    """Put a program on an otherwise empty PATH."""
    program = directory / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on PATH; nothing is in it yet."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_a_machine_without_bash_lacks_something_required(programs: Path) -> None:
    finding = machine.bash()

    assert finding.state == "missing"
    assert "apt-get install bash" in finding.advice


def test_a_bash_older_than_4_4_is_not_enough(programs: Path) -> None:
    install(programs, "bash", "echo 'GNU bash, version 4.3.30(1)-release'")

    assert (machine.bash().state, machine.bash().found) == ("missing", "4.3.30")


def test_a_newer_bash_is_fine(programs: Path) -> None:
    install(programs, "bash", "echo 'GNU bash, version 10.0.1(1)-release'")

    assert machine.bash().state == "ok"


def test_a_missing_optional_program_is_reported_with_its_use_and_install_advice(
    programs: Path,
) -> None:
    finding = machine.ripgrep()

    assert finding.state == "limited"
    assert finding.advice == ("makes file search faster; as root: apt-get install ripgrep")


def test_a_program_without_a_version_counts_as_missing(programs: Path) -> None:
    install(programs, "git", "echo no idea")

    assert machine.git().state == "limited"


def test_chromium_is_found_under_any_of_its_names(programs: Path) -> None:
    install(programs, "google-chrome", "exit 0")

    assert machine.chromium().found == str(programs / "google-chrome")


def test_namespaces_are_tried_and_a_failure_is_reported_with_its_reason(programs: Path) -> None:
    install(programs, "unshare", "echo 'unshare: unshare failed: No space left' >&2; exit 1")

    finding = machine.namespaces()

    assert (finding.state, finding.found) == ("limited", "unshare: unshare failed: No space left")


def test_a_docker_engine_is_queried_over_its_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{tmp_path}/engine.sock")
        server.listen()
        engine = threading.Thread(target=_answer_ping, args=(server,))
        engine.start()
        finding = machine.docker()
        engine.join()

    assert (finding.state, finding.found) == ("ok", "API 1.50")


def test_an_engine_that_does_not_answer_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")

    assert machine.docker().found == f"unix://{tmp_path}/nobody.sock: No such file or directory"


def test_a_low_open_file_limit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))

    finding = machine.limits()

    assert finding.state == "limited"
    assert finding.found == "256 open files (up to unlimited), 256 processes"


def test_this_machine_can_open_terminals_ports_and_temporary_files() -> None:
    findings = [machine.terminals(), machine.loopback(), machine.temporary_files()]

    assert [finding.state for finding in findings] == ["ok", "ok", "ok"]


def _answer_ping(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        assert connection.recv(4096).startswith(b"GET /_ping ")
        connection.sendall(b"HTTP/1.1 200 OK\r\nApi-Version: 1.50\r\nContent-Length: 2\r\n\r\nOK")


def test_without_vs_code_for_the_browser_the_install_command_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    finding = machine.vscode()

    assert (finding.state, finding.found) == ("limited", "not installed")
    assert "bascule install vscode" in finding.advice
