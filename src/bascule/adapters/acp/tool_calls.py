"""Follows the tool calls of an agent, for the timeline and for questions. Rules only, no I/O."""

from __future__ import annotations

import json
import posixpath
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

_MAX_CALLS: Final = 1000
"""Maximum number of tool calls that have not ended."""
_MAX_TEXT: Final = 30_000
_MAX_NAME: Final = 500
_ENDED: Final = frozenset({"completed", "failed"})
_COMMANDS: Final = ("command", "cmd")
"""Fields of `rawInput` in which agents name a command."""
_DIRECTORIES: Final = ("cwd", "directory", "dir_path", "workdir")


@dataclass(slots=True)
class ToolCall:
    """One tool call, with the newest value of each field."""

    began: float
    id: str = field(default_factory=lambda: str(uuid4()))
    """Its id in the timeline."""
    fields: dict[str, Any] = field(default_factory=dict)
    is_recorded: bool = False

    @property
    def title(self) -> str:
        return str(self.fields.get("title") or self.fields.get("kind") or "tool call")[:_MAX_NAME]

    @property
    def arguments(self) -> Mapping[str, Any]:
        found = self.fields.get("rawInput")
        if isinstance(found, Mapping):
            return found
        return {} if found is None else {"input": found}

    @property
    def command(self) -> str:
        """The exact command that it runs; empty if it is none, or if the agent does not say.

        A tool call without a kind is of ACP's default kind, `other`, and no command.
        """
        if self.fields.get("kind") != "execute":
            return ""
        found = next((self.arguments[name] for name in _COMMANDS if name in self.arguments), "")
        return found if isinstance(found, str) else ""

    def directory(self, default: str) -> str:
        """Where the command runs: a relative directory is below `default`."""
        names = (name for name in _DIRECTORIES if name in self.arguments)
        found = next((self.arguments[name] for name in names), default)
        path = posixpath.join(default, found if isinstance(found, str) else "")
        return posixpath.normpath(path) if path.startswith("/") else default

    @property
    def detail(self) -> str:
        """What a person decides on: the command, or the changes of files, or the arguments."""
        if self.command:
            return self.command
        if changes := _texts(self.fields.get("content"), with_changes=True):
            return f"{self.title}\n\n{changes}"
        if self.arguments:
            return f"{self.title}\n\n{json.dumps(self.arguments, indent=2, ensure_ascii=False)}"
        return self.title

    @property
    def output(self) -> str:
        text = _texts(self.fields.get("content"), with_changes=False)
        raw = self.fields.get("rawOutput")
        if not text and raw is not None:
            text = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)
        return text[:_MAX_TEXT]


class ToolCalls:
    """The tool calls that have not ended, by ACP session and id."""

    def __init__(
        self,
        record: Callable[[Mapping[str, Any]], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`record` adds an entry to the timeline."""
        self._record = record
        self._clock = clock
        self._calls: dict[tuple[str, str], ToolCall] = {}

    def on_update(self, session_id: object, update: object) -> None:
        """Handle a `session/update`."""
        if not isinstance(update, Mapping) or update.get("sessionUpdate") not in (
            "tool_call",
            "tool_call_update",
        ):
            return
        call = self.merge(session_id, update)
        status = call.fields.get("status")
        if status in _ENDED or status == "in_progress":
            self.begin(call)
        if status in _ENDED:
            self._calls.pop(_key(session_id, update), None)
            entry = {"output": call.output, "failed": status == "failed"}
            seconds = max(self._clock() - call.began, 0.0)
            self._record({**_begun(call), **entry, "seconds": seconds})

    def merge(self, session_id: object, update: Mapping[str, Any]) -> ToolCall:
        """The tool call with the fields of `update`."""
        key = _key(session_id, update)
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = ToolCall(self._clock())
            while len(self._calls) > _MAX_CALLS:
                del self._calls[next(iter(self._calls))]
        for name, value in update.items():
            if value is not None and not (name == "rawInput" and value == {}):
                call.fields[name] = value
        return call

    def begin(self, call: ToolCall) -> None:
        """Record that a tool call begins, once."""
        if not call.is_recorded:
            call.is_recorded = True
            self._record(_begun(call))


def _begun(call: ToolCall) -> dict[str, Any]:
    arguments = call.arguments
    if len(json.dumps(arguments)) > _MAX_TEXT:
        arguments = {"left_out": "The arguments are too long to be recorded"}
    return {"id": call.id, "name": call.title, "arguments": arguments}


def _key(session_id: object, update: Mapping[str, Any]) -> tuple[str, str]:
    return str(session_id)[:_MAX_NAME], str(update.get("toolCallId"))[:_MAX_NAME]


def _texts(content: object, *, with_changes: bool) -> str:
    """The texts of tool-call content."""
    found = []
    for each in content if isinstance(content, list) else []:
        match each:
            case {"type": "content", "content": {"text": str(text)}}:
                found.append(text)
            case {"type": "diff", "path": str(path), "newText": str(new)} if with_changes:
                old = each.get("oldText")
                before = "" if not isinstance(old, str) else f"- {old}\n".replace("\n", "\n- ")
                found.append(f"{path}\n{before.removesuffix('- ')}+ " + new.replace("\n", "\n+ "))
            case {"type": "diff", "path": str(path)}:
                found.append(f"Changed {path}")
    return "\n".join(found)
