"""Serves one store to another process by JSON lines. The VS Code extension uses this worker,
because the extension cannot call Python directly.

A request is `{"id", "op", …}`, and its answer `{"id", "result"}` or `{"id", "error"}`. While the
worker restores, it asks about open files: `{"ask", "op", …}`, answered by `{"answer", …}`. Messages
`{"op": "notice", "text"}` need no answer. Requests are executed one at a time, in their order.
"""

from __future__ import annotations

import base64
import itertools
import json
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import IO, Any, Final

from bascule.core.actions import ListCheckpoints, RestoreCheckpoint, ShowCheckpoint
from bascule.core.errors import BasculeError
from bascule.core.observations import Observation

from .actions import CheckpointAction, execute
from .edited_path import EditedPath
from .editor import EditorRefused, OpenFileEditor, OpenFiles
from .recording import ActionRecorder

logger = logging.getLogger(__name__)

Message = Mapping[str, Any]
_COMMON: Final = frozenset(each.name for each in fields(Observation))


class CheckpointWorker:
    """Executes requests until the input ends. The input also ends if the other process is
    killed."""

    def __init__(self, recorder: ActionRecorder, source: IO[bytes], sink: IO[bytes]) -> None:
        self._recorder = recorder
        recorder.on_notice = lambda text: self._send({"op": "notice", "text": text})
        self._source, self._sink = source, sink
        self._waiting: deque[Message] = deque()
        self._numbers = itertools.count(1)

    def serve(self) -> None:
        """Answer requests until the input ends. Then record the changes of actions that have not
        ended, and close the store."""
        try:
            while (message := self._next()) is not None:
                self._send({"id": message["id"], **self._answer(message)})
        except BrokenPipeError:
            logger.info("the other process has ended")
        self._recorder.close()

    def ask_editor(self, question: Message) -> Message:
        """Ask the other process, which runs the editor, and return its answer. Requests that arrive
        meanwhile are executed later.

        Raises `EditorRefused` if the other process ends.
        """
        number = next(self._numbers)
        try:
            self._send({"ask": number, **question})
        except BrokenPipeError:
            raise EditorRefused("the window was closed") from None
        while (message := self._read()) is not None:
            if message.get("answer") == number:
                return message
            self._waiting.append(message)
        raise EditorRefused("the window was closed")

    def _next(self) -> Message | None:
        return self._waiting.popleft() if self._waiting else self._read()

    def _read(self) -> Message | None:
        line = self._source.readline()
        # A process that is killed while it writes leaves an incomplete line.
        return json.loads(line) if line.endswith(b"\n") else None

    def _send(self, message: Message) -> None:
        self._sink.write(json.dumps(message).encode() + b"\n")
        self._sink.flush()

    def _answer(self, request: Message) -> Message:
        try:
            return {"result": self._execute(request)}
        except BasculeError as error:
            return {"error": {"code": error.code, "message": error.message}}
        except OSError as error:
            return {"error": {"code": "file.storage", "message": str(error)}}
        except Exception as error:
            logger.exception("a request failed")
            return {"error": {"code": "internal", "message": repr(error)}}

    def _execute(self, request: Message) -> Any:
        recorder = self._recorder
        match request["op"]:
            case "begin":
                edited = None
                if request.get("path") is not None:
                    path, follows = Path(request["path"]), bool(request["follows_links"])
                    edited = EditedPath(path, follows_links=follows)
                return recorder.begin(request["agent"], request["title"], edited)
            case "end":
                return recorder.end(request["checkpoint"])
            case "saved":
                return recorder.saved(request["paths"])
            case "look":
                return recorder.scan()
            case operation:
                action = _action(operation, request["args"])
                editor = _RemoteEditor(self, recorder.store().workspace)
                return _encode(execute(recorder.store(), action, editor))


class _RemoteEditor(OpenFileEditor):
    """The editor at the other end of the connection."""

    def __init__(self, worker: CheckpointWorker, workspace: Path) -> None:
        self._worker, self._workspace = worker, workspace

    def open_files(self) -> OpenFiles:
        """The open files; none if the other process has ended."""
        try:
            answer = self._worker.ask_editor({"op": "open_files"})
        except EditorRefused:
            return OpenFiles()
        unsaved, saved = self._inside(answer["unsaved"]), self._inside(answer["saved"])
        return OpenFiles(unsaved, saved - unsaved)

    def write(self, path: str, content: bytes) -> bool:
        question = {
            "op": "write",
            "path": str(self._workspace / path),
            "content": base64.b64encode(content).decode(),
        }
        answer = self._worker.ask_editor(question)
        if reason := answer.get("refused"):
            raise EditorRefused(reason)
        return bool(answer["written"])

    def _inside(self, paths: list[str]) -> frozenset[str]:
        """Those of `paths` that are in the workspace, with links resolved and relative to the
        workspace."""
        real = (Path(each).resolve() for each in paths)
        return frozenset(
            str(each.relative_to(self._workspace))
            for each in real
            if each.is_relative_to(self._workspace)
        )


def _action(operation: str, args: Message) -> CheckpointAction:
    match operation:
        case "checkpoints":
            return ListCheckpoints()
        case "checkpoint":
            return ShowCheckpoint(args["checkpoint"], tuple(args.get("paths") or ()))
        case "restore":
            return RestoreCheckpoint(
                args["checkpoint"],
                tuple(args.get("paths") or ()),
                since=bool(args.get("since")),
                dry_run=bool(args.get("dry_run")),
            )
    raise ValueError(f"unknown operation {operation!r}")


def _encode(observation: Observation) -> Message:
    """The content and extras of an observation, in the form in which they are sent."""
    names = [each.name for each in fields(observation) if each.name not in _COMMON]
    return {
        "content": observation.content,
        "extras": {name: getattr(observation, name) for name in names},
    }
