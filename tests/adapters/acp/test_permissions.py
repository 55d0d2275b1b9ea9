"""Questions of an agent: answered by rules, at the hub, or by the client; and the timeline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bascule.runtime import CloudRuntime
from tests.hub.sessions.serving import SessionHub, SessionsClient, open_session_hub

from .client import AcpClient, open_client, refuse

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="module"),
]

OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class Person:
    """Answers the questions that reach the client, when told to."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self.answers: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()

    async def next(self, prompt: asyncio.Task[Any]) -> Mapping[str, Any]:
        """The next question, which the agent must ask before it has handled `prompt`."""
        asking = asyncio.create_task(self.asked.get())
        done, _ = await asyncio.wait({asking, prompt}, return_when=asyncio.FIRST_COMPLETED)
        assert asking in done, f"the agent asked nothing: {prompt.result()}"
        return asking.result()

    async def answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method != "session/request_permission":
            return await refuse(method, params)
        await self.asked.put(params)
        return await self.answers.get()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SessionHub]:
    rules: Path = tmp_path_factory.mktemp("rules") / "rules.toml"
    rules.write_text(
        '[[allow]]\nrun = ["make test"]\n[[deny]]\nrun = ["rm"]\nwhy = "removes files"\n'
    )
    async with open_session_hub(rules=rules, rules_default="allow") as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime(hub: SessionHub) -> AsyncIterator[CloudRuntime]:
    async with CloudRuntime(hub.url, hub.agent) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(hub: SessionHub) -> AsyncIterator[SessionsClient]:
    async with SessionsClient(hub.url) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def person() -> Person:
    return Person()


@pytest_asyncio.fixture(loop_scope="module")
async def client(
    hub: SessionHub, runtime: CloudRuntime, person: Person
) -> AsyncIterator[AcpClient]:
    async with open_client(
        *("--session", runtime.session_id),
        hub=hub.url,
        token=hub.agent,
        answer=person.answer,
    ) as opened:
        await opened.begin("/p")
        yield opened


def question(command: str, **more: Any) -> dict[str, Any]:
    call = {
        "toolCallId": command,
        "title": f"Run {command}",
        "kind": "execute",
        "rawInput": {"command": command},
        **more,
    }
    params = {"toolCall": call, "options": OPTIONS}
    return {"ask": "session/request_permission", "params": params}


def selected(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


async def asked(admin: SessionsClient, *, limit: float = 120) -> dict[str, Any]:
    """The question at the hub, as soon as there is one."""
    async with asyncio.timeout(limit):
        while not (found := await admin.must("GET", "/api/approvals")):
            await asyncio.sleep(0.05)
    (only,) = found
    return dict(only)


async def none_asked(admin: SessionsClient) -> None:
    async with asyncio.timeout(60):
        while await admin.must("GET", "/api/approvals"):
            await asyncio.sleep(0.05)


async def test_a_rule_answers_before_anybody_is_asked(client: AcpClient, person: Person) -> None:
    allowed, denied = await client.steps(question("make test"), question("rm -r x"))
    assert (allowed, denied) == (selected("yes"), selected("no"))
    assert person.asked.empty()
    assert client.requests == []


async def test_the_client_answers_first_and_the_hubs_question_is_withdrawn(
    client: AcpClient, person: Person, admin: SessionsClient
) -> None:
    running = asyncio.create_task(client.steps(question("make install")))
    shown = await person.asked.get()
    at_hub = await asked(admin)
    assert at_hub["detail"] == shown["toolCall"]["rawInput"]["command"] == "make install"
    assert (at_hub["choices"], at_hub["agent"]) == (["once", "deny"], "agent")
    await person.answers.put({"result": selected("always")})
    assert await running == [selected("always")]
    await none_asked(admin)


@pytest.mark.parametrize(("answer", "option"), [("once", "yes"), ("deny", "no")])
async def test_the_hub_answers_first_and_the_client_is_told(
    answer: str, option: str, client: AcpClient, person: Person, admin: SessionsClient
) -> None:
    running = asyncio.create_task(client.steps(question(f"make {answer}")))
    await person.asked.get()
    at_hub = await asked(admin)
    path = f"/api/approvals/{at_hub['session_id']}/{at_hub['id']}"
    await admin.must("POST", path, {"answer": answer})
    assert await running == [selected(option)]
    (cancelled,) = client.notifications
    assert cancelled["method"] == "$/cancel_request"
    assert cancelled["params"] == {"requestId": client.requests[-1]["id"]}
    await person.answers.put({"result": selected("always")})  # too late
    assert await client.steps(question("make test")) == [selected("yes")]


async def test_a_client_that_cannot_answer_does_not_count(
    client: AcpClient, person: Person, admin: SessionsClient
) -> None:
    running = asyncio.create_task(client.steps(question("make all")))
    await person.asked.get()
    await person.answers.put({"error": {"code": -32601, "message": "unknown"}})
    at_hub = await asked(admin)
    path = f"/api/approvals/{at_hub['session_id']}/{at_hub['id']}"
    await admin.must("POST", path, {"answer": "once"})
    assert await running == [selected("yes")]


async def test_a_cancelled_or_invalid_question_is_withdrawn(
    client: AcpClient, person: Person, admin: SessionsClient
) -> None:
    running = asyncio.create_task(client.steps(question("make slow")))
    await person.asked.get()
    await asked(admin)
    params = {"sessionId": client.session}
    await client.send({"method": "session/cancel", "params": params})
    (answer,) = await running
    assert answer["error"]["code"] == -32800
    await none_asked(admin)
    (wrong,) = await client.steps({"ask": "session/request_permission", "params": {"options": 7}})
    assert wrong["error"]["code"] == -32602


async def test_a_client_that_leaves_withdraws_its_questions(
    client: AcpClient, person: Person, admin: SessionsClient
) -> None:
    running = asyncio.create_task(client.steps(question("make ever")))
    await person.asked.get()
    await asked(admin)
    client.process.kill()
    with pytest.raises(AssertionError, match="the proxy ended"):
        await running
    await none_asked(admin)


async def test_with_ask_hub_the_client_is_not_asked(
    hub: SessionHub, runtime: CloudRuntime, admin: SessionsClient
) -> None:
    async with open_client(
        *("--session", runtime.session_id, "--ask", "hub"), hub=hub.url, token=hub.agent
    ) as client:
        await client.begin("/p")
        running = asyncio.create_task(client.steps(question("make here")))
        at_hub = await asked(admin)
        path = f"/api/approvals/{at_hub['session_id']}/{at_hub['id']}"
        status, _ = await admin.ask("POST", path, {"answer": "always"})
        assert status == 400
        await admin.must("POST", path, {"answer": "once"})
        assert await running == [selected("yes")]
        assert client.requests == []


async def test_tool_calls_are_in_the_timeline(
    client: AcpClient, runtime: CloudRuntime, admin: SessionsClient
) -> None:
    def update(session_update: str, **fields: Any) -> dict[str, Any]:
        return {"update": {"sessionUpdate": session_update, "toolCallId": "t", **fields}}

    text = {"type": "content", "content": {"type": "text", "text": "two lines"}}
    await client.steps(
        update("tool_call", title="Read a.py", kind="read", status="pending", rawInput={}),
        update("tool_call_update", rawInput={"path": "a.py"}, status="in_progress"),
        update("tool_call_update", status="completed", content=[text]),
    )
    assert await client.end() == 0  # sends the last entries
    where = f"/api/sessions/{runtime.session_id}/timeline.jsonl"
    events = [json.loads(line) for line in (await admin.must("GET", where)).splitlines()]
    (began,) = [
        each
        for each in events
        if each.get("action") == "call_tool_mcp" and each["args"]["name"] == "Read a.py"
    ]
    assert began["args"]["arguments"] == {"path": "a.py"}
    (over,) = [each for each in events if each.get("cause") == began["id"]]
    assert (over["observation"], over["content"]) == ("mcp", "two lines")


async def test_nobody_asks_or_records_in_the_session_of_another(
    hub: SessionHub, runtime: CloudRuntime
) -> None:
    place = {"session_id": runtime.session_id}
    call = {"id": "0b1d7a39-0000-4000-8000-000000000000", "name": "x"}
    cause = {"cause": call["id"], "title": "x", "detail": "x"}
    for token in (
        await hub.token("a stranger", "agent", owner="stranger"),
        await hub.token("a viewer", "viewer", owner="admin"),
    ):
        async with SessionsClient(hub.url, token=token) as stranger:
            for path, body in (
                ("verdicts", {"command": "ls"}),
                ("questions", cause),
                ("tool-calls", call),
            ):
                status, _ = await stranger.ask("POST", f"/api/agent/{path}", {**place, **body})
                assert status in (403, 404), path
    async with SessionsClient(hub.url, token=hub.agent) as agent:
        wrongs: list[dict[str, Any]] = [
            *({}, {"window_id": "x"}, {"id": "../x"}, {"name": "x" * 5000}, {"y": 1})
        ]
        for wrong in wrongs:
            body = {**place, **call, **wrong} if wrong else call
            status, _ = await agent.ask("POST", "/api/agent/tool-calls", body)
            assert status in (400, 422), wrong
