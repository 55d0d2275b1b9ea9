"""The documents that are open at a language server, with the text that the server has."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .text_positions import TextLines

MAX_OPEN: Final = 500
"""Maximum number of open documents; those used least recently are closed."""

Notify = Callable[[str, Mapping[str, Any]], None]


@dataclass(slots=True)
class OpenDocument:
    path: str
    """Real path, which is also the path in `uri`."""
    language: str
    version: int
    text: str
    lines: TextLines

    @property
    def uri(self) -> str:
        return uri_of(self.path)

    @property
    def identifier(self) -> dict[str, Any]:
        return {"uri": self.uri}


class OpenDocuments:
    """The open documents of one server, by path. The server reads closed ones from the disk."""

    def __init__(self, notify: Notify, language_of: Callable[[str], str]) -> None:
        self._notify = notify
        self._language_of = language_of
        self._open: OrderedDict[str, OpenDocument] = OrderedDict()
        """Those used least recently come first."""

    def get(self, path: str) -> OpenDocument | None:
        document = self._open.get(path)
        if document is not None:
            self._open.move_to_end(path)
        return document

    def all(self) -> list[OpenDocument]:
        return list(self._open.values())

    def paths(self) -> list[str]:
        return list(self._open)

    def show(self, path: str, text: str) -> OpenDocument:
        """Open the document, or tell the server its new text."""
        document = self.get(path)
        if document is None:
            while len(self._open) >= MAX_OPEN:
                self.close(next(iter(self._open)))
            document = OpenDocument(path, self._language_of(path), 1, text, TextLines(text))
            self._open[path] = document
            shown = {"languageId": document.language, "version": 1, "text": text}
            self._notify("textDocument/didOpen", {"textDocument": {"uri": document.uri, **shown}})
        elif document.text != text:
            document.text, document.lines = text, TextLines(text)
            document.version += 1
            changed = {"uri": document.uri, "version": document.version}
            changes = {"textDocument": changed, "contentChanges": [{"text": text}]}
            self._notify("textDocument/didChange", changes)
            self._notify("textDocument/didSave", {"textDocument": document.identifier})
        return document

    def close(self, path: str) -> None:
        document = self._open.pop(path, None)
        if document is not None:
            self._notify("textDocument/didClose", {"textDocument": document.identifier})


def uri_of(path: str) -> str:
    return Path(path).as_uri()
