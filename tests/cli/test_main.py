from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

import bascule
from bascule.cli import doctor, main
from bascule.cli.failure import report
from bascule.core.errors import AccessDenied

from .processes import BASCULE, environment
from .processes import bascule as run


def test_the_version_option_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bascule {bascule.__version__}\n"


def test_without_a_command_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    listed = capsys.readouterr().err
    for command in ("up", "exec", "shell", "schema", "doctor", "sandbox"):
        assert command in listed


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fly"], "bascule: No such command 'fly' (try bascule --help)\n"),
        (
            ["up", "--prot", "1"],
            "bascule: No such option '--prot'. Did you mean --no-prompt or --port? (try bascule up",
        ),
        (["up", "--port", "x"], "bascule: Invalid value for '--port'"),
        (
            ["sesion"],
            "bascule: No such command 'sesion'. Did you mean session? (try bascule --help)",
        ),
        (["session", "lst"], "bascule: No such command 'lst'. Did you mean list?"),
        (
            ["session", "create", "--git"],
            "bascule: Option '--git' requires an argument (try bascule session create",
        ),
        (["exec"], "bascule: Missing argument 'COMMAND...'"),
        (["sandbox"], "bascule: the following arguments are required"),
        (
            ["up", "--working-dir", "/dev/null/x"],
            "bascule: --working-dir /dev/null/x is a file, or is below one",
        ),
        (
            ["editor", "bogus"],
            "bascule: Invalid value for '{install|where|extension}': 'bogus' is not one of 'inst",
        ),
    ],
)
def test_a_usage_error_is_one_sentence_and_status_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(sentence)
    assert said.count("\n") == 1


def test_requested_help_is_printed_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["debug-adapter", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: bascule debug-adapter")
    assert main(["debug-adapter", "what"]) == 2
    assert capsys.readouterr().err.startswith("usage: bascule debug-adapter")


@pytest.mark.parametrize(
    ("message", "is_helped"),
    [("The key is wrong", True), ("Not here; one of scope admin may", False)],
)
def test_an_access_error_without_advice_gets_advice_about_the_token(
    message: str, is_helped: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(AccessDenied(message)) == 2
    assert ("BASCULE_TOKEN" in capsys.readouterr().err) is is_helped


def test_an_internal_error_prints_one_sentence_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda: 1 / 0)

    assert main(["doctor"]) == 1
    assert capsys.readouterr().err == (
        "bascule: unexpected ZeroDivisionError: division by zero "
        "(set BASCULE_DEBUG=1 for the traceback)\n"
    )


def test_the_traceback_is_printed_only_with_bascule_debug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda: 1 / 0)
    monkeypatch.setenv("BASCULE_DEBUG", "1")

    assert main(["doctor"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.slow
def test_the_installed_command_and_python_m_bascule_behave_the_same() -> None:
    installed = Path(sys.executable).with_name("bascule")
    script = subprocess.run([installed, "--help"], capture_output=True, text=True, check=True)

    assert script.stdout == run("--help").stdout


@pytest.mark.slow
def test_a_closed_stdout_prints_no_error() -> None:
    with subprocess.Popen(
        [*BASCULE, "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.slow
def test_help_imports_few_modules() -> None:
    """Processor time, and the best of a few: the machine may be busy with other things."""
    times = []
    for _ in range(5):
        before = _work_of_children()
        assert run("--help").returncode == 0
        times.append(_work_of_children() - before)

    assert min(times) < 0.3


@pytest.mark.slow
def test_starting_a_sandbox_loads_nothing_that_only_later_requests_need() -> None:
    later = {"bascule.cli.app", "starlette", "bascule.sandbox.files.file_actions"}

    assert not later & _modules_after("import bascule.cli.sandbox, bascule.sandbox.server.serve")


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    ["from bascule.hub import Hub", "import bascule.sandbox.session.__main__"],
    ids=["hub", "session"],
)
def test_hubs_and_sessions_start_without_importing_editor_event_kinds(statement: str) -> None:
    editor = {"bascule.core.editor_actions", "bascule.core.editor_observations"}

    assert not editor & _modules_after(statement)


def _modules_after(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def _work_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
