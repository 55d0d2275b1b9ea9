"""Runs the checks of a deployment in order, and skips checks that depend on a failed check."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final
from urllib.parse import urlsplit

from bascule.core.contracts import OnStage
from bascule.core.errors import BasculeError, NoSuchSession
from bascule.link.sessions import HubSession, SessionCalls

from .browser import NoBrowser, draw
from .checks import Check, CheckFailed, CheckLimited
from .session_checks import SessionPair
from .web import DeploymentClient, is_this_machine, origin_of

_START_TIMEOUT: Final = 180.0
_VSCODE_PAGE: Final = b"vs/code/browser/workbench"
NAMES: Final = (
    "TLS",
    "hub",
    "token",
    "sign-in",
    "sessions",
    "addresses",
    "origins",
    "app",
    "WebSocket",
    "isolation",
    "network",
    "VS Code",
    "clean-up",
)
"""Every check, in order."""

_CheckFunction = Callable[[], Awaitable[str]]


class Examination:
    """Checks the hub at its public `url`. Removes the sessions that it creates.

    If a check fails on which the others depend, the remaining checks are listed as skipped.
    """

    def __init__(self, url: str, token: str, *, on_stage: OnStage) -> None:
        self._front = DeploymentClient(url, token)
        self._token = token
        self._on_stage = on_stage
        self._sessions: list[HubSession] = []

    async def checks(self) -> AsyncGenerator[Check, None]:
        async with self._front, aclosing(self._run_all()) as results:
            try:
                async for check, is_vital in results:
                    yield check
                    if is_vital and check.state == "failed":
                        for name in NAMES[NAMES.index(check.name) + 1 : -1]:
                            found = f"not checked, because {check.name} failed"
                            yield Check(name, "skipped", found)
                        break
            except BaseException:
                await self._clean_up()
                raise
            yield await self._run_check(NAMES[-1], self._clean_up)

    async def _run_all(self) -> AsyncGenerator[tuple[Check, bool], None]:
        front = self._front
        for name, check_function in (
            ("TLS", front.check_tls),
            ("hub", front.check_hub),
            ("token", front.check_token),
        ):
            yield await self._run_check(name, check_function), True
        yield await self._run_check("sign-in", front.check_sign_in), False
        yield await self._run_check("sessions", self._create), True
        yield await self._run_check("addresses", self._check_addresses), False
        yield await self._check_origins(), False
        pair = SessionPair(front, self._token, *self._sessions)
        yield await self._run_check("app", pair.check_app), False
        websocket = await self._run_check("WebSocket", pair.check_websocket)
        yield websocket, False
        yield await self._run_check("isolation", pair.check_isolation), False
        yield await self._run_check("network", pair.check_network), False
        if websocket.state == "failed":
            yield Check("VS Code", "failed", "not checked, because it needs WebSockets"), False
        else:
            yield await self._run_check("VS Code", self._check_vscode), False

    async def _run_check(self, name: str, check_function: _CheckFunction) -> Check:
        self._on_stage(name)
        try:
            return Check(name, "ok", await check_function())
        except CheckLimited as error:
            return Check(name, "limited", error.found, error.advice)
        except CheckFailed as error:
            return Check(name, "failed", error.found, error.advice)
        except NoBrowser as error:
            return Check(name, "limited", f"checked over HTTP only: {error}")
        except BasculeError as error:
            return Check(name, "failed", error.message)

    # With sessions ----------------------------------------------------------------------------

    async def _create(self) -> str:
        tag = secrets.token_hex(4)
        loop = asyncio.get_running_loop()
        started = loop.time()
        async with SessionCalls(self._front.url, self._token) as calls:
            for part in ("a", "b"):
                body = {"name": f"doctor-{tag}-{part}", "egress": {"mode": "off"}}
                self._sessions.append(await calls.create(body))
            self._sessions = [await self._ready(calls, each) for each in self._sessions]
        return f"two started in {loop.time() - started:.1f} s"

    async def _ready(self, calls: SessionCalls, session: HubSession) -> HubSession:
        def say(stage: str) -> None:
            self._on_stage(f"sessions: {stage}")

        try:
            async with asyncio.timeout(_START_TIMEOUT):
                return await calls.until_ready(session.id, on_stage=say)
        except TimeoutError:
            now = await calls.session(session.id)
            if now.state == "ready":
                raise CheckFailed(
                    "a session is ready, but its events did not arrive: the reverse "
                    "proxy buffers them",
                    "turn its buffering off (`proxy_buffering off`); `bascule nginx` does this",
                ) from None
            raise CheckFailed(
                f"a session is still {now.state} after {_START_TIMEOUT:.0f} s, at the stage: "
                f"{now.stage}",
                "look in `bascule session logs`",
            ) from None

    async def _check_addresses(self) -> str:
        hub_origin = origin_of(self._front.url)
        session_origin = origin_of(self._sessions[0].vscode_url)
        if hub_origin == session_origin:
            return f"sessions are at {session_origin}/vscode/…"
        hint = ""
        if is_this_machine(session_origin):
            hint = " which only works on the hub's own machine,"
        raise CheckFailed(
            f"the hub says that its sessions are at {session_origin},{hint} not at {hub_origin}",
            f'set public_url = "{hub_origin}"',
        )

    async def _check_origins(self) -> Check:
        if not self._front.cookie:
            return Check("origins", "skipped", "not checked, because sign-in failed")
        first, second = (urlsplit(each.vscode_url).path for each in self._sessions)
        return await self._run_check("origins", lambda: self._front.check_origins(first, second))

    async def _check_vscode(self) -> str:
        """Check over HTTP first, because its errors are clearer than those of a browser."""
        path = urlsplit(self._sessions[0].vscode_url).path
        if self._front.cookie:
            reply, url = await self._front.page(path)
            if reply.status != 200 or _VSCODE_PAGE not in reply.body:
                raise CheckFailed(
                    f"{url} answers with HTTP {reply.status} instead of VS Code",
                    "look in `bascule session logs`; if VS Code is not installed on the "
                    "hub's machine, run `bascule install vscode` there"
                    if reply.status >= 500
                    else "the reverse proxy must pass on paths below /vscode/ unchanged",
                )
        return await draw(f"{self._front.url}{path}", self._token)

    async def _clean_up(self) -> str:
        if not self._sessions:
            return "nothing to remove"
        async with SessionCalls(self._front.url, self._token) as calls:
            for each in self._sessions:
                await calls.remove(each.id)
            for each in self._sessions:
                with contextlib.suppress(NoSuchSession):
                    await calls.session(each.id)
                    raise CheckFailed(f"the session {each.id} still exists after its removal")
        return "the two sessions are removed"
