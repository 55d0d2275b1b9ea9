"""What is in deploy/ is what this version takes."""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from bascule.cli.hub_settings import HubFile, load
from bascule.runtime.spawn.kubernetes._gateway_main import PORT
from tests.hub.serving import RunningHub

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_every_deploy_setting_is_known_including_commented_out_ones(tmp_path: Path) -> None:
    text = (DEPLOY / "bascule.toml").read_text()
    whole = re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE)
    (tmp_path / "all.toml").write_text(whole)

    settings = load(tmp_path / "all.toml", {}, {})

    assert settings.user == "bascule"
    assert settings.max_running_per_owner == 5
    assert settings.workspace_roots == (Path("/srv/projects"),)
    assert settings.warden is not None


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for unit in DEPLOY.glob("*.service"):
        text = unit.read_text().replace("/opt/bascule/bin/bascule", sys.executable)
        (tmp_path / unit.name).write_text(text)
    units = sorted(map(str, tmp_path.glob("*.service")))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *units],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert len(units) == 2
    ours = [line for line in verified.stderr.splitlines() if "bascule" in line]
    assert (ours, verified.returncode) == ([], 0), verified.stderr


def test_compose_passes_only_known_settings_to_the_hub() -> None:
    compose: dict[str, Any] = YAML(typ="safe").load(DEPLOY / "compose.yaml")
    hub = compose["services"]["hub"]
    names = {name.removeprefix("BASCULE_").lower() for name in hub["environment"]}

    assert names <= set(HubFile.model_fields)
    for volume in hub["volumes"]:
        outside, inside = volume.split(":")[:2]
        assert outside == inside, "the engine is told paths of the hub's"
    assert (DEPLOY.parent / hub["build"]["dockerfile"]).is_file()
    # Empty variables are what compose gives for those that are not set.
    empty = {name: "" for name, value in hub["environment"].items() if ":-}" in value}
    assert load(None, empty, {}).public_url == ""


async def test_the_health_check_of_compose_passes_only_while_the_hub_is_ready(
    tmp_path: Path,
) -> None:
    """The very command of the container, against a hub of this test."""
    compose: dict[str, Any] = YAML(typ="safe").load(DEPLOY / "compose.yaml")
    kind, program, *arguments = compose["services"]["hub"]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "python3")

    async def passes(hub: RunningHub) -> bool:
        assert "127.0.0.1:8300" in arguments[-1]
        command = arguments[-1].replace(":8300", f":{hub.port}")
        check = await asyncio.create_subprocess_exec(
            sys.executable, *arguments[:-1], command, stderr=asyncio.subprocess.DEVNULL
        )
        return await check.wait() == 0

    async with RunningHub(tmp_path) as hub:
        assert await passes(hub)
        with closing(sqlite3.connect(tmp_path / "hub.sqlite")) as database, database:
            database.execute("UPDATE alembic_version SET version_num = '9999'")
        await asyncio.sleep(1.1)  # the hub uses a result for a second
        assert not await passes(hub)
    assert compose["services"]["nginx"]["depends_on"]["hub"] == {"condition": "service_healthy"}


def test_the_objects_for_kubernetes_are_complete_and_set_known_settings(tmp_path: Path) -> None:
    place = DEPLOY / "kubernetes"
    yaml = YAML(typ="safe")
    names = yaml.load(place / "kustomization.yaml")["resources"]
    found = [each for name in names for each in yaml.load_all(place / name)]

    assert {*names, "kustomization.yaml"} == {each.name for each in place.iterdir()}
    objects = {(each["kind"], each["metadata"]["name"]): each for each in found}
    assert len(objects) == len(found)
    (tmp_path / "bascule.toml").write_text(
        objects["ConfigMap", "bascule-hub"]["data"]["bascule.toml"]
    )
    settings = load(tmp_path / "bascule.toml", {}, {})
    assert settings.spawners == ("kubernetes",)
    role = objects["Role", "bascule-hub"]
    assert role["metadata"]["namespace"] == settings.kubernetes_namespace
    assert "secrets" not in {kind for rule in role["rules"] for kind in rule["resources"]}
    policy = objects["NetworkPolicy", "sessions"]["spec"]
    hub = objects["Deployment", "bascule-hub"]["spec"]["template"]["metadata"]["labels"]
    (peer,) = policy["ingress"][0]["from"]
    assert peer["podSelector"]["matchLabels"].items() <= hub.items()
    assert policy["ingress"][0]["ports"] == [{"port": PORT}]
    assert "egress" not in policy


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kustomize_builds_the_objects_for_kubernetes() -> None:
    built = subprocess.run(
        ["kubectl", "kustomize", DEPLOY / "kubernetes"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "image: registry.example/bascule/hub:latest" in built.stdout
