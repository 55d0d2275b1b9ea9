"""Verdicts for command texts; the extension has the same cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bascule.rules import CommandContext, Parser, Rules
from bascule.rules.judge import judge
from bascule.rules.syntax import SimpleCommand

_FILE = Path(__file__).parents[1] / "contracts/vectors/command_rules.json"
_CASES = json.loads(_FILE.read_text())


@pytest.fixture(scope="module")
def parser() -> Parser:
    return Parser()


@pytest.mark.parametrize(
    "case", _CASES, ids=[f"{case['verdict']}: {case['reason']}" for case in _CASES]
)
def test_a_text_has_the_verdict_of_its_strictest_part(case: dict[str, Any], parser: Parser) -> None:
    workspace = case.get("workspace", "/home/ann/project")
    context = CommandContext(workspace, case.get("cwd", workspace), case.get("home", "/home/ann"))
    rules = Rules.of(case["allow"], case["ask"], case["deny"])
    decision = judge(case["command"], rules, context, parser.parse)
    assert decision.verdict == case["verdict"], decision.parts


@pytest.mark.parametrize(("word", "is_many"), [("<()", True), (">( )", True), ("<(ls)", False)])
def test_an_empty_process_substitution_may_become_no_word(word: str, is_many: bool) -> None:
    [command] = Parser().parse(f"cat {word}").nodes
    assert isinstance(command, SimpleCommand)
    assert command.words[1].is_many is is_many
