"""Endpoints for whole files: upload, download, list."""

from __future__ import annotations

import tempfile
from pathlib import PurePosixPath
from typing import IO
from urllib.parse import quote

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from bascule.core.errors import InvalidPath, InvalidRequest
from bascule.sandbox.executor import Sandbox

from .download_chunks import pieces_of
from .guard import UPLOAD_PATH
from .replies import ClientDisconnected
from .requests import flag, json_body, json_response, text

_IN_MEMORY = 1 << 20


class FileRoutes:
    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def table(self) -> list[BaseRoute]:
        return [
            Route(UPLOAD_PATH, self.upload, methods=["POST"]),
            Route("/download_files", self.download, methods=["GET"]),
            Route("/list_files", self.list_files, methods=["POST"]),
        ]

    async def upload(self, request: Request) -> Response:
        """A form with one `file`, as OpenHands sends it, or the bytes alone and a `filename`.

        With `recursive` it is a zip to unpack. What is no longer needed of it on disk is gone with
        the request.
        """
        destination = absolute(request.query_params.get("destination", "/"), "destination")
        recursive = flag(request, "recursive")
        if request.headers.get("content-type", "").startswith("multipart/form-data"):
            async with request.form(max_files=1) as form:
                file = form.get("file")
                if not isinstance(file, UploadFile) or not file.filename:
                    raise InvalidRequest("The form has to hold one file, in the field `file`")
                name = file.filename
                await self._keep(file.file, destination, name, unpack=recursive)
        else:
            name = text(request, "filename")
            with tempfile.SpooledTemporaryFile(_IN_MEMORY) as spool:
                await self._receive(request, spool)
                await self._keep(spool, destination, name, unpack=recursive)
        return json_response({"filename": name, "destination": destination, "recursive": recursive})

    async def download(self, request: Request) -> Response:
        """A zip, also of a single file; with `raw`, a file as it is."""
        path = absolute(text(request, "path"), "path")
        archives = self._sandbox.archives
        make = archives.download if flag(request, "raw") else archives.download_zip
        download = await self._sandbox.in_thread(make, path, "/")
        headers = {"content-disposition": _attachment(download.name)}
        if download.size is not None:
            headers["content-length"] = str(download.size)
        kind = "application/zip" if download.is_zip else "application/octet-stream"
        pieces = pieces_of(download, self._sandbox.in_thread)
        return StreamingResponse(pieces, media_type=kind, headers=headers)

    async def list_files(self, request: Request) -> Response:
        """Names in a directory, and none for whatever cannot be listed, as clients expect."""
        asked = await json_body(request)
        if not isinstance(asked, dict) or not isinstance(asked.get("path") or "", str):
            raise InvalidRequest('The body has to be {"path": text}, or {}')
        start = str(self._sandbox.settings.shells.working_dir)
        path = asked.get("path") or start
        return json_response(
            await self._sandbox.in_thread(self._sandbox.files.list_names, path, start)
        )

    async def _receive(self, request: Request, spool: tempfile.SpooledTemporaryFile[bytes]) -> None:
        more = True
        while more:
            message = await request.receive()
            if message["type"] != "http.request":
                raise ClientDisconnected
            more = message.get("more_body", False)
            await self._sandbox.in_thread(spool.write, message["body"])

    async def _keep(self, file: IO[bytes], destination: str, name: str, *, unpack: bool) -> None:
        archives = self._sandbox.archives
        await self._sandbox.in_thread(file.seek, 0)
        if not unpack:
            await self._sandbox.in_thread(archives.store, file, destination, name, "/")
        elif name.lower().endswith(".zip"):
            await self._sandbox.in_thread(archives.unpack, file, destination, "/")
        else:
            raise InvalidRequest(f"`recursive` is for a zip to unpack, and {name!r} is not one")


def absolute(path: str, parameter: str) -> str:
    if not PurePosixPath(path).is_absolute():
        raise InvalidPath(f"`{parameter}` has to be an absolute path, not {path!r}")
    return path


def _attachment(name: str) -> str:
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "_" for c in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
