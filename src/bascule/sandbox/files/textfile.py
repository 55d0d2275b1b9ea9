"""Decodes and encodes text files; encoding, byte order mark and line endings are preserved."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from bascule.core.errors import BinaryFile, UndecodableFile

SAMPLE_BYTES = 8192
"""Bytes at the start of a file that decide whether it is text or binary."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: it starts with UTF-16's mark
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LEGACY = ("cp1252", "latin-1")
"""Tried in this order for text that is not UTF-8. `latin-1` accepts every byte."""

_CONTROL = bytes([*range(7), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F])
_BYTES_PER_CONTROL = 50
"""Data that is not UTF-8 is binary if more than one byte in 50 is a control character."""


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A file's encoding, byte order mark and line endings."""

    encoding: str = "utf-8"
    mark: bytes = b""
    crlf: bool = False
    """Whether every line ends in CR LF. False for mixed line endings, which stay unchanged."""

    def encode(self, text: str, shown_path: str) -> bytes:
        """Raises `UndecodableFile` for a character that the file's encoding does not have."""
        if self.crlf:
            text = unix_lines(text).replace("\n", "\r\n")
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise UndecodableFile(
                f"{shown_path} is encoded in {self.encoding}, which cannot represent "
                f"{text[error.start]!r}. Convert the file first (`iconv`), "
                "or replace the whole file, which then becomes UTF-8",
                encoding=self.encoding,
            ) from error


@dataclass(frozen=True, slots=True)
class DecodedText:
    """A file's text with its original line endings, and the file's format."""

    content: str
    format: TextFormat


def decode(data: bytes, shown_path: str) -> DecodedText:
    """Decode a text file. Raises `BinaryFile`. Encoding the result again gives the same bytes."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                content = data[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                continue
            return DecodedText(content, TextFormat(encoding, mark, is_crlf(content)))
    if b"\0" in data[:SAMPLE_BYTES]:
        raise BinaryFile("ERROR_BINARY_FILE", path=shown_path)
    try:
        content, encoding = data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        if _has_many_controls(data[:SAMPLE_BYTES]):
            raise BinaryFile("ERROR_BINARY_FILE", path=shown_path) from None
        content, encoding = _decode_legacy(data)
    return DecodedText(content, TextFormat(encoding, b"", is_crlf(content)))


def format_of_start(start: bytes) -> TextFormat:
    """Return the format of a longer file from its start; plain UTF-8 if it is binary."""
    for mark, encoding in _MARKS:
        if start.startswith(mark):
            content = start[len(mark) :].decode(encoding, "ignore")
            return TextFormat(encoding, mark, _lines_are_crlf(content))
    if looks_binary(start[:SAMPLE_BYTES]):
        return TextFormat()
    try:
        content, encoding = _decode_start(start), "utf-8"
    except UnicodeDecodeError:
        content, encoding = _decode_legacy(start)
    return TextFormat(encoding, b"", _lines_are_crlf(content))


def decode_line(raw: bytes) -> str:
    """Decode one line of a file of unknown encoding."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_legacy(raw)[0]


def looks_binary(sample: bytes) -> bool:
    """Whether `decode` would raise `BinaryFile` for a file that starts with `sample`."""
    if sample.startswith(tuple(mark for mark, _ in _MARKS)):
        return False
    if b"\0" in sample:
        return True
    try:
        _decode_start(sample)
    except UnicodeDecodeError:
        return _has_many_controls(sample)
    return False


def is_wide(sample: bytes) -> bool:
    """Whether the sample starts with a byte order mark of UTF-16 or UTF-32. In these encodings a
    newline has several bytes."""
    return sample.startswith(tuple(mark for mark, encoding in _MARKS if encoding != "utf-8"))


def is_crlf(content: str) -> bool:
    pairs = content.count("\r\n") if "\r" in content else 0
    return pairs > 0 and pairs == content.count("\n")


def unix_lines(content: str) -> str:
    return content.replace("\r\n", "\n") if "\r" in content else content


def end_with_newline(content: str) -> str:
    """Add a newline to the last line if it has none; empty text stays empty."""
    if not content or content.endswith("\n"):
        return content
    return content + ("\r\n" if is_crlf(content) else "\n")


def _lines_are_crlf(start: str) -> bool:
    """Like `is_crlf`, for a text that may end within a line, or between CR and LF."""
    return is_crlf(start[: start.rfind("\n") + 1])


def _decode_start(start: bytes) -> str:
    """Decode UTF-8 that may end inside a character."""
    return codecs.getincrementaldecoder("utf-8")().decode(start)


def _decode_legacy(data: bytes) -> tuple[str, str]:
    for encoding in _LEGACY:
        try:
            return data.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    raise AssertionError("latin-1 takes every byte")


def _has_many_controls(sample: bytes) -> bool:
    controls = len(sample) - len(sample.translate(None, _CONTROL))
    return controls * _BYTES_PER_CONTROL > len(sample)
