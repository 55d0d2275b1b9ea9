from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bascule.core.errors import InvalidSetting
from bascule.runtime.spawn.kubernetes.cluster_access import from_kubeconfig, in_cluster


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("certificate")
    key, certificate = place / "key.pem", place / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=test"]
    subprocess.run(
        [*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    return certificate, key


def config(place: Path, *, cluster: Any = (), user: Any = (), context: str = "one") -> Path:
    path = place / "config"
    content = {
        "current-context": context,
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://1.2.3.4:6443/", **dict(cluster)}}
        ],
        "users": [{"name": "u", "user": dict(user)}],
    }
    path.write_text(json.dumps(content))
    return path


def test_a_kubeconfig_with_a_token(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    authority = base64.b64encode(certificate[0].read_bytes()).decode()
    path = config(
        tmp_path, cluster={"certificate-authority-data": authority}, user={"token": "secret"}
    )
    access = from_kubeconfig(path)
    assert (access.server, access.namespace) == ("https://1.2.3.4:6443", "n")
    assert access.read_token() == "secret"
    assert access.tls is not None
    assert access.tls.cert_store_stats()["x509"] == 1
    assert "secret" not in repr(access)


def test_a_kubeconfig_with_a_client_certificate_and_relative_paths(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    for name, source in zip(("certificate.pem", "key.pem"), certificate, strict=True):
        (tmp_path / name).write_bytes(source.read_bytes())
    user = {"client-certificate": "certificate.pem", "client-key": "key.pem"}
    access = from_kubeconfig(config(tmp_path, user=user))
    assert access.read_token() == ""


def test_a_kubeconfig_in_yaml(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "current-context: one\n"
        "contexts: [{name: one, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://localhost:8001'}}]\n"
        "users: [{name: u, user: {tokenFile: token}}]\n"
    )
    (tmp_path / "token").write_text("from a file\n")
    access = from_kubeconfig(path)
    assert (access.namespace, access.tls) == ("default", None)
    assert access.read_token() == "from a file"
    (tmp_path / "token").unlink()
    with pytest.raises(InvalidSetting, match="token"):
        access.read_token()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"context": "two"}, "no context 'two'; the file has: one"),
        ({"user": {"exec": {"command": "aws"}}}, "`exec`, which is not supported"),
        ({"cluster": {"server": "10.0.0.1"}}, "not an http"),
        ({"cluster": {"insecure-skip-tls-verify": True}}, "certificate-authority"),
        ({"cluster": {"certificate-authority": "missing.pem"}}, "missing.pem"),
        ({"cluster": {"certificate-authority-data": "?"}}, "cannot be read"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why(
    tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidSetting, match=message):
        from_kubeconfig(config(tmp_path, **given))


def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="missing"):
        from_kubeconfig(tmp_path / "missing")
    for text in ("a: [", "{", "text"):
        (tmp_path / "config").write_text(text)
        with pytest.raises(InvalidSetting, match="not a valid kubeconfig"):
            from_kubeconfig(tmp_path / "config")


def test_a_pod_uses_its_service_account(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    (tmp_path / "token").write_text("mounted\n")
    (tmp_path / "namespace").write_text("bascule")
    (tmp_path / "ca.crt").write_bytes(certificate[0].read_bytes())
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    access = in_cluster(environment, tmp_path)
    assert (access.server, access.namespace) == ("https://[fd00::1]:6443", "bascule")
    assert access.read_token() == "mounted"
    with pytest.raises(InvalidSetting, match="kubernetes_config"):
        in_cluster({}, tmp_path)
