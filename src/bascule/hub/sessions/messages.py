"""Request and response bodies of the REST calls about sessions; validated only here."""

from __future__ import annotations

import unicodedata
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from bascule.core.sessions import (
    AppSpec,
    Egress,
    EgressMode,
    RuntimeKind,
    SessionLimits,
    SessionSpec,
    SessionState,
    WorkspaceSource,
)
from bascule.hub.proxy import HubAddresses
from bascule.sandbox.session.clone import Credential, Repository, read_repository
from bascule.sandbox.session.ports import DECLARED

from .rows import SessionRow

_BIDI_CONTROLS: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
"""Bidirectional control characters, which reorder the displayed text."""


def _ensure_no_nul(text: str) -> str:
    """The text. Raises `ValueError` if it has a NUL byte: a process would see only the part before
    that byte."""
    if "\0" in text:
        raise ValueError("it contains a NUL byte")
    return text


def _ensure_displayable(text: str) -> str:
    """The text. Raises `ValueError` if it is not safe to show to others, also on a terminal."""
    for each in text:
        kind, direction = unicodedata.category(each), unicodedata.bidirectional(each)
        if kind in ("Cc", "Zl", "Zp") or direction in _BIDI_CONTROLS:
            raise ValueError(f"a name must not contain control characters such as {each!r}")
    return text


def _ensure_variable_name(text: str) -> str:
    """The text. Raises `ValueError` if it cannot be the name of an environment variable."""
    if not text or "=" in text:
        raise ValueError("the name of a variable must not be empty or contain '='")
    return _ensure_no_nul(text)


VariableName = Annotated[str, Field(max_length=4096), AfterValidator(_ensure_variable_name)]
Text = Annotated[str, Field(max_length=4096), AfterValidator(_ensure_no_nul)]
Secret = Annotated[str, Field(max_length=65536), AfterValidator(_ensure_no_nul)]
Name = Annotated[str, Field(max_length=200), AfterValidator(_ensure_displayable)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CredentialBody(_Body):
    """Credentials for the clone: user name and password, or a key. Used once, then deleted."""

    username: Text | None = None
    password: Secret | None = None
    private_key: Secret | None = None
    known_hosts: Secret | None = None


class WorkspaceBody(_Body):
    kind: Literal["empty", "folder", "git", "archive"] = "empty"
    folder: Text = ""
    url: Text = ""
    ref: Text = ""
    archive: Text = ""
    credential: CredentialBody | None = None

    def source(self) -> WorkspaceSource:
        fields = self.model_dump(exclude={"credential"})
        return WorkspaceSource(**(fields | {"url": self._repository().url}))

    def clone_credential(self) -> dict[str, str] | None:
        """The credential for the repository, also if it was part of the URL."""
        credential = asdict(self._repository().credential)
        return {name: value for name, value in credential.items() if value} or None

    def egress(self) -> Egress:
        """The default egress of a session with this workspace.

        For a repository at https and port 443, the session may reach only the repository's host.
        Otherwise egress is off; to clone by ssh, for example, the request must set `egress`.
        """
        url = urlsplit(self._repository().url)
        if url.scheme == "https" and url.hostname and url.port in (None, 443):
            return Egress(mode="proxy", domains=(url.hostname,))
        return Egress()

    def _repository(self) -> Repository:
        fields = {} if self.credential is None else self.credential.model_dump(exclude_none=True)
        credential = Credential(**fields)
        if self.kind != "git":
            return Repository(self.url, credential)
        return read_repository(self.url, credential)


class LimitsBody(_Body):
    """Limits of a session. None: no limit."""

    memory: Annotated[int | None, Field(ge=64 << 20, lt=1 << 63)] = SessionLimits().memory
    cpus: Annotated[float | None, Field(ge=0.01, lt=1 << 16)] = SessionLimits().cpus
    processes: Annotated[int | None, Field(ge=16, lt=1 << 31)] = SessionLimits().processes


class EgressBody(_Body):
    mode: EgressMode = "off"
    domains: Annotated[list[Text], Field(max_length=1000)] = []

    def value(self) -> Egress:
        return Egress(mode=self.mode, domains=tuple(self.domains))


class AppBody(_Body):
    keeps_prefix: bool = False
    """Whether requests reach the app with its base path; see `AppSpec.keeps_prefix`."""


class SessionBody(_Body):
    """The body of a request for a new session."""

    name: Name = ""
    spawner: Text = ""
    """Empty: the hub's default spawner."""
    runtime: RuntimeKind = "sandbox"
    shells: Literal["pty", "tmux"] = "pty"
    workspace: WorkspaceBody = WorkspaceBody()
    environment: Annotated[dict[VariableName, Secret], Field(max_length=1000)] = {}
    secrets: Annotated[dict[VariableName, Secret], Field(max_length=1000)] = {}
    limits: LimitsBody = LimitsBody()
    egress: EgressBody | None = None
    """None: only the host of a repository at https; for other workspaces, egress is off."""
    image: Text = ""
    checkpoints: bool = True
    apps: Annotated[list[AppBody], Field(max_length=len(DECLARED))] = []
    """Settings of the apps with the numbers in `DECLARED`, in that order."""

    def spec(self, default_spawner: str) -> SessionSpec:
        return SessionSpec(
            name=self.name,
            spawner=self.spawner or default_spawner,
            runtime=self.runtime,
            shells=self.shells,
            workspace=self.workspace.source(),
            environment=self.environment,
            secrets=self.secrets,
            limits=SessionLimits(**self.limits.model_dump()),
            egress=self.workspace.egress() if self.egress is None else self.egress.value(),
            image=self.image,
            checkpoints=self.checkpoints,
            apps=tuple(AppSpec(**each.model_dump()) for each in self.apps),
        )

    def credential(self) -> dict[str, str] | None:
        return self.workspace.clone_credential()


class ResumeBody(_Body):
    """Changes with which a stopped or failed session starts again; omitted fields stay."""

    shells: Literal["pty", "tmux"] | None = None
    egress: EgressBody | None = None

    def changes(self) -> dict[str, Any]:
        """The fields of the spec to change."""
        shells = {} if self.shells is None else {"shells": self.shells}
        return shells | ({} if self.egress is None else {"egress": self.egress.value()})


class RestoreBody(_Body):
    """What to restore of a checkpoint."""

    paths: Annotated[list[Text], Field(max_length=1000)] = []
    """Only these files and directories of the workspace; empty: everything."""
    since: bool = False
    """Whether to undo this checkpoint and every later one; false: only this one."""
    dry_run: bool = False


class ForkBody(_Body):
    """Forks to make of a session."""

    count: Annotated[int, Field(ge=1, le=100)] = 1
    name: Name = ""
    """Prefix of the forks' names, followed by a number; empty: the session's name."""
    secrets: bool = False
    """Whether to copy files whose names suggest secrets, such as `.env`, and the values of secret
    variables."""


class MergeBody(_Body):
    """Which changes of a fork to merge, and how."""

    dry_run: bool = False
    paths: Annotated[list[Text], Field(max_length=10_000)] = []
    """Only these files and directories; empty: everything."""
    take: Annotated[list[Text], Field(max_length=10_000)] = []
    """Conflicts to settle with the fork's version."""
    keep: Annotated[list[Text], Field(max_length=10_000)] = []
    """Conflicts to settle with the target session's version."""
    ignored: bool = False
    """Whether to merge files that `.gitignore` excludes, too."""
    into: Text = ""
    """Id of the session to merge into; empty: the session that was forked."""


class SessionAnswer(BaseModel):
    """A session with all its fields; `secrets` holds only names."""

    id: str
    name: str
    owner: str
    created_by: str
    state: SessionState
    stage: str
    """The current stage of a start, as text for people; empty otherwise."""
    cause: str
    """Why the session failed; empty otherwise."""
    created: str
    updated: str
    last_active: str
    spawner: str
    runtime: RuntimeKind
    shells: str
    workspace: dict[str, Any]
    environment: dict[str, str]
    secrets: list[str]
    limits: dict[str, Any]
    egress: dict[str, Any]
    image: str
    checkpoints: bool
    apps: list[dict[str, Any]]
    vscode_url: str
    sandbox_url: str

    @classmethod
    def of(cls, row: SessionRow, spec: dict[str, Any], addresses: HubAddresses) -> SessionAnswer:
        return cls(
            **{name: spec[name] for name in spec if name != "secrets"},
            secrets=sorted(spec["secrets"]),
            id=row.id,
            owner=row.owner,
            created_by=row.created_by,
            state=row.state,
            stage=row.stage,
            cause=row.cause,
            created=_time(row.created),
            updated=_time(row.updated),
            last_active=_time(row.last_active),
            vscode_url=addresses.vscode(row.id),
            sandbox_url=addresses.hub(f"/sandbox/{row.id}"),
        )


class PortAnswer(BaseModel):
    """An app that listens in a session."""

    n: int
    """Number of the app, as in the URL `/apps/{session_id}-{n}/`."""
    port: int
    """The TCP port on which the app listens."""
    command: str
    url: str


class ArchiveAnswer(BaseModel):
    archive: str
    """Id of the archive, for `workspace.archive` of a new session."""


class LogAnswer(BaseModel):
    text: str


def _time(unix: float) -> str:
    return datetime.fromtimestamp(unix, UTC).isoformat()
