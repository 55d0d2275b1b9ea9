"""Admins may enter sessions of others, and whenever they do it is kept who did what."""

from __future__ import annotations

import pytest

from bascule.adapters.openhands_workspace import WorkspaceMount

from .serving import SessionsClient, open_session_hub

pytestmark = pytest.mark.slow


async def test_an_admin_who_enters_a_session_is_recorded() -> None:
    async with open_session_hub() as hub:
        token = await hub.token("ada", "agent", owner="ada")
        async with SessionsClient(hub.url, token=token) as ada, SessionsClient(hub.url) as admin:
            session = await ada.ready()
            one = f"/api/sessions/{session}"
            for asker in (ada, admin):
                await asker.run(session, "true")
                await asker.must("GET", f"{one}/logs")
                await asker.must("GET", f"{one}/files")
                await asker.must("GET", f"{one}/timeline.jsonl")
            rows = await admin.must("GET", f"/api/audit?session_id={session}")
            entered = [
                (row["who"], row["detail"]["what"]) for row in rows if row["verb"] == "enter"
            ]
            acted = [row["who"] for row in rows if row["verb"] == "act"]
            assert set(entered) == {
                ("admin", "logs"),
                ("admin", "files and terminals"),
                ("admin", "record"),
            }
            assert sorted(acted) == ["ada", "admin"]
            assert (await admin.ask("GET", f"/apps/{session}-0/"))[0] == 404
            assert (await admin.ask("GET", f"/vscode/{session}/"))[0] == 404


async def test_an_admin_who_forks_or_merges_a_session_is_recorded() -> None:
    async with open_session_hub() as hub:
        token = await hub.token("ada", "agent", owner="ada")
        async with SessionsClient(hub.url, token=token) as ada, SessionsClient(hub.url) as admin:
            session = await ada.ready()
            one = f"/api/sessions/{session}"

            async def forked(asker: SessionsClient) -> str:
                (made,) = await asker.must("POST", f"{one}/forks")
                await asker.reaches(made["id"], "ready")
                await asker.run(made["id"], "echo new > file")
                return str(made["id"])

            async def rows(of: str) -> list[tuple[str, str, str]]:
                found = await admin.must("GET", f"/api/audit?session_id={of}")
                verbs = ("enter", "fork", "merge")
                return [
                    (row["who"], row["verb"], row["detail"].get("what", ""))
                    for row in reversed(found)
                    if row["verb"] in verbs
                ]

            adas = await forked(ada)
            assert await rows(session) == [("ada", "fork", "")]
            admins = await forked(admin)
            (fork, *_) = await admin.must("GET", f"/api/audit?session_id={session}")
            assert fork["detail"] == {"forks": [admins], "secrets": False}
            await admin.must("GET", f"{one}/forks")
            await admin.must("POST", f"/api/sessions/{adas}/merge", {"dry_run": True})
            await admin.must("POST", f"/api/sessions/{admins}/merge")
            entered = [
                ("admin", "enter", "files, for a fork"),
                ("admin", "fork", ""),
                ("admin", "enter", "changes, for a list of forks"),
                ("admin", "enter", "files, for a merge"),
                ("admin", "enter", "files, for a merge"),
                ("admin", "merge", ""),
            ]
            assert await rows(session) == [("ada", "fork", ""), *entered]
            assert await rows(adas) == [entered[2], entered[3]]
            assert await rows(admins) == []  # it is the admin's own


async def test_an_admin_who_enters_through_an_adapter_is_recorded() -> None:
    async with open_session_hub(mounts=(WorkspaceMount,)) as hub:
        token = await hub.token("ada", "agent", owner="ada")
        async with SessionsClient(hub.url, token=token) as ada, SessionsClient(hub.url) as admin:
            session = await ada.ready()
            one = f"/openhands/v1/{session}/api"
            asked = {"command": "echo told >file", "cwd": "."}
            await ada.must("POST", f"{one}/bash/execute_bash_command", asked)

            async def entered(what: str) -> list[str]:
                rows = await admin.must("GET", f"/api/audit?session_id={session}")
                found = [row for row in rows if row["verb"] == "enter"]
                return [row["who"] for row in found if row["detail"]["what"] == what]

            for asker in (ada, admin):
                found = await asker.must("GET", f"{one}/bash/bash_events/search")
                await asker.must("GET", f"{one}/bash/bash_events/{found['items'][0]['id']}")
            assert await entered("commands") == ["admin", "admin"]
            assert await entered("files and terminals") == []
            file = hub.directory / "sessions" / session / "workspace" / "file"
            assert (await admin.ask("GET", f"{one}/file/download?path={file}"))[0] == 200
            assert set(await entered("files and terminals")) == {"admin"}
            acts = await admin.must("GET", f"/api/audit?session_id={session}")
            before = [row["who"] for row in acts if row["verb"] == "act"]
            assert set(before) == {"ada"}
            await admin.must("POST", f"{one}/bash/execute_bash_command", {"command": "true"})
            acts = await admin.must("GET", f"/api/audit?session_id={session}")
            assert {row["who"] for row in acts if row["verb"] == "act"} == {"ada", "admin"}


async def test_the_creation_and_revocation_of_tokens_is_recorded() -> None:
    async with open_session_hub() as hub, SessionsClient(hub.url) as admin:
        asked = {"name": "adas", "scope": "agent", "owner": "ada"}
        await admin.must("POST", "/api/tokens", asked)
        await admin.must("DELETE", "/api/tokens/adas")
        rows = await admin.must("GET", "/api/audit")
        kept = [(row["who"], row["verb"], row["detail"]["name"]) for row in rows]
        assert kept == [("admin", "token.revoke", "adas"), ("admin", "token.create", "adas")]
