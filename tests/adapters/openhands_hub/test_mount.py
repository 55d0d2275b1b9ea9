"""/openhands/v0 on a hub, asked as OpenHands' client asks."""

from __future__ import annotations

import pytest

from bascule.hub import Identity
from tests.hub.serving import RunningHub

from .asking import START, Openhands, inside, run

pytestmark = pytest.mark.slow


async def test_a_conversation_has_one_runtime_from_start_to_stop(client: Openhands) -> None:
    none, _ = await client.ask("GET", "/sessions/conversation")
    started = await client.must("POST", "/start", START)
    found = await client.must("GET", "/sessions/conversation")
    again = await client.must("POST", "/start", START)
    listed = await client.must("GET", "/list")
    pod = await client.must("GET", f"/runtime/{started['runtime_id']}")
    stopped = await client.must("POST", "/stop", {"runtime_id": started["runtime_id"]})
    gone, _ = await client.ask("GET", "/sessions/conversation")

    assert (none, gone) == (404, 404)
    assert started == found == again
    assert [each["session_id"] for each in listed["runtimes"]] == ["conversation"]
    assert (pod["runtime_id"], pod["pod_status"]) == (started["runtime_id"], "ready")
    assert stopped["status"] == "stopped"


async def test_returned_urls_use_the_public_address(client: Openhands) -> None:
    started = await client.must("POST", "/start", START)
    session = started["runtime_id"].rpartition("/")[2]
    vscode = f"https://hub.example/{started['runtime_id']}/vscode"
    status, headers = await client.ask("GET", f"{inside(started)}/vscode?tkn=t&folder=/workspace")

    assert started["url"] == f"https://hub.example/{started['runtime_id']}"
    assert vscode.startswith(started["url"])
    assert (status, headers["location"]) == (303, f"/vscode/{session}/?tkn=t&folder=/workspace")
    assert sorted(started["work_hosts"]) == [
        f"https://hub.example/apps/{session}-98/",
        f"https://hub.example/apps/{session}-99/",
    ]


async def test_observations_carry_the_id_of_their_action(client: Openhands) -> None:
    started = await client.must("POST", "/start", START)
    seen = await client.must("POST", f"{inside(started)}/execute_action", run("echo $((6 * 7))"))

    assert (seen["observation"], seen["content"], seen["cause"]) == ("run", "42\n", 7)


async def test_an_invalid_action_is_answered_with_an_error_observation(client: Openhands) -> None:
    started = await client.must("POST", "/start", START)
    where = f"{inside(started)}/execute_action"
    unknown = await client.must("POST", where, {"action": {"action": "dance", "args": {}}})
    malformed = await client.must("POST", where, {"action": {"action": "run", "args": {}}})
    nowhere = {"is_static": True, "cwd": "/no/such/directory"}
    hidden = await client.must("POST", where, run("true", hidden=True, **nowhere))

    assert (unknown["observation"], malformed["observation"]) == ("error", "error")
    assert hidden["observation"] == "run"
    assert hidden["extras"]["hidden"] is True
    assert hidden["extras"]["metadata"]["exit_code"] == -1


async def test_a_paused_runtime_reports_its_state_and_resumes(client: Openhands) -> None:
    started = await client.must("POST", "/start", START)
    where, it = f"{inside(started)}/execute_action", {"runtime_id": started["runtime_id"]}
    await client.must("POST", where, run("colour=blue"))
    await client.must("POST", "/pause", it)
    paused = await client.must("GET", "/sessions/conversation")
    await client.must("POST", "/resume", it)
    seen = await client.must("POST", where, run("echo $colour"))

    assert paused["status"] == "paused"
    assert seen["content"] == "blue\n"


async def test_an_action_restarts_a_stopped_runtime(hub: RunningHub, client: Openhands) -> None:
    started = await client.must("POST", "/start", START)
    where = f"{inside(started)}/execute_action"
    await client.must("POST", where, run("echo kept > file"))
    session = hub.hub.sessions.list(Identity(name="a", owner="admin", scope="admin"))[0]
    await hub.hub.sessions.stop(Identity(name="a", owner="admin", scope="admin"), session.id)
    found = await client.must("GET", "/sessions/conversation")
    seen = await client.must("POST", where, run("cat file"))

    assert found["status"] == "stopped"
    assert seen["content"] == "kept\n"


async def test_other_endpoints_of_the_server_accept_the_session_key(
    hub: RunningHub, client: Openhands
) -> None:
    started = await client.must("POST", "/start", START)
    key = started["session_api_key"]
    async with Openhands(hub.url, "", **{"X-Session-API-Key": key}) as own:
        names = await own.must("POST", f"{inside(started)}/list_files", {})
        seen = await own.must("POST", f"{inside(started)}/execute_action", run("echo hello"))
        token = await own.must("GET", f"{inside(started)}/vscode/connection_token")
        refused, _ = await own.ask("POST", "/start", {"session_id": "another"})

    assert names == []
    assert seen["content"] == "hello\n"
    assert token == {"token": key}
    assert refused == 403


async def test_other_owners_and_wrong_tokens_cannot_reach_a_runtime(
    hub: RunningHub, client: Openhands
) -> None:
    started = await client.must("POST", "/start", START)
    other = await hub.token("other", "agent", owner="somebody else")
    async with Openhands(hub.url, other) as stranger, Openhands(hub.url, "wrong") as unknown:
        answers = [
            await stranger.ask("GET", "/sessions/conversation"),
            await stranger.ask("GET", f"/runtime/{started['runtime_id']}"),
            await stranger.ask("POST", "/stop", {"runtime_id": started["runtime_id"]}),
            await stranger.ask("POST", f"{inside(started)}/execute_action", run("true")),
        ]
        refused, _ = await unknown.ask("GET", "/list")
        listed = await stranger.must("GET", "/list")

    assert [status for status, _ in answers] == [404, 404, 404, 404]
    assert refused == 401
    assert listed == {"runtimes": []}


async def test_strict_mode_accepts_one_command_and_keeps_only_the_tail_of_output(
    client: Openhands,
) -> None:
    strict = {**START, "environment": {"BASCULE_OPENHANDS_STRICT": "1"}}
    where = f"{inside(await client.must('POST', '/start', strict))}/execute_action"
    several = await client.must("POST", where, run("echo a\necho b"))
    long = await client.must("POST", where, run("seq 30000"))

    assert several["observation"] == "error"
    assert "Cannot execute multiple commands at once" in several["content"]
    assert long["content"].splitlines()[0] == str(30000 - 10_040 + 1)
    assert "truncated" in long["extras"]["metadata"]["prefix"]


async def test_the_advice_after_a_command_timeout_is_configurable(
    client: Openhands,
) -> None:
    advised = {**START, "environment": {"BASCULE_OPENHANDS_ADVICE": "Have%20patience."}}
    where = f"{inside(await client.must('POST', '/start', advised))}/execute_action"
    action = {**run("sleep 60")["action"], "timeout": 0.2}
    seen = await client.must("POST", where, {"action": action})

    assert seen["extras"]["metadata"]["exit_code"] == -1
    assert seen["extras"]["metadata"]["suffix"].strip() == (
        "[The command timed out after 0.2 seconds. Have patience.]"
    )


async def test_every_image_exists_and_builds_are_rejected(client: Openhands) -> None:
    prefix = await client.must("GET", "/registry_prefix")
    image = await client.must("GET", "/image_exists?image=any:1")
    status, told = await client.ask("POST", "/build", {})

    assert isinstance(prefix["registry_prefix"], str)
    assert image["exists"] is True
    assert {"upload_time", "image_size_bytes"} <= image["image"].keys()
    assert (status, "without an image" in told["detail"]) == (400, True)
