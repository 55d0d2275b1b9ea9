"""Commands that the documents name are commands that there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from bascule.cli.app import COMMANDS, tree
from bascule.cli.sandbox import _parser

PROJECT = Path(__file__).parents[2]
PAGES = [
    PROJECT / "README.md",
    *sorted((PROJECT / "docs").rglob("*.md")),
    *(PROJECT / f"{room}/README.md" for room in ("deploy", "extension", "images")),
]
ROOT = tree(*(name for name in COMMANDS if name != "sandbox"))
ELSEWHERE = {"debug-adapter", "help"}
"""What is no command of the tree."""


def pasted(text: str) -> Iterator[str]:
    """Lines of shell: in blocks that say so, and in those that are only indented."""
    fenced = re.findall(r"^```(?:sh|bash)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^    (?=\S*bascule )(.*)$", text, re.MULTILINE)
    for block in (*fenced, *indented):
        yield from re.sub(r"\\\n\s*", " ", block).splitlines()


def ours(line: str) -> Iterator[list[str]]:
    """The arguments of each of our commands in a line."""
    for inner in re.findall(r"\$\((bascule [^)]*)\)", line):
        yield shlex.split(inner)[1:]
    lexer = shlex.shlex(re.sub(r"\$\([^)]*\)", "x", line), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    for word in (*lexer, ";"):
        if word in (";", "|", "&&", "||", "&", ">", "<", ">>", "<<"):
            if (at := program_in(words)) is not None:
                yield words[at + 1 :]
            words = []
        else:
            words.append(word)


def program_in(words: list[str]) -> int | None:
    """Where we are started in a command, be it by another program."""
    for at, word in enumerate(words):
        is_first = at == 0 or words[at - 1] in ("--", "hub") or "=" in words[at - 1]
        if word.endswith("bin/bascule") or (word == "bascule" and is_first):
            return at
    return None


def ensure_taken(words: list[str]) -> None:
    """Raises what the parser would say."""
    if words[:1] == ["sandbox"]:
        _parser().parse_args(words[1:])
        return
    command: Any = ROOT
    path = "bascule"
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"{path} has no {words[0]!r}"
        path, command, words = f"{path} {words[0]}", command.commands[words[0]], words[1:]
    command.make_context(path, words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_the_parser_accepts_every_command_in_a_code_block(page: Path) -> None:
    for line in pasted(page.read_text()):
        for words in ours(line):
            if words and words[0] not in ELSEWHERE and not words[0].startswith("-"):
                ensure_taken(words)


def test_commands_inside_other_commands_are_found() -> None:
    found = [words for page in PAGES for line in pasted(page.read_text()) for words in ours(line)]

    assert ["editor", "extension"] in found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_commands_in_prose_exist_and_have_the_named_options(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for text in re.findall(r"`(?:\.venv/bin/)?bascule ([a-z][^`]*)`", prose):
        words = re.split(r"[\s=]+", text)
        if words[0] in ELSEWHERE or words[0] == "sandbox":
            continue
        command: Any = ROOT
        while isinstance(command, click.Group) and words:
            word = words.pop(0)
            if word in ("…", "COMMAND"):
                break
            assert word in command.commands, text
            command = command.commands[word]
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        flags = {word.rstrip(",;.") for word in words if word.startswith("--") and len(word) > 2}
        assert flags <= known | {"--help"}, text
