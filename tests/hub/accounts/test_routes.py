"""Every call of the hub, tried by every kind of user on what belongs to another user."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from fastapi.routing import APIRoute

from bascule.adapters.e2b import E2BMount
from bascule.adapters.mcp.mount import McpMount
from bascule.adapters.openhands_hub import OpenHandsV0Mount
from bascule.adapters.openhands_workspace import WorkspaceMount
from bascule.core.sessions import SessionId
from bascule.hub import Hub, HubSettings
from bascule.hub.identity import Identity, Scope
from bascule.link.sse import EventReader
from tests.hub.accounts.route_table import DIGEST, ROUTES, Rule
from tests.hub.sessions.serving import SessionHub, SessionsClient, open_session_hub

pytestmark = pytest.mark.slow

REFUSED = (401, 403, 404)
SCOPES: tuple[Scope, ...] = ("member", "agent", "viewer", "window", "session")


@dataclass(frozen=True)
class Adas:
    """What belongs to Ada on a hub, on which Bob and Carol have tokens of every scope."""

    hub: SessionHub
    session_id: str
    window_id: str
    token: str

    async def ask(
        self, client: SessionsClient, method: str, path: str, rule: Rule
    ) -> tuple[int, Any]:
        names = {
            "session_id": self.session_id,
            "window_id": self.window_id,
            "place_id": self.window_id,
            "question_id": "q",
            "name": "adas agent",
            "user": "bob",
            "code": "AAAABBBB",
            "number": "1",
            "file": DIGEST,
        }
        target = path.format(**names).replace(" ", "%20") + rule.query
        body = rule.body
        if isinstance(body, Mapping):
            known = {"session_id": self.session_id, "window_id": self.window_id}
            body = {**body, **{name: value for name, value in known.items() if name in body}}
        return await client.ask(method, target, body)

    def marks(self) -> tuple[str, ...]:
        """Texts by which an answer with anything of Ada's is recognised."""
        return self.session_id, self.window_id, "adas "


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def adas(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Adas]:
    mounts = (McpMount, OpenHandsV0Mount, WorkspaceMount, E2BMount)
    workspace: Path = tmp_path_factory.mktemp("window")
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(open_session_hub(mounts=mounts))
        ada = await hub.token("adas member", "member", owner="ada")
        await hub.token("adas agent", "agent", owner="ada")
        in_window = await hub.token("adas window", "window", owner="ada")
        window = await stack.enter_async_context(hub.fake_window(workspace, token=in_window))
        client = await stack.enter_async_context(SessionsClient(hub.url, token=ada))
        session_id = await client.ready({"name": "adas session"})
        for user in ("bob", "carol"):
            for scope in SCOPES:
                # The session token is for Ada's session, as a careless admin could make it.
                bound = session_id if scope == "session" else None
                await hub.token(f"{user} {scope}", scope, owner=user, session_id=bound)
        yield Adas(hub, session_id, window.id, ada)


async def token_of(adas: Adas, user: str, scope: Scope) -> str:
    name = f"{user} {scope} for a test"
    await adas.hub.hub.tokens.revoke(name)
    bound = adas.session_id if scope == "session" else None
    return await adas.hub.token(name, scope, owner=user, session_id=bound)


async def test_every_route_is_in_the_table() -> None:
    async with Hub(HubSettings(admin_token="a")) as hub:
        routes = {
            (method, getattr(route, "path", ""))
            for route in hub._api.app.routes
            for method in getattr(route, "methods", None) or ("?",)
            if method != "HEAD"
        }
        assert any(isinstance(route, APIRoute) for route in hub._api.app.routes)
    assert routes == set(ROUTES), "add a new route to tests/hub/accounts/route_table.py"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("scope", SCOPES)
async def test_no_route_lets_a_user_see_or_change_resources_of_another_user(
    adas: Adas, scope: Scope
) -> None:
    token = await token_of(adas, "bob", scope)
    problems = []
    async with SessionsClient(adas.hub.url, token=token) as bob:
        for (method, path), rule in ROUTES.items():
            if rule.kind == "open" or (rule.kind == "creates" and scope in ("member", "agent")):
                continue
            if path == "/api/sign-in" and scope not in ("member", "agent"):
                assert (await adas.ask(bob, method, path, rule))[0] == 403
                continue
            status, answer = await adas.ask(bob, method, path, rule)
            may_ask = rule.kind == "own" or (rule.kind == "person" and scope == "member")
            is_fine = (
                not any(mark in str(answer) for mark in adas.marks())
                if may_ask
                else status in REFUSED or (path.startswith("/api/approvals") and status == 409)
            )
            if (method, path) == ("GET", "/api/tokens") and status == 200:
                is_fine = {each["owner"] for each in answer} == {"bob"}
            if path == "/api/vscode/register":  # the nonce names the window's own socket
                is_fine = status in (400, 403)
            if not is_fine:
                problems.append((method, path, status, answer))
    assert problems == []
    await ensure_untouched(adas)


async def ensure_untouched(adas: Adas) -> None:
    async with SessionsClient(adas.hub.url, token=adas.token) as ada:
        session = await ada.show(adas.session_id)
        assert session["state"] == "ready"
        assert await ada.must("GET", f"/api/sessions/{adas.session_id}/shares") == []
        windows = await ada.must("GET", "/api/vscode/instances")
        assert [each["status"] for each in windows] == ["healthy"]
        tokens = await ada.must("GET", "/api/tokens")
        assert {each["name"] for each in tokens} >= {"adas agent", "adas member", "adas window"}


@pytest.mark.asyncio(loop_scope="module")
async def test_without_a_token_every_route_is_refused(adas: Adas) -> None:
    async with SessionsClient(adas.hub.url, token="") as nobody:
        for (method, path), rule in ROUTES.items():
            status, answer = await adas.ask(nobody, method, path, rule)
            expected = (200, 403) if rule.kind == "open" else (401,)
            assert status in expected, (method, path, answer)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("scope", SCOPES)
async def test_no_proxied_path_or_mount_leads_into_the_session_of_another_user(
    adas: Adas, scope: Scope
) -> None:
    one = adas.session_id
    targets = (
        ("GET", f"/vscode/{one}/"),
        ("GET", f"/apps/{one}-0/"),
        ("GET", f"/sandbox/{one}/alive"),
        ("POST", f"/sandbox/{one}/execute_action"),
        ("GET", f"/openhands/v0/{one}/vscode/connection_token"),
        ("POST", f"/openhands/v0/{one}/execute_action"),
        ("GET", f"/openhands/v0/runtime/{one}"),
        ("GET", f"/openhands/v1/{one}/api/bash/bash_events/search"),
        ("GET", f"/e2b/sandboxes/{one}"),
        ("GET", f"/e2b/sandboxes/{one}/metrics"),
        ("POST", f"/e2b/sandboxes/{one}/connect"),
        ("GET", f"/watch/{one}"),
    )
    token = await token_of(adas, "bob", scope)
    async with SessionsClient(adas.hub.url, token=token) as bob:
        for method, target in targets:
            status, answer = await bob.ask(method, target, {} if method == "POST" else None)
            is_refused = status in (*REFUSED, 303)  # a browser's page leads to the sign-in
            assert is_refused or adas.session_id not in str(answer), (method, target, status)
            assert is_refused, (method, target, status, answer)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("access", ["view", "act"])
async def test_a_shared_session_permits_only_what_its_owner_shared(adas: Adas, access: str) -> None:
    one = f"/api/sessions/{adas.session_id}"
    carols = await token_of(adas, "carol", "member")
    order = ("view", "act", "own")
    async with (
        SessionsClient(adas.hub.url, token=carols) as carol,
        SessionsClient(adas.hub.url, token=adas.token) as ada,
    ):
        assert (await carol.ask("GET", one))[0] == 404
        await ada.must("PUT", f"{one}/shares/carol", {"access": access})
        try:
            refused = {
                (method, path): (await adas.ask(carol, method, path, rule))[0]
                for (method, path), rule in ROUTES.items()
                if rule.kind == "session" and order.index(rule.needs) > order.index(access)
            }
            assert set(refused.values()) == {403}, refused
            assert [each["id"] for each in await carol.must("GET", "/api/sessions")] == [
                adas.session_id
            ]
            assert (await carol.show(adas.session_id))["owner"] == "ada"
            run = {"action": "run", "args": {"command": "echo $((6 * 7))"}}
            status, answer = await carol.ask("POST", f"{one}/actions", run)
            assert (status, "42" in str(answer)) == (
                (200, True) if access == "act" else (403, False)
            )
            alive = (await carol.ask("GET", f"/sandbox/{adas.session_id}/alive"))[0]
            assert alive == (200 if access == "act" else 404)
            await carol.ask("GET", f"/sandbox/{adas.session_id}/alive")
            async with SessionsClient(adas.hub.url) as admin:
                rows = await admin.must("GET", "/api/audit?verb=enter")
            entered = [each for each in rows if each["user"] == "carol"]
            visits = [each for each in entered if each["detail"]["what"] == "the action server"]
            assert len(visits) == (1 if access == "act" else 0)
        finally:
            await ada.must("DELETE", f"{one}/shares/carol")
        assert (await carol.ask("GET", one))[0] == 404
        assert (await carol.ask("GET", f"/sandbox/{adas.session_id}/alive"))[0] == 404
    await ensure_untouched(adas)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_viewer_can_only_view_even_if_more_is_shared(adas: Adas) -> None:
    one = f"/api/sessions/{adas.session_id}"
    token = await token_of(adas, "carol", "viewer")
    async with (
        SessionsClient(adas.hub.url, token=token) as carol,
        SessionsClient(adas.hub.url, token=adas.token) as ada,
    ):
        await ada.must("PUT", f"{one}/shares/carol", {"access": "act"})
        try:
            assert (await carol.show(adas.session_id))["id"] == adas.session_id
            for (method, path), rule in ROUTES.items():
                if rule.kind == "session" and rule.needs != "view":
                    status, answer = await adas.ask(carol, method, path, rule)
                    assert status == 403, (method, path, answer)
            assert (await carol.ask("GET", f"/sandbox/{adas.session_id}/alive"))[0] == 404
        finally:
            await ada.must("DELETE", f"{one}/shares/carol")


@pytest.mark.asyncio(loop_scope="module")
async def test_the_event_stream_of_a_session_ends_when_sharing_ends(adas: Adas) -> None:
    one = f"/api/sessions/{adas.session_id}"
    token = await token_of(adas, "carol", "member")
    async with (
        SessionsClient(adas.hub.url, token=token) as carol,
        SessionsClient(adas.hub.url, token=adas.token) as ada,
    ):
        await ada.must("PUT", f"{one}/shares/carol", {"access": "view"})
        names: list[str] = []
        async with carol.stream("GET", f"{one}/events") as reply:
            chunks = reply.chunks()
            names += [each.name for each in EventReader().feed(await anext(chunks))]
            await ada.must("DELETE", f"{one}/shares/carol")
            await ada.run(adas.session_id, "true")  # which is an event
            late = [each.name async for chunk in chunks for each in EventReader().feed(chunk)]
        assert "state" in names
        assert "action" not in late


@pytest.mark.asyncio(loop_scope="module")
async def test_access_that_ends_while_a_session_resumes_is_not_used(
    adas: Adas, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions, one = adas.hub.hub.sessions, f"/api/sessions/{adas.session_id}"
    owner = Identity(name="ada", owner="ada", scope="member")
    token = await token_of(adas, "carol", "member")
    enter = sessions.enter

    async def enter_and_unshare(session_id: SessionId, **keywords: Any) -> Any:
        found = await enter(session_id, **keywords)
        await sessions.sharing.change(owner, session_id, "carol", None)
        return found

    async with (
        SessionsClient(adas.hub.url, token=token) as carol,
        SessionsClient(adas.hub.url, token=adas.token) as ada,
    ):
        run = {"action": "run", "args": {"command": "touch late"}}
        for method, path, body in (
            ("GET", f"/sandbox/{adas.session_id}/alive", None),
            ("POST", f"{one}/actions", run),
        ):
            await ada.must("PUT", f"{one}/shares/carol", {"access": "act"})
            with monkeypatch.context() as patched:
                patched.setattr(sessions, "enter", enter_and_unshare)
                assert (await carol.ask(method, path, body))[0] == 404
