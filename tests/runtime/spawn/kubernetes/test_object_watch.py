from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from bascule.core.errors import SandboxUnreachable
from bascule.runtime.spawn.kubernetes.api import KubernetesApi, ResourceKind
from bascule.runtime.spawn.kubernetes.cluster_access import ClusterAccess
from bascule.runtime.spawn.kubernetes.object_watch import ObjectWatch, WatchTimes

from .api_server import ApiServer, WatchAnswer, event, pod, too_old

QUICK = WatchTimes(duration=60, silence=60, first_delay=0.001, max_delay=0.01)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(pods={"old": pod("old", 1)}, version=5) as server:
        yield server


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[KubernetesApi]:
    async with KubernetesApi(ClusterAccess(server=server.url, namespace="sessions")) as api:
        await api.open()
        yield api


def watching(api: KubernetesApi, times: WatchTimes = QUICK) -> ObjectWatch:
    return ObjectWatch(api, ResourceKind.PODS, labels="a=b", times=times)


async def until(watch: ObjectWatch, *names: str) -> None:
    def is_so(objects: Mapping[str, Any]) -> bool | None:
        return True if set(objects) == set(names) else None

    async with asyncio.timeout(30):
        await watch.wait_until(is_so)


async def test_changes_arrive_in_order_after_the_list(
    api: KubernetesApi, server: ApiServer
) -> None:
    go_on = asyncio.Event()

    async def watcher(answer: WatchAnswer) -> None:
        assert answer.version == "5"
        assert answer.query["labelSelector"] == "a=b"
        await answer.send(event("ADDED", pod("new", 6)), event("DELETED", pod("old", 7)))
        await go_on.wait()
        await answer.send(event("MODIFIED", pod("new", 8, changed="yes")))
        await asyncio.Event().wait()

    server.watchers = [watcher]
    async with watching(api) as watch:
        await watch.open()
        await until(watch, "new")
        go_on.set()
        async with asyncio.timeout(30):
            await watch.wait_until(
                lambda objects: objects["new"]["metadata"]["labels"].get("changed")
            )
        assert server.lists == 1


async def test_an_ended_watch_goes_on_from_the_last_version_without_a_list(
    api: KubernetesApi, server: ApiServer
) -> None:
    seen: list[str] = []

    async def first(answer: WatchAnswer) -> None:
        await answer.send(event("ADDED", pod("new", 6)))
        await answer.send(event("BOOKMARK", {"metadata": {"resourceVersion": "9"}}))

    async def second(answer: WatchAnswer) -> None:
        seen.append(answer.version)
        await answer.send(event("ADDED", pod("newer", 10)))
        await asyncio.Event().wait()

    server.watchers = [first, second]
    async with watching(api) as watch:
        await watch.open()
        await until(watch, "old", "new", "newer")
    assert seen == ["9"]
    assert server.lists == 1


@pytest.mark.parametrize("how", ["cut", "half a line", "too old", "not json", "no name"])
async def test_after_a_failure_everything_is_listed_again(
    api: KubernetesApi, server: ApiServer, how: str
) -> None:
    async def fails(answer: WatchAnswer) -> None:
        server.pods = {"listed": pod("listed", 20)}
        server.version = 20
        match how:
            case "cut":
                answer.cut()
            case "half a line":
                await answer.send(event("ADDED", pod("never", 6))[:30])
                answer.cut()
            case "too old":
                await answer.send(too_old())
            case "not json":
                await answer.send(b"not json\n")
            case "no name":
                await answer.send(event("ADDED", {"metadata": {}}))

    server.watchers = [fails]
    async with watching(api) as watch:
        await watch.open()
        await until(watch, "listed")
        await server.until_watched(2)
    assert server.lists == 2


async def test_a_connection_that_falls_silent_counts_as_lost(
    api: KubernetesApi, server: ApiServer
) -> None:
    async def stalls(_: WatchAnswer) -> None:
        server.pods = {"listed": pod("listed", 20)}
        await asyncio.Event().wait()

    server.watchers = [stalls]
    times = WatchTimes(duration=60, silence=0.05, first_delay=0.001, max_delay=0.01)
    async with watching(api, times) as watch:
        await watch.open()
        await until(watch, "listed")


async def test_a_server_that_refuses_for_a_while_is_asked_again(
    api: KubernetesApi, server: ApiServer
) -> None:
    async def fails(answer: WatchAnswer) -> None:
        server.refusals = [(410, {}), (500, {}), (429, {"message": "too many"}), (403, {})]
        server.pods = {"listed": pod("listed", 20)}
        answer.cut()

    server.watchers = [fails]
    async with watching(api) as watch:
        await watch.open()
        await until(watch, "listed")
    assert server.refusals == []


async def test_a_first_list_that_fails_is_an_error_of_the_opening(api: KubernetesApi) -> None:
    async with ApiServer() as gone:
        url = gone.url
    async with KubernetesApi(ClusterAccess(server=url)) as api, watching(api) as watch:
        await api.open()
        with pytest.raises(SandboxUnreachable):
            await watch.open()
