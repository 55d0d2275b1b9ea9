"""Request and response bodies of the hub's REST calls; validated only here."""

from __future__ import annotations

from typing import Annotated, Self
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field, model_validator

from bascule.core.printable import one_line
from bascule.core.windows import Folder, Remote, Window, WindowId

from .identity import Scope
from .sockets import Registration

Text = Annotated[str, Field(max_length=1000)]
Path = Annotated[str, Field(max_length=4096)]
DisplayText = Annotated[Text, AfterValidator(one_line)]
"""Text that is shown to people and written to logs, with control characters escaped."""


class FolderBody(BaseModel):
    name: Text = ""
    path: Path


class RegisterBody(BaseModel):
    """A window's registration. Unknown fields of a newer extension are ignored."""

    nonce: Text
    window_id: UUID
    window_key: Annotated[str, Field(min_length=32, max_length=200)]
    host_id: UUID
    name: DisplayText = ""
    folders: Annotated[list[FolderBody], Field(max_length=1000)] = []
    workspace_name: DisplayText = ""
    workspace_path: Path = ""
    vscode_version: DisplayText = ""
    extension_version: DisplayText = ""
    platform: DisplayText = ""
    app: DisplayText = ""
    remote: Remote = "local"
    capabilities: Annotated[list[DisplayText], Field(max_length=1000)] = []
    reviews_merges: bool = False
    """Whether the window understands `merge.began` and `merge.ended`."""

    @model_validator(mode="after")
    def _accept_legacy_names(self) -> Self:
        self.name = self.name or self.workspace_name
        if not self.folders and self.workspace_path:
            self.folders = [FolderBody(name=self.name, path=self.workspace_path)]
        return self

    def registration(self) -> Registration:
        window = Window(
            id=WindowId(str(self.window_id)),
            name=self.name,
            folders=tuple(Folder(each.name, each.path) for each in self.folders),
            capabilities=frozenset(self.capabilities),
            vscode_version=self.vscode_version,
            extension_version=self.extension_version,
            platform=self.platform,
            app=self.app,
            remote=self.remote,
        )
        return Registration(
            self.nonce, window, self.window_key, str(self.host_id), self.reviews_merges
        )


class RegisterAnswer(BaseModel):
    connection_id: str
    message: str
    replaced: bool
    """Whether this registration replaced an already registered host."""


class MessageAnswer(BaseModel):
    message: str


class StatsAnswer(BaseModel):
    total_instances: int
    status_counts: dict[str, int]
    recent_activity: int
    """Number of windows with a heartbeat within the last minute."""
    registry_size: int
    """The same number as `total_instances`."""


class PairingCodeAnswer(BaseModel):
    """A new pairing code."""

    code: str
    expires: str
    link: str
    """`vscode://` link that opens VS Code and pairs it."""


class PairingTokenAnswer(BaseModel):
    """The token that a window gets for its pairing code, and the hub's URL."""

    token: str
    hub: str


class SignInBody(BaseModel):
    next: Text = "/"
    """Path of the hub to open after the sign-in."""
    same_user: bool = False
    """Whether only browsers of the caller's operating-system user may use the URL. Otherwise other
    users of this machine could read the URL in the process list and use it."""


class SignInAnswer(BaseModel):
    url: str


class TokenBody(BaseModel):
    name: Annotated[str, Field(pattern=r"^[\w.@ -]{1,60}$")]
    scope: Scope
    owner: Annotated[str, Field(pattern=r"^[\w.@ -]{1,60}$")] = ""
    """Empty: the owner of the caller's token."""
    session_id: Text | None = None
    lifetime: Annotated[float | None, Field(gt=0)] = None
    """Seconds until the token expires; None: it does not expire."""


class TokenAnswer(BaseModel):
    token: str


class TokenReport(BaseModel):
    name: str
    owner: str
    scope: Scope
    session_id: str | None
    expires: float | None


class HealthAnswer(BaseModel):
    status: str
    version: str
    protocol: int
    """Version of the protocol between the hub and its clients."""
