"""Tab: the words that fit, and that a real shell offers them."""

from __future__ import annotations

import os
import pty
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from bascule.cli import main
from bascule.cli.app import tree
from bascule.cli.completion import IS_PATH, SCRIPTS, ShellName, split_line
from bascule.cli.completion_candidates import Completions, complete
from bascule.link.quick_get import quick_get

from .processes import Terminal, bascule, environment, hub


def offered(*words: str) -> list[str]:
    return [each.value for each in answer(*words).candidates]


def answer(*words: str) -> Completions:
    return complete(tree(*words[:1]), words)


# The words that fit ------------------------------------------------------------------------------


def test_completion_offers_commands_with_their_descriptions() -> None:
    assert offered("ses") == ["session"]
    assert offered("session", "p") == ["pause"]
    assert answer("session", "rm").candidates[0].about.startswith("Stop sessions")


def test_options_are_offered_once_a_dash_is_typed() -> None:
    assert offered("session", "create", "--sp") == ["--spawner"]
    assert "--no-wait" in offered("session", "create", "--")
    assert offered("--v") == ["--version"]


def test_values_are_offered_after_an_option_with_a_space_or_an_equals_sign() -> None:
    assert offered("session", "create", "--egress", "") == ["off", "proxy", "open"]
    assert offered("session", "create", "--egress=o") == ["--egress=off", "--egress=open"]
    assert offered("net", "show", "--format", "m") == ["mermaid"]
    assert offered("completion", "") == ["bash", "zsh", "fish"]


def test_a_flag_takes_no_value_and_the_argument_is_next() -> None:
    assert offered("editor", "wh") == ["where"]
    assert answer("net", "check", "--json", "").is_path is False
    assert answer("run", "--quiet", "").is_path


@pytest.mark.parametrize(
    "line",
    [
        "run ",
        "net show a.pnml -o ",
        "session create --archive ",
        "mcp --root ",
        "up --working-dir=",
        "sandbox 8123 --working-dir ",
    ],
)
def test_path_arguments_are_left_to_the_shells_file_completion(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["complete", "--line", f"bascule {line}"]) == IS_PATH
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("line", ["fly ", "session fly ", "up extra ", "exec ls ", "schema "])
def test_completion_prints_nothing_for_unknown_input(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["complete", "--line", f"bascule {line}"]) == 0
    assert capsys.readouterr() == ("", "")


def test_an_error_during_completion_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bascule.cli.completion_candidates.complete", lambda *_: 1 / 0)

    assert main(["complete", ""]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("bascule session ", ["bascule", "session", ""]),
        ("bascule session rm my\\ own", ["bascule", "session", "rm", "my own"]),
        ("bascule exec 'a b' \"c", ["bascule", "exec", "a b", "c"]),
        ("bascule exec 'it\\' \"a\\\"b\" ''", ["bascule", "exec", "it\\", 'a"b', ""]),
    ],
)
def test_a_line_is_split_as_a_shell_would(line: str, words: list[str]) -> None:
    assert split_line(line) == words


# Names of a hub ----------------------------------------------------------------------------------


def test_completion_stops_waiting_for_an_unresponsive_hub_after_its_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()

        assert quick_get(url, "t", "/api/sessions", within=0.05) is None
        assert time.monotonic() - began < 5  # it would never answer


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://no-such-host.invalid", "http://["])
def test_completion_without_a_hub_offers_no_names(url: str) -> None:
    assert quick_get(url, "t", "/api/sessions", within=5) is None


class Home:
    """A user with a hub that has two sessions and a token."""

    def __init__(self, directory: Path) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.directory = directory
        self.env = environment(
            HOME=str(directory),
            XDG_STATE_HOME=str(directory),
            BASCULE_SPAWNERS="plain",
            BASCULE_COMPLETION_TIMEOUT="30",
            PATH=path,
            TERM="dumb",
            LC_ALL="C.UTF-8",
        )

    def complete(self, *words: str) -> list[str]:
        ran = bascule("complete", *words, env=self.env)
        assert (ran.returncode, ran.stderr) == (0, "")
        return [line.partition("\t")[0] for line in ran.stdout.splitlines()]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    place = Home(tmp_path_factory.mktemp("home"))
    with hub(place.env, "--allow-unisolated"):
        for name in ("quick-fox", "my own"):
            made = bascule("session", "create", "--no-wait", "--name", name, env=place.env)
            assert made.returncode == 0, made.stderr
        assert bascule("token", "--create", "my agent", env=place.env).returncode == 0
        yield place
        bascule("session", "rm", "--all", env=place.env)


@pytest.mark.slow
def test_sessions_and_tokens_of_the_hub_are_offered_by_name(home: Home) -> None:
    assert home.complete("session", "show", "") == ["quick-fox", "my own"]
    assert home.complete("session", "rm", "my own", "q") == ["quick-fox"]
    assert home.complete("mcp", "--session", "q") == ["quick-fox"]
    assert home.complete("windows", "--hub", "http://127.0.0.1:1", "") == ["export"]
    assert home.complete("token", "--revoke", "") == ["my agent"]
    assert home.complete("session", "show", "--hub", "http://127.0.0.1:1", "") == []


@pytest.mark.slow
def test_completing_takes_little_work(home: Home) -> None:
    """Processor time, and the best of a few: the machine may be busy with other things."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert home.complete("session", "show", "q") == ["quick-fox"]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    assert min(times) < 0.3


# Real shells -------------------------------------------------------------------------------------


@contextmanager
def typing(*command: str, cwd: Path, env: Mapping[str, str]) -> Iterator[Terminal]:
    pid, descriptor = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvpe(command[0], command, dict(env))
    terminal = Terminal(pid, descriptor)
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.mark.slow
def test_bash_completes_commands_names_and_files(home: Home) -> None:
    (home.directory / "order.pnml").touch()
    with typing("bash", "--norc", "-i", cwd=home.directory, env=home.env) as person:
        person.type("PS1='> '; bind 'set bell-style none'; eval \"$(bascule completion bash)\"\n")
        person.type("printf 'the%s\\n' ' beginning'\n")
        person.expect("the beginning")
        for keys, becomes in (
            ("bascule sess\t", "bascule session "),
            ("bascule session show q\t", "bascule session show quick-fox "),
            ("bascule session show my\t", "bascule session show my\\ own "),
            ('bascule session show "my\t', 'bascule session show "my own" '),
            ("bascule session show my\\ o\t", "bascule session show my\\ own "),
            ("bascule session create --egress=pr\t", "--egress=proxy "),
            ("bascule token --revoke my\t", "my\\ agent "),
            ("bascule run ord\t", "bascule run order.pnml "),
        ):
            person.type(keys)
            person.expect(becomes)
            person.type("\x15")  # Ctrl-U: the line away


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes_commands_names_and_files(home: Home) -> None:
    (home.directory / "order.pnml").touch()
    with typing("zsh", "-f", "-i", cwd=home.directory, env=home.env) as person:
        person.type("PS1='> '; unsetopt beep; autoload -Uz compinit; compinit -u -D\n")
        person.type("eval \"$(bascule completion zsh)\"; printf 'the%s\\n' ' beginning'\n")
        person.expect("the beginning")
        for keys, becomes in (
            ("bascule sess\t", "ion "),
            ("bascule session show q\t", "uick-fox "),
            ("bascule session show my\t", "\\ own "),
            ("bascule run ord\t", "er.pnml "),
        ):
            person.type(keys)
            person.expect(becomes)
            person.type("\x15")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes_commands_names_and_files(home: Home) -> None:
    (home.directory / "order.pnml").touch()
    script = (
        "bascule completion fish | source; for line in $argv; complete --do-complete $line; end"
    )
    lines = ["bascule sess", "bascule session show ", "bascule run ord"]
    ran = subprocess.run(
        ["fish", "--no-config", "--command", script, *lines],
        cwd=home.directory,
        env=home.env,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )

    assert [line.partition("\t")[0] for line in ran.stdout.splitlines()] == [
        *("session", "my own", "quick-fox", "order.pnml")
    ]


@pytest.mark.parametrize("shell", ShellName)
def test_the_completion_script_is_valid_and_calls_bascule_complete(
    shell: ShellName, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell.value]) == 0
    said = capsys.readouterr().out
    assert said == SCRIPTS[shell]
    assert " complete " in said
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=said, text=True, check=True, timeout=60)
