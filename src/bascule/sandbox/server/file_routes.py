"""Endpoints for whole files: upload, download, list."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import PurePosixPath
from typing import IO
from urllib.parse import quote

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from bascule.core.errors import InvalidPath, InvalidRequest
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.files.transfers import FileDownload
from bascule.serving.owning_stream import OwningStream

from .download_chunks import pieces_of
from .guard import UPLOAD_PATH
from .requests import flag, json_body, json_response, spooled_body, text


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
        """Store an upload: a form with one `file` (OpenHands), or raw bytes and a `filename`.

        With `recursive`, the upload is a zip that is unpacked. Temporary files are deleted at the
        end of the request.
        """
        destination = absolute(request.query_params.get("destination", "/"), "destination")
        recursive = flag(request, "recursive")
        if request.headers.get("content-type", "").startswith("multipart/form-data"):
            async with request.form(max_files=1) as form:
                file = form.get("file")
                if not isinstance(file, UploadFile) or not file.filename:
                    raise InvalidRequest("The form must contain one file, in the field `file`")
                name = file.filename
                await self._store_upload(file.file, destination, name, unpack=recursive)
        else:
            name = text(request, "filename")
            async with spooled_body(request, self._sandbox.in_thread) as spool:
                await self._store_upload(spool, destination, name, unpack=recursive)
        return json_response({"filename": name, "destination": destination, "recursive": recursive})

    async def download(self, request: Request) -> Response:
        """Send a zip, even for a single file; with `raw`, send the file's own bytes."""
        path = absolute(text(request, "path"), "path")
        raw = flag(request, "raw")

        def begin() -> FileDownload:
            transfers = self._sandbox.files.transfers
            return transfers.download(path, "/") if raw else transfers.download_zip(path, "/")

        download = await self._sandbox.in_thread(begin)
        headers = {"content-disposition": _attachment(download.name)}
        if download.size is not None:
            headers["content-length"] = str(download.size)
        kind = "application/zip" if download.is_zip else "application/octet-stream"
        owned = AsyncExitStack()
        owned.callback(download.close)
        pieces = pieces_of(download, self._sandbox.in_thread)
        return OwningStream(pieces, owned, media_type=kind, headers=headers)

    async def list_files(self, request: Request) -> Response:
        """List the names in a directory; an empty list if it cannot be read, as clients expect."""
        asked = await json_body(request)
        if not isinstance(asked, dict) or not isinstance(asked.get("path") or "", str):
            raise InvalidRequest('The body must be {"path": text}, or {}')
        start = str(self._sandbox.settings.shells.working_dir)
        path = asked.get("path") or start
        return json_response(
            await self._sandbox.in_thread(lambda: self._sandbox.files.files.list_names(path, start))
        )

    async def _store_upload(
        self, file: IO[bytes], destination: str, name: str, *, unpack: bool
    ) -> None:
        if unpack and not name.lower().endswith(".zip"):
            raise InvalidRequest(f"`recursive` is for a zip to unpack, and {name!r} is not one")
        await self._sandbox.store_upload(file, destination, name, "/", unpacks=unpack)


def absolute(path: str, parameter: str) -> str:
    if not PurePosixPath(path).is_absolute():
        raise InvalidPath(f"`{parameter}` must be an absolute path, not {path!r}")
    return path


def _attachment(name: str) -> str:
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "_" for c in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
