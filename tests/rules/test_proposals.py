"""Rules that are offered to a person for a text that asks."""

from __future__ import annotations

import pytest

from bascule.rules import CommandContext, CommandVerdict, Parser, Rules
from bascule.rules.judge import judge
from bascule.rules.proposals import proposals

_CONTEXT = CommandContext("/home/ann/project", "/home/ann/project", "/home/ann")


def offered(text: str, rules: Rules | None = None) -> list[str]:
    decision = judge(text, rules or Rules(), _CONTEXT, Parser().parse)
    return [str(proposal.rule) for proposal in proposals(decision)]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("ls -l src", ["ls"]),
        ("git commit -m x && git log", ["git commit", "git log"]),
        ("git log -1; git log -2", ["git log"]),
        ("npm run test -- --watch", ["npm run test"]),
        ("npm test", ["npm test"]),
        ("aws s3 ls s3://x", ["aws s3 ls"]),
        ("timeout 5 git log | xargs -n1 wc", ["git log", "wc"]),
        ("find . -exec grep x {} +", ["find", "grep"]),
        ("bash -c 'ls; cat x'", ["ls", "cat"]),
        ('echo "$(make test)"', ["echo", "make test"]),
        ("source venv/bin/activate", ["source venv/bin/activate"]),
    ],
)
def test_each_missing_command_has_a_rule_with_the_words_that_name_it(
    text: str, rules: list[str]
) -> None:
    assert offered(text) == rules


@pytest.mark.parametrize(
    "text",
    [
        *("git", "git -C x log", "git $x", "npm run", "npm run $x", "make", "gh pr"),
        *("bash x.sh", "sh x", "zsh -c ls", "python x.py", "python3.12 -c 1", "node x.js"),
        *("env", "sudo", "nice", "/usr/bin/env", "npx x", "docker run x", "uv run x"),
        *("rm -rf x", "tee x", "$x", "git log '", "f() { :; }", "A=1", "export"),
    ],
)
def test_no_offered_rule_would_allow_everything(text: str) -> None:
    assert offered(text) == []


def test_an_allowed_or_denied_text_has_no_offers() -> None:
    assert offered("git log", Rules.of(allow=[["git", "log"]])) == []
    assert offered("ls; git push", Rules.of(deny=[["git", "push"]])) == []


def test_offered_rules_allow_the_text() -> None:
    text = "git log --oneline | head -3 && npm run test > out.txt"
    rules = Rules.of(allow=[rule.split() for rule in offered(text)])
    assert judge(text, rules, _CONTEXT, Parser().parse).verdict is CommandVerdict.ALLOW
