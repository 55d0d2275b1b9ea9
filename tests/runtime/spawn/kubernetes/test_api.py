from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bascule.core.errors import SandboxUnreachable
from bascule.runtime.spawn.kubernetes.api import ApiRefused, KubernetesApi, ResourceKind
from bascule.runtime.spawn.kubernetes.cluster_access import ClusterAccess

from .api_server import PODS, ApiServer, pod


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[KubernetesApi]:
    access = ClusterAccess(server=server.url, namespace="sessions", token="a token")
    async with KubernetesApi(access) as api:
        await api.open()
        yield api


async def test_an_object_is_created_read_listed_and_deleted(
    api: KubernetesApi, server: ApiServer
) -> None:
    await api.create(ResourceKind.PODS, pod("one", 0))
    found = await api.get(ResourceKind.PODS, "one")
    assert found is not None
    assert found["metadata"]["name"] == "one"
    listed = await api.list(ResourceKind.PODS)
    assert [each["metadata"]["name"] for each in listed.items] == ["one"]
    assert listed.version == str(server.version)
    assert await api.delete(ResourceKind.PODS, "one", grace=3)
    method, path, body = server.requests[-1]
    assert (method, path, body["gracePeriodSeconds"]) == ("DELETE", f"{PODS}/one", 3)
    assert await api.get(ResourceKind.PODS, "one") is None
    assert not await api.delete(ResourceKind.PODS, "one")
    assert set(server.tokens) == {"Bearer a token"}


async def test_a_second_object_of_the_same_name_is_refused_with_409(api: KubernetesApi) -> None:
    await api.create(ResourceKind.PODS, pod("one", 0))
    with pytest.raises(ApiRefused, match='"one" already exists') as refused:
        await api.create(ResourceKind.PODS, pod("one", 0))
    assert (refused.value.status, refused.value.reason) == (409, "AlreadyExists")


async def test_a_patch_of_a_changed_object_is_refused_with_409(
    api: KubernetesApi, server: ApiServer
) -> None:
    made = await api.create(ResourceKind.PODS, pod("one", 0))
    version = made["metadata"]["resourceVersion"]
    changes = {"metadata": {"annotations": {"a": "b"}}}
    await api.patch(ResourceKind.PODS, "one", changes, version=version)
    assert server.pods["one"]["metadata"]["annotations"] == {"a": "b"}
    with pytest.raises(ApiRefused, match="modified") as refused:
        await api.patch(ResourceKind.PODS, "one", changes, version=version)
    assert refused.value.status == 409
    await api.patch(ResourceKind.PODS, "one", changes)


async def test_only_the_object_that_was_seen_is_deleted(api: KubernetesApi) -> None:
    await api.create(ResourceKind.PODS, pod("one", 0))
    with pytest.raises(ApiRefused):
        await api.delete(ResourceKind.PODS, "one", uid="another")
    assert await api.get(ResourceKind.PODS, "one") is not None


async def test_the_first_line_of_a_log_and_its_tail_are_read(
    api: KubernetesApi, server: ApiServer
) -> None:
    server.log = b"a first line\nanother\nthe last"
    assert await api.first_log_line("one", timeout=5) == "a first line"
    assert await api.log("one", lines=10) == "a first line\nanother\nthe last"
    server.log = b""
    assert await api.first_log_line("one", timeout=5) == ""
    server.refusals = [(400, {"message": "waiting to start: ContainerCreating"})]
    assert await api.log("one", lines=10) == ""


async def test_an_error_that_is_not_a_status_keeps_its_text(
    api: KubernetesApi, server: ApiServer
) -> None:
    server.refusals = [(403, {"reason": "Forbidden", "message": "exceeded quota: small"})]
    with pytest.raises(ApiRefused, match="exceeded quota"):
        await api.list(ResourceKind.PODS)
    server.refusals = [(302, {})]
    with pytest.raises(ApiRefused, match="HTTP status 302"):
        await api.list(ResourceKind.PODS)


async def test_a_server_that_is_down_is_reported_with_its_address() -> None:
    async with ApiServer() as server:
        url = server.url
    async with KubernetesApi(ClusterAccess(server=url)) as api:
        with pytest.raises(SandboxUnreachable, match="not open"):
            await api.list(ResourceKind.PODS)
        await api.open()
        with pytest.raises(SandboxUnreachable, match=url):
            await api.list(ResourceKind.PODS)


async def test_a_replaced_token_is_read_again(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    access = ClusterAccess(server=server.url, namespace="sessions", token_file=file)
    async with KubernetesApi(access) as api:
        await api.open()
        await api.list(ResourceKind.PODS)
        file.write_text("second\n")
        await api.list(ResourceKind.PODS)
        monkeypatch.setattr(api, "_token_until", 0.0)
        await api.list(ResourceKind.PODS)
    assert server.tokens == ["Bearer first", "Bearer first", "Bearer second"]
