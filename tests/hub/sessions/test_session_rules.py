"""Rules for commands in sessions, and the questions that people answer on the hub."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bascule.core.actions import CmdRun
from bascule.core.observations import Error, Observation
from bascule.hub.sessions.session_rules import FILE
from bascule.rules import Parser
from bascule.rules.rule_files import WORKSPACE_FILE, RuleOwner, read_rule_file
from bascule.runtime import CloudRuntime, RemoteRuntime

from .serving import SessionHub, SessionsClient, open_local_session_hub, open_session_hub

pytestmark = pytest.mark.slow

RULES = '[[allow]]\nrun = ["echo"]\n\n[[deny]]\nrun = ["touch"]\nwhy = "Not here"\n'


async def write_rules(hub: SessionHub, text: str = RULES) -> Path:
    file = hub.directory / FILE
    await asyncio.to_thread(file.write_text, text)
    return file


@pytest.fixture
async def hub() -> AsyncIterator[SessionHub]:
    async with open_session_hub() as made:
        await write_rules(made)
        yield made


@pytest.fixture
async def admin(hub: SessionHub) -> AsyncIterator[SessionsClient]:
    async with SessionsClient(hub.url) as asker:
        yield asker


@pytest.fixture
async def agent(hub: SessionHub) -> AsyncIterator[SessionsClient]:
    async with SessionsClient(hub.url, token=hub.agent) as asker:
        yield asker


async def act(asker: SessionsClient, session: str, command: str, *, timeout: float = 60) -> Any:
    event = {
        "action": "run",
        "args": {"command": command, "blocking": True},
        "timeout": timeout,
    }
    return await asker.must("POST", f"/api/sessions/{session}/actions", event)


async def question_for(admin: SessionsClient, command: str) -> Any:
    """The open question about a command, as soon as the hub lists it."""
    while True:
        for each in await admin.must("GET", "/api/approvals"):
            if each["detail"] == command:
                return each


async def answer(admin: SessionsClient, question: Any, word: str) -> None:
    where = f"/api/approvals/{question['session_id']}/{question['id']}"
    await admin.must("POST", where, {"answer": word})


def code(seen: Observation) -> str:
    assert isinstance(seen, Error), seen
    return seen.error_id


async def test_the_hubs_rules_apply_however_an_action_reaches_a_session(
    hub: SessionHub, agent: SessionsClient
) -> None:
    session = await agent.ready()
    denied = await act(agent, session, "echo 1 && touch made")
    assert denied["extras"]["error_id"] == "rule.denied"
    assert "a rule denies `touch`: Not here" in denied["content"]
    assert (await act(agent, session, "echo 1"))["content"] == "1\n"
    async with CloudRuntime(hub.url, hub.agent, session_id=session) as runtime:
        assert code(await runtime.act(CmdRun("touch made"))) == "rule.denied"
        assert (await runtime.run("echo *")).content == "*\n"


async def test_a_user_answers_an_approval_request_of_a_session(
    agent: SessionsClient, admin: SessionsClient
) -> None:
    session = await agent.ready({"name": "mine"})
    for word, result in (("once", "b\n"), ("deny", "consent.denied")):
        acting = asyncio.create_task(act(agent, session, "basename a/b"))
        question = await question_for(admin, "basename a/b")
        assert (question["agent"], question["session_id"]) == ("agent", session)
        assert question["parts"] == [
            {"text": "basename a/b", "verdict": "ask", "reason": "no rule allows it"}
        ]
        assert question["choices"] == ["once", "always", "deny"]
        await answer(admin, question, word)
        seen = await acting
        assert result in (seen["content"], seen.get("extras", {}).get("error_id"))
        assert await admin.must("GET", "/api/approvals") == []


async def test_answering_always_adds_a_rule_for_the_agent_that_applies_at_once(
    hub: SessionHub, agent: SessionsClient, admin: SessionsClient
) -> None:
    session, other = await agent.ready({"name": "mine"}), await agent.ready({"name": "other"})
    acting = asyncio.create_task(act(agent, session, "basename a/b"))
    waiting = asyncio.create_task(act(agent, other, "basename c/d"))
    await question_for(admin, "basename c/d")
    await answer(admin, await question_for(admin, "basename a/b"), "always")

    assert (await acting)["content"] == "b\n"
    assert (await waiting)["content"] == "d\n", "the same words are asked about once"
    assert (await act(agent, session, "basename e/f"))["content"] == "f\n"
    file = await asyncio.to_thread(
        read_rule_file, hub.directory / FILE, RuleOwner.PERSON, Parser().parse
    )
    assert [str(rule) for rule in file.rules("agent").allow] == ["echo", "basename"]
    assert [str(rule) for rule in file.rules("another").allow] == ["echo"]
    rule = (await admin.must("GET", "/api/rules"))[1]
    assert (rule["verdict"], rule["rule"], rule["agent"]) == ("allow", "basename", "agent")
    assert rule["why"].startswith("admin allowed it in mine on ")
    entry = next(each for each in await admin.must("GET", "/api/audit") if each["verb"] == "rule")
    assert (entry["who"], entry["detail"]["rules"]) == ("admin", [["basename"]])

    mine = await admin.ready()
    acting = asyncio.create_task(act(admin, mine, "basename g/h"))
    await answer(admin, await question_for(admin, "basename g/h"), "deny")
    assert (await acting)["extras"]["error_id"] == "consent.denied", "another agent is asked about"


async def test_a_rule_that_cannot_be_saved_leaves_the_question_open(
    hub: SessionHub, agent: SessionsClient, admin: SessionsClient
) -> None:
    session = await agent.ready()
    acting = asyncio.create_task(act(agent, session, "basename a/b"))
    question = await question_for(admin, "basename a/b")
    await write_rules(hub, "[[allow]]\nrun = []\n")
    where = f"/api/approvals/{session}/{question['id']}"
    status, said = await admin.ask("POST", where, {"answer": "always"})
    assert (status, said["code"]) == (400, "setting.invalid")
    await answer(admin, await question_for(admin, "basename a/b"), "once")
    assert (await acting)["content"] == "b\n"


async def test_a_question_survives_a_restart_of_the_hub(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready()
    lifecycle = hub.hub.sessions._optional_lifecycle
    assert lifecycle is not None
    key = (await lifecycle.secrets(hub.session(session))).key
    socket = lifecycle.directories.socket(hub.session(session))
    async with RemoteRuntime("http://localhost", key, socket_path=socket) as direct:
        acting = asyncio.create_task(direct.act(CmdRun("basename a/b", timeout=60)))
        before = await question_for(admin, "basename a/b")
        await hub.stop()
        await hub.start()
        question = await question_for(admin, "basename a/b")
        assert question == before
        await answer(admin, question, "once")
        assert (await acting).content == "b\n"


async def test_an_unanswered_question_times_out_with_an_error_for_the_agent() -> None:
    async with open_session_hub(question_timeout=0.3) as hub, SessionsClient(hub.url) as admin:
        await write_rules(hub)
        session = await admin.ready()
        seen = await act(admin, session, "make")
        assert seen["extras"]["error_id"] == "consent.denied"
        assert "nobody answered within 0.3 seconds" in seen["content"]
        assert await admin.must("GET", "/api/approvals") == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "rules", None),
        ("PUT", "rules", None),
        ("PUT", "rules", {"rules": {"allow": [], "ask": [], "deny": []}, "default": "allow"}),
        ("POST", "approvals/{id}", {"answer": "once", "cause": "", "digest": ""}),
    ],
)
async def test_no_agent_sets_rules_or_answers_its_own_question(
    agent: SessionsClient, admin: SessionsClient, method: str, path: str, body: object
) -> None:
    session = await agent.ready()
    acting = asyncio.create_task(act(agent, session, "basename a/b"))
    question = await question_for(admin, "basename a/b")
    if isinstance(body, dict) and "cause" in body:
        body = {**body, "cause": question["cause"], "digest": question["digest"]}
    where = f"/sandbox/{session}/session/{path.format(id=question['id'])}"
    for asker in (agent, admin):
        status, said = await asker.ask(method, where, body)
        assert (status, said["error"]["code"]) == (403, "access.denied")
    for where in ("/api/approvals", "/api/rules", f"/api/sessions/{session}/rules"):
        assert (await agent.ask("GET", where))[0] == 403
    answering = f"/api/approvals/{session}/{question['id']}"
    assert (await agent.ask("POST", answering, {"answer": "once"}))[0] == 403
    await answer(admin, question, "deny")
    assert (await acting)["extras"]["error_id"] == "consent.denied"


async def test_a_session_reports_the_decisions_and_author_of_each_rule(
    hub: SessionHub, agent: SessionsClient, admin: SessionsClient
) -> None:
    session = await agent.ready({"secrets": {"WORD": "correct-horse"}})
    where = f"/api/sessions/{session}/rules"
    workspace = hub.directory / "sessions" / session / "workspace"
    file = workspace / WORKSPACE_FILE
    await asyncio.to_thread(file.parent.mkdir)
    await asyncio.to_thread(file.write_text, '[[deny]]\nrun = ["ls"]\nwhy = "Not ours"\n')
    before = time.time()
    await act(agent, session, "echo 1")
    await act(agent, session, "echo correct-horse")
    await act(agent, session, "ls")

    echo, touch, ls = await admin.must("GET", where)
    assert (echo["verdict"], echo["rule"], echo["made_by"]) == ("allow", "echo", "hub")
    assert (echo["count"], echo["last_command"]) == (2, "echo ***")
    assert echo["origin"] == f"{hub.directory / FILE}:1"
    assert before <= echo["last_time"] <= time.time()
    assert (touch["rule"], touch["count"], touch["last_time"]) == ("touch", 0, None)
    assert (touch["why"], touch["last_command"]) == ("Not here", "")
    assert (ls["verdict"], ls["rule"], ls["made_by"]) == ("deny", "ls", "workspace")
    assert (ls["count"], ls["last_command"], ls["why"]) == (1, "ls", "Not ours")
    assert ls["origin"] == f"{file}:1"

    await admin.must("POST", f"/api/sessions/{session}/stop")
    found = await admin.must("GET", where)
    assert [(each["rule"], each["count"]) for each in found] == [("echo", None), ("touch", None)]


async def test_an_invalid_rule_file_prevents_starting_sessions(
    hub: SessionHub, admin: SessionsClient
) -> None:
    file = await write_rules(hub, '[[allow]]\nrun = ["echo"]\nno = ["echo 1"]\n')
    session = (await admin.create())["id"]
    with pytest.raises(AssertionError, match=f"{FILE}:3: these rules allow `echo 1`"):
        await admin.reaches(session, "ready")
    assert file.exists()


async def test_without_a_rule_file_every_command_runs_without_a_question() -> None:
    async with open_session_hub() as hub, SessionsClient(hub.url) as admin:
        session = await admin.ready()
        assert await admin.run(session, "f() { basename a/b; }; f") == "b\n"


async def test_the_hub_can_ask_about_every_command_without_a_rule_file() -> None:
    async with (
        open_session_hub(rules_default="ask", question_timeout=0.2) as hub,
        SessionsClient(hub.url) as admin,
    ):
        session = await admin.ready()
        assert (await act(admin, session, "ls"))["extras"]["error_id"] == "consent.denied"


@pytest.mark.skipif(os.geteuid() != 0, reason="makes sessions with users of their own")
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
async def test_an_isolated_session_runs_every_command_that_is_not_denied() -> None:
    async with open_local_session_hub() as hub, SessionsClient(hub.url) as admin:
        await write_rules(hub)
        session = await admin.ready()
        assert await admin.run(session, "f() { basename a/b; }; f") == "b\n"
        seen = await act(admin, session, "bash -c 'touch made'")
        assert seen["extras"]["error_id"] == "rule.denied"
