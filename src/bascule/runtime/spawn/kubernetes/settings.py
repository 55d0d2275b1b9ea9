"""Settings of the spawner of kind `kubernetes`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bascule import __version__

IMAGE: Final = f"bascule/sandbox:{__version__}"
"""Our image, as `make image` names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """Settings of a Kubernetes spawner. Spawners with the same `installation` share their pods."""

    sessions_dir: Path
    """Contains the hub's own directory of each session. Files of a session are in its volume."""
    run_dir: Path
    """Contains the run directories of sessions and the sockets of the egress proxy."""
    key_file: Path
    """The hub's key and certificate, by which pods recognize it; made if the file is missing."""
    config: Path | None = None
    """Kubeconfig file; None: the service account of the hub's own pod."""
    namespace: str = ""
    """Namespace of the pods; empty: that of the credentials."""
    installation: str = ""
    """Separates the pods of several hubs in one namespace; empty: a hash of `sessions_dir`."""
    image: str = IMAGE
    """Image for sessions that name none."""
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: Sequence[str] = ()
    storage_class: str | None = None
    """Class of the volumes; None: the cluster's default."""
    volume_size: str = "10Gi"
    probes: Sequence[tuple[str, int]] = ()
    """Addresses that pods with egress `off` or `proxy` must not reach, besides the API server.
    Something must listen there: a refused connection counts as blocked."""
    allow_unisolated: bool = False
    """Start sessions although the cluster enforces no network policy."""
    runtime_class: str = ""
    """Runtime class of pods, such as gvisor or kata; empty: the cluster's default."""
    priority_class: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    user_namespaces: bool = False
    """Run pods in user namespaces. Needs Kubernetes 1.33 or newer."""
    start_timeout: float = 300.0
    """Seconds from the creation of the pod to the first answer of the action server. A new machine
    of the cluster may have to start first."""
    policy_timeout: float = 60.0
    """Seconds within which a network policy must take effect."""
    kept_for: float = 600.0
    """Seconds after which a pod that has ended or was never launched is removed."""

    @property
    def scope(self) -> str:
        """Label of the pods of this installation."""
        named = hashlib.sha256(str(self.sessions_dir.absolute()).encode()).hexdigest()[:12]
        return self.installation or named
