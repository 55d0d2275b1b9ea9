from __future__ import annotations

import json

import pytest

from bascule.cli import doctor, main
from bascule.cli.machine import Finding

from .processes import bascule, environment

FINE = Finding("bash", "ok", "5.2.15")
WEAK = Finding("ripgrep", "limited", "not found", "apt-get install ripgrep")
BAD = Finding("terminals", "missing", "/dev/ptmx: [none]", "mount devpts")


@pytest.mark.parametrize(
    ("findings", "status", "verdict"),
    [
        ([FINE], 0, "Ready.\n"),
        ([FINE, WEAK], 0, "Ready. Optional, not available: ripgrep.\n"),
        ([FINE, WEAK, BAD], 1, "Bascule cannot run here. Missing: terminals.\n"),
    ],
)
def test_doctor_fails_only_for_missing_requirements(
    findings: list[Finding],
    status: int,
    verdict: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda: findings)

    assert main(["doctor"]) == status
    shown = capsys.readouterr().out
    assert shown.endswith(verdict)
    for finding in findings:
        assert finding.found in shown
        assert finding.advice in shown


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_doctor_uses_ascii_marks_on_an_ascii_terminal(encoding: str) -> None:
    told = bascule("doctor", env=environment(PYTHONIOENCODING=encoding))

    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("+ Python")


def test_doctor_prints_the_same_findings_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda: [FINE, BAD])

    assert main(["doctor", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert report["findings"][1] == {
        "name": "terminals",
        "state": "missing",
        "found": "/dev/ptmx: [none]",
        "advice": "mount devpts",
    }


@pytest.mark.slow
def test_doctor_examines_the_real_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    names = [finding["name"] for finding in json.loads(capsys.readouterr().out)["findings"]]
    assert names == [
        *("Python", "bash", "terminals", "loopback port", "temporary files"),
        *("git", "ripgrep", "tmux", "bubblewrap", "slirp4netns"),
        *("Node", "VS Code", "Chromium", "Docker engine"),
        *("disk", "locale", "limits", "namespaces", "cgroups"),
    ]
