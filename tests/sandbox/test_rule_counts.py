"""What each rule decided: counts in memory, bounded, and their report."""

from __future__ import annotations

from itertools import count

from bascule.rules import CommandVerdict, Decision, Part, Rule, Rules
from bascule.rules.rule_files import RuleOwner
from bascule.sandbox.rule_counts import MAX_RULES, RuleCounts, deciding_rules
from bascule.wire import to_json

ALLOW, ASK, DENY = CommandVerdict


def counts(owner: RuleOwner = RuleOwner.PERSON) -> RuleCounts:
    """Counts with a clock that goes on by one second with each command."""
    seconds = count(1)
    return RuleCounts(owner, clock=lambda: float(next(seconds)))


def test_a_report_has_number_time_and_text_of_the_last_command() -> None:
    made = counts()
    rule = Rule(("git", "log"), "Only reads", "mine.toml:1")
    made.add(ALLOW, rule, "git log")
    made.add(ALLOW, rule, "git log -1")

    assert made.report(Rules(allow=[rule])) == [
        {
            "verdict": "allow",
            "rule": "git log",
            "owner": "person",
            "why": "Only reads",
            "origin": "mine.toml:1",
            "count": 2,
            "last_time": 2.0,
            "last_command": "git log -1",
        }
    ]


def test_a_count_survives_an_edit_of_the_file_but_not_the_removal_of_the_rule() -> None:
    made = counts()
    made.add(DENY, Rule(("make",), origin="mine.toml:1"), "make")
    moved = Rule(("make",), "Slow", "mine.toml:9")
    [entry] = made.report(Rules(deny=[moved]))
    assert (entry["origin"], entry["count"]) == ("mine.toml:9", 1)
    assert made.report(Rules(allow=[moved]))[0]["count"] == 0, "another verdict, another rule"
    assert made.report(Rules()) == []


def test_only_the_most_recently_used_rules_keep_a_count() -> None:
    made = counts()
    rules = [Rule((f"program{n}",)) for n in range(MAX_RULES + 1)]
    for rule in [*rules[:-1], rules[0], rules[-1]]:
        made.add(ALLOW, rule, "")
    found = {each["rule"]: each["count"] for each in made.report(Rules(allow=rules))}
    assert len(found) == MAX_RULES
    assert found["program0"] == 2
    assert "program1" not in found, "the one that decided longest ago"


def test_a_report_with_the_longest_texts_fits_the_hubs_limit() -> None:
    report = []
    for owner in RuleOwner:
        made = counts(owner)
        rules = [Rule((f"{n}", "\U00020000" * 9000), "\0" * 9000, "\U00020000" * 9000)
                 for n in range(2 * MAX_RULES)]  # fmt: skip
        for rule in rules:
            made.add(ASK, rule, "\0" * 9000)
        report += made.report(Rules(ask=rules))
    assert len(report) == 2 * MAX_RULES
    assert len(to_json({"rules": report})) < 1 << 20


def test_invisible_characters_of_a_rule_are_escaped() -> None:
    [entry] = counts().report(Rules(deny=[Rule(("a\u202eb",), "\x1b[2J", "x\u200b:1")]))
    assert (entry["rule"], entry["why"]) == ("a<U+202E>b", "<U+001B>[2J")
    assert entry["origin"] == "x<U+200B>:1"


def test_a_rule_that_only_might_match_is_not_counted() -> None:
    sure, unsure, allowing = Rule(("a",)), Rule(("b",)), Rule(("c",))
    decision = Decision(
        [
            Part("a", 0, 1, ASK, "", sure, is_by_rule=True),
            Part("a", 2, 3, ASK, "", sure, is_by_rule=True),
            Part("$x", 4, 6, ASK, "", unsure),
            Part("c", 7, 8, ALLOW, "", allowing),
        ]
    )
    assert list(deciding_rules(decision, ASK)) == [sure]
    assert list(deciding_rules(decision, ALLOW)) == [allowing]
    lenient = decision.with_unmatched_parts_allowed()
    assert list(deciding_rules(lenient, ALLOW)) == [allowing]
