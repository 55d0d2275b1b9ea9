"""A whole hub with its sessions in pods: as a process, with the settings of its page."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.processes import BASCULE, environment
from tests.kubernetes_cluster import HUB, NAMESPACE, Cluster
from tests.kubernetes_image import IMAGE

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow, pytest.mark.timeout(600)]

TIMEOUT = 240.0
"""Seconds before a test gives up; never a pause."""
OBJECTS = f"api/v1/namespaces/{NAMESPACE}"


class Machine:
    """A hub's place, and commands of a person there."""

    def __init__(self, place: Path, cluster: Cluster) -> None:
        self.place = place
        self.environment = environment(
            HOME=str(place),
            XDG_STATE_HOME=str(place),
            BASCULE_SPAWNERS="kubernetes",
            BASCULE_KUBERNETES_CONFIG=str(cluster.kubeconfig("hub", HUB)),
            BASCULE_KUBERNETES_IMAGE=IMAGE,
            BASCULE_KUBERNETES_STORAGE_CLASS="",
            BASCULE_KUBERNETES_VOLUME_SIZE="1Mi",
        )

    @contextmanager
    def hub(self) -> Iterator[None]:
        """A hub that is killed at the end."""
        with (self.place / "log").open("ab") as log:
            command = [*BASCULE, "serve", "--port", "0"]
            process = subprocess.Popen(
                command, env=self.environment, stdout=subprocess.PIPE, stderr=log
            )
        with process:
            assert process.stdout is not None
            try:
                url = process.stdout.readline().decode().strip()
                assert url.startswith("http://"), (self.place / "log").read_text()
                yield
            finally:
                process.kill()

    def must(self, *arguments: str) -> str:
        done = subprocess.run(
            [*BASCULE, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stderr + (self.place / "log").read_text()
        return done.stdout


@pytest.fixture
def machine(cluster: Cluster) -> Iterator[Machine]:
    place = Path(tempfile.mkdtemp(prefix="bsc-"))
    files = place / "volume"
    for part in (".", "workspace", "home", "state"):
        (files / part).mkdir(parents=True, exist_ok=True)
        shutil.chown(files / part, 1000, 1000)
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "any"},
        "spec": {
            "capacity": {"storage": "1Mi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(files)},
            "storageClassName": "",
        },
    }
    cluster.apply(volume)
    with cluster.isolated():
        yield Machine(place, cluster)
    cluster.call("DELETE", "api/v1/persistentvolumes/any")
    shutil.rmtree(place)


def names(cluster: Cluster, kind: str) -> set[str]:
    found = cluster.call("GET", f"{OBJECTS}/{kind}")["items"]
    return {each["metadata"]["name"] for each in found}


def test_a_session_survives_its_hub_and_its_files_survive_the_session(
    machine: Machine, cluster: Cluster
) -> None:
    with machine.hub():
        name = f"bsc-{machine.must('session', 'create', '--name', 'mine').strip()}"
        assert machine.must("session", "exec", "mine", "word=kept; echo hi > a; pwd") == (
            "/workspace\n"
        )
    with machine.hub():  # the first was killed
        assert machine.must("session", "exec", "mine", "echo $word; cat a") == "kept\nhi\n"
        machine.must("session", "stop", "mine")
        assert name not in names(cluster, "pods")
        machine.must("session", "resume", "mine")
        assert name in names(cluster, "pods")
        assert name in names(cluster, "persistentvolumeclaims")
        assert machine.must("session", "exec", "mine", "echo $word; cat a") == "\nhi\n"
        machine.must("session", "rm", "--all")
    for kind in ("pods", "persistentvolumeclaims"):
        assert name not in names(cluster, kind)
