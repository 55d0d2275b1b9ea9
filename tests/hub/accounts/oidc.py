"""A real OpenID provider (the npm package oidc-provider), and a browser for its sign-ins."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import httpx
import pytest

from bascule.cli.user_dirs import cache_dir

SOURCES = Path(__file__).parent / "provider"
SECRET = "a secret & more"


def installed() -> Path:
    """The directory with the provider and its packages, installed once into the user's cache."""
    files = ("package.json", "package-lock.json", "provider.mjs")
    digest = hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in files))
    target = cache_dir() / f"test-oidc-provider-{digest.hexdigest()[:16]}"
    target.mkdir(parents=True, exist_ok=True)
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "done").exists():
            for name in files:
                shutil.copy(SOURCES / name, target)
            install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            try:
                subprocess.run(
                    install, cwd=target, check=True, capture_output=True, text=True, timeout=240
                )
            except (OSError, subprocess.SubprocessError) as error:
                reason = str(getattr(error, "stderr", "") or error).strip()[-300:]
                pytest.skip(f"NO OPENID PROVIDER: npm cannot install oidc-provider: {reason}")
            (target / "done").touch()
    return target


@dataclass(frozen=True)
class Provider:
    """A running provider."""

    port: int
    process: asyncio.subprocess.Process

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def mint(self, *, kid: str = "one", **claims: Any) -> str:
        """An ID token with these claims, signed by the provider."""
        async with httpx.AsyncClient() as client:
            query = {"claims": json.dumps(claims), "kid": kid}
            return (await client.get(f"{self.issuer}/mint", params=query)).text

    async def expire(self, code: str) -> None:
        async with httpx.AsyncClient() as client:
            reply = await client.get(f"{self.issuer}/expire", params={"code": code})
            assert reply.status_code in (200, 204)

    async def stop(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def open_provider(redirect_uri: str) -> AsyncIterator[Provider]:
    directory = await asyncio.to_thread(installed)
    process = await asyncio.create_subprocess_exec(
        "node",
        "provider.mjs",
        redirect_uri,
        cwd=directory,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    provider = Provider(port, process)
    try:
        yield provider
    finally:
        await provider.stop()
        process._transport.close()  # type: ignore[attr-defined]


class Browser:
    """Follows redirects and keeps cookies, as a browser on this machine does."""

    def __init__(self, account: dict[str, Any] | None = None) -> None:
        self.account = account or {}
        self.cookies: dict[str, dict[str, str]] = {}
        self._client = httpx.AsyncClient(timeout=60)

    async def __aenter__(self) -> Browser:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def open(self, url: str, *, method: str = "GET", **keywords: Any) -> httpx.Response:
        """The response, without following a redirect."""
        parts = urlsplit(url)
        jar = self.cookies.setdefault(parts.netloc, {})
        headers = {"Host": parts.netloc, "Accept": "text/html", **keywords.pop("headers", {})}
        headers |= {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        if jar:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in jar.items())
        if self.account:
            headers["X-Account"] = json.dumps(self.account)
        target = f"http://127.0.0.1:{parts.port}{parts.path or '/'}"
        target += f"?{parts.query}" if parts.query else ""
        reply = await self._client.request(method, target, headers=headers, **keywords)
        for value in reply.headers.get_list("set-cookie"):
            pair = value.split(";")[0]
            name, _, content = pair.partition("=")
            jar[name] = content
            if not content:
                del jar[name]
        return reply

    async def callback_url(self, hub: str, next_path: str = "/") -> str:
        """Sign in at the provider; returns the URL of the hub to which it redirects."""
        url = f"{hub}/sign-in/oidc?next={quote(next_path, safe='')}"
        for _ in range(12):
            reply = await self.open(url)
            assert reply.status_code in (302, 303), (url, reply.status_code, reply.text)
            url = urljoin(url, reply.headers["location"])
            if url.startswith(f"{hub}/sign-in/oidc/callback"):
                return url
        raise AssertionError("too many redirects")

    async def sign_in(self, hub: str, next_path: str = "/") -> httpx.Response:
        return await self.open(await self.callback_url(hub, next_path))
