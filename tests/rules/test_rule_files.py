"""Files of rules: what they may say, and the examples that are tried when one is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bascule.core.errors import InvalidSetting, StorageFailed
from bascule.rules import Parser
from bascule.rules.rule_files import RuleFile, RuleOwner, read_rule_file
from tests.contracts.shared_vectors import load

Read = Callable[..., RuleFile]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def write_and_read(text: str, owner: RuleOwner = RuleOwner.PERSON) -> RuleFile:
        path = tmp_path / "rules.toml"
        path.write_text(text)
        return read_rule_file(path, owner, Parser().parse)

    return write_and_read


_CASES = load("rule_files")


@pytest.mark.parametrize("case", _CASES["read"], ids=lambda case: case["text"])
def test_a_file_has_rules_and_examples_that_hold(read: Read, case: dict[str, Any]) -> None:
    file = read(case["text"])
    seen = [
        {"kind": table.kind.value, "words": list(rule.words), "line": table.line}
        | ({"why": rule.why} if rule.why else {})
        | ({"agent": table.agent} if table.agent else {})
        for table in file.tables
        for rule in table.rules
    ]
    assert seen == case["rules"]


def test_a_rule_knows_its_file_and_line(read: Read) -> None:
    file = read('\n[[deny]]\nrun = ["git push"]\n')
    assert file.rules().deny[0].origin == f"{file.path}:2"


@pytest.mark.parametrize("case", _CASES["mistakes"], ids=lambda case: case["message"])
def test_a_mistake_names_the_file_and_the_line(
    read: Read, tmp_path: Path, case: dict[str, Any]
) -> None:
    with pytest.raises(InvalidSetting) as caught:
        read(case["text"])
    assert str(caught.value).startswith(f"{tmp_path}/rules.toml:{case['line']}: ")
    assert case["message"] in str(caught.value)


@pytest.mark.parametrize("text", _CASES["not_rules"])
def test_a_file_that_is_no_list_of_rules_is_refused(read: Read, text: str) -> None:
    with pytest.raises(InvalidSetting, match=r"rules\.toml: "):
        read(text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match=r"none\.toml"):
        read_rule_file(tmp_path / "none.toml", RuleOwner.PERSON, Parser().parse)


def test_a_workspace_can_only_ask_and_deny(read: Read) -> None:
    rules = '[[deny]]\nrun = ["git push"]\n[[ask]]\nrun = ["make"]\n'
    assert read(rules, RuleOwner.WORKSPACE).rules().deny
    file = read(f'{rules}[[allow]]\nrun = ["git log"]\n', RuleOwner.WORKSPACE)
    assert not file.rules().allow
    assert file.rules().deny
    [warning] = file.warnings
    assert "rules.toml:5: ignored, because a workspace can only add" in warning


@pytest.mark.parametrize("pasted", ["Bash(git diff:*)", "Bash(git diff *)"])
def test_pasted_rules_of_another_agent_are_read(read: Read, pasted: str) -> None:
    file = read(f'[[allow]]\nrun = ["{pasted}"]\nyes = ["git diff HEAD"]\nno = ["git log"]\n')
    assert [rule.words for rule in file.rules().allow] == [("git", "diff")]


def test_rules_for_one_agent_are_left_out_for_others(read: Read) -> None:
    file = read('[[allow]]\nrun = ["ls"]\nagent = "fixer"\n[[deny]]\nrun = ["rm"]\n')
    assert [len(file.rules(agent).allow) for agent in (None, "other", "fixer")] == [0, 0, 1]
    assert [len(file.rules(agent).deny) for agent in (None, "other", "fixer")] == [1, 1, 1]
