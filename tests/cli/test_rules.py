"""`bascule rules`: trying rules for commands."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

import bascule
from bascule.cli import main
from bascule.rules.rule_files import WORKSPACE_FILE

Captured = pytest.CaptureFixture[str]

_VECTORS = Path(__file__).parents[1] / "contracts/vectors/command_rules.json"


@pytest.fixture(autouse=True)
def own_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's own file, which does not exist yet. The directory is an empty workspace."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config/bascule").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "config/bascule/rules.toml"


@pytest.fixture
def rules(tmp_path: Path) -> str:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[[allow]]\nrun = ["git log"]\n[[deny]]\nrun = ["git push"]\nwhy = "Push yourself"\n'
        '[[allow]]\nrun = ["ls"]\nagent = "fixer"\n'
    )
    return str(file)


def test_the_exit_status_is_the_verdict(rules: str) -> None:
    assert main(["rules", "check", "--rules", rules, "git log"]) == 0
    assert main(["rules", "check", "--rules", rules, "make"]) == 3
    assert main(["rules", "check", "--rules", rules, "git push"]) == 4
    assert main(["rules", "check", "--rules", rules, "ls"]) == 3
    assert main(["rules", "check", "--rules", rules, "--agent", "fixer", "ls"]) == 0


def test_a_verdict_is_explained_for_each_part_of_the_command(rules: str, capsys: Captured) -> None:
    main(["rules", "check", "--rules", rules, "git log && git push | make test"])

    assert capsys.readouterr().out == (
        "deny\n"
        "  allow  git log\n"
        f"         a rule allows `git log` ({rules}:1)\n"
        "  deny   git push\n"
        f"         a rule denies `git push`: Push yourself ({rules}:3)\n"
        "  ask    make test\n"
        "         no rule allows it\n"
    )


def test_a_command_that_asks_is_shown_with_a_rule_to_add(rules: str, capsys: Captured) -> None:
    main(["rules", "check", "--rules", rules, "git log; make test"])
    assert 'run = ["make test"]' in capsys.readouterr().out


def test_control_characters_of_the_text_are_shown_escaped(capsys: Captured) -> None:
    main(["rules", "check", "git log \x1b[2J"])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "U+001B" in out


def test_paths_are_judged_by_workspace_and_directory(tmp_path: Path, rules: str) -> None:
    (tmp_path / "src").mkdir()
    where = ["--rules", rules, "--workspace", str(tmp_path), "--cwd", str(tmp_path / "src")]

    assert main(["rules", "check", *where, "git log > ../out"]) == 0
    assert main(["rules", "check", *where, "git log > ../../out"]) == 3


def test_a_link_out_of_the_workspace_asks(tmp_path: Path, rules: str) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to(tmp_path)
    where = ["--rules", rules, "--cwd", str(workspace)]

    assert main(["rules", "check", *where, "git log > out"]) == 0
    assert main(["rules", "check", *where, "git log > link/out"]) == 3
    assert main(["rules", "check", *where, "cd link"]) == 3


def test_a_workspace_reached_by_a_link_contains_its_files(tmp_path: Path, rules: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert main(["rules", "check", "--rules", rules, "--cwd", str(tmp_path / "link"), "cd ."]) == 0


def test_rules_of_a_workspace_only_add_ask_and_deny(
    tmp_path: Path, rules: str, capsys: Captured
) -> None:
    file = tmp_path / "theirs.toml"
    file.write_text('[[ask]]\nrun = ["git log"]\n')
    given = ["--rules", rules, "--workspace-rules", str(file)]
    assert main(["rules", "check", *given, "git log"]) == 3
    file.write_text('[[allow]]\nrun = ["make"]\n')
    assert main(["rules", "check", *given, "make"]) == 3
    assert f"{file}:1: ignored, because a workspace can only add" in capsys.readouterr().err


def test_user_and_workspace_rule_files_are_read_unless_others_are_given(
    tmp_path: Path, own_rules: Path, rules: str
) -> None:
    assert main(["rules", "check", "make"]) == 3
    own_rules.write_text('[[allow]]\nrun = ["make", "ls"]\n')
    theirs = tmp_path / "here" / WORKSPACE_FILE
    theirs.parent.mkdir()
    theirs.write_text('[[deny]]\nrun = ["ls"]\n')

    assert main(["rules", "check", "make"]) == 0
    assert main(["rules", "check", "ls"]) == 4
    assert main(["rules", "check", "--workspace", str(tmp_path), "ls"]) == 0
    assert main(["rules", "check", "--rules", rules, "make"]) == 3
    assert main(["rules", "check", "--workspace-rules", rules, "ls"]) == 0
    theirs.write_text('[[allowed]]\nrun = ["make"]\n')
    assert main(["rules", "check", "make"]) == 2


def test_without_xdg_config_home_the_configuration_is_in_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".config/bascule/rules.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[[allow]]\nrun = ["make"]\n')
    assert main(["rules", "check", "make"]) == 0


def test_a_batch_answers_every_line_in_order(tmp_path: Path, capsys: Captured) -> None:
    cases = json.loads(_VECTORS.read_text())[::20]
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in cases))

    assert main(["rules", "check", "--batch", str(file)]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1]]
    assert [each["verdict"] for each in answers] == [case["verdict"] for case in cases]


def test_a_batch_is_read_from_stdin(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    first_line = '{"command": "ls \u2028", "allow": [["ls"]]}'
    lines = f'{first_line}\n{{"command": "cd /w", "workspace": "/w"}}'.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))

    assert main(["rules", "check", "--batch", "-"]) == 0
    first, second = (json.loads(each) for each in capsys.readouterr().out.split("\n")[:-1])
    assert (first["verdict"], second["verdict"]) == ("ask", "allow")
    assert second["parts"][0] == {
        "text": "cd /w",
        "start": 0,
        "end": 5,
        "verdict": "allow",
        "reason": "`cd` in the workspace needs no rule",
        "rule": None,
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"ls", "is not JSON"),
        (b"", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b"{}", "`command` is None"),
        (b'{"command": "ls", "allow": ["ls"]}', "`allow` is ['ls']"),
        (b'{"command": "ls", "deny": [[]]}', "`deny` is [[]]"),
        (b'{"command": "ls", "cwd": "src"}', "`cwd` is 'src'"),
        (b'{"command": "\xff"}', "is not UTF-8 text"),
        (b'{"command": ' + b"9" * 5000 + b"}", "is not usable JSON"),
        (b"[" * 100_000, "is not usable JSON"),
    ],
    ids=range(10),
)
def test_a_malformed_line_asks_and_the_others_are_answered(
    tmp_path: Path, capsys: Captured, line: bytes, message: str
) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_bytes(b'{"command": ":"}\n' + line + b'\n{"command": ":"}\n')

    assert main(["rules", "check", "--batch", str(file)]) == 0
    out, err = capsys.readouterr()
    answers = [json.loads(each) for each in out.split("\n")[:-1]]
    assert [each["verdict"] for each in answers] == ["allow", "ask", "allow"]
    [part] = answers[1]["parts"]
    assert part["reason"].startswith("line 2: ")
    assert message in part["reason"]
    assert part["reason"] in err


def test_an_answer_is_one_line_of_ascii(tmp_path: Path, capsys: Captured) -> None:
    """Some readers end a line at U+2028 or U+0085, and unpaired surrogates have no encoding."""
    file = tmp_path / "cases.jsonl"
    commands = ["echo \u2028", "echo \x85", "echo é", "echo \ud800"]
    file.write_text("".join(json.dumps({"command": each}) + "\n" for each in commands))

    assert main(["rules", "check", "--batch", str(file)]) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    assert len(out.splitlines()) == len(commands)


def test_options_that_exclude_each_other_are_refused(capsys: Captured, rules: str) -> None:
    assert main(["rules", "check"]) == 2
    assert main(["rules", "check", "ls", "--batch", "-"]) == 2
    assert main(["rules", "check", "--batch", "-", "--rules", rules]) == 2
    assert main(["rules", "check", "ls", "--engine", "window"]) == 2
    assert "--engine window needs --batch" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_the_extensions_own_rules_answer_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With a stand-in that repeats its input: the real program has tests beside its source."""
    program = tmp_path / "extension/dist/rules-batch.js"
    program.parent.mkdir(parents=True)
    program.write_text("process.stdin.pipe(process.stdout)")
    monkeypatch.setattr(bascule, "__file__", str(tmp_path / "src/bascule/__init__.py"))
    file = tmp_path / "cases.jsonl"
    file.write_text('{"command": "ls", "allow": [["ls"]], "workspace": "/w"}\n')

    assert main(["rules", "check", "--batch", str(file), "--engine", "window"]) == 0
    assert json.loads(capfd.readouterr().out) == {
        "command": "ls",
        "allow": [["ls"]],
        "ask": [],
        "deny": [],
        "workspace": "/w",
        "cwd": "/w",
        "home": "/home/ann",
    }
    file.write_text('nonsense\n{"command": "ls"}\n\n')
    assert main(["rules", "check", "--batch", str(file), "--engine", "window"]) == 0
    first, second, third = (json.loads(each) for each in capfd.readouterr().out.splitlines())
    assert (first["verdict"], second["command"], third["verdict"]) == ("ask", "ls", "ask")
    program.write_text("console.error('no such rule'); process.exit(1)")
    assert main(["rules", "check", "--batch", str(file), "--engine", "window"]) == 1
    assert "no such rule" in capfd.readouterr().err


def test_a_missing_node_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text('{"command": "ls"}\n')
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))

    assert main(["rules", "check", "--batch", str(file), "--engine", "window"]) == 1
    assert "needs Node" in capsys.readouterr().err


def test_the_examples_in_a_rule_file_are_checked(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[allow]]\nrun = ["git log"]\nyes = ["git log -1"]\nno = ["git push"]\n')
    assert main(["rules", "test", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: rules: 1, examples that hold: 2\n"
    assert main(["rules", "test", "--workspace", str(file)]) == 0
    assert "rules: 0" in capsys.readouterr().out
    file.write_text('[[allow]]\nrun = ["git log"]\nyes = ["git push"]\n')
    assert main(["rules", "test", str(file)]) == 2
    assert f"{file}:3: these rules do not allow `git push`" in capsys.readouterr().err
