"""Access that is withdrawn ends with the next request, also for a client that the proxy knows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.hub.serving import ADMIN

from .targets import OTHER, SESSION, VSCODE, ProxyHub, Raw, request
from .test_session_sign_in import OWN, enter, sign_in

TARGET = f"{VSCODE.path}/x"
NAME = "mine"

Proof = Callable[[ProxyHub, Raw, str], Awaitable[bytes]]
"""Makes a request to `TARGET` that is admitted by the token."""


async def by_token(_hub: ProxyHub, _raw: Raw, token: str) -> bytes:
    return request(TARGET, token=token)


async def by_cookie(hub: ProxyHub, raw: Raw, token: str) -> bytes:
    _, cookie = await sign_in(hub, raw, token)
    own, _ = await enter(hub, raw, cookie)
    return request(TARGET, f"Cookie: {own.partition(';')[0]}", host=OWN)


async def revoke(hub: ProxyHub) -> None:
    async with hub.raw() as raw:
        asked = request(f"/api/tokens/{NAME}", method="DELETE", token=ADMIN)
        assert (await raw.ask(asked))[0] == 200


async def end_session(hub: ProxyHub) -> None:
    hub.routes.remove(VSCODE)


async def change_owner(hub: ProxyHub) -> None:
    hub.open(VSCODE, await hub.routes.target(VSCODE, is_visit=False), owner="somebody else")


@pytest.mark.parametrize("proof", [by_token, by_cookie])
@pytest.mark.parametrize(
    ("withdraw", "status"), [(revoke, 401), (end_session, 404), (change_owner, 404)]
)
async def test_a_known_client_is_refused_once_its_access_is_withdrawn(
    hub: ProxyHub, proof: Proof, withdraw: Callable[[ProxyHub], Awaitable[None]], status: int
) -> None:
    async with hub.echo() as echo, hub.raw() as raw:
        asked = await proof(hub, raw, await hub.token(NAME, "agent", owner="admin"))
        for _ in range(3):
            assert (await raw.ask(asked))[0] == 200
        carried = echo.requests

        await withdraw(hub)

        assert (await raw.ask(asked))[0] == status
        assert echo.requests == carried


async def test_the_cookie_of_a_session_is_refused_once_its_sign_in_is_over(hub: ProxyHub) -> None:
    async with hub.echo(), hub.raw() as raw:
        _, cookie = await sign_in(hub, raw, ADMIN)
        own, _ = await enter(hub, raw, cookie)
        asked = request(TARGET, f"Cookie: {own.partition(';')[0]}", host=OWN)
        assert (await raw.ask(asked))[0] == 200

        async with hub.raw() as other:
            leave = (f"Cookie: {cookie}", f"Origin: http://{hub.page}", "Content-Length: 0")
            asked_to_leave = request("/sign-out", *leave, method="POST", host=hub.page)
            assert (await other.ask(asked_to_leave))[0] in (200, 303)

        assert (await raw.ask(asked))[0] == 401


async def test_the_cookie_of_a_session_known_here_opens_no_other_session(hub: ProxyHub) -> None:
    other = type(VSCODE)("vscode", OTHER)
    async with hub.echo(), hub.echo(other) as stranger, hub.raw() as raw:
        asked = await by_cookie(hub, raw, ADMIN)
        assert (await raw.ask(asked))[0] == 200

        moved = asked.replace(SESSION.encode(), OTHER.encode())  # host, path and cookie's name

        assert (await raw.ask(moved))[0] == 401
        assert stranger.requests == 0
