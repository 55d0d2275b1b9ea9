"""Pods whose gateway announces no certificate, at a small API server."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bascule.core.errors import SandboxStartFailed
from bascule.core.sessions import Egress, SandboxPlan, SessionId, new_session_id
from bascule.runtime.spawn.kubernetes._gateway_main import ANNOUNCEMENT
from bascule.runtime.spawn.kubernetes.cluster_access import ClusterAccess
from bascule.runtime.spawn.kubernetes.key_pairs import new_key_pair
from bascule.runtime.spawn.kubernetes.pods import POD_CERTIFICATE, SESSION, pod_name
from bascule.runtime.spawn.kubernetes.settings import KubernetesSettings
from bascule.runtime.spawn.kubernetes.spawner import KubernetesSpawner

from .api_server import ApiServer, WatchAnswer, event, pod

WRONG = ("junk", "é", base64.b64encode(b"no certificate").decode(), "")


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        yield server


@asynccontextmanager
async def spawner_of(server: ApiServer, place: Path) -> AsyncIterator[KubernetesSpawner]:
    settings = KubernetesSettings(
        sessions_dir=place / "sessions",
        run_dir=place / "run",
        key_file=place / "key.pem",
        start_timeout=60.0,
    )
    spawner = KubernetesSpawner(settings, ClusterAccess(server=server.url, namespace="sessions"))
    await spawner.open()
    try:
        yield spawner
    finally:
        await spawner.aclose()


def running(session_id: SessionId, certificate: str = "") -> dict[str, Any]:
    made = pod(pod_name(session_id), 1, **{SESSION: session_id})
    made["metadata"]["annotations"] = {POD_CERTIFICATE: certificate}
    return {**made, "status": {"phase": "Running", "podIP": "127.0.0.1"}}


async def test_a_hub_starts_beside_a_pod_with_a_wrong_certificate(
    server: ApiServer, tmp_path: Path
) -> None:
    right = (await asyncio.to_thread(new_key_pair, "pod")).line
    for certificate in (*WRONG[:3], right):
        found = running(new_session_id(), certificate)
        server.pods[found["metadata"]["name"]] = found
    async with spawner_of(server, tmp_path) as spawner:
        assert len(await spawner.running()) == 4
        assert len(spawner._links) == 1
        assert not spawner._locks  # none is kept for a session that nothing happens to


@pytest.mark.parametrize("certificate", WRONG)
async def test_a_wrong_announcement_names_the_image(
    certificate: str, server: ApiServer, tmp_path: Path
) -> None:
    session_id = new_session_id()
    made = running(session_id)

    async def runs(answer: WatchAnswer) -> None:
        await server.created.wait()
        server.pods[made["metadata"]["name"]] = made
        await answer.send(event("ADDED", made))
        await server.deleted.wait()
        await answer.send(event("DELETED", made))

    server.watchers = [runs]
    server.log = f"{ANNOUNCEMENT}{certificate}\n".encode()
    directory = tmp_path / "sessions" / session_id
    plan = SandboxPlan(
        session_id=session_id,
        directory=directory,
        run_dir=tmp_path / "run" / session_id,
        key="key",
        egress=Egress(mode="open"),
    )
    async with spawner_of(server, tmp_path) as spawner:
        await asyncio.to_thread(directory.mkdir, parents=True)
        with pytest.raises(SandboxStartFailed, match="did not start the gateway"):
            await spawner.start(plan)
