"""Signing in with accounts of a real OpenID provider."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

import jwt
import pytest
import pytest_asyncio

from bascule.core.errors import AccessDenied, HubUnreachable, InvalidSetting, MissingExtra
from bascule.hub import Hub
from bascule.hub.accounts.oidc_client import OidcClient, PendingSignIn
from bascule.hub.accounts.oidc_settings import OidcSettings, groups_in
from bascule.hub.accounts.rows import Account
from bascule.hub.identity import Identity
from bascule.hub.proxy.cookies import HUB_COOKIE
from bascule.link.http import HttpReply
from tests.hub.accounts.oidc import SECRET, Browser, Provider, open_provider
from tests.hub.serving import Client, RunningHub

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

ADA = {"sub": "1", "preferred_username": "Ada", "name": "Ada L", "groups": ["people", "staff"]}
BOSS = {"sub": "2", "preferred_username": "boss", "groups": "bosses"}
COOKIE = HUB_COOKIE.decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub() -> AsyncIterator[RunningHub]:
    running = RunningHub()
    async with open_provider(f"{running.page_url}/sign-in/oidc/callback") as provider:
        settings = OidcSettings(
            issuer=provider.issuer,
            client_id="hub",
            client_secret=SECRET,
            admin_groups=("bosses",),
            member_groups=("staff",),
            viewer_groups=("guests",),
        )
        running.settings = replace(running.settings, oidc=settings)
        running.hub = running._made(running._sock)
        running.provider = provider  # type: ignore[attr-defined]
        async with running:
            yield running


def provider_of(hub: RunningHub) -> Provider:
    found: Provider = hub.provider  # type: ignore[attr-defined]
    return found


async def me(hub: RunningHub, browser: Browser) -> Any:
    """Who the browser's page is; None if it is not signed in."""
    page = await browser.open(f"{hub.page_url}/sessions")
    if page.status_code != 200:
        return None
    found = re.search(r'content="([^"]+)"[^>]*name="bascule-key"', page.text) or re.search(
        r'bascule-key"[^>]*content="([^"]+)"', page.text
    )
    key = found[1] if found else ""
    reply = await browser.open(f"{hub.page_url}/api/me", headers={"X-Bascule-Page": key})
    return reply.json() if reply.status_code == 200 else None


async def audit(hub: RunningHub, verb: str) -> Any:
    async with Client(hub.url) as admin:
        status, rows = await admin.ask("GET", f"/api/audit?verb={verb}")
        assert status == 200
        return rows


async def test_an_account_signs_in_with_its_group_role_and_signs_out_everywhere(
    hub: RunningHub,
) -> None:
    async with Browser(ADA) as browser, Browser(ADA) as elsewhere:
        reply = await browser.sign_in(hub.page_url, "/windows?a=b")
        assert reply.status_code == 200
        assert "url=/windows?a=b" in reply.text
        assert await me(hub, browser) == {
            "name": "ada",
            "owner": "ada",
            "scope": "member",
            "display_name": "Ada L",
        }
        await elsewhere.sign_in(hub.page_url)
        kept = dict(browser.cookies)
        done = await browser.open(f"{hub.page_url}/sign-out", method="POST")
        assert done.status_code == 200
        browser.cookies = {where: dict(jar) for where, jar in kept.items()}
        browser.cookies[hub.page_url.partition("//")[2]] = {
            COOKIE: elsewhere.cookies[hub.page_url.partition("//")[2]][COOKIE]
        }
        assert (await me(hub, browser))["name"] == "ada", "the other sign-in goes on"
    (entry, *_) = await audit(hub, "sign-in")
    assert (entry["who"], entry["user"], entry["detail"]["role"]) == ("ada", "ada", "member")
    assert (await audit(hub, "sign-out"))[0]["user"] == "ada"


async def test_a_copy_of_the_cookie_is_worth_nothing_after_the_sign_out(hub: RunningHub) -> None:
    async with Browser(ADA) as browser:
        await browser.sign_in(hub.page_url)
        (stolen,) = [jar[COOKIE] for jar in browser.cookies.values() if COOKIE in jar]
        await browser.open(f"{hub.page_url}/sign-out", method="POST")
        browser.cookies[hub.page_url.partition("//")[2]] = {COOKIE: stolen}
        assert await me(hub, browser) is None
    async with Client(hub.url) as admin:
        _, rows = await admin.ask("GET", "/api/tokens")
    assert all(not row["name"].startswith("sign-in") for row in rows)


async def test_disabling_a_user_ends_its_sign_ins_and_tokens(hub: RunningHub) -> None:
    eve = {**ADA, "sub": "3", "preferred_username": "eve"}
    async with Browser(eve) as browser, Client(hub.url) as admin:
        await browser.sign_in(hub.page_url)
        assert (await me(hub, browser))["scope"] == "member"
        token = await hub.token("eves agent", "agent", owner="eve")
        _, users = await admin.ask("GET", "/api/users")
        (row,) = [each for each in users if each["name"] == "eve"]
        body = {key: row[key] for key in ("role", "issuer", "subject", "display_name")}
        status, _ = await admin.ask("PUT", "/api/users/eve", {**body, "disabled": True})
        assert status == 200
        assert await me(hub, browser) is None
        async with Client(hub.url, token=token) as agent:
            assert (await agent.ask("GET", "/api/me"))[0] == 401
        refused = await browser.sign_in(hub.page_url)
        assert refused.status_code == 403
        assert "disabled" in refused.text


async def test_a_group_change_ends_access_that_is_no_longer_permitted(hub: RunningHub) -> None:
    zoe = {"sub": "4", "preferred_username": "zoe", "groups": ["bosses"]}
    async with Browser(zoe) as before, Browser({**zoe, "groups": ["guests"]}) as after:
        await before.sign_in(hub.page_url)
        assert (await me(hub, before))["scope"] == "admin"
        token = await hub.token("zoes agent", "agent", owner="zoe")
        await after.sign_in(hub.page_url)
        assert (await me(hub, after))["scope"] == "viewer"
        assert await me(hub, before) is None
        async with Client(hub.url, token=token) as agent:
            assert (await agent.ask("GET", "/api/me"))[0] == 401


@pytest.mark.parametrize("groups", [None, [], ["others"], 7, {"staff": True}, [["staff"]], [None]])
async def test_an_account_without_a_permitted_group_is_rejected(
    hub: RunningHub, groups: object
) -> None:
    async with Browser({"sub": "9", "preferred_username": "mallory", "groups": groups}) as browser:
        reply = await browser.sign_in(hub.page_url)
        assert reply.status_code == 403
        assert "&#x27;mallory&#x27; is in no group" in reply.text
        assert not any(COOKIE in jar for jar in browser.cookies.values())
    assert "mallory" in (await audit(hub, "sign-in.refused"))[0]["detail"]["reason"]


@pytest.mark.parametrize(
    "name",
    ["admin", "window", "../x y", "", "A" * 300, "admin\n", "..", ".", "x²", "\u0430dmin"],
)
async def test_no_provider_username_takes_over_another_owners_resources(
    hub: RunningHub, name: str
) -> None:
    await hub.hub.tokens.revoke("of an owner")
    await hub.token("of an owner", "agent", owner="window")
    account = {"sub": f"n-{name!r}"[:60], "preferred_username": name, "groups": ["staff"]}
    async with Browser(account) as browser:
        assert (await browser.sign_in(hub.page_url)).status_code == 200
        owner = (await me(hub, browser))["owner"]
    assert owner not in ("admin", "window", "ada")
    assert re.fullmatch(r"[a-z0-9.@+_-]{1,60}", owner)
    assert owner.strip(".") == owner
    async with Client(hub.url) as admin:
        status, _ = await admin.ask(
            "PUT", f"/api/users/{quote(owner, safe='')}", {"role": "viewer"}
        )
        assert status == 200


async def test_a_wrong_or_foreign_state_is_refused(hub: RunningHub) -> None:
    async with Browser(ADA) as browser, Browser(ADA) as victim:
        url = await browser.callback_url(hub.page_url)
        wrong = re.sub(r"state=[^&]+", "state=wrong", url)
        for tried in (wrong, re.sub(r"&?state=[^&]+", "", url), f"{url}&state=twice"):
            async with Browser() as other:
                other.cookies = {where: dict(jar) for where, jar in browser.cookies.items()}
                assert (await other.open(tried)).status_code == 403, tried
        # Somebody else's browser, with and without a sign-in of its own under way (login CSRF).
        assert (await victim.open(url)).status_code == 403
        await victim.callback_url(hub.page_url)
        assert (await victim.open(url)).status_code == 403
        assert not any(COOKIE in jar for jar in victim.cookies.values())


async def test_a_code_works_once_and_not_after_it_expired(hub: RunningHub) -> None:
    async with Browser(ADA) as browser:
        url = await browser.callback_url(hub.page_url)
        cookies = {where: dict(jar) for where, jar in browser.cookies.items()}
        assert (await browser.open(url)).status_code == 200
        assert (await browser.open(url)).status_code == 403, "the browser has forgotten its state"
        browser.cookies = cookies
        replayed = await browser.open(url)
        assert (replayed.status_code, "invalid_grant" in replayed.text) == (403, True)
    async with Browser(ADA) as browser:
        url = await browser.callback_url(hub.page_url)
        code = re.search(r"code=([^&]+)", url)
        assert code is not None
        await provider_of(hub).expire(code[1])
        assert (await browser.open(url)).status_code == 403


async def test_a_code_of_another_sign_in_is_refused(hub: RunningHub) -> None:
    """PKCE: an attacker's code in the victim's browser, and the other way round."""
    async with Browser(ADA) as victim, Browser(BOSS) as attacker:
        victims = await victim.callback_url(hub.page_url)
        attackers = await attacker.callback_url(hub.page_url)
        code = re.search(r"code=([^&]+)", attackers)
        assert code is not None
        reply = await victim.open(re.sub(r"code=[^&]+", f"code={code[1]}", victims))
        assert (reply.status_code, "invalid_grant" in reply.text) == (403, True)


@pytest.mark.parametrize(
    "next_path",
    [
        "//evil.example",
        "https://evil.example/",
        "/\\evil.example",
        "javascript:alert(1)",
        "/a\nb",
        "/%2e%2e//evil",
        "/" + "x" * 5000,
        "evil",
        "/sign-in/../x",
    ],
)
async def test_a_sign_in_leads_only_to_pages_of_the_hub(hub: RunningHub, next_path: str) -> None:
    async with Browser(ADA) as browser:
        reply = await browser.sign_in(hub.page_url, next_path)
        assert 'content="0;url=/"' in reply.text


async def test_a_sign_in_replaces_the_cookie_that_the_browser_had(hub: RunningHub) -> None:
    """Session fixation: a cookie that an attacker planted is not the victim's afterwards."""
    async with Browser(BOSS) as attacker, Browser(ADA) as victim:
        await attacker.sign_in(hub.page_url)
        where = hub.page_url.partition("//")[2]
        planted = attacker.cookies[where][COOKIE]
        victim.cookies[where] = {COOKIE: planted}
        await victim.sign_in(hub.page_url)
        assert victim.cookies[where][COOKIE] != planted
        assert (await me(hub, victim))["owner"] == "ada"
        assert (await me(hub, attacker))["owner"] == "boss"


async def test_id_tokens_are_checked_completely(hub: RunningHub) -> None:
    provider, settings = provider_of(hub), hub.settings.oidc
    assert settings is not None
    client = OidcClient(settings)
    now = int(time.time())
    good: dict[str, Any] = {"sub": "1", "aud": "hub", "nonce": "n", "iat": now, "exp": now + 60}
    assert (await client.verified(await provider.mint(**good), nonce="n"))["sub"] == "1"
    bad: list[dict[str, Any]] = [
        {"nonce": "other"},
        {"nonce": None},
        {"nonce": ["n"]},
        {"aud": "another"},
        {"aud": ["hub", "another"]},
        {"aud": ["hub", "another"], "azp": "another"},
        {"aud": {"hub": 1}},
        {"iss": "http://127.0.0.1:1"},
        {"iss": 7},
        {"exp": now - 3600},
        {"exp": "soon"},
        {"iat": now + 3600},
        {"nbf": now + 3600},
        {"sub": 5},
    ]
    for changes in bad:
        token = await provider.mint(**{**good, **changes})
        with pytest.raises(AccessDenied):
            await client.verified(token, nonce="n")
    for missing in ("sub", "aud", "nonce", "iat", "exp"):
        token = await provider.mint(**{name: good[name] for name in good if name != missing})
        with pytest.raises(AccessDenied):
            await client.verified(token, nonce="n")
    with pytest.raises(AccessDenied, match="does not publish"):
        await client.verified(await provider.mint(kid="two", **good), nonce="n")
    claims = {**good, "iss": provider.issuer}
    own = jwt.encode(claims, "s" * 32, algorithm="HS256", headers={"kid": "one"})
    unsigned = jwt.encode(claims, "", algorithm="none", headers={"kid": "one"})
    malformed: list[Any] = [
        own,
        unsigned,
        "",
        "a.b",
        "a.b.c",
        "é.é.é",
        "." * 100,
        "x" * 100_000,
        None,
        7,
        {},
    ]
    for token in malformed:
        with pytest.raises(AccessDenied):
            await client.verified(token, nonce="n")


async def test_a_provider_outage_affects_only_account_sign_ins() -> None:
    running = RunningHub()
    async with open_provider(f"{running.page_url}/sign-in/oidc/callback") as provider:
        settings = OidcSettings(
            issuer=provider.issuer, client_id="hub", client_secret=SECRET, default_role="member"
        )
        running.settings = replace(running.settings, oidc=settings)
        running.hub = running._made(running._sock)
        async with running, Browser(ADA) as browser:
            url = await browser.callback_url(running.page_url)
            await provider.stop()
            reply = await browser.open(url)
            assert (reply.status_code, "does not answer" in reply.text) == (503, True)
            form = await browser.open(f"{running.page_url}/sign-in")
            assert (form.status_code, "Sign in with your account" in form.text) == (200, True)
            async with Client(running.url, token=running.agent) as agent:
                assert (await agent.ask("GET", "/api/me"))[0] == 200
        with pytest.raises(HubUnreachable, match="does not answer"):
            await OidcClient(settings).authorization_url(PendingSignIn.new("http://x/", "/"))


async def test_without_a_provider_there_is_no_sign_in_with_accounts() -> None:
    async with RunningHub() as plain, Browser() as browser:
        for path in ("/sign-in/oidc", "/sign-in/oidc/callback?code=a&state=b"):
            assert (await browser.open(plain.page_url + path)).status_code == 404
        assert "your account" not in (await browser.open(f"{plain.page_url}/sign-in")).text


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"issuer": "http://id.example"}, "https://"),
        ({"issuer": ""}, "https://"),
        ({"client_id": ""}, "oidc_client_id"),
        ({"default_role": "none"}, "nobody could sign in"),
        ({"scopes": ("profile",)}, "`openid`"),
    ],
)
async def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], told: str) -> None:
    good: dict[str, Any] = {"issuer": "https://id.example", "client_id": "hub"}
    with pytest.raises(InvalidSetting, match=told):
        OidcSettings(**{**good, "default_role": "member", **changes})


async def test_groups_are_found_in_claims_of_odd_types() -> None:
    assert groups_in({"groups": "one"}, "groups") == {"one"}
    assert groups_in({"groups": ["a", 1, None, ["b"], "c"]}, "groups") == {"a", "c"}
    assert groups_in({"realm_access": {"roles": ["a"]}}, "realm_access.roles") == {"a"}
    assert groups_in({"https://x.example/groups": ["a"]}, "https://x.example/groups") == {"a"}
    for odd in (None, 7, True, {"a": 1}, {"groups": "a"}):
        assert groups_in({"groups": odd, "a": odd}, "groups") == frozenset()
        assert groups_in({"a": odd}, "a.b.c") == frozenset()


async def test_without_the_extra_the_hub_says_how_to_install_it(
    hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "bascule.core.extras.find_spec", lambda name: None if name == "jwt" else find_spec(name)
    )
    with pytest.raises(MissingExtra, match="oidc"):
        async with Hub(replace(hub.settings, port=0)):
            pass


async def test_a_pairing_code_gives_no_token_after_its_user_was_disabled(hub: RunningHub) -> None:
    async with Client(hub.url) as admin:
        await admin.ask("PUT", "/api/users/fay", {"role": "member"})
        token = await hub.token("fays member", "member", owner="fay")
        async with Client(hub.url, token=token) as fay:
            _, code = await fay.ask("POST", "/api/vscode/pair")
        await admin.ask("PUT", "/api/users/fay", {"role": "member", "disabled": True})
        assert (await admin.ask("POST", f"/api/vscode/pair/{code['code']}"))[0] == 403


def twin(subject: str) -> Account:
    return Account(
        issuer="https://id.example",
        subject=subject,
        name="twin",
        display_name="",
        role="member",
        new_role="member",
    )


async def test_two_accounts_with_one_name_stay_apart_if_they_sign_in_at_once(
    hub: RunningHub,
) -> None:
    users = hub.hub.users
    rows = await asyncio.gather(*(users.signed_in(twin(each)) for each in "ab"))

    assert {row.name for row in rows} == {"twin", "twin-2"}
    found = [await users.find(row.name) for row in rows]
    assert [row and row.subject for row in found] == ["a", "b"]


async def test_a_sign_in_at_the_same_time_does_not_enable_a_disabled_user(hub: RunningHub) -> None:
    users = hub.hub.users
    row = await users.signed_in(twin("c"))
    admin = Identity(name="admin", owner="admin", scope="admin")
    await asyncio.gather(
        users.signed_in(twin("c")),
        users.put(admin, replace(row, is_disabled=True)),
        return_exceptions=True,
    )

    found = await users.find(row.name)
    assert found is not None
    assert found.is_disabled


async def test_refused_sign_ins_cannot_fill_the_database() -> None:
    async with RunningHub() as plain, Browser() as browser:
        for _ in range(80):
            reply = await browser.open(
                f"{plain.page_url}/sign-in", method="POST", data={"token": "x"}
            )
            assert reply.status_code == 401
        assert len(await audit(plain, "sign-in.refused")) == 60


async def test_a_callback_with_many_parameters_is_refused(hub: RunningHub) -> None:
    async with Browser() as browser:
        url = f"{hub.page_url}/sign-in/oidc/callback?" + "&".join(["a=b"] * 21)
        assert (await browser.open(url)).status_code == 403


async def test_keys_that_cannot_be_read_leave_the_known_ones(
    hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, settings = provider_of(hub), hub.settings.oidc
    assert settings is not None
    times = iter(range(0, 10_000, 100))  # so that the keys may be read again each time
    client, now = OidcClient(settings, clock=lambda: next(times)), int(time.time())
    good: dict[str, Any] = {"sub": "1", "aud": "hub", "nonce": "n", "iat": now, "exp": now + 60}
    token, unknown = await provider.mint(**good), await provider.mint(kid="two", **good)
    await client.verified(token, nonce="n")

    async def fail(*_: Any, **__: Any) -> HttpReply:
        return HttpReply(503, {}, b"")

    monkeypatch.setattr(client, "_request", fail)
    with pytest.raises(HubUnreachable, match="503"):
        await client.verified(unknown, nonce="n")
    assert (await client.verified(token, nonce="n"))["sub"] == "1"


async def test_a_failed_discovery_is_not_repeated_by_everybody_who_begins_a_sign_in(
    hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = hub.settings.oidc
    assert settings is not None
    now, requests = 0.0, 0
    client = OidcClient(settings, clock=lambda: now)
    request = client._request

    async def fail(*_: Any, **__: Any) -> HttpReply:
        nonlocal requests
        requests += 1
        await asyncio.sleep(0)
        raise HubUnreachable("The OpenID provider does not answer")

    monkeypatch.setattr(client, "_request", fail)
    begun = [client.authorization_url(PendingSignIn.new("http://x/", "/")) for _ in range(50)]
    failures = await asyncio.gather(*begun, return_exceptions=True)
    assert {str(each) for each in failures} == {"The OpenID provider does not answer"}
    assert requests == 1
    now += 6
    monkeypatch.setattr(client, "_request", request)
    assert await client.authorization_url(PendingSignIn.new("http://x/", "/"))


async def test_a_key_that_the_provider_withdraws_is_not_accepted_for_ever(
    hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, settings = provider_of(hub), hub.settings.oidc
    assert settings is not None
    passed, now = 0.0, int(time.time())
    client = OidcClient(settings, clock=lambda: passed)
    good: dict[str, Any] = {"sub": "1", "aud": "hub", "nonce": "n", "iat": now, "exp": now + 60}
    token = await provider.mint(**good)
    await client.verified(token, nonce="n")
    request = client._request

    async def without_keys(method: str, url: str, **keywords: Any) -> HttpReply:
        reply = await request(method, url, **keywords)
        return HttpReply(200, {}, b'{"keys": []}') if b'"keys"' in reply.body else reply

    monkeypatch.setattr(client, "_request", without_keys)
    assert (await client.verified(token, nonce="n"))["sub"] == "1"
    passed += 3601
    with pytest.raises(AccessDenied, match="does not publish"):
        await client.verified(token, nonce="n")
