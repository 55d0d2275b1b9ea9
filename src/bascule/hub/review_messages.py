"""Messages about the review of agents' changes: from windows, to them, and in REST calls."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, Field

from bascule.core.printable import one_line

MAX_FILES: Final = 200
"""Maximum number of files that a window lists, and that an answer names."""
_MAX_HUNKS: Final = 200
_MAX_LINES: Final = 4000
_MAX_LINE_LENGTH: Final = 10_000

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{1,64}$")]
DisplayText = Annotated[str, Field(max_length=1000), AfterValidator(one_line)]
"""Text that is shown to people, with control characters escaped."""
Count = Annotated[int, Field(ge=0, le=10**9)]
_Lines = Annotated[
    list[Annotated[str, Field(max_length=_MAX_LINE_LENGTH), AfterValidator(one_line)]],
    Field(max_length=_MAX_LINES),
]


class ReviewFile(BaseModel):
    """A file with pending changes of agents. Unknown fields of a newer window are ignored."""

    id: Digest
    version: Digest
    """A hash that changes with the file's text. An answer names the version that was shown."""
    name: DisplayText
    agents: Annotated[list[DisplayText], Field(max_length=20)]
    change: Literal["created", "changed", "removed"]
    hunks: Count
    """Number of hunks."""
    added: Count
    """Number of added lines."""
    removed: Count
    """Number of removed lines."""


class ReviewList(BaseModel):
    files: Annotated[list[ReviewFile], Field(max_length=MAX_FILES)] = []
    more: Count = 0
    """Number of files that the window did not list."""


class ReviewHunk(BaseModel):
    line: Count
    """First line in the file, from 1."""
    removed: _Lines
    added: _Lines
    is_whole: bool
    """False if lines, or ends of lines, are left out."""


class ReviewHunks(BaseModel):
    hunks: Annotated[list[ReviewHunk], Field(max_length=_MAX_HUNKS)]
    more: Count
    """Number of hunks that are not listed."""


class ReviewTarget(BaseModel):
    file: Digest
    version: Digest
    hunk: Annotated[int, Field(ge=0, lt=10**6)] | None = None
    """Number of the hunk in this version, from 0. None: the whole file."""


class ReviewAnswerBody(BaseModel):
    answer: Literal["keep", "undo"]
    files: Annotated[list[ReviewTarget], Field(min_length=1, max_length=MAX_FILES)]
    """Every file with the version that the person saw."""


class ReviewDone(BaseModel):
    done: Count
    """Number of files whose changes were kept or undone."""
