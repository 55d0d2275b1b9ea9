"""The objects that the spawner creates, and what it reads from pods. Pure rules, no I/O."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from bascule.core.errors import NotSupported, SandboxStartFailed
from bascule.core.sessions import Egress, RunningSandbox, SandboxPlan, SessionId, SessionLimits
from bascule.runtime.spawn.session_paths import (
    HOME,
    HUB_DIR,
    RUN_DIR,
    STATE_DIR,
    USER,
    WORKSPACE,
)
from bascule.sandbox.session.launch import SandboxLaunch

from ._gateway_main import CERTIFICATE, PORT
from .api import JsonObject
from .settings import KubernetesSettings

MANAGED: Final = {"app.kubernetes.io/managed-by": "bascule"}
SCOPE: Final = "bascule.org/scope"
SESSION: Final = "bascule.org/session"
EGRESS: Final = "bascule.org/egress"
"""Label that network policies select: off, proxy or open."""
POD_CERTIFICATE: Final = "bascule.org/certificate"
PAUSED: Final = "bascule.org/paused"
_EGRESS_RULES: Final = "bascule.org/egress-rules"

_UID: Final = 1000
"""The user `bascule` of the image."""
_COMMAND: Final = (
    "/opt/bascule/bin/python",
    "-m",
    "bascule.runtime.spawn.kubernetes._gateway_main",
)
_VSCODE: Final = "/opt/vscode"
_VSCODE_EXTENSIONS: Final = "/opt/bascule/extensions"
_GRACE: Final = 10
_LOST_AFTER: Final = 30
"""Seconds after which the cluster deletes the pods of a machine that does not answer."""
_REQUESTED_MEMORY: Final = 256 << 20
_REQUESTED_CPUS: Final = 0.05
_FILES: Final = "files"
_RUN: Final = "run"
_HUB: Final = "hub"


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod that is still to be created."""

    settings: KubernetesSettings
    plan: SandboxPlan
    hub_certificate: str
    """In one line, as `KeyPair.line`."""

    @property
    def name(self) -> str:
        return pod_name(self.plan.session_id)

    @property
    def image(self) -> str:
        return self.plan.image or self.settings.image

    def manifest(self) -> JsonObject:
        """The pod. It has no secret: everyone who can read pods of the namespace can read it."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "labels": self._labels(),
                "annotations": {_EGRESS_RULES: json.dumps(asdict(self.plan.egress))},
            },
            "spec": self._spec(),
        }

    def claim(self) -> JsonObject:
        """The volume for the session's files. It outlives the pod."""
        spec: dict[str, Any] = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": self.settings.volume_size}},
        }
        if self.settings.storage_class is not None:
            spec["storageClassName"] = self.settings.storage_class
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": self.name, "labels": self._labels()},
            "spec": spec,
        }

    def launch(self) -> SandboxLaunch:
        """The launch settings. The gateway adds the environment variables of the image."""
        plan = self.plan
        own = {"HOME": HOME, "USER": USER, "LOGNAME": USER, "SHELL": "/bin/bash"}
        return SandboxLaunch(
            key=plan.key,
            working_dir=WORKSPACE,
            run_dir=RUN_DIR,
            state_dir=STATE_DIR,
            environment={**own, **plan.environment},
            shells=plan.shells,
            browser=plan.browser,
            checkpoints=plan.checkpoints,
            window_asks=plan.window_asks,
            hub_socket=f"{HUB_DIR}/hub.sock" if plan.hub_socket else "",
            egress_socket=f"{HUB_DIR}/egress.sock" if plan.egress.mode == "proxy" else "",
            session_id=plan.session_id,
            vscode=_VSCODE,
            vscode_extensions=_VSCODE_EXTENSIONS,
            confine=True,
            set_id_files=False,
            is_isolated=True,
        )

    def _labels(self) -> dict[str, str]:
        return {
            **MANAGED,
            SCOPE: self.settings.scope,
            SESSION: self.plan.session_id,
            EGRESS: self.plan.egress.mode,
        }

    def _spec(self) -> dict[str, Any]:
        settings = self.settings
        spec: dict[str, Any] = {
            "restartPolicy": "Never",  # the hub reports an end, and decides what follows
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostname": "sandbox",
            "terminationGracePeriodSeconds": _GRACE,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _UID,
                "runAsGroup": _UID,
                "fsGroup": _UID,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [self._container()],
            "volumes": [
                {"name": _FILES, "persistentVolumeClaim": {"claimName": self.name}},
                {"name": _RUN, "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
                {"name": _HUB, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            ],
            "tolerations": [*settings.tolerations, *_tolerations()],
        }
        if self.plan.egress.mode != "open":  # DNS queries would leave the pod
            spec |= {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["127.0.0.1"]}}
        if settings.image_pull_secrets:
            spec["imagePullSecrets"] = [{"name": each} for each in settings.image_pull_secrets]
        if settings.runtime_class:
            spec["runtimeClassName"] = settings.runtime_class
        if settings.priority_class:
            spec["priorityClassName"] = settings.priority_class
        if settings.node_selector:
            spec["nodeSelector"] = dict(settings.node_selector)
        if settings.user_namespaces:
            spec["hostUsers"] = False
        return spec

    def _container(self) -> dict[str, Any]:
        paths = {WORKSPACE: "workspace", HOME: "home", STATE_DIR: "state"}
        mounts = [
            {"name": _FILES, "mountPath": path, "subPath": part} for path, part in paths.items()
        ]
        return {
            "name": "session",
            "image": self.image,
            "imagePullPolicy": self.settings.image_pull_policy,
            "command": [*_COMMAND],
            "env": [{"name": CERTIFICATE, "value": self.hub_certificate}],
            "ports": [{"name": "gateway", "containerPort": PORT}],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
            "resources": _resources(self.plan.limits),
            "volumeMounts": [
                *mounts,
                {"name": _RUN, "mountPath": RUN_DIR},
                {"name": _HUB, "mountPath": HUB_DIR},
            ],
            "workingDir": WORKSPACE,
        }


def ensure_can(plan: SandboxPlan) -> None:
    """Raise an error for a plan that a pod cannot fulfil."""
    if plan.folder is not None:
        raise SandboxStartFailed(
            f"A pod cannot use the folder {plan.folder} of the hub's machine as its workspace; "
            "use another kind of workspace, or the spawner local or docker"
        )
    if plan.user not in ("", USER):
        raise NotSupported(
            f"The spawner kubernetes runs sessions as {USER}, not as {plan.user}", user=plan.user
        )
    if plan.file_layout:
        raise NotSupported(
            f"The spawner kubernetes cannot imitate the file layout of {plan.file_layout}; use the "
            "spawner local or docker",
            likeness=plan.file_layout,
        )


@dataclass(frozen=True, slots=True)
class PodInfo:
    """One of our pods, read from its labels and status."""

    name: str
    uid: str
    session_id: SessionId
    phase: str
    """One of `Pending Running Succeeded Failed Unknown`."""
    address: str
    """IP address; empty before the network is ready."""
    certificate: str
    """Certificate of the gateway, in one line; empty until the hub has read it, which is before
    the launch."""
    egress: Egress
    is_paused: bool
    is_terminating: bool
    node: str
    created: datetime

    @property
    def is_running(self) -> bool:
        """Whether the pod runs and the hub has read its certificate. The hub may have been killed
        before it launched the session in it."""
        return self.phase == "Running" and bool(self.certificate) and not self.is_terminating

    @property
    def has_ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    def as_running(self) -> RunningSandbox:
        return RunningSandbox(session_id=self.session_id, is_paused=self.is_paused)

    @classmethod
    def read(cls, pod: JsonObject) -> Self:
        metadata, status = pod["metadata"], pod.get("status") or {}
        labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
        created = metadata.get("creationTimestamp")
        return cls(
            name=metadata["name"],
            uid=metadata["uid"],
            session_id=SessionId(labels.get(SESSION, "")),
            phase=status.get("phase", "Pending"),
            address=status.get("podIP") or "",
            certificate=notes.get(POD_CERTIFICATE, ""),
            egress=Egress(**json.loads(notes.get(_EGRESS_RULES) or "{}")),
            is_paused=notes.get(PAUSED) == "true",
            is_terminating="deletionTimestamp" in metadata,
            node=(pod.get("spec") or {}).get("nodeName") or "",
            created=datetime.fromisoformat(created.replace("Z", "+00:00"))
            if created
            else datetime.now(UTC),
        )


def pod_name(session_id: SessionId) -> str:
    """Name of the session's pod and of its claim. The cluster refuses a second pod of a name."""
    return f"bsc-{session_id}"


def selector(settings: KubernetesSettings) -> str:
    """The labels of all pods of the installation."""
    wanted = {**MANAGED, SCOPE: settings.scope}
    return ",".join(f"{name}={value}" for name, value in wanted.items())


def hub_sockets(egress: Egress, *, hub: Path | None, proxy: Path) -> Mapping[str, Path]:
    """Where connections of the pod's programs go."""
    of_hub = {} if hub is None else {"hub": hub}
    return {**of_hub, **({"egress": proxy} if egress.mode == "proxy" else {})}


def _resources(limits: SessionLimits) -> dict[str, dict[str, str]]:
    """Requests are small, since sessions are mostly idle; limits are the session's."""
    maximum: dict[str, str] = {}
    requested_memory, requested_cpus = _REQUESTED_MEMORY, _REQUESTED_CPUS
    if limits.memory is not None:
        maximum["memory"] = str(limits.memory)
        requested_memory = min(requested_memory, limits.memory)
    if limits.cpus is not None:
        maximum["cpu"] = _millis(limits.cpus)
        requested_cpus = min(requested_cpus, limits.cpus)
    requests = {"memory": str(requested_memory), "cpu": _millis(requested_cpus)}
    return {"requests": requests, "limits": maximum}


def _millis(cpus: float) -> str:
    return f"{max(1, math.ceil(cpus * 1000))}m"


def _tolerations() -> Sequence[Mapping[str, Any]]:
    return [
        {
            "key": f"node.kubernetes.io/{problem}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": _LOST_AFTER,
        }
        for problem in ("not-ready", "unreachable")
    ]
