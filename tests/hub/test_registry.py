"""Which host speaks for a window."""

from __future__ import annotations

import pytest

from bascule.core.errors import NoSuchWindow, WindowGone, WindowUnhealthy
from bascule.core.windows import Window, WindowId
from bascule.hub.registry import Host, Registry

ID = WindowId("one")
WINDOW = Window(id=ID, name="project")


@pytest.fixture
def registry() -> Registry:
    return Registry()


def add(registry: Registry, host: str) -> Host:
    return registry.register(WINDOW, host, f"socket-{host}")[0]


def die(registry: Registry, host: Host) -> None:
    registry.probe_missed(host)
    registry.probe_missed(host)


def test_the_newest_host_is_the_active_host_of_its_window(registry: Registry) -> None:
    add(registry, "old")
    new = add(registry, "new")
    assert registry.active_host(ID) is new
    assert registry.window(ID).hosts == 2


def test_a_host_is_unhealthy_after_two_missed_probes(registry: Registry) -> None:
    host = add(registry, "host")
    registry.probe_missed(host)
    assert registry.window(ID).status == "healthy"
    registry.probe_missed(host)
    assert registry.window(ID).status == "unhealthy"
    with pytest.raises(WindowUnhealthy):
        registry.active_host(ID)


def test_one_answered_probe_makes_a_host_healthy_again(registry: Registry) -> None:
    host = add(registry, "host")
    die(registry, host)
    registry.probe_answered(host)
    assert registry.active_host(ID) is host


def test_a_healthy_older_host_is_preferred_over_an_unhealthy_newer_one(registry: Registry) -> None:
    old, new = add(registry, "old"), add(registry, "new")
    die(registry, new)
    assert registry.active_host(ID) is old
    assert registry.window(ID).status == "healthy"


def test_a_dead_host_is_superseded_while_another_lives(registry: Registry) -> None:
    old, new = add(registry, "old"), add(registry, "new")
    assert not registry.is_superseded(old)
    die(registry, old)
    assert registry.is_superseded(old)
    assert not registry.is_superseded(new)
    die(registry, new)
    assert not registry.is_superseded(old)


def test_a_window_without_a_socket_is_gone_until_it_comes_back(registry: Registry) -> None:
    host = add(registry, "host")
    assert registry.socket_closed(host.sid) is host
    assert registry.window(ID).status == "gone"
    with pytest.raises(WindowGone) as gone:
        registry.active_host(ID)
    assert gone.value.detail["sent"] is False
    add(registry, "host")
    assert registry.window(ID).status == "healthy"


def test_a_host_that_comes_back_replaces_itself(registry: Registry) -> None:
    before = add(registry, "host")
    after, replaced = registry.register(WINDOW, "host", "another-socket")
    assert list(replaced) == [before]
    assert registry.active_host(ID) is after
    assert registry.socket_closed(before.sid) is None
    assert registry.window(ID).status == "healthy"


def test_a_window_ends_with_its_last_host(registry: Registry) -> None:
    first, second = add(registry, "first"), add(registry, "second")
    registry.forget(first)
    assert registry.window(ID).hosts == 1
    registry.forget(second)
    assert registry.windows() == []
    with pytest.raises(NoSuchWindow):
        registry.active_host(ID)


def test_forgetting_a_host_keeps_its_replacement(registry: Registry) -> None:
    before = add(registry, "host")
    after = add(registry, "host")
    registry.forget(before)
    assert registry.active_host(ID) is after


def test_the_first_registration_is_remembered(registry: Registry) -> None:
    add(registry, "host")
    first = registry.window(ID).registered_at
    add(registry, "host")
    assert registry.window(ID).registered_at == first


def test_a_disconnected_window_needs_a_reload_and_one_that_left_does_not() -> None:
    registry = Registry()
    for sid, was_cut_off in (("left", False), ("cut", True)):
        registry.register(WINDOW, "host", sid)
        registry.socket_closed(sid, was_cut_off=was_cut_off)
        with pytest.raises(WindowGone) as gone:
            registry.active_host(WINDOW.id)
        assert ("reload it" in gone.value.message) is was_cut_off
