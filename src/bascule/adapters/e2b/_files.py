"""`/files`: uploads and downloads, which are streamed."""

from __future__ import annotations

import posixpath
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final
from urllib.parse import quote

from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bascule.core.errors import InvalidRequest, IsADirectory, MessageTooLarge
from bascule.hub.sessions.sandbox_messages import FileEntryMessage
from bascule.serving.asgi import read_pieces
from bascule.serving.owning_stream import OwningStream

from ._sandbox import OpenSandbox

_RAW: Final = "application/octet-stream"
_MAX_PIECE: Final = 1 << 20


async def download(sandbox: OpenSandbox, request: Request) -> Response:
    """Stream a file to the client. The hub stores no part of it."""
    path = await _target(sandbox, request)
    async with AsyncExitStack() as stack:
        found = await stack.enter_async_context((await sandbox.client()).download(path))
        if found.is_zip:
            raise IsADirectory(f"{path} is a directory, and no file to read")
        held = stack.pop_all()
    name = quote(posixpath.basename(path), safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    if found.size is not None:
        headers["Content-Length"] = str(found.size)
    return OwningStream(found.chunks, held, media_type=_RAW, headers=headers)


async def upload(sandbox: OpenSandbox, request: Request, *, limit: int) -> Response:
    """Write one file from a raw body, or the files of a form. Each is streamed into the sandbox.

    `limit`: maximum bytes of a decompressed body.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    pieces: AsyncIterator[bytes] = read_pieces(request.receive)
    if request.headers.get("content-encoding", "identity") == "gzip":
        pieces = _decompressed(pieces, limit)
    if kind == _RAW:
        written = [await _write(sandbox, await _target(sandbox, request), pieces)]
    else:
        written = await _write_form(sandbox, request, pieces)
    return JSONResponse([_described(each) for each in written])


async def _write_form(
    sandbox: OpenSandbox, request: Request, pieces: AsyncIterator[bytes]
) -> list[FileEntryMessage]:
    """Write each part named `file`. The query's `path` overrides the name of the only file."""
    query_path = request.query_params.get("path", "")
    form = _FormParts(request.headers.get("content-type", ""), pieces)
    written: list[FileEntryMessage] = []
    async for part in form.parts():
        if query_path and written:
            raise InvalidRequest("With `path` in the query, the form must contain one file")
        path = await sandbox.path(query_path or part)
        written.append(await _write(sandbox, path, form.content()))
    if not written:
        raise InvalidRequest("The form must contain a file, in the field `file`")
    return written


async def _write(sandbox: OpenSandbox, path: str, pieces: AsyncIterator[bytes]) -> FileEntryMessage:
    return await (await sandbox.client()).write_file(path, pieces)


async def _target(sandbox: OpenSandbox, request: Request) -> str:
    path = request.query_params.get("path", "")
    if not path:
        raise InvalidRequest("The query must contain `path`", parameter="path")
    if "signature" in request.query_params:
        raise InvalidRequest("Signed URLs are not supported; send the header `X-Access-Token`")
    return await sandbox.path(path)


def _described(entry: FileEntryMessage) -> Mapping[str, Any]:
    return {"name": entry.name, "type": "file", "path": entry.path}


async def _decompressed(pieces: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    decompressor, size = zlib.decompressobj(31), 0
    try:
        async for piece in pieces:
            data = piece
            while data or decompressor.unconsumed_tail:
                out = decompressor.decompress(data, _MAX_PIECE)
                data = decompressor.unconsumed_tail
                size += len(out)
                if size > limit:
                    raise MessageTooLarge(f"The file is larger than {limit} bytes", limit=limit)
                if out:
                    yield out
                if not out and not data:
                    break
    except zlib.error as error:
        raise InvalidRequest(f"The body is not valid gzip: {error}") from error
    if not decompressor.eof:
        raise InvalidRequest("The gzip body is incomplete")


class _FormParts:
    """Reads the files of a form one after the other, as its body arrives."""

    def __init__(self, content_type: str, pieces: AsyncIterator[bytes]) -> None:
        _, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if not boundary or len(boundary) > 200:
            raise InvalidRequest("The form's `Content-Type` must name a `boundary`")
        self._pieces = pieces
        self._events: list[tuple[str, bytes]] = []
        self._parser = MultipartParser(
            boundary,
            {
                "on_header_field": lambda data, start, end: self._on("field", data[start:end]),
                "on_header_value": lambda data, start, end: self._on("value", data[start:end]),
                "on_header_end": lambda: self._on("header", b""),
                "on_headers_finished": lambda: self._on("headers", b""),
                "on_part_data": lambda data, start, end: self._on("data", data[start:end]),
                "on_part_end": lambda: self._on("end", b""),
                "on_end": lambda: self._on("finish", b""),
            },
        )
        self._is_in_file = False

    async def parts(self) -> AsyncIterator[str]:
        """The file names of the parts. Read `content` of each before the next."""
        field, value, disposition = b"", b"", b""
        while True:
            kind, data = await self._next()
            match kind:
                case "field":
                    field += data
                case "value":
                    value += data
                case "header":
                    if field.lower() == b"content-disposition":
                        disposition = value
                    field = value = b""
                case "headers":
                    _, options = parse_options_header(disposition)
                    disposition = b""
                    if options.get(b"name") == b"file":
                        self._is_in_file = True
                        yield _file_name(options.get(b"filename", b""))
                case "finish":
                    return
            if len(field) + len(value) > 16_384:
                raise InvalidRequest("A header of the form is longer than 16384 bytes")

    async def content(self) -> AsyncIterator[bytes]:
        """The content of the current file."""
        while self._is_in_file:
            kind, data = await self._next()
            if kind == "data":
                yield data
            elif kind == "end":
                self._is_in_file = False

    async def _next(self) -> tuple[str, bytes]:
        while not self._events:
            piece = await anext(self._pieces, None)
            if piece is None:
                raise InvalidRequest("The form is incomplete")
            try:
                self._parser.write(piece)
            except ValueError as error:
                raise InvalidRequest(f"The form cannot be read: {error}") from error
        return self._events.pop(0)

    def _on(self, kind: str, data: bytes) -> None:
        self._events.append((kind, bytes(data)))


def _file_name(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"The name of a file is not UTF-8: {name!r}") from error
