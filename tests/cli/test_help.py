"""Every command's help, as the parser shows it, and every example in it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import click
import pytest

from bascule.cli import main
from bascule.cli.app import COMMANDS, GROUPS, tree
from bascule.cli.examples import EXAMPLES
from bascule.cli.parameters import rows
from bascule.cli.sandbox import _parser

WIDTH = 100


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if path and path != ("sandbox",):
        yield " ".join(path), command
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from commands(each, (*path, name))


ALL = dict(commands(tree(*(name for name in COMMANDS if name != "sandbox"))))
LEAVES = [
    path
    for path, each in ALL.items()
    if not isinstance(each, click.Group) or each.invoke_without_command
]
"""What can be run."""


def shown(path: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*path.split(), "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("path", ["", *ALL])
def test_help_describes_a_command_and_fits_one_screen(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = shown(path, capsys)

    assert said.lower().startswith(f"usage: {f'bascule {path}'.strip()}")
    lines = said.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert lines[2].strip()[0].isupper()
    assert "<" not in re.sub(r"Examples:.*", "", said, flags=re.DOTALL), "a type is no name"


@pytest.mark.parametrize("path", ALL)
def test_a_summary_is_one_short_sentence(path: str) -> None:
    line = COMMANDS.get(path) or ALL[path].get_short_help_str(200)

    assert line[0].isupper()
    assert line.endswith(".")
    assert len(line) <= WIDTH - 20


@pytest.mark.parametrize("path", LEAVES)
def test_every_option_and_argument_is_explained(path: str) -> None:
    context = ALL[path].make_context(path, [], resilient_parsing=True)
    for written, about in (row for part in rows(ALL[path], context) for row in part):
        assert re.match(r"[A-Z`*]|[a-z]+: ", about), f"{written}: {about!r}"
        assert re.search(r"[.)\]]$", about), f"{written}: {about!r}"


def test_the_same_option_means_the_same_everywhere() -> None:
    meanings: dict[str, set[str]] = {}
    for path in LEAVES:
        context = ALL[path].make_context(path, [], resilient_parsing=True)
        for written, about in rows(ALL[path], context)[1]:
            meanings.setdefault(written, set()).add(about)

    assert len(meanings["--hub URL"]) == 1
    assert len(meanings["--url URL"]) == 1
    assert meanings["--help"] == {"Show this message and exit."}
    assert {name for name in meanings if name.startswith("--timeout")} == {"--timeout SECONDS"}


def test_help_lists_the_environment_variables_for_all_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = shown("", capsys)
    for name in ("BASCULE_HUB", "BASCULE_TOKEN", "SESSION_API_KEY", "BASCULE_DEBUG"):
        assert name in said


def test_every_command_is_listed_in_exactly_one_help_group() -> None:
    listed = [name for names in GROUPS.values() for name in names]

    assert len(listed) == len(set(listed))


def test_every_command_has_examples_and_no_example_lacks_a_command() -> None:
    assert set(EXAMPLES) == {*LEAVES, "sandbox"}


@pytest.mark.parametrize("path", EXAMPLES)
def test_the_parser_accepts_every_help_example(path: str) -> None:
    text = re.sub(r"  # .*$", "", "\n".join(EXAMPLES[path]), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    for line in lines:
        parse(command_of(line), path)


def command_of(line: str) -> list[str]:
    """The words of our command in a line of shell, without redirections."""
    inner = re.search(r"\$\((bascule .*?)\)", line)
    words = shlex.split(inner[1] if inner else line)
    at = words.index("bascule")
    return [word for word in words[at + 1 :] if not word.startswith((">", "<"))]


def parse(words: list[str], path: str) -> None:
    """Raises what the parser would say."""
    assert words[: len(path.split())] == path.split()
    if path == "sandbox":
        _parser().parse_args(words[1:])
        return
    ALL[path].make_context(path, words[len(path.split()) :])


@pytest.mark.parametrize("path", ["up", "session create", "sandbox"])
def test_the_help_command_shows_the_help_of_a_command(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if path == "sandbox":
        with pytest.raises(SystemExit):
            main(["help", path])
    else:
        assert main(["help", *path.split()]) == 0
    assert f"bascule {path}" in capsys.readouterr().out


@pytest.mark.parametrize("path", LEAVES)
def test_help_lists_every_argument_once(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(path, capsys).splitlines()
    titles = [line for line in lines if re.fullmatch(r"[A-Z][a-z ]+:", line)]
    assert len(titles) == len(set(titles))
    assert "Positional arguments:" not in titles  # click's own section, in place of which is ours
