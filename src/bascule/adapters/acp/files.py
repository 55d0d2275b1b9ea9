"""Answers the agent's `fs/read_text_file` and `fs/write_text_file` with the files of a runtime."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from bascule.core.actions import FileEdit, FileRead, FileWrite
from bascule.core.contracts import Runtime
from bascule.core.errors import InvalidRange, InvalidRequest, NoSuchPath, PathOutsideRoots
from bascule.core.observations import FileContent, FileEdited, FileWritten, Observation
from bascule.runtime.verbs import expect

from .paths import PathMap, is_inside


class AcpFiles:
    """The text files below `root`, with the text that an editor shows but has not saved."""

    def __init__(self, runtime: Runtime, root: str) -> None:
        self._runtime = runtime
        self._root = root

    async def read(self, params: Mapping[str, Any], paths: PathMap) -> Mapping[str, Any]:
        """`paths`: from the agent's paths to those of the runtime."""
        path = self._path(params, paths)
        line, limit = _count(params, "line"), _count(params, "limit")
        start = max((line or 1) - 1, 0)
        if limit == 0:
            return {"content": ""}
        end = -1 if limit is None else start + limit
        try:
            found = expect(
                await self._runtime.act(FileRead(path, start=start, end=end)), FileContent
            )
        except InvalidRange:  # the file ends before `line`
            return {"content": ""}
        return {"content": found.content}

    async def write(self, params: Mapping[str, Any], paths: PathMap) -> Mapping[str, Any]:
        path, content = self._path(params, paths), params.get("content")
        if not isinstance(content, str):
            raise InvalidRequest(f"`content` must be a text, not {content!r:.200}")
        for action in await self._writing(path, content):
            kind: type[Observation] = FileWritten if isinstance(action, FileWrite) else FileEdited
            expect(await self._runtime.act(action), kind)
        return {}

    async def _writing(self, path: str, content: str) -> list[FileWrite | FileEdit]:
        """The actions that make `content` the file's exact text.

        `FileWrite` adds a newline at the end of the text. So a text without one is written with
        `FileEdit`. This cannot replace an empty text, so an empty file needs two actions.
        """
        if not content or content.endswith("\n"):
            return [FileWrite(path, content)]
        try:
            old = expect(await self._runtime.act(FileRead(path)), FileContent).content
        except NoSuchPath:
            return [FileEdit(path, "create", file_text=content)]
        replace = FileEdit(path, "str_replace", old_str=old or f"{content}\n", new_str=content)
        return [replace] if old else [FileWrite(path, content), replace]

    def _path(self, params: Mapping[str, Any], paths: PathMap) -> str:
        path = params.get("path")
        if not isinstance(path, str) or not path.startswith("/"):
            raise InvalidRequest(f"`path` must be an absolute path, not {path!r:.200}")
        if "\0" in path:
            raise InvalidRequest(f"`path` contains a NUL byte: {path!r:.200}")
        found = posixpath.normpath(paths.to_there(path))
        if not is_inside(found, self._root):
            raise PathOutsideRoots(f"{path} is outside of the workspace {self._root}", path=path)
        return found


def _count(params: Mapping[str, Any], name: str) -> int | None:
    found = params.get(name)
    if found is None:
        return None
    if type(found) is not int or not 0 <= found < 1 << 31:
        raise InvalidRequest(f"`{name}` must be a number of lines, not {found!r:.200}")
    return found
