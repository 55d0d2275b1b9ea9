"""Self-signed certificates by which a hub and a pod recognize each other, without an authority.

Each side trusts exactly one certificate: the hub gets the pod's over the cluster's API, and the pod
gets the hub's in its environment. Both are public; the keys never leave their process. All
functions block.
"""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bascule.core.errors import InvalidSetting, MissingTool

_DAYS: Final = 36_500
"""Days until a certificate expires: a certificate is replaced with its pod, or by hand."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, as PEM."""

    certificate: str
    key: str = field(repr=False)

    @property
    def line(self) -> str:
        """The certificate in one line, which `certificate_of_line` reads."""
        return base64.b64encode(ssl.PEM_cert_to_DER_cert(self.certificate)).decode()


def new_key_pair(name: str) -> KeyPair:
    """An Ed25519 key with a certificate. `name`: for people who look at the certificate."""
    command = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", str(_DAYS)]
    output = ["-subj", f"/CN={name}", "-keyout", "/dev/stdout", "-out", "/dev/stdout"]
    try:
        made = subprocess.run([*command, *output], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise MissingTool("openssl is missing (Debian: apt-get install openssl)") from error
    if made.returncode != 0:
        raise MissingTool(f"openssl made no certificate: {made.stderr.strip()}")
    key, separator, rest = made.stdout.partition("-----BEGIN CERTIFICATE-----")
    return KeyPair(certificate=separator + rest, key=key)


def stored_key_pair(path: Path, name: str) -> KeyPair:
    """The key pair in the file, which is made if it does not exist."""
    if not path.exists():
        made = new_key_pair(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(made.key + made.certificate)  # mode 0600
        try:
            os.link(file.name, path)  # fails if another process was faster
        except FileExistsError:
            pass
        finally:
            Path(file.name).unlink()
    key, separator, rest = path.read_text().partition("-----BEGIN CERTIFICATE-----")
    if "PRIVATE KEY" not in key or not separator:
        raise InvalidSetting(f"{path} must have a private key and then its certificate, as PEM")
    return KeyPair(certificate=separator + rest, key=key)


def certificate_of_line(line: str) -> str:
    """The certificate as PEM; raises `ValueError` for another text."""
    der = base64.b64decode(line, validate=True)
    pem = ssl.DER_cert_to_PEM_cert(der)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except ssl.SSLError as error:
        raise ValueError(f"not a certificate: {error}") from error
    return pem


def server_tls(own: KeyPair, client_certificate: str) -> ssl.SSLContext:
    """Accepts only clients with the key of `client_certificate`."""
    return _context(ssl.PROTOCOL_TLS_SERVER, own, client_certificate)


def client_tls(own: KeyPair, server_certificate: str) -> ssl.SSLContext:
    """Accepts only a server with the key of `server_certificate`."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, own, server_certificate)


def _context(protocol: int, own: KeyPair, peer_certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the key says who the peer is, not its address
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=peer_certificate)
    # The ssl module loads keys from files only. This file is readable for this user only.
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(own.key + own.certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context
