"""`bascule run`: what a net says goes out, and the status tells what became of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from bascule.cli import main

from .processes import BASCULE, bascule, environment

NET = """\
pnml:
  net:
    id: demo
    page:
      id: main
      place: [{{id: before, marking: [1]}}, {{id: after}}]
      transition:
        id: t
        arcs: [{{source: before}}, {{target: after}}]
        inscriptions:
          - id: work
            code: |
              {code}
"""


def write(directory: Path, code: str) -> str:
    file = directory / "demo.evolve.yaml"
    file.write_text(NET.format(code=code))
    return str(file)


def test_run_prints_net_output_to_stdout_and_the_outcome_to_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", write(tmp_path, "print('hi'); return token + 1")]) == 0

    said = capsys.readouterr()
    assert said.out == "hi\n"
    assert said.err == "demo: completed after 1 firing\n  after  2\n"


def test_run_quiet_prints_only_the_output_of_the_net(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--quiet", write(tmp_path, "print('hi')")]) == 0
    assert capsys.readouterr() == ("hi\n", "")


def test_an_exception_in_net_code_prints_its_line_and_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, "1 / 0")

    assert main(["run", file]) == 1
    assert capsys.readouterr().err.splitlines()[0] == (
        f"{file}:13: work raised ZeroDivisionError: division by zero"
    )


def test_running_an_invalid_net_prints_its_problems_and_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, "return (")

    assert main(["run", file]) == 2
    assert capsys.readouterr().err.startswith(f"{file}:13:22: error: Not valid Python")


def test_each_run_limit_has_its_own_exit_code(tmp_path: Path) -> None:
    assert main(["run", "--max-firings", "0", write(tmp_path, "1")]) == 5
    waits = NET.replace("code: |", "execMode: async\n            code: |")
    file = tmp_path / "waits.evolve.yaml"
    file.write_text(waits.format(code="import asyncio; await asyncio.Event().wait()"))
    assert main(["run", "--timeout", "0.05", str(file)]) == 4


def test_without_a_window_run_errors_give_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASCULE_BRIDGE", "none")

    assert main(["run", write(tmp_path, "vscode_bridge.chat('x')")]) == 1
    said = capsys.readouterr().err
    assert "raised BridgeUnavailable: No VS Code window to talk to" in said
    assert "evolve.runNet" in said


@pytest.mark.slow
def test_a_net_can_handle_the_missing_window_itself(project: Path) -> None:
    done = bascule("run", "examples/VsCodeInterop.evolve.yaml", cwd=project)

    assert done.returncode == 0
    assert done.stdout.startswith("Bridge not available: No VS Code window to talk to. ")
    assert "evolve.runNet" in done.stdout
    assert "vscode_interop_demo: completed after 1 firing" in done.stderr


def test_a_trace_is_written_and_can_be_played_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, trace = write(tmp_path, "token + 1"), str(tmp_path / "trace.jsonl")

    assert main(["run", file, "--trace", trace]) == 0
    assert main(["run", file, "--replay", trace]) == 0
    assert "the trace matches the net, 1 firing" in capsys.readouterr().err
    Path(trace).write_text(Path(trace).read_text().replace('"t"', '"u"'))
    assert main(["run", file, "--replay", trace]) == 2
    assert "there is no transition 'u'" in capsys.readouterr().err


def test_with_the_trace_on_stdout_other_output_goes_to_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", write(tmp_path, "print('hi')"), "--trace", "-"]) == 0

    said = capsys.readouterr()
    events = [json.loads(line)["event"] for line in said.out.splitlines()]
    assert events == ["started", "fired", "ended"]
    assert "hi\n" in said.err


@pytest.mark.slow
def test_ctrl_c_ends_code_that_blocks(tmp_path: Path) -> None:
    file = write(tmp_path, "import time; print('on it', flush=True); time.sleep(60)")
    with subprocess.Popen(
        [*BASCULE, "run", file],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "on it\n"
        os.kill(process.pid, signal.SIGINT)
        said = process.stderr.read()

    assert process.returncode == 130
    assert said == "demo: cancelled after 0 firings\n  before  1\n"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(1000)",
        "import subprocess; subprocess.run(['sleep', '1000'])",
    ],
    ids=["loop", "sleep", "program"],
)
def test_a_timeout_ends_code_that_never_awaits(tmp_path: Path, code: str, mode: str) -> None:
    file = tmp_path / "demo.evolve.yaml"
    text = NET.format(code=code).replace("- id: work", f"- id: work\n            execMode: {mode}")
    file.write_text(text)

    done = bascule("run", "--timeout", "1", str(file))

    assert done.returncode == 5
    assert done.stderr == "demo: limit after 0 firings\n  before  1\n"


@pytest.mark.slow
def test_a_timeout_ends_a_search_for_tokens(tmp_path: Path) -> None:
    """A guard that refuses all of the 10^14 ways to choose 25 tokens of 50."""
    file = tmp_path / "search.evolve.yaml"
    file.write_text(
        NET.format(code="False")
        .replace("marking: [1]", f"marking: {list(range(50))}")
        .replace("source: before", "source: before, weight: 25")
        .replace("- id: work", "- id: work\n            kind: guard")
    )

    done = bascule("run", "--timeout", "1", str(file))

    assert done.returncode == 5
    assert "demo: limit after 0 firings" in done.stderr


@pytest.mark.slow
def test_a_timeout_ends_code_stuck_outside_python(tmp_path: Path) -> None:
    """With the process, and with where it was."""
    file = write(tmp_path, "import itertools; sum(itertools.repeat(0))")

    done = bascule("run", "--timeout", "1", file)

    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert f'"{file}", line 13' in done.stderr


@pytest.mark.slow
def test_a_net_with_endless_tokens_is_stopped_before_memory_is_full(
    tmp_path: Path,
) -> None:
    file = tmp_path / "flood.pnml"
    file.write_text(
        """<pnml><net id="flood" type="ptnet"><place id="p"/><transition id="t"/>
        <arc id="a" source="t" target="p"><inscription><text>400000</text></inscription></arc>
        </net></pnml>"""
    )

    done = bascule("run", str(file))

    assert done.returncode == 5
    assert "flood: limit after 3 firings" in done.stderr
