from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from bascule.sandbox.vscode.sign_in_redirect import SignInRedirect


@pytest.fixture
async def sign_in() -> AsyncIterator[SignInRedirect]:
    async with SignInRedirect("http://127.0.0.1:1", cookie="session", value="secret") as sign_in:
        await sign_in.start()
        yield sign_in


async def get(address: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.get(address)


async def test_the_sign_in_url_sets_the_cookie_and_redirects_to_the_folder(
    sign_in: SignInRedirect,
) -> None:
    answer = await get(sign_in.address(Path("/a b/ü")))

    assert answer.status_code == 303
    assert answer.headers["location"] == "http://127.0.0.1:1/?folder=/a%20b/%C3%BC"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("session=secret;")
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("change", ["&key=", "&key=wrong", ""])
async def test_without_the_key_there_is_no_cookie(sign_in: SignInRedirect, change: str) -> None:
    address = sign_in.address(Path("/a")).partition("&key=")[0] + change

    answer = await get(address)

    assert answer.status_code == 403
    assert "`bascule up` (or `make run`) prints it" in answer.text
    assert "set-cookie" not in answer.headers
