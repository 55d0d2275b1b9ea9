"""A cluster for the tests here that need one; without one, they say why they are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests import kubernetes_cluster
from tests.kubernetes_cluster import NAMESPACE, PROJECT, Cluster


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """With the Role of `deploy/kubernetes/`, which the user `hub` has."""
    try:
        cluster = kubernetes_cluster.running()
    except kubernetes_cluster.CannotRun as error:
        pytest.skip(f"NO CLUSTER: {error}")
    rights = YAML(typ="safe").load_all(Path(PROJECT, "deploy/kubernetes/role.yaml"))
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "tests", "namespace": NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "bascule-hub"},
        "subjects": [{"kind": "User", "name": "hub", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    cluster.apply(*rights, binding)
    return cluster
