"""Explains a pod's status to users. Pure rules, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bascule.core.sessions import SessionLimits

from .api import ApiRefused, JsonObject

WAITING_FOR_A_MACHINE: Final = "waiting for a machine of the cluster"
WAITING_FOR_ITS_VOLUME: Final = "waiting for its volume"
STARTING_ITS_CONTAINER: Final = "pulling the image and starting its container"
RUNNING: Final = "waiting for the gateway in its pod"

_DEFINITE: Final = ("not found", "denied", "unauthorized", "forbidden", "invalid reference")
"""Parts of error messages about images. Another attempt would fail with the same error."""
_IMAGE: Final = (
    *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"),
    *("ImageInspectError", "RegistryUnavailable"),
)
_CONTAINER: Final = (
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
    *("StartError", "ContainerCannotRun"),
)
_RETRIED: Final = ("being used by another process", "context deadline exceeded")
_VOLUME_EVENTS: Final = ("ProvisioningFailed", "FailedMount", "FailedBinding")
_KEPT: Final = "its files are kept"


@dataclass(frozen=True, slots=True)
class PodProblem:
    """Why a pod does not run yet."""

    text: str
    is_final: bool
    """Whether waiting cannot help."""


def stage_of(pod: JsonObject) -> str:
    """What a start waits for now."""
    status = pod.get("status") or {}
    if status.get("phase") == "Running":
        return RUNNING
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") == "True":
        return STARTING_ITS_CONTAINER
    if "PersistentVolumeClaim" in scheduled.get("message", ""):
        return WAITING_FOR_ITS_VOLUME
    return WAITING_FOR_A_MACHINE


def problem_of(pod: JsonObject) -> PodProblem | None:
    """The problem of a pod that is being started; None if its status shows none."""
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        message = scheduled.get("message", "")
        if "PersistentVolumeClaim" in message or "volume" in message:
            return PodProblem(_volume(message), is_final=False)
        return PodProblem(f"No machine of the cluster has room: {message}", is_final=False)
    image = _container_spec(pod).get("image", "")
    waiting = (_container(pod).get("state") or {}).get("waiting") or {}
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason in _IMAGE:
        is_final = reason in ("InvalidImageName", "ErrImageNeverPull") or any(
            each in message.lower() for each in _DEFINITE
        )
        text = f"The image {image} cannot be pulled: {message or reason}"
        return PodProblem(text, is_final=is_final)
    if reason in _CONTAINER:
        is_final = not any(each in message for each in _RETRIED)
        return PodProblem(f"Its container cannot start: {message or reason}", is_final=is_final)
    return None


def problem_in_events(events: Iterable[JsonObject]) -> str:
    """The newest problem with a volume in events about the pod and its claim; empty if none."""
    warnings = [each for each in events if each.get("type") == "Warning"]
    for event in sorted(warnings, key=_time_of, reverse=True):
        reason, message = event.get("reason", ""), event.get("message", "")
        if reason == "FailedAttachVolume" and "Multi-Attach" in message:
            return f"Its volume is still held by another machine: {message}"
        if reason == "FailedAttachVolume" or reason in _VOLUME_EVENTS:
            return _volume(message)
    return ""


def refusal(error: ApiRefused, namespace: str) -> str:
    """Why the cluster did not create an object."""
    if error.status == 403 and "exceeded quota" in error.message:
        return f"The quota of the namespace {namespace} is used up: {error.message}"
    if error.status == 403 and "PodSecurity" in error.message:
        return f"The namespace {namespace} does not admit the session's pod: {error.message}"
    if error.status in (401, 403):
        return (
            f"The hub lacks a right in the namespace {namespace}: {error.message} "
            "(deploy/kubernetes/ has the Role)"
        )
    return f"The cluster refused: {error.message}"


def end_of(pod: JsonObject, limits: SessionLimits | None = None) -> str:
    """Why a pod has ended."""
    status, node = pod.get("status") or {}, (pod.get("spec") or {}).get("nodeName") or "?"
    reason, message = status.get("reason", ""), status.get("message", "")
    ended = _ended_container(pod)
    if reason == "Evicted":
        return f"its machine {node} ran out of resources: {message}"
    if reason in ("NodeLost", "NodeShutdown", "Terminated", "Shutdown"):
        return f"its machine {node} is gone; {_KEPT}"
    if reason == "DeadlineExceeded":
        return "it ran longer than its namespace allows"
    if ended.get("reason") == "OOMKilled":
        return f"it had used all of its memory{_limit(limits)}"
    if "exitCode" in ended:
        text = f"its process ended with exit status {ended['exitCode']}"
        return "\n".join(filter(None, [text, ended.get("message", "")]))
    if "deletionTimestamp" in (pod.get("metadata") or {}):
        return f"its pod was deleted, or its machine {node} does not answer; {_KEPT}"
    return " ".join(filter(None, ["its pod ended:", reason, message])).removesuffix(":")


def vanished(pod: JsonObject | None) -> str:
    """Why a pod does not exist any more, from what was last seen of it."""
    if pod is None:
        return f"its pod was deleted; {_KEPT}"
    if _ended_container(pod) or (pod.get("status") or {}).get("reason"):
        return end_of(pod)
    node = (pod.get("spec") or {}).get("nodeName") or "?"
    return f"its pod was deleted, or its machine {node} is gone; {_KEPT}"


def _limit(limits: SessionLimits | None) -> str:
    if limits is None or limits.memory is None:
        return ""
    return f" (limit {limits.memory / (1 << 20):.0f} MiB)"


def _volume(message: str) -> str:
    return (
        f"The volume of the session cannot be created: {message} "
        "(setting `kubernetes_storage_class`)"
    )


def _condition(pod: JsonObject, kind: str) -> Mapping[str, Any]:
    conditions: Sequence[Mapping[str, Any]] = (pod.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == kind), {})


def _container(pod: JsonObject) -> Mapping[str, Any]:
    statuses: Sequence[Mapping[str, Any]]
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return statuses[0] if statuses else {}


def _container_spec(pod: JsonObject) -> Mapping[str, Any]:
    containers: Sequence[Mapping[str, Any]] = (pod.get("spec") or {}).get("containers") or ()
    return containers[0] if containers else {}


def _ended_container(pod: JsonObject) -> Mapping[str, Any]:
    state: Mapping[str, Any] = _container(pod).get("state") or {}
    return state.get("terminated") or {}


def _time_of(event: JsonObject) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")
