"""What is asked of the cluster for a session, and what is read from its answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bascule.core.errors import NotSupported, SandboxStartFailed
from bascule.core.sessions import Egress, SandboxPlan, SessionId, SessionLimits
from bascule.runtime.spawn.kubernetes.pods import (
    POD_CERTIFICATE,
    PodInfo,
    PodSpec,
    ensure_can,
    hub_sockets,
    selector,
)
from bascule.runtime.spawn.kubernetes.settings import KubernetesSettings

SETTINGS = KubernetesSettings(
    sessions_dir=Path("/s"), run_dir=Path("/r"), key_file=Path("/k"), installation="team"
)
PLAN = SandboxPlan(
    session_id=SessionId("abc123abc"),
    directory=Path("/s/abc123abc"),
    run_dir=Path("/r/abc123abc"),
    hub_socket=Path("/r/hub/abc123abc/hub.sock"),
    key="a-key",
    environment={"TOKEN": "a-secret"},
)


def pod(plan: SandboxPlan = PLAN, settings: KubernetesSettings = SETTINGS) -> Any:
    return PodSpec(settings, plan, "certificate").manifest()


def test_neither_pod_nor_claim_has_a_secret() -> None:
    spec = PodSpec(SETTINGS, PLAN, "certificate")
    text = json.dumps([spec.manifest(), spec.claim()])
    assert "a-key" not in text
    assert "a-secret" not in text
    assert spec.launch().environment["TOKEN"] == "a-secret"
    assert spec.launch().key == "a-key"


def test_a_pod_is_admitted_by_the_standard_restricted() -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/"""
    spec = pod()["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] != 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not any("hostPort" in each for each in container["ports"])
    kinds = {kind for each in spec["volumes"] for kind in each if kind != "name"}
    assert kinds == {"emptyDir", "persistentVolumeClaim"}


def test_a_pod_has_no_token_and_no_restart() -> None:
    spec = pod()["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["restartPolicy"] == "Never"


def test_limits_are_the_sessions_and_requests_are_small() -> None:
    limits = SessionLimits(memory=64 << 20, cpus=0.01, processes=10)
    (container,) = pod(replace(PLAN, limits=limits))["spec"]["containers"]
    assert container["resources"] == {
        "limits": {"memory": str(64 << 20), "cpu": "10m"},
        "requests": {"memory": str(64 << 20), "cpu": "10m"},
    }
    none = SessionLimits(memory=None, cpus=None, processes=None)
    (container,) = pod(replace(PLAN, limits=none))["spec"]["containers"]
    assert container["resources"]["limits"] == {}
    assert container["resources"]["requests"] == {"memory": str(256 << 20), "cpu": "50m"}


@pytest.mark.parametrize("mode", ["off", "proxy", "open"])
def test_only_open_egress_looks_up_names_outside(mode: Any) -> None:
    made = pod(replace(PLAN, egress=Egress(mode=mode, domains=("example.org",))))
    assert made["metadata"]["labels"]["bascule.org/egress"] == mode
    assert (made["spec"].get("dnsPolicy") == "None") == (mode != "open")


def test_only_egress_by_proxy_has_a_proxy() -> None:
    for mode in ("off", "proxy", "open"):
        egress = Egress(mode=mode, domains=())
        spec = PodSpec(SETTINGS, replace(PLAN, egress=egress), "certificate")
        assert bool(spec.launch().egress_socket) == (mode == "proxy")
        sockets = hub_sockets(egress, hub=Path("/h"), proxy=Path("/p"))
        assert ("egress" in sockets) == (mode == "proxy")


def test_settings_of_the_cluster_are_in_the_pod() -> None:
    settings = replace(
        SETTINGS,
        runtime_class="gvisor",
        priority_class="low",
        node_selector={"pool": "sessions"},
        tolerations=({"key": "dedicated", "operator": "Exists"},),
        image_pull_secrets=("registry",),
        user_namespaces=True,
    )
    spec = pod(settings=settings)["spec"]
    assert spec["runtimeClassName"] == "gvisor"
    assert spec["priorityClassName"] == "low"
    assert spec["nodeSelector"] == {"pool": "sessions"}
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["hostUsers"] is False
    assert {each["key"] for each in spec["tolerations"]} == {
        "dedicated",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }
    assert "runtimeClassName" not in pod()["spec"]


def test_the_class_of_the_volume_is_the_clusters_unless_it_is_set() -> None:
    claim: Any = PodSpec(SETTINGS, PLAN, "").claim()
    assert "storageClassName" not in claim["spec"]
    claim = PodSpec(replace(SETTINGS, storage_class=""), PLAN, "").claim()
    assert claim["spec"]["storageClassName"] == ""


def test_what_a_pod_was_made_with_is_read_from_it() -> None:
    egress = Egress(mode="proxy", domains=("example.org",))
    made = pod(replace(PLAN, egress=egress))
    made["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"}
    found = PodInfo.read(made)
    assert (found.session_id, found.egress.mode) == (PLAN.session_id, "proxy")
    assert list(found.egress.domains) == ["example.org"]
    assert found.created.isoformat() == "2026-01-02T03:04:05+00:00"
    assert not found.is_running
    made["status"] = {"phase": "Running", "podIP": "10.0.0.1"}
    assert not PodInfo.read(made).is_running  # never launched
    made["metadata"]["annotations"][POD_CERTIFICATE] = "line"
    assert PodInfo.read(made).is_running
    made["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert not PodInfo.read(made).is_running
    assert selector(SETTINGS) == "app.kubernetes.io/managed-by=bascule,bascule.org/scope=team"


def test_a_plan_that_a_pod_cannot_fulfil_is_refused() -> None:
    ensure_can(PLAN)
    with pytest.raises(SandboxStartFailed, match="/home/me/project"):
        ensure_can(replace(PLAN, folder=Path("/home/me/project")))
    with pytest.raises(NotSupported, match="root"):
        ensure_can(replace(PLAN, user="root"))
    with pytest.raises(NotSupported, match="openhands"):
        ensure_can(replace(PLAN, file_layout="openhands"))
