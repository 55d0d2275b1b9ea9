"""Texts in which shfmt and bash differ are not understood. The fuzzer found them."""

from __future__ import annotations

import pytest

from bascule.rules import CommandContext, CommandVerdict, Parser, Rules
from bascule.rules.judge import judge
from bascule.rules.strict_filter import text_objection


def verdict(text: str, *allowed: str) -> CommandVerdict:
    rules = Rules.of(allow=[[name] for name in allowed])
    return judge(text, rules, CommandContext("/w", "/w", "/home/ann"), Parser().parse).verdict


@pytest.mark.parametrize(
    "text",
    [
        "ls # a \\\ncat",  # shfmt takes `cat` for a word of `ls`
        "ls `cat <<'E'\n`; cat `\nE\n`",  # shfmt takes the second `cat` for here-document text
        "ls `cat \\` <<E || cat $\\`\nls\nE\n`",
        "ls | time { cat\n}",  # bash runs the program `time`
        "ls `x=$a#b cat`",  # shfmt takes `#b cat` for a comment
        "ls `ls $(ls)#b; cat`",
        'ls "$(time case a in a) cat <<E\n"\nE\n;; esac)"',  # bash ends `$(` after `a`
        "ls >&-cat",  # bash closes the output and runs `ls cat`
        "cat '\\\n' \"$\\\n(ls)\"",
        "ls \\\n",
        "ls '\ud800'",
    ],
)
def test_a_text_that_shfmt_reads_differently_asks(text: str) -> None:
    assert verdict(text, "ls", "cat") is CommandVerdict.ASK


@pytest.mark.parametrize(
    "text",
    [
        "ls 'a\\\nb'",
        "cat <<'E'\na\\\nb\nE",
        "ls a\\\\\ncat",
        "ls `cat \\`ls\\`` # it is a comment",
        "ls \\\n  a \\\n  b",
        "ls $(time cat x) # and time { ls; }",
        "time { ls; }",
        "cat <<E_F\n$(ls)\nE_F",
    ],
)
def test_a_backslash_before_a_newline_that_joins_nothing_is_understood(text: str) -> None:
    assert verdict(text, "ls", "cat") is CommandVerdict.ALLOW


@pytest.mark.parametrize(
    "text",
    [
        "x='a[$(ls)]'",
        "[ -v 'a[$(ls)]' ]",
        "[[ -v 'a[$(ls)]' ]]",
        "[[ 'a[$(ls)]' -eq 1 ]]",
        "for PATH in a; do ls; done",
        ": ${PATH:=a}",
        "(( PATH = 1 ))",
        "ls {PATH}> out",
        "let 'x=a[$(ls)]'",
    ],
)
def test_values_that_bash_may_run_and_hidden_assignments_ask(text: str) -> None:
    assert verdict(text, "ls", "let") is CommandVerdict.ASK


def test_a_deeply_nested_command_asks() -> None:
    assert verdict("(" * 3000 + "ls" + ")" * 3000, "ls") is CommandVerdict.ASK


@pytest.mark.parametrize(
    "text",
    [
        "ls " + "{," * 4900,
        "(( " + "a" * 9900 + " ))",
        "x=" + "[" * 9900,
        "eval " * 1900 + "ls",
        "find -exec " * 900,
        "cd a;" * 1900 + "ls > ../x",
        "ls " + "\\\\\n" * 3000,
        "$(" * 2000,
        "ls '" + "\\\n" * 4000 + "'",
    ],
    ids=range(9),
)
def test_hostile_commands_are_decided_in_bounded_time(text: str) -> None:
    """A cubic algorithm would take hours for them, and the test's timeout ends it."""
    assert verdict(text, "ls") is not CommandVerdict.DENY


def test_many_nested_wrapper_commands_are_followed() -> None:
    rules = Rules.of(deny=[["rm"]])
    context = CommandContext("/w", "/w", "/home/ann")
    decision = judge("env " * 2000 + "rm x", rules, context, Parser().parse)
    assert decision.verdict is CommandVerdict.DENY


def test_an_objection_names_the_character() -> None:
    assert text_objection("ls\u200b") == "the text has the invisible character U+200B"
    assert text_objection("ls\t\n ") is None


def test_parse_results_are_cached_by_text() -> None:
    parser = Parser(cache_size=2)
    first = parser.parse("ls a")
    assert parser.parse("ls a") is first
    parser.parse("ls b")
    parser.parse("ls c")
    assert parser.parse("ls a") is not first
