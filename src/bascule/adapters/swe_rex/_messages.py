"""The requests of SWE-ReX's client, and the errors that it raises again."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Text = Annotated[str, Field(max_length=1 << 20)]
Seconds = Annotated[float, Field(ge=0, le=86400)]
ShellText = Annotated[str, Field(max_length=200)]

ERROR_STATUS: Final = 511
"""HTTP status of an error that the client raises as an exception of its own."""


class RexError(Exception):
    """An error that the client raises as the class `path`."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path if "." in path else f"swerex.exceptions.{path}"
        self.message = message


class _Request(BaseModel):
    # Newer clients may send more fields.
    model_config = ConfigDict(extra="ignore")


class CreateBashSession(_Request):
    session: ShellText = "default"
    session_type: Literal["bash"] = "bash"
    startup_source: Annotated[list[Text], Field(max_length=100)] = []
    startup_timeout: Seconds = 1.0


class BashCommand(_Request):
    command: Text
    session: ShellText = "default"
    timeout: Seconds | None = None
    is_interactive_command: bool = False
    is_interactive_quit: bool = False
    check: Literal["silent", "raise", "ignore"] = "raise"
    error_msg: str = ""
    expect: list[str] = []
    action_type: Literal["bash"] = "bash"


class BashInterrupt(_Request):
    session: ShellText = "default"
    timeout: Seconds = 0.2
    n_retry: Annotated[int, Field(ge=1, le=100)] = 3
    action_type: Literal["bash_interrupt"]


class CloseBashSession(_Request):
    session: ShellText = "default"


class RexCommand(_Request):
    command: Text | Annotated[list[Text], Field(min_length=1, max_length=100_000)]
    timeout: Seconds | None = None
    shell: bool = False
    check: bool = False
    error_msg: str = ""
    env: dict[str, str] | None = None
    cwd: str | None = None
    merge_output_streams: bool = False


class RexReadFile(_Request):
    path: Text
    encoding: str | None = None
    errors: str | None = None


class RexWriteFile(_Request):
    path: Text
    content: str


CREATE_SESSION: Final = TypeAdapter(CreateBashSession)
BASH_ACTION: Final[TypeAdapter[BashCommand | BashInterrupt]] = TypeAdapter(
    Annotated[BashCommand | BashInterrupt, Field(discriminator="action_type")]
)
CLOSE_SESSION: Final = TypeAdapter(CloseBashSession)
COMMAND: Final = TypeAdapter(RexCommand)
READ_FILE: Final = TypeAdapter(RexReadFile)
WRITE_FILE: Final = TypeAdapter(RexWriteFile)
