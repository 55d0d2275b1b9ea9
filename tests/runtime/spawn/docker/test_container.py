"""What is asked of the engine for a sandbox, without an engine."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bascule.core.errors import InvalidRequest, InvalidSetting, NotSupported, SandboxStartFailed
from bascule.core.sessions import Egress, SandboxPlan, SessionId, SessionLimits
from bascule.runtime.spawn import routes
from bascule.runtime.spawn.docker import DockerSettings, DockerSpawner
from bascule.runtime.spawn.docker.container import (
    ContainerInfo,
    ContainerSpec,
    HostOwner,
    ensure_can,
    environment_of,
)
from bascule.runtime.spawn.docker.engine import Engine
from bascule.runtime.spawn.docker.foreign_image import ForeignImage

SETTINGS = DockerSettings(sessions_dir=Path("/s"), run_dir=Path("/r"))
PLAN = SandboxPlan(
    session_id=SessionId("abc123abc"),
    directory=Path("/s/abc123abc"),
    run_dir=Path("/r/abc123abc"),
    key="a-key",
    environment={"TOKEN": "secret", "PATH": "/mine"},
)
SPEC = ContainerSpec(SETTINGS, PLAN, HostOwner(1234, 5678))


def mounts(spec: ContainerSpec) -> dict[str, tuple[str, bool]]:
    given = spec.configuration()["HostConfig"]["Mounts"]
    return {
        each["Target"]: (each["Source"], each["ReadOnly"])
        for each in given
        if each["Type"] == "bind"
    }


def test_a_session_sees_its_own_directories_at_fixed_places() -> None:
    assert mounts(SPEC) == {
        "/workspace": ("/s/abc123abc/workspace", False),
        "/home/bascule": ("/s/abc123abc/home", False),
        "/var/lib/bascule": ("/s/abc123abc/state", False),
        "/run/bascule": ("/r/abc123abc", False),
    }


def test_the_container_configuration_has_no_secret_and_no_port() -> None:
    text = json.dumps(SPEC.configuration())
    assert "a-key" not in text
    assert "secret" not in text
    assert "Port" not in text


def test_a_host_folder_replaces_the_workspace() -> None:
    spec = replace(SPEC, plan=replace(PLAN, folder=Path("/home/me/project")))
    assert mounts(spec)["/workspace"] == ("/home/me/project", False)


def test_the_directory_of_the_hub_socket_is_mounted_so_a_new_socket_is_visible() -> None:
    spec = replace(SPEC, plan=replace(PLAN, hub_socket=Path("/h/abc123abc/hub.sock")))
    assert mounts(spec)["/run/hub"] == ("/h/abc123abc", True)
    assert spec.launch({}).hub_socket == "/run/hub/hub.sock"


def test_a_shared_directory_of_the_hub_socket_is_not_mounted() -> None:
    spec = replace(SPEC, plan=replace(PLAN, hub_socket=Path("/h/hub.sock")))
    assert mounts(spec)["/run/hub/hub.sock"] == ("/h/hub.sock", True)
    assert "/h" not in {source for source, _ in mounts(spec).values()}


def test_unset_limits_are_omitted() -> None:
    limits = SessionLimits(memory=None, cpus=None, processes=None)
    host = replace(SPEC, plan=replace(PLAN, limits=limits)).configuration()["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (0, 0, 0)
    assert host["PidsLimit"] is None


def test_a_memory_limit_also_excludes_swap() -> None:
    limits = SessionLimits(memory=1 << 20, cpus=0.5, processes=7)
    host = replace(SPEC, plan=replace(PLAN, limits=limits)).configuration()["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (1 << 20, 1 << 20)
    assert (host["NanoCpus"], host["PidsLimit"]) == (500_000_000, 7)


@pytest.mark.parametrize(
    ("mode", "network"), [("off", "none"), ("proxy", "none"), ("open", "bascule")]
)
def test_only_open_egress_has_a_network(mode: str, network: str) -> None:
    plan = replace(PLAN, egress=Egress(mode=mode))  # type: ignore[arg-type]
    spec = replace(SPEC, plan=plan)
    assert spec.configuration()["HostConfig"]["NetworkMode"] == network
    assert ("/run/egress" in mounts(spec)) is (mode == "proxy")
    assert spec.launch({}).egress_socket == ("/run/egress/proxy.sock" if mode == "proxy" else "")


def test_the_plan_overrides_the_image_environment_except_home() -> None:
    launch = SPEC.launch({"Config": {"Env": ["PATH=/image", "HOME=/root", "NODE=24"]}})
    assert launch.environment["PATH"] == "/mine"
    assert launch.environment["NODE"] == "24"
    assert launch.environment["HOME"] == "/home/bascule"
    assert launch.key == "a-key"


def test_image_labels_give_the_path_of_vs_code() -> None:
    labels = {"org.bascule.vscode": "/v", "org.bascule.vscode-extensions": "/e"}
    launch = SPEC.launch({"Config": {"Labels": labels}})
    assert (launch.vscode, launch.vscode_extensions) == ("/v", "/e")
    assert SPEC.launch({"Config": {"Labels": None}}).vscode == ""


def test_the_container_user_id_has_a_name_in_passwd() -> None:
    with tarfile.open(fileobj=io.BytesIO(SPEC.initial_files())) as tar:
        passwd = tar.extractfile("etc/passwd")
        assert tar.getnames() == ["etc/passwd", "etc/group"]
        assert passwd is not None
        assert b"bascule:x:1234:5678:" in passwd.read()


def test_the_container_has_the_requested_user_name_and_file_layout() -> None:
    asked = replace(PLAN, user="openhands", file_layout="openhands")
    spec = replace(SPEC, plan=asked)
    with tarfile.open(fileobj=io.BytesIO(spec.initial_files())) as tar:
        passwd = tar.extractfile("etc/passwd")
        assert passwd is not None
        assert b"openhands:x:1234:5678:openhands:/home/openhands:" in passwd.read()
        python = tar.getmember("openhands/poetry/openhands-ai-5O4_aCHf-py3.12")
    launch = spec.launch({})

    assert (python.issym(), python.linkname) == (True, "/opt/bascule")
    assert mounts(spec)["/home/openhands"] == ("/s/abc123abc/home", False)
    assert launch.environment["HOME"] == "/home/openhands"
    assert (launch.environment["USER"], launch.file_layout) == ("openhands", "openhands")


def test_the_container_user_is_root_only_in_a_rootless_engine() -> None:
    asked = replace(PLAN, user="root")
    ensure_can(asked, is_rootless=True)
    with pytest.raises(NotSupported, match="run_as_openhands"):
        ensure_can(asked, is_rootless=False)


def test_an_invalid_user_name_is_rejected() -> None:
    with pytest.raises(InvalidRequest, match="valid user name"):
        ensure_can(replace(PLAN, user="x:x:0:0::/:/bin/sh\nx"), is_rootless=False)


def test_root_in_a_rootless_engine_maps_to_the_host_user() -> None:
    configuration = replace(SPEC, is_rootless=True).configuration()
    assert configuration["User"] == "0:0"
    assert configuration["Labels"]["org.bascule.uid"] == "1234"


def test_labels_hold_everything_that_another_spawner_needs() -> None:
    plan = replace(PLAN, egress=Egress(mode="proxy", domains=["a.example"]))
    labels = replace(SPEC, plan=plan).configuration()["Labels"]
    found = ContainerInfo.read("id", labels, "paused")
    assert (found.session_id, found.uid, found.run_dir) == ("abc123abc", 1234, Path("/r/abc123abc"))
    assert found.egress == Egress(mode="proxy", domains=["a.example"])
    assert found.is_running
    assert found.as_running().is_paused


def test_hubs_with_separate_directories_do_not_see_each_others_containers() -> None:
    other = replace(SETTINGS, sessions_dir=Path("/t"))
    assert other.scope != SETTINGS.scope
    assert DockerSettings(sessions_dir=Path("/s"), run_dir=Path("/else")).scope == SETTINGS.scope


def test_an_images_environment_is_read() -> None:
    assert environment_of({"Config": {"Env": ["A=1", "B=x=y"]}}) == {"A": "1", "B": "x=y"}
    assert environment_of({"Config": {"Env": None}}) == {}


def test_a_container_engine_on_another_machine_is_rejected() -> None:
    with pytest.raises(InvalidSetting, match="this machine"):
        DockerSpawner(replace(SETTINGS, engine="tcp://elsewhere:2375"))


async def test_the_helper_with_network_rights_never_runs_in_the_image_of_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours: dict[str, Any] = {"Config": {"Entrypoint": ["/opt/bascule/bin/python"]}}
    images = {"ours": ours}
    requests: list[tuple[str, str, list[str], Any]] = []

    async def image(_engine: Engine, name: str, _on_stage: object) -> Mapping[str, Any]:
        if name not in images:
            raise SandboxStartFailed(f"The image {name} cannot be pulled")
        return images[name]

    async def run(
        _engine: Engine, id: str, image: str, command: list[str], *, mounts: Any = ()
    ) -> str:
        requests.append((id, image, command, mounts))
        return routes.DONE

    monkeypatch.setattr("bascule.runtime.spawn.docker.spawner.ensure_image", image)
    monkeypatch.setattr(Engine, "run_in_network_of", run)
    settings = replace(SETTINGS, image="ours")
    spawner = DockerSpawner(settings)
    plan = replace(PLAN, image="theirs", egress=Egress(mode="open"))
    foreign = ForeignImage(tmp_path)
    for spec in (
        ContainerSpec(settings, plan, HostOwner(1, 1), foreign=foreign),
        ContainerSpec(settings, plan, HostOwner(1, 1)),  # it claims to contain Bascule
        ContainerSpec(settings, replace(plan, image=""), HostOwner(1, 1)),
    ):
        helper = await spawner._network_helper(spec, lambda _: None)
        await spawner._block_private_networks("id", helper)
    assert {(name, image, command[0]) for name, image, command, _ in requests} == {
        ("id", "ours", "/opt/bascule/bin/python")
    }
    assert all(not mounts for *_, mounts in requests)

    images.clear()
    spec = ContainerSpec(settings, plan, HostOwner(1, 1), foreign=foreign)
    with pytest.raises(SandboxStartFailed, match="needs the hub's own image"):
        await spawner._network_helper(spec, lambda _: None)
