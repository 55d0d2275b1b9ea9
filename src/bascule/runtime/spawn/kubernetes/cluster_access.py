"""The address of a cluster's API server, and the hub's credentials for it.

A hub in a pod uses the files of its service account. A hub outside uses a kubeconfig file, with a
token or a client certificate. All functions block.
"""

from __future__ import annotations

import base64
import binascii
import json
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bascule.core.errors import InvalidSetting, MissingExtra

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes mounts the files of a pod's service account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """The address of an API server, and the credentials of this process."""

    server: str
    """URL of the API server, without a slash at the end."""
    namespace: str = "default"
    """The namespace that the kubeconfig or the service account names."""
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """None for a server without TLS."""
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    """File that contains the token. It is read again, because Kubernetes replaces its contents."""

    def read_token(self) -> str:
        """The bearer token at this moment; empty if a client certificate is the credential."""
        if self.token_file is None:
            return self.token
        try:
            return self.token_file.read_text().strip()
        except OSError as error:
            raise InvalidSetting(
                f"The token of the cluster cannot be read: {error}", path=str(self.token_file)
            ) from error


def in_cluster(environment: Mapping[str, str], files: Path = SERVICE_ACCOUNT) -> ClusterAccess:
    """The access of a process in a pod. `environment`: the process's environment variables."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (files / "token").exists():
        raise InvalidSetting(
            "This hub does not run in a pod with a service account, so the setting "
            "`kubernetes_config` must name a kubeconfig file"
        )
    return ClusterAccess(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=(files / "namespace").read_text().strip(),
        tls=ssl.create_default_context(cafile=str(files / "ca.crt")),
        token_file=files / "token",
    )


def from_kubeconfig(path: Path, context: str = "") -> ClusterAccess:
    """The access that a kubeconfig file describes. `context`: a name in the file; empty: the
    file's current context."""
    config = _read_config(path)
    chosen = context or config.get("current-context") or ""
    current = _named(config, "contexts", chosen, "context", path)
    cluster = _named(config, "clusters", current.get("cluster", ""), "cluster", path)
    user = _named(config, "users", current.get("user", ""), "user", path)
    for unsupported in ("exec", "auth-provider"):
        if unsupported in user:
            raise InvalidSetting(
                f"{path}: the user {current.get('user')!r} signs in with `{unsupported}`, which is "
                "not supported; use a service account's token or a client certificate"
            )
    server = str(cluster.get("server", "")).rstrip("/")
    if not server.startswith(("http://", "https://")):
        raise InvalidSetting(f"{path}: the cluster's server {server!r} is not an http(s) URL")
    token_file = user.get("tokenFile")
    return ClusterAccess(
        server=server,
        namespace=str(current.get("namespace") or "default"),
        tls=_tls(cluster, user, path) if server.startswith("https://") else None,
        token=str(user.get("token", "")),
        token_file=path.parent / token_file if token_file else None,
    )


def _read_config(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text()
    except OSError as error:
        raise InvalidSetting(f"The kubeconfig file cannot be read: {error}") from error
    try:
        config = json.loads(text) if text.lstrip().startswith("{") else _parse_yaml(text)
    except ValueError as error:
        raise InvalidSetting(f"{path} is not a valid kubeconfig file: {error}") from error
    if not isinstance(config, Mapping):
        raise InvalidSetting(f"{path} is not a valid kubeconfig file")
    return config


def _parse_yaml(text: str) -> Any:
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "Reading a kubeconfig file in YAML needs the extra `nets`; a kubeconfig file in JSON "
            "(kubectl config view --raw -o json) needs none"
        ) from error
    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise ValueError(str(error)) from error


def _named(
    config: Mapping[str, Any], group: str, name: str, part: str, path: Path
) -> Mapping[str, Any]:
    entries: Sequence[Mapping[str, Any]] = config.get(group) or ()
    for each in entries:
        if each.get("name") == name and isinstance(each.get(part), Mapping):
            found: Mapping[str, Any] = each[part]
            return found
    known = ", ".join(str(each.get("name")) for each in entries) or "none"
    raise InvalidSetting(f"{path}: there is no {part} {name!r}; the file has: {known}")


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], path: Path) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority = _content(cluster, "certificate-authority", path)
    if authority:
        context = ssl.create_default_context(cadata=authority.decode())
    if cluster.get("tls-server-name"):
        raise InvalidSetting(f"{path}: `tls-server-name` is not supported")
    if cluster.get("insecure-skip-tls-verify"):
        raise InvalidSetting(
            f"{path}: `insecure-skip-tls-verify` is not supported; set `certificate-authority`"
        )
    certificate = _content(user, "client-certificate", path)
    key = _content(user, "client-key", path)
    if certificate and key:
        # The ssl module loads keys from files only.
        with tempfile.NamedTemporaryFile() as file:  # readable for this user only
            file.write(certificate + b"\n" + key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _content(entry: Mapping[str, Any], name: str, path: Path) -> bytes:
    """The content of a field that is either a path or base64 with the suffix `-data`."""
    try:
        if data := entry.get(f"{name}-data"):
            return base64.b64decode(data, validate=True)
        if file := entry.get(name):
            return (path.parent / str(file)).read_bytes()
    except (OSError, binascii.Error) as error:
        raise InvalidSetting(f"{path}: `{name}` cannot be read: {error}") from error
    return b""
