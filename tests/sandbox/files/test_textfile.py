"""Bytes to text and back, exactly."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.core.errors import BinaryFile, UndecodableFile
from bascule.sandbox.files.textfile import (
    TextFormat,
    decode,
    end_with_newline,
    format_of_start,
    is_crlf,
    looks_binary,
    unix_lines,
)

MARKED = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.binary())
def test_text_is_written_back_byte_for_byte(data: bytes) -> None:
    try:
        text = decode(data, "f")
    except BinaryFile:
        return

    assert text.format.encode(text.content, "f") == data


@given(st.lists(st.sampled_from(["a", "é", "\n", "\r\n", "\r", "\t", "日"])).map("".join))
def test_line_endings_are_written_back_unchanged(content: str) -> None:
    text = decode(content.encode(), "f")

    assert text.content == content
    assert text.format.encode(content, "f") == content.encode()


@pytest.mark.parametrize("encoding", MARKED)
@given(content=words)
def test_a_byte_order_mark_sets_the_encoding_and_is_not_part_of_the_text(
    encoding: str, content: str
) -> None:
    if encoding == "utf-16-le" and content.startswith("\0"):
        return
    data = MARKED[encoding] + content.encode(encoding)

    text = decode(data, "f")

    assert (text.content, text.format.encoding) == (content, encoding)
    assert text.format.encode(content, "f") == data


@given(words)
def test_text_written_to_a_crlf_file_gets_crlf_line_endings(content: str) -> None:
    written = TextFormat(crlf=True).encode(content, "f").decode()

    assert written.count("\n") == written.count("\r\n") == content.count("\n")
    assert unix_lines(written) == unix_lines(content)


@pytest.mark.parametrize(
    ("content", "expected"),
    [("a\r\nb\r\n", True), ("a\r\nb", True), ("a\r\nb\n", False), ("a\nb\n", False), ("a", False)],
)
def test_only_a_file_without_any_plain_newline_is_crlf(content: str, expected: bool) -> None:
    assert is_crlf(content) is expected


def test_bytes_that_are_not_utf8_are_read_as_cp1252_or_latin_1() -> None:
    assert decode("naïve – “é”".encode("cp1252"), "f").format.encoding == "cp1252"
    assert decode(b"caf\xe9 \x81", "f").format.encoding == "latin-1"


@pytest.mark.parametrize(
    "data", [b"a\0b", bytes(range(256)), b"\x89PNG\r\n\x1a\n\xff\xfe\x01\x02", b"\x80\x01\x02\x03"]
)
def test_binary_data_is_rejected_as_text(data: bytes) -> None:
    assert looks_binary(data)
    with pytest.raises(BinaryFile, match=r"^ERROR_BINARY_FILE$"):
        decode(data, "f")


@pytest.mark.parametrize("data", [b"", b"plain", b"\x1b[31mred\x1b[0m\x08\x0c", "日本".encode()])
def test_text_is_not_detected_as_binary(data: bytes) -> None:
    assert not looks_binary(data)
    assert decode(data, "f").content == data.decode()


def test_a_sample_may_end_inside_a_character() -> None:
    assert not looks_binary("日本".encode()[:-1])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_start_of_a_file_determines_its_text_format(encoding: str, newline: str) -> None:
    data = (f"één𝄞 twéé{newline}" * 9 if encoding != "cp1252" else f"één{newline}" * 9).encode(
        encoding
    )
    whole = decode(data, "f").format

    for length in range(len(data) // 2, len(data)):
        assert format_of_start(data[:length]) == whole


def test_a_binary_or_empty_start_gives_the_default_text_format() -> None:
    assert format_of_start(b"a\0b") == TextFormat()
    assert format_of_start(b"") == TextFormat()


def test_a_character_the_encoding_lacks_is_named() -> None:
    with pytest.raises(UndecodableFile, match=r"cp1252, which cannot represent '日'"):
        TextFormat("cp1252").encode("日", "f")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", ""),
        ("a", "a\n"),
        ("a\n", "a\n"),
        ("a\r\nb", "a\r\nb\r\n"),
        ("a\r\nb\nc", "a\r\nb\nc\n"),
    ],
)
def test_the_last_line_gets_its_newline(content: str, expected: str) -> None:
    assert end_with_newline(content) == expected
