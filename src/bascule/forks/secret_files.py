"""Decides by its name whether a file probably contains a secret. Pure functions."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import Final

_NAMES: Final = (
    *(".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".htpasswd"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk"),
    *(".npmrc", ".yarnrc.yml", ".pypirc", ".git-credentials", ".dockercfg", ".vault-token"),
    *("credentials", "credentials.json", "client_secret*.json", "service-account*.json"),
    *("secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml", "*.tfvars", "*.tfstate"),
)
_DIRECTORIES: Final = frozenset({".ssh", ".aws", ".azure", ".gnupg", ".kube"})
_SAMPLES: Final = (".example", ".sample", ".template", ".dist", ".defaults")
"""Suffixes of example files, which have the names of secrets without their values."""
_SECRET: Final = re.compile("|".join(f"(?:{translate(name)})" for name in _NAMES), re.IGNORECASE)


def is_secret(path: str) -> bool:
    """Whether the last part of `path` is the name of a file with secrets, or of a directory of
    secrets."""
    name = path.rpartition("/")[2]
    if name.lower().endswith(_SAMPLES):
        return False
    return name in _DIRECTORIES or _SECRET.match(name) is not None
