"""`bascule rules list`, with a hub and a plain session."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from bascule.cli.rule_list import show_rules
from bascule.hub.sessions.session_rules import FILE
from tests.hub.sessions.serving import SessionsClient, open_session_hub

from .test_windows import client_environment, output

RULES = '[[allow]]\nrun = ["echo"]\nagent = "admin"\nwhy = "It only prints"\n'
RULE = {
    "verdict": "deny",
    "rule": "git push",
    "agent": "",
    "why": "",
    "origin": "w.toml:1",
    "made_by": "workspace",
    "count": 1,
    "last_time": 0.0,
    "last_command": "git push\n\x1b[2J",
}


@pytest.mark.slow
async def test_rules_are_listed_with_their_author_and_decision_counts(tmp_path: Path) -> None:
    async with open_session_hub() as hub, SessionsClient(hub.url) as admin:
        env = client_environment(hub, tmp_path)
        assert (await output("rules", "list", env=env))[1] == "There are no rules for commands.\n"
        file = hub.directory / FILE
        await asyncio.to_thread(file.write_text, RULES)
        session = await admin.ready({"name": "mine"})
        assert await admin.run(session, "echo 1") == "1\n"
        assert await admin.run(session, "echo 2") == "2\n"

        status, of_hub, _ = await output("rules", "list", env=env)
        _, of_session, _ = await output("rules", "list", "mine", env=env)
        _, as_json, _ = await output("rules", "list", "mine", "--json", env=env)
        wrong, _, err = await output("rules", "list", "another", env=env)

    made = f"allow  echo (for admin)\n       rule of the hub, {file}:1: It only prints\n"
    assert (status, of_hub) == (0, made)
    assert of_session.startswith(f"{made}       allowed 2 commands, the last ")
    assert re.search(r"(just now|minutes? ago): echo 2\n$", of_session)
    [rule] = json.loads(as_json)
    assert (rule["count"], rule["last_command"], rule["made_by"]) == (2, "echo 2", "hub")
    assert wrong != 0
    assert "there is no session 'another'" in err


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, r"denied 1 command, the last \d+ days ago: git push\\n\\x1b\[2J"),
        ({"count": 0, "last_time": None}, "denied 0 commands"),
        ({"count": None}, "the session does not run, so its counts are not known"),
        ({"verdict": "ask", "count": 3, "last_time": None}, "asked about 3 commands"),
    ],
)
def test_a_workspace_rule_is_listed_with_its_count(
    capsys: pytest.CaptureFixture[str], changes: dict[str, Any], line: str
) -> None:
    show_rules([{**RULE, **changes}])
    first, second, third = capsys.readouterr().out.splitlines()
    verdict = {**RULE, **changes}["verdict"]
    assert first == f"{verdict:5}  git push (for all agents)"
    assert second == "       rule of the workspace, w.toml:1"
    assert re.fullmatch(f"       {line}", third)


def test_control_characters_in_rule_texts_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[2J\r\n\u202e"
    texts = dict.fromkeys(("rule", "agent", "why", "origin", "last_command"), hostile)
    show_rules([{**RULE, **texts}])
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) == 3
    assert not {"\x1b", "\r", "\u202e"} & set(shown)
