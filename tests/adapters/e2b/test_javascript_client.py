"""E2B's own clients for JavaScript, unmodified, with a sandbox of a hub."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from bascule.adapters.e2b import E2BMount
from tests.hub.sessions.serving import SessionsClient, open_session_hub

from .running import clients_directory, run_client
from .tls_front import make_certificate, tls_front

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DOMAIN = "e2b.example"


async def test_the_javascript_clients_use_all_parts_of_a_sandbox() -> None:
    async with open_session_hub(mounts=(E2BMount,)) as hub:
        assert await run_client(hub, "use_javascript.mjs") == "passed\n"


async def test_the_javascript_clients_find_the_hub_by_a_wildcard_name(tmp_path: Path) -> None:
    clients_directory()
    certificate, key = await asyncio.to_thread(make_certificate, tmp_path, DOMAIN)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    domain = f"{DOMAIN}:{listening.getsockname()[1]}"
    async with open_session_hub(mounts=(E2BMount,), e2b_domain=domain) as hub:
        hub_port = urlsplit(hub.url).port
        assert hub_port is not None
        async with tls_front(certificate, key, hub_port, listening=listening):
            printed = await run_client(
                hub,
                "use_javascript.mjs",
                E2B_API_URL="",
                E2B_SANDBOX_URL="",
                E2B_DOMAIN=domain,
                NODE_EXTRA_CA_CERTS=str(certificate),
                NODE_OPTIONS=f"--import={Path(__file__).parent / 'clients/resolve_loopback.mjs'}",
            )
    assert printed == "passed\n"


async def test_a_request_to_the_name_of_an_app_leads_to_the_app() -> None:
    settings = {"mounts": (E2BMount,), "e2b_domain": DOMAIN}
    async with (
        open_session_hub(**settings) as hub,
        SessionsClient(hub.url, token=hub.agent) as agent,
        httpx.AsyncClient(base_url=hub.url, timeout=120) as http,
    ):
        session = await agent.ready()
        app = "python3 -m http.server --bind 127.0.0.1 0 >log 2>&1 &"
        await agent.run(session, app)
        while not (ports := await agent.must("GET", f"/api/sessions/{session}/ports")):
            await asyncio.sleep(0.05)
        port = ports[0]["port"]
        headers = {"Host": f"{port}-{session}.{DOMAIN}", "X-API-KEY": hub.agent}
        found = await http.get("/a/b?c=1", headers=headers)
        assert found.status_code == 307
        location = found.headers["location"]
        assert location == f"{hub.url}/apps/{session}-{ports[0]['n']}/a/b?c=1"
        headers["Host"] = f"9-{session}.{DOMAIN}"
        closed = await http.get("/", headers=headers)
        assert (closed.status_code, closed.json()["message"]) == (502, "The port is not open: 9")
        for host, status in (
            (f"{port}-{session}.{DOMAIN}", 401),
            (f"api.{DOMAIN}", 401),
            (f"other.{DOMAIN}", 403),
            (f"99999x-{session}.{DOMAIN}", 403),
            (f"{port}-{session}.elsewhere.example", 403),
        ):
            refused = await http.get("/v2/sandboxes", headers={"Host": host})
            assert refused.status_code == status, host
