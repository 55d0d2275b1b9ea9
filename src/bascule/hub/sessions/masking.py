"""Masks secrets in everything that is recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from bascule.wire import to_json

MASK: Final = "***"
_MIN_LENGTH: Final = 4
"""Shorter values are not masked: masking every `1`, for example, would make text unreadable."""


class Mask:
    """Replaces secret values in text, also in their URL-encoded form."""

    def __init__(self, secrets: Iterable[str]) -> None:
        words = {form for value in secrets for form in (value, quote(value, safe=""))}
        known = sorted((word for word in words if len(word) >= _MIN_LENGTH), key=len, reverse=True)
        self._words = tuple(known)
        self._json_words = tuple({to_json(word)[1:-1] for word in known})
        self._pattern = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        if self._pattern is None:
            return text
        # `in` for each word is many times faster than the pattern, and few texts hold a secret.
        for word in self._words:
            if word in text:
                return self._pattern.sub(MASK, text)
        return text

    def cut_text(self, text: str) -> str:
        """Mask text whose end may be cut off, so that it may end with the beginning of a secret."""
        end = min((_secret_start(text, word) for word in self._words), default=len(text))
        masked = self.text(text[:end])
        return masked if end == len(text) else f"{masked}{MASK}"

    def is_needed(self, json_text: bytes) -> bool:
        """Whether JSON from `to_json` may contain a secret."""
        return any(word in json_text for word in self._json_words)

    def value(self, value: Any) -> Any:
        """Mask all strings inside a JSON value, including keys."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self.value(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(each) for each in value]
        return value


def _secret_start(text: str, word: str) -> int:
    """The position of an incomplete `word` at the end of the text; the text's length if there is
    none.

    A part shorter than `_MIN_LENGTH` is not searched for.
    """
    start = text.find(word[:_MIN_LENGTH])
    while start != -1 and not word.startswith(text[start:]):
        start = text.find(word[:_MIN_LENGTH], start + 1)
    return len(text) if start == -1 else start
