"""Sessions of a hub on a real socket, in real processes."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import tarfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bascule.core.errors import SandboxUnreachable
from bascule.hub.sessions.sandbox_client import SandboxClient
from bascule.link.http import HttpClient
from bascule.wire import from_json
from tests.contracts.runtime import gone
from tests.contracts.spawner import server_of
from tests.hub.postgres import postgres
from tests.hub.sessions.serving import SessionHub, SessionsClient, open_session_hub

pytestmark = pytest.mark.slow


@pytest.fixture
async def hub() -> AsyncIterator[SessionHub]:
    async with open_session_hub() as made:
        yield made


@pytest.fixture
async def admin(hub: SessionHub) -> AsyncIterator[SessionsClient]:
    async with SessionsClient(hub.url) as asker:
        yield asker


async def left_of(hub: SessionHub) -> list[str]:
    """Files and directories of sessions; nothing once all are removed."""
    places = ("sessions", "run", "secrets", "archives")
    found = [each for name in places for each in (hub.directory / name).rglob("*")]
    return [str(each) for each in found if each.name != ".doors"]


def kill(hub: SessionHub, session: str) -> int:
    """End a session's server as a crash would."""

    class Plan:
        run_dir = hub.directory / "run" / session

    pid = server_of(Plan)  # type: ignore[arg-type]
    os.kill(pid, signal.SIGKILL)
    return pid


# From create to remove ----------------------------------------------------------------------


async def test_a_session_starts_on_creation_and_leaves_nothing_when_removed(
    hub: SessionHub, admin: SessionsClient
) -> None:
    made = await admin.create({"name": "mine", "environment": {"WORD": "hello"}})
    assert made["state"] == "starting"
    seen = await admin.reaches(made["id"], "ready")
    stages = [data["stage"] for name, data in seen if name == "stage"]
    assert stages[0] == "preparing"
    assert len(stages) > 2
    assert await admin.run(made["id"], "echo $WORD > f; cat f") == "hello\n"
    assert (hub.directory / "sessions" / made["id"] / "workspace" / "f").read_text() == "hello\n"
    await admin.must("DELETE", f"/api/sessions/{made['id']}")
    assert await admin.must("GET", "/api/sessions") == []
    assert (await admin.ask("GET", f"/api/sessions/{made['id']}"))[0] == 404
    assert await left_of(hub) == []
    assert await hub.spawner().running() == []


async def test_two_sessions_share_no_state(hub: SessionHub, admin: SessionsClient) -> None:
    one, two = await asyncio.gather(admin.ready(), admin.ready())
    await admin.run(one, "echo one > f; word=one")
    assert await admin.run(two, "ls; echo $word") == "\n"
    await admin.must("DELETE", f"/api/sessions/{one}")
    assert await admin.run(two, "echo up") == "up\n"


async def test_a_paused_session_runs_nothing_and_is_resumed_by_an_action(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready()
    await admin.run(session, "word=kept")
    assert (await admin.must("POST", f"/api/sessions/{session}/pause"))["state"] == "paused"
    (running,) = await hub.spawner().running()
    assert running.is_paused
    assert await admin.run(session, "echo $word") == "kept\n"
    assert (await admin.show(session))["state"] == "ready"


async def test_a_stopped_session_keeps_its_files_and_starts_again(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready()
    await admin.run(session, "echo kept > f")
    assert (await admin.must("POST", f"/api/sessions/{session}/stop"))["state"] == "stopped"
    assert await hub.spawner().running() == []
    event = {"action": "run", "args": {"command": "true"}}
    status, refused = await admin.ask("POST", f"/api/sessions/{session}/actions", event)
    assert (status, refused["code"]) == (409, "session.state")
    assert "resume it first" in refused["message"]
    await admin.must("POST", f"/api/sessions/{session}/resume")
    await admin.reaches(session, "ready")
    assert await admin.run(session, "cat f") == "kept\n"


async def test_a_session_can_be_removed_while_it_starts(
    hub: SessionHub, admin: SessionsClient
) -> None:
    made = await admin.create()
    await admin.must("DELETE", f"/api/sessions/{made['id']}")
    assert await left_of(hub) == []
    assert await hub.spawner().running() == []


async def test_a_repeated_create_request_makes_one_session(
    hub: SessionHub, admin: SessionsClient
) -> None:
    made = await asyncio.gather(*(admin.create({"name": "x"}, key="k") for _ in range(4)))
    assert len({each["id"] for each in made}) == 1
    assert len(os.listdir(hub.directory / "secrets")) == 1
    status, refused = await admin.ask(
        "POST", "/api/sessions", {"name": "y"}, headers={"Idempotency-Key": "k"}
    )
    assert (status, refused["code"]) == (400, "request.invalid")
    await admin.reaches(made[0]["id"], "ready")


async def test_session_names_are_unique_per_owner(hub: SessionHub, admin: SessionsClient) -> None:
    asked = [admin.ask("POST", "/api/sessions", {"name": "same"}) for _ in range(4)]
    answers = await asyncio.gather(*asked)
    assert sorted(status for status, _ in answers) == [200, 400, 400, 400]
    made = next(answer["id"] for status, answer in answers if status == 200)
    status, refused = await admin.ask("POST", "/api/sessions", {"name": "same"})
    assert (status, refused["code"], refused["detail"]["field"]) == (400, "request.invalid", "name")
    assert "named 'same' already; choose another name" in refused["message"]
    assert [each["id"] for each in await admin.must("GET", "/api/sessions")] == [made]
    # Another owner's names are their own, and no name is nobody's.
    async with SessionsClient(hub.url, token=await hub.token("ada", "agent", owner="ada")) as ada:
        await ada.create({"name": "same"})
        await asyncio.gather(*(ada.create() for _ in range(2)))
    await admin.must("DELETE", f"/api/sessions/{made}")
    await admin.create({"name": "same"})


async def test_an_event_stream_resumes_where_it_stopped(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready()
    first = [each async for each in _until(admin, session, after=0)]
    again = [each async for each in _until(admin, session, after=2)]
    assert again == first[2:]


async def _until(admin: SessionsClient, session: str, *, after: int) -> AsyncIterator[Any]:
    async for event in admin.events(session, after=after):
        yield event
        if event[1].get("state") == "ready":
            return


async def test_a_listening_app_gets_a_url(hub: SessionHub, admin: SessionsClient) -> None:
    session = await admin.ready()
    code = "import http.server as h; h.HTTPServer(('127.0.0.1', 0), None).serve_forever()"
    await admin.run(session, f'(setsid python3 -c "{code}" >/dev/null 2>&1 &)')
    told = (data async for name, data in admin.events(session) if name == "port.opened")
    data = await anext(told)
    await told.aclose()
    assert data["url"] == f"{hub.url}/apps/{session}-{data['n']}/"
    (port,) = await admin.must("GET", f"/api/sessions/{session}/ports")
    assert port["url"] == data["url"]


async def test_a_session_that_is_removed_meanwhile_has_no_ports(
    hub: SessionHub, admin: SessionsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await admin.ready()

    async def fail_after_removal(_client: SandboxClient) -> object:
        await admin.must("DELETE", f"/api/sessions/{session}")
        raise SandboxUnreachable("The sandbox does not answer")

    monkeypatch.setattr(SandboxClient, "ports", fail_after_removal)
    assert await admin.must("GET", f"/api/sessions/{session}/ports") == []


async def test_a_sessions_window_is_identified_by_the_socket_it_connects_to(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready()

    async def asked() -> list[int]:
        path = hub.directory / "run/.doors" / session / "hub.sock"
        door = HttpClient("http://localhost", socket_path=path)
        calls = (
            ("GET", "/health"),
            ("GET", "/api/sessions"),
            ("GET", "/api/tokens"),
            ("GET", "/api/vscode/instances"),
            ("POST", "/api/vscode/register"),
        )
        found = [(await door.request(method, where)).status for method, where in calls]
        await door.aclose()
        return found

    # What its window needs is let on, here as far as to say that a body is missing.
    assert await asked() == [200, 403, 403, 403, 422]
    await hub.stop()
    await hub.start()
    assert await asked() == [200, 403, 403, 403, 422]


# Workspaces ---------------------------------------------------------------------------------


async def test_an_uploaded_archive_becomes_the_workspace(
    hub: SessionHub, admin: SessionsClient
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo("src/code.py")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"1+1"))
    reply = await admin.request(
        "POST",
        "/api/archives",
        body=packed.getvalue(),
        headers={"Content-Type": "application/octet-stream"},
    )
    archive = reply.body.split(b'"')[3].decode()
    session = await admin.ready({"workspace": {"kind": "archive", "archive": archive}})
    assert await admin.run(session, "cat src/code.py") == "1+1"
    assert os.listdir(hub.directory / "archives") == []


async def test_archives_belong_to_their_owner_and_are_limited_in_number() -> None:
    async def upload(asker: SessionsClient) -> tuple[int, Any]:
        reply = await asker.request(
            "POST",
            "/api/archives",
            body=b"PK",
            headers={"Content-Type": "application/octet-stream"},
        )
        return reply.status, from_json(reply.body)

    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(open_session_hub())
        token = await hub.token("ada", "agent", owner="ada")
        agent = await stack.enter_async_context(SessionsClient(hub.url, token=token))
        admin = await stack.enter_async_context(SessionsClient(hub.url))
        for _ in range(8):
            status, kept = await upload(agent)
            assert status == 200
        status, refused = await upload(agent)
        assert status == 429
        assert refused["detail"]["setting"] == "archive_lifetime"
        wanted = {"workspace": {"kind": "archive", "archive": kept["archive"]}}
        assert (await admin.ask("POST", "/api/sessions", wanted))[0] == 400
        assert (await upload(admin))[0] == 200
        made = await agent.create(wanted)
        await agent.must("DELETE", f"/api/sessions/{made['id']}")
        assert (await upload(agent))[0] == 200


async def test_an_unknown_archive_is_rejected(admin: SessionsClient) -> None:
    for name in ("0" * 48, "../hub.sqlite"):
        body = {"workspace": {"kind": "archive", "archive": name}}
        status, refused = await admin.ask("POST", "/api/sessions", body)
        assert (status, refused["code"]) == (400, "request.invalid")


async def test_a_clone_that_fails_says_why_and_leaves_no_process(
    hub: SessionHub, admin: SessionsClient
) -> None:
    source = {
        "kind": "git",
        "url": "https://127.0.0.1:1/x.git",
        "credential": {"password": "hushhush"},
    }
    made = await admin.create({"workspace": source})
    await admin.reaches(made["id"], "failed")
    shown = await admin.show(made["id"])
    assert shown["cause"].startswith("filling the workspace: ")
    assert "127.0.0.1" in shown["cause"]
    # Once on a busy machine a sandbox was still listed here. Whether it was ending is not known.
    async with asyncio.timeout(60):
        while await hub.spawner().running():
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("url", ["file:///etc", "/etc", "ext::sh -c id", "http://x/y"])
async def test_only_https_and_ssh_are_cloned(admin: SessionsClient, url: str) -> None:
    body = {"workspace": {"kind": "git", "url": url}}
    status, refused = await admin.ask("POST", "/api/sessions", body)
    assert (status, refused["code"]) == (400, "request.invalid")


async def test_only_admins_can_use_folders_and_only_below_the_roots(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for each in (root / "project", outside):
        each.mkdir(parents=True)
    (root / "project" / "f").write_text("mine")
    (root / "link").symlink_to(outside)
    async with (
        open_session_hub(workspace_roots=(root,)) as hub,
        SessionsClient(hub.url) as admin,
        SessionsClient(hub.url, token=hub.agent) as agent,
    ):
        asked = {"workspace": {"kind": "folder", "folder": str(root / "project")}}
        assert (await agent.ask("POST", "/api/sessions", asked))[1]["code"] == "access.denied"
        for folder in (outside, root / "link", root / "project/../../outside", root / "none"):
            wrong = {"workspace": {"kind": "folder", "folder": str(folder)}}
            refused = (await admin.ask("POST", "/api/sessions", wrong))[1]
            assert refused["code"] == "path.outside_roots"
        session = await admin.ready(asked)
        assert await admin.run(session, "cat f; echo more > g") == "mine"
        await admin.must("DELETE", f"/api/sessions/{session}")
        assert (root / "project" / "g").read_text() == "more\n"


# Who may ------------------------------------------------------------------------------------


async def test_another_owner_sees_nothing_of_a_session(
    hub: SessionHub, admin: SessionsClient
) -> None:
    ada = SessionsClient(hub.url, token=await hub.token("ada", "agent", owner="ada"))
    bob = SessionsClient(hub.url, token=await hub.token("bob", "agent", owner="bob"))
    session = await ada.ready()
    one = f"/api/sessions/{session}"
    event = {"action": "run", "args": {"command": "true"}}
    for method, where, body in (
        ("GET", one, None),
        ("DELETE", one, None),
        ("POST", f"{one}/pause", None),
        ("POST", f"{one}/resume", None),
        ("POST", f"{one}/stop", None),
        ("GET", f"{one}/ports", None),
        ("GET", f"{one}/events", None),
        ("GET", f"{one}/logs", None),
        ("POST", f"{one}/actions", event),
    ):
        status, refused = await bob.ask(method, where, body)
        assert (status, refused["code"]) == (404, "session.not_found"), where
    assert await bob.must("GET", "/api/sessions") == []
    assert [each["id"] for each in await admin.must("GET", "/api/sessions")] == [session]
    assert (await bob.ask("GET", "/api/audit"))[0] == 403
    await ada.aclose()
    await bob.aclose()


async def test_a_session_token_is_valid_only_for_its_session(
    hub: SessionHub, admin: SessionsClient
) -> None:
    mine, other = await asyncio.gather(admin.ready(), admin.ready())
    token = await hub.token("inside", "session", session_id=mine)
    async with SessionsClient(hub.url, token=token) as inside:
        assert await inside.run(mine, "echo in") == "in\n"
        assert [each["id"] for each in await inside.must("GET", "/api/sessions")] == [mine]
        assert (await inside.ask("GET", f"/api/sessions/{other}"))[0] == 404
        assert (await inside.ask("POST", "/api/sessions", {}))[0] == 403
        assert (await inside.ask("DELETE", f"/api/sessions/{mine}"))[0] == 403
        await admin.must("DELETE", f"/api/sessions/{mine}")
        assert (await inside.ask("GET", "/api/sessions"))[0] == 401


async def test_the_audit_log_records_actions_but_no_secrets(
    hub: SessionHub, admin: SessionsClient
) -> None:
    agent = SessionsClient(hub.url, token=hub.agent)
    session = await agent.ready({"secrets": {"KEY": "hush-hush"}})
    assert await agent.run(session, "echo $KEY; : hush-hush") == "hush-hush\n"
    await admin.must("POST", f"/api/sessions/{session}/stop")
    told = await admin.must("GET", f"/api/audit?session_id={session}")
    assert [(each["who"], each["verb"]) for each in told] == [
        ("admin", "stop"),
        ("agent", "act"),
        ("agent", "create"),
    ]
    assert "***" in str(told)
    shown = await admin.show(session)
    assert shown["secrets"] == ["KEY"]
    held = b"".join(path.read_bytes() for path in hub.directory.glob("hub.sqlite*"))
    assert b"hush-hush" not in held
    assert "hush-hush" not in str(told) + str(shown)
    await agent.aclose()


async def test_a_credential_in_a_clone_url_is_removed_from_it(
    hub: SessionHub, admin: SessionsClient
) -> None:
    url = "https://ann:hunter2@127.0.0.1:1/x.git"
    made = await admin.create({"workspace": {"kind": "git", "url": url}})
    assert made["workspace"]["url"] == "https://127.0.0.1:1/x.git"
    await admin.reaches(made["id"], "failed")
    shown = [await admin.show(made["id"]), await admin.must("GET", "/api/audit")]
    assert "hunter2" not in str(shown)
    kept = [path for path in hub.directory.glob("*.sqlite*") if b"hunter2" in path.read_bytes()]
    assert kept == []


async def test_a_cloned_session_can_reach_its_git_host_by_default(
    admin: SessionsClient,
) -> None:
    async def egress(url: str, **said: object) -> tuple[str, list[str], str]:
        made = await admin.create({"workspace": {"kind": "git", "url": url}, **said})
        await admin.must("POST", f"/api/sessions/{made['id']}/stop")
        return made["egress"]["mode"], made["egress"]["domains"], made["state"]

    assert await egress("https://git.example/x.git") == ("proxy", ["git.example"], "starting")
    assert await egress("https://git.example:8443/x.git") == ("off", [], "starting")
    assert await egress("git@git.example:x.git") == ("off", [], "starting")
    said = {"mode": "off", "domains": []}
    assert await egress("https://git.example/x.git", egress=said) == ("off", [], "starting")


async def test_owners_cannot_request_more_egress_than_the_hub_allows() -> None:
    open_to_all = {"egress": {"mode": "open"}}
    async with (
        open_session_hub() as hub,
        SessionsClient(hub.url, token=hub.agent) as agent,
        SessionsClient(hub.url) as admin,
    ):
        status, refused = await agent.ask("POST", "/api/sessions", open_to_all)
        assert status == 403
        assert "max_egress" in refused["message"]
        await agent.create({"egress": {"mode": "proxy", "domains": ["pypi.org"]}})
        assert (await admin.create(open_to_all))["egress"]["mode"] == "open"
    async with (
        open_session_hub(max_egress="open") as hub,
        SessionsClient(hub.url, token=hub.agent) as agent,
    ):
        assert (await agent.create(open_to_all))["egress"]["mode"] == "open"


async def test_a_session_over_its_disk_quota_is_ended_and_can_free_space() -> None:
    async with (
        open_session_hub(max_session_disk=8 << 20, reconcile_interval=3600.0) as hub,
        SessionsClient(hub.url) as admin,
    ):
        session = await admin.ready()
        await hub.hub.sessions.reconcile()
        assert (await admin.show(session))["state"] == "ready"
        await admin.run(session, "head -c 20M /dev/urandom > large; ln large same; ln -s / all")
        await hub.hub.sessions.reconcile()
        ended = await admin.show(session)
        assert ended["state"] == "failed"
        assert "MiB on the disk" in ended["cause"]
        assert "`max_session_disk`" in ended["cause"]
        await admin.must("POST", f"/api/sessions/{session}/resume")
        await admin.reaches(session, "ready")
        await admin.run(session, "rm large same")
        await hub.hub.sessions.reconcile()
        assert (await admin.show(session))["state"] == "ready"


async def test_an_exceeded_limit_is_reported_with_its_setting() -> None:
    async with (
        open_session_hub(max_running=1, max_sessions_per_owner=2) as hub,
        SessionsClient(hub.url) as admin,
    ):
        session = await admin.ready()
        status, refused = await admin.ask("POST", "/api/sessions", {})
        assert (status, refused["code"]) == (429, "quota.exceeded")
        assert refused["detail"]["setting"] == "max_running"
        await admin.must("POST", f"/api/sessions/{session}/stop")
        second = await admin.ready()
        resumed = await admin.ask("POST", f"/api/sessions/{session}/resume")
        assert resumed[1]["detail"]["setting"] == "max_running"
        await admin.must("POST", f"/api/sessions/{second}/stop")
        status, refused = await admin.ask("POST", "/api/sessions", {})
        assert refused["detail"]["setting"] == "max_sessions_per_owner"
        assert len(os.listdir(hub.directory / "secrets")) == 2


async def test_out_of_range_numbers_are_rejected(admin: SessionsClient) -> None:
    session = await admin.ready()
    for where in (
        f"/api/sessions/{session}/events?after={1 << 63}",
        f"/api/sessions/{session}/events?after=-1",
        f"/api/sessions/{session}/logs?lines={1 << 80}",
        f"/api/audit?limit={1 << 80}",
    ):
        assert (await admin.ask("GET", where))[0] == 422, where
    many = {"Last-Event-ID": str(1 << 63)}
    status, _ = await admin.ask("GET", f"/api/sessions/{session}/events", headers=many)
    assert status == 422


async def test_an_impossible_session_request_is_rejected_at_once(admin: SessionsClient) -> None:
    for body, code in (
        ({"spawner": "moon"}, "capability.missing"),
        ({"environment": {"a-b": "c"}}, "request.invalid"),
        ({"limits": {"memory": 1}}, "request.invalid"),
        ({"unknown": 1}, "request.invalid"),
    ):
        assert (await admin.ask("POST", "/api/sessions", body))[1]["code"] == code


async def test_a_hub_on_postgresql_keeps_sessions_there() -> None:
    with postgres() as database:
        async with open_session_hub(database_url=database) as hub, SessionsClient(hub.url) as admin:
            session = await admin.ready()
            await hub.stop()
            await hub.start()
            async with SessionsClient(hub.url) as again:
                assert await again.run(session, "echo up") == "up\n"
                await again.must("DELETE", f"/api/sessions/{session}")
            assert not (hub.directory / "hub.sqlite").exists()


# Crashes ------------------------------------------------------------------------------------


async def test_a_dead_sandbox_fails_its_session_which_can_be_restarted(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready()
    await admin.run(session, "echo kept > f")
    kill(hub, session)
    await admin.reaches(session, "failed")
    assert "signal 9" in (await admin.show(session))["cause"]
    await admin.must("POST", f"/api/sessions/{session}/resume")
    await admin.reaches(session, "ready")
    assert await admin.run(session, "cat f") == "kept\n"


async def test_sessions_survive_the_hub_and_are_found_after_a_restart(
    hub: SessionHub, admin: SessionsClient
) -> None:
    one, two = await asyncio.gather(admin.ready(), admin.ready())
    await admin.run(one, "word=kept")
    await admin.must("POST", f"/api/sessions/{two}/pause")
    await hub.stop()
    assert len(await hub.spawner().running()) == 2
    await hub.start()
    async with SessionsClient(hub.url) as again:
        assert await again.run(one, "echo $word") == "kept\n"
        assert (await again.show(two))["state"] == "paused"
        assert await again.run(two, "echo up") == "up\n"


async def test_a_sandbox_that_died_while_the_hub_was_down_is_detected(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready()
    await hub.stop()
    await gone(kill(hub, session))
    await hub.start()
    async with SessionsClient(hub.url) as again:
        shown = await again.show(session)
        assert shown["state"] == "failed"
        assert "gone" in shown["cause"]


async def test_a_start_interrupted_by_a_hub_stop_is_completed_by_the_next_hub(
    hub: SessionHub, admin: SessionsClient
) -> None:
    made = await admin.create()
    await hub.stop()
    await hub.start()
    async with SessionsClient(hub.url) as again:
        await again.reaches(made["id"], "ready")
        assert await again.run(made["id"], "echo up") == "up\n"


async def test_secrets_of_a_session_that_was_never_created_are_removed(hub: SessionHub) -> None:
    await hub.stop()
    for name in ("abc.json", ".abc"):
        (hub.directory / "secrets" / name).write_text("{}")
    await hub.start()
    assert os.listdir(hub.directory / "secrets") == []


async def test_the_hub_ends_a_sandbox_without_a_session(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready()
    await hub.stop()
    for name in ("hub.sqlite", "hub.sqlite-wal", "hub.sqlite-shm"):
        (hub.directory / name).unlink(missing_ok=True)
    await hub.start()
    assert await hub.spawner().running() == []
    assert (hub.directory / "sessions" / session / "workspace").is_dir()
