"""docs/first-ten-minutes.md, as it was this time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from .diary import Diary, machine_words

PAGE: Final = "docs/first-ten-minutes.md"
PICTURES: Final = "docs/images/first-ten-minutes"
_TEMPLATE: Final = Path(__file__).with_name("template.md")
_ONCE: Final = re.compile(r"(https?://127\.0\.0\.1:\d+/[\w-]*\?)\S+")


def record(diary: Diary, shown: str, *, again: float) -> str:
    """`shown`: what was on the terminal when the address was."""
    return _TEMPLATE.read_text().format(
        table=diary.table(),
        machine=machine_words(),
        again=again,
        terminal=_ONCE.sub(r"\1…", shown.strip()),
        pictures=PICTURES.removeprefix("docs/"),
    )
