"""What is said about pods that do not run. The statuses are those of real clusters."""

from __future__ import annotations

from typing import Any

import pytest

from bascule.core.sessions import SessionLimits
from bascule.runtime.spawn.kubernetes.api import ApiRefused
from bascule.runtime.spawn.kubernetes.failures import (
    RUNNING,
    STARTING_ITS_CONTAINER,
    WAITING_FOR_A_MACHINE,
    WAITING_FOR_ITS_VOLUME,
    end_of,
    problem_in_events,
    problem_of,
    refusal,
    stage_of,
    vanished,
)


def unscheduled(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"status": {"phase": "Pending", "conditions": [{**condition, "message": message}]}}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    container = {"state": {"waiting": {"reason": reason, "message": message}}}
    return {
        "spec": {"containers": [{"image": "shop/image:1"}]},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [container],
        },
    }


def ended(**terminated: Any) -> dict[str, Any]:
    return {
        "status": {"phase": "Failed", "containerStatuses": [{"state": {"terminated": terminated}}]}
    }


NO_ROOM = unscheduled("0/2 nodes are available: 2 Insufficient memory.")
NO_VOLUME = unscheduled(
    "0/1 nodes are available: 1 pod has unbound immediate PersistentVolumeClaims."
)


@pytest.mark.parametrize(
    ("pod", "stage"),
    [
        ({}, WAITING_FOR_A_MACHINE),
        (NO_ROOM, WAITING_FOR_A_MACHINE),
        (NO_VOLUME, WAITING_FOR_ITS_VOLUME),
        (waiting("ContainerCreating"), STARTING_ITS_CONTAINER),
        ({"status": {"phase": "Running"}}, RUNNING),
    ],
)
def test_a_start_says_what_it_waits_for(pod: Any, stage: str) -> None:
    assert stage_of(pod) == stage


@pytest.mark.parametrize(
    ("pod", "text", "is_final"),
    [
        (NO_ROOM, "No machine of the cluster has room: 0/2 nodes", False),
        (
            NO_VOLUME,
            "The volume of the session cannot be created: .*kubernetes_storage_class",
            False,
        ),
        (waiting("ErrImagePull", "manifest unknown: not found"), "shop/image:1 cannot be", True),
        (waiting("ErrImagePull", "dial tcp: i/o timeout"), "cannot be pulled: dial", False),
        (waiting("ImagePullBackOff", "Back-off pulling"), "cannot be pulled: Back-off", False),
        (waiting("InvalidImageName"), "cannot be pulled: InvalidImageName", True),
        (waiting("CreateContainerError", "no such file"), "cannot start: no such file", True),
        (waiting("CreateContainerError", "context deadline exceeded"), "cannot start", False),
    ],
)
def test_a_pod_that_does_not_start_says_why(pod: Any, text: str, is_final: bool) -> None:
    problem = problem_of(pod)
    assert problem is not None
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(problem.text)
    assert problem.is_final == is_final


@pytest.mark.parametrize("pod", [{}, waiting("ContainerCreating"), waiting("PodInitializing")])
def test_a_pod_that_is_on_its_way_has_no_problem(pod: Any) -> None:
    assert problem_of(pod) is None


def test_events_tell_of_volumes() -> None:
    def event(reason: str, message: str, time: str, kind: str = "Warning") -> dict[str, Any]:
        return {"type": kind, "reason": reason, "message": message, "lastTimestamp": time}

    held = event("FailedAttachVolume", "Multi-Attach error for volume v", "2026-01-01T00:00:02Z")
    old = event("ProvisioningFailed", "no such class", "2026-01-01T00:00:01Z")
    assert "held by another machine" in problem_in_events([old, held])
    assert "no such class" in problem_in_events([old, event("BackOff", "x", "2026-01-02")])
    assert problem_in_events([event("FailedMount", "x", "2026", kind="Normal")]) == ""


@pytest.mark.parametrize(
    ("status", "message", "text"),
    [
        (403, 'pods "x" is forbidden: exceeded quota: small', "quota of the namespace n is used"),
        (403, "violates PodSecurity restricted", "does not admit the session's pod"),
        (403, 'cannot create resource "pods"', "lacks a right in the namespace n"),
        (401, "Unauthorized", "lacks a right"),
        (422, "spec.x: Invalid value", "The cluster refused: spec.x"),
    ],
)
def test_a_refusal_names_its_cause(status: int, message: str, text: str) -> None:
    assert text in refusal(ApiRefused(status, "", message), "n")


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (ended(reason="OOMKilled", exitCode=137), r"all of its memory \(limit 64 MiB\)"),
        (ended(reason="Error", exitCode=3), "exit status 3"),
        (
            {
                "status": {"phase": "Failed", "reason": "Evicted", "message": "disk"},
                "spec": {"nodeName": "m"},
            },
            "its machine m ran out of resources: disk",
        ),
        (
            {"status": {"phase": "Failed", "reason": "NodeLost"}, "spec": {"nodeName": "m"}},
            "machine m is gone; its files are kept",
        ),
        (
            {"metadata": {"deletionTimestamp": "2026"}, "spec": {"nodeName": "m"}},
            "deleted, or its machine m does not answer",
        ),
        ({"status": {"phase": "Failed", "reason": "DeadlineExceeded"}}, "longer than"),
        ({"status": {"phase": "Failed", "reason": "Preempting", "message": "x"}}, "Preempting x"),
    ],
)
def test_an_end_names_its_cause(pod: Any, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(end_of(pod, SessionLimits(memory=64 << 20)))


def test_a_pod_that_vanished_is_described_by_what_was_last_seen() -> None:
    assert "deleted; its files are kept" in vanished(None)
    assert "machine m is gone" in vanished({"spec": {"nodeName": "m"}})
    assert "memory" in vanished(ended(reason="OOMKilled", exitCode=137))
