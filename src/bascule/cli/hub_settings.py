"""The hub's settings: a file, the environment and options. Later sources override earlier ones.

Every setting has one name: `public_url` in `bascule.toml`, BASCULE_PUBLIC_URL, `--public-url`.
"""

from __future__ import annotations

import difflib
import ipaddress
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from bascule.core.errors import InvalidSetting
from bascule.core.sessions import EgressMode
from bascule.hub.accounts.oidc_settings import OidcSettings
from bascule.hub.settings import HubSettings

from .defaults import DEFAULT_FILE, DEFAULT_PORT
from .user_dirs import state_dir as default_state_dir


def _split_list(value: object) -> object:
    """Split a comma-separated list, as environment variables contain it."""
    return [word for word in value.split(",") if word] if isinstance(value, str) else value


def _ensure_networks(names: tuple[str, ...]) -> tuple[str, ...]:
    for each in names:
        ipaddress.ip_network(each)  # raises `ValueError` with the value
    return names


Names = Annotated[tuple[str, ...], BeforeValidator(_split_list)]
Networks = Annotated[Names, AfterValidator(_ensure_networks)]
Paths = Annotated[tuple[Path, ...], BeforeValidator(_split_list)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int | None, Field(ge=0)]
Bytes = Annotated[int, Field(ge=1024)]

_OIDC_PREFIX: Final = "oidc_"
_PREFIXES: Final = (_OIDC_PREFIX, "kubernetes_")
"""Settings that are not those of `HubSettings`."""


class HubFile(BaseModel):
    """The settings in `bascule.toml`; docs/hub.md explains each."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = DEFAULT_PORT
    public_url: Annotated[str, Field(pattern=r"^(https?://[^/\s]+/?)?$")] = ""
    state_dir: Path | None = None
    database_url: str = Field("", repr=False)
    allowed_hosts: Names = ()
    allowed_origins: Names = ()
    max_body: Bytes = 32 << 20
    message_bytes: Bytes = 32 << 20
    heartbeat: Seconds = 3.0
    probe_timeout: Seconds = 15.0
    forget_after: Seconds = 300.0
    apps_origin: str = ""
    e2b_domain: str = ""
    sessions_origin: str = ""
    frame_origins: Names = ()
    run_dir: Path | None = None
    connect_timeout: Seconds = 5.0
    answer_timeout: Seconds = 300.0
    stall_timeout: Seconds = 60.0
    max_upload: Bytes = 1 << 30
    stop_grace: Seconds = 5.0
    max_sessions: Count = 1000
    max_sessions_per_owner: Count = None
    max_running: Count = 200
    max_running_per_owner: Count = None
    max_memory: Bytes | None = None
    max_session_memory: Bytes | None = 32 << 30
    max_session_cpus: Annotated[float | None, Field(gt=0)] = None
    max_session_processes: Count = 8192
    max_session_disk: Bytes | None = None
    max_fork_files: Count = 1_000_000
    max_egress: EgressMode = "proxy"
    open_networks: Networks = ()
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret: str = Field("", repr=False)
    oidc_client_secret_file: Path | None = None
    oidc_scopes: Names = ("openid", "profile", "email")
    oidc_name_claim: str = "preferred_username"
    oidc_groups_claim: str = "groups"
    oidc_admin_groups: Names = ()
    oidc_member_groups: Names = ()
    oidc_viewer_groups: Names = ()
    oidc_default_role: Literal["none", "viewer", "member"] = "none"
    spawners: Names = ("local",)
    allow_unisolated: bool = False
    allow_root: bool = False
    user: str = ""
    warden: Path | None = None
    warden_dir: Path | None = None
    docker_engine: Annotated[str, Field(pattern=r"^(unix://.+)?$")] = ""
    docker_image: str = ""
    kubernetes_config: Path | None = None
    kubernetes_context: str = ""
    kubernetes_namespace: str = ""
    kubernetes_image: str = ""
    kubernetes_image_pull_secrets: Names = ()
    kubernetes_storage_class: str | None = None
    kubernetes_volume_size: Annotated[str, Field(pattern=r"^[1-9][0-9]*(Ki|Mi|Gi|Ti)?$")] = "10Gi"
    kubernetes_runtime_class: str = ""
    kubernetes_key_file: Path | None = None
    workspace_roots: Paths = ()
    rules: Path | None = None
    rules_default: Literal["", "allow", "ask"] = ""
    question_timeout: Seconds = 120.0
    start_timeout: Seconds = 120.0
    fill_timeout: Seconds = 1800.0
    idle_pause: Seconds | None = 1800.0
    idle_stop: Seconds | None = 86400.0
    idle_cpu: Seconds = 0.02
    reconcile_interval: Seconds = 60.0
    max_archive: Bytes = 1 << 30
    archive_lifetime: Seconds = 3600.0
    audit_days: Seconds = 90.0
    events_kept: Annotated[int, Field(ge=1)] = 1000
    timeline_days: Seconds = 30.0
    timeline_bytes: Bytes = 256 << 20
    log_format: Literal["text", "json"] = "text"
    traces: bool = False

    def state(self) -> Path:
        """The directory for tokens and window keys. The default is the user's state directory."""
        return (self.state_dir or default_state_dir()).expanduser().absolute()

    def run(self) -> Path:
        """The directory for the sockets of sessions. The default is below the state directory."""
        return (self.run_dir or self.state() / "run").expanduser().absolute()

    def settings(self, admin_token: str) -> HubSettings:
        values = self.model_dump(
            exclude={
                *("log_format", "traces", "state_dir", "run_dir", "spawners", "allow_unisolated"),
                "open_networks",
                *("docker_engine", "docker_image", "allow_root", "user", "warden", "warden_dir"),
                *(name for name in HubFile.model_fields if name.startswith(_PREFIXES)),
            }
        )
        return HubSettings(
            admin_token=admin_token,
            state_dir=self.state(),
            run_dir=self.run(),
            oidc=self._oidc(),
            **values,
        )

    def _oidc(self) -> OidcSettings | None:
        """The OpenID provider. Raises `InvalidSetting`."""
        if not self.oidc_issuer:
            return None
        values = {
            name.removeprefix(_OIDC_PREFIX): getattr(self, name)
            for name in HubFile.model_fields
            if name.startswith(_OIDC_PREFIX)
        }
        file = values.pop("client_secret_file")
        if file is not None:
            try:
                values["client_secret"] = file.read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise InvalidSetting(f"cannot read oidc_client_secret_file: {error}") from error
        return OidcSettings(**values)


_RENAMED: Final = {"look_every": "reconcile_interval"}
"""Settings by their names before version 0.2, which files and variables may still use."""


def load(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> HubFile:
    """Read all settings. Raises `InvalidSetting` with the setting and its source."""
    origins: dict[str, str] = {}
    values: dict[str, Any] = {}

    def add(found: Mapping[str, object], origin: str) -> None:
        for given, value in found.items():
            name = _RENAMED.get(given, given)
            values[name] = value
            origins[name] = origin

    config_variable = environment.get("BASCULE_CONFIG")
    path = file or (
        Path(config_variable)
        if config_variable
        else DEFAULT_FILE
        if DEFAULT_FILE.is_file()
        else None
    )
    if path is not None:
        add(_read_file(path), str(path))
    for name in (*_RENAMED, *HubFile.model_fields):
        variable = f"BASCULE_{name.upper()}"
        if variable in environment:
            add({name: environment[variable]}, variable)
    for name, value in flags.items():
        if value is not None:
            add({name: value}, f"--{name.replace('_', '-')}")
    try:
        return HubFile.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        problem = _unknown_setting(name) if first["type"] == "extra_forbidden" else first["msg"]
        raise InvalidSetting(f"{origins.get(name, name)}: {name}: {problem}") from None


def _unknown_setting(name: str) -> str:
    nearest = difflib.get_close_matches(name, HubFile.model_fields, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else "; docs/hub.md lists them"
    return f"there is no such setting{hint}"


def _read_file(path: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise InvalidSetting(f"cannot read {path}: {error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{path} is not valid TOML: {error}") from error
