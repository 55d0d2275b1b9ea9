"""`bascule net`: looking at nets."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import pytest

from bascule.cli import main
from bascule.net.schema import schema

EXAMPLES = Path(__file__).parents[2] / "examples"
STORE = str(EXAMPLES / "producer_consumer.evolve.yaml")
BUILD = str(EXAMPLES / "build.evolve.yaml")

Captured = pytest.CaptureFixture[str]


def test_net_check_prints_nothing_for_a_valid_net(capsys: Captured) -> None:
    assert main(["net", "check", STORE, BUILD]) == 0
    assert capsys.readouterr() == ("", "")


def test_net_check_reports_problems_as_text_and_as_json(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "a.evolve.yaml"
    file.write_text("pnml:\n  net: {id: n, plaec: []}\n")

    assert main(["net", "check", str(file)]) == 2
    assert capsys.readouterr().out.startswith(f"{file}:2:16: error: A net has no 'plaec' here")
    assert main(["net", "check", "--json", str(file)]) == 2
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["severity"], found["line"], found["endColumn"]) == ("error", 2, 21)


def test_net_check_reads_unsaved_text_from_stdin(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"pnml: {net: {id: n, page: {id: p}}}"))
    monkeypatch.setattr(sys, "stdin", stdin)

    assert main(["net", "check", "-"]) == 0


def test_stdin_is_parsed_by_the_extension_of_the_given_file_name(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    text = b"<pnml><net id='n' type='no'/></pnml>"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))

    assert main(["net", "check", "--json", "-", "--name", "/there/n.pnml"]) == 2
    (found,) = json.loads(capsys.readouterr().out)
    assert found["file"] == "/there/n.pnml"
    assert found["code"] == "net.type"


def test_explore_prints_the_state_space(capsys: Captured) -> None:
    assert main(["net", "explore", "--json", STORE]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"states", "edges", "ends", "deadlocks", "bound", "complete"} <= found.keys()
    assert (found["ends"], found["deadlocks"], found["complete"]) == (1, 0, True)

    assert main(["net", "explore", STORE]) == 0
    said = capsys.readouterr().out
    assert f"all {found['states']} states" in said
    assert "end states: 1; deadlocks: 0" in said


def test_simulate_shows_where_the_tokens_end_up(capsys: Captured) -> None:
    assert main(["net", "simulate", "--json", "--seed", "3", STORE]) == 0
    found = json.loads(capsys.readouterr().out)

    assert (found["steps"], found["marking"]["sold"], found["atRest"]) == (9, 6, True)


def test_net_show_chooses_the_format_by_file_extension(tmp_path: Path, capsys: Captured) -> None:
    for name, start in (("a.svg", "<svg "), ("a.mmd", "flowchart LR")):
        assert main(["net", "show", BUILD, "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text().startswith(start)


def test_net_show_gives_editors_the_drawing_and_line_numbers(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = "pnml:\n net:\n  id: n\n  place:\n   - id: p\n   - id: q\n  transition: {id: t}\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    assert main(["net", "show", "-", "--format", "json"]) == 0
    shown = json.loads(capsysbinary.readouterr().out)
    assert shown["svg"].startswith("<svg ")
    assert (shown["places"], shown["transitions"]) == ({"p": 5, "q": 6}, {"t": 7})


def test_a_png_without_a_browser_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)

    assert main(["net", "show", BUILD, "--format", "png"]) == 1
    assert "Chromium or Chrome" in capsys.readouterr().err


@pytest.mark.editor
def test_a_png_is_drawn_by_the_browser(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"

    assert main(["net", "show", BUILD, "-o", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_schema_is_printed(capsys: Captured) -> None:
    assert main(["net", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema()


def test_net_show_rejects_an_unknown_file_extension(tmp_path: Path, capsys: Captured) -> None:
    assert main(["net", "show", BUILD, "-o", str(tmp_path / "n.txt")]) == 2
    assert "use .svg, .png, .mmd, .mermaid, .json, or give --format" in capsys.readouterr().err
    assert main(["net", "show", BUILD, "-o", str(tmp_path / "n.txt"), "--format", "svg"]) == 0


@pytest.mark.parametrize("verb", ["show", "simulate", "explore"])
def test_a_file_that_is_not_a_net_exits_with_2(verb: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["net", verb, str(tmp_path / "none.evolve.yaml")]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err
