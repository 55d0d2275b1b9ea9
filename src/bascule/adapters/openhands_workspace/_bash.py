"""Commands in the form that OpenHands' clients read: a start event, then output events in order."""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, QuotaExceeded
from bascule.hub.sessions.session_runtime import SessionRuntime

from ._programs import ProgramResult, ProgramRunner

logger = logging.getLogger(__name__)

Event = dict[str, Any]

_MAX_PIECE_CHARACTERS: Final = 1 << 20
"""Maximum characters of one output event."""
_MAX_KEPT_CHARACTERS: Final = 16 << 20
"""Maximum characters of the output of all commands of a session. The oldest commands are dropped
first."""
_SIZE_PER_COMMAND: Final = 10_000
"""Characters added to the size of each command, to bound the number of short commands too."""
_MAX_RUNNING: Final = 32
"""Maximum concurrent commands of a session. The session's own token can start commands too."""


@dataclass(slots=True)
class _Command:
    event: Event
    outputs: list[Event] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    @property
    def size(self) -> int:
        printed = sum(
            len(each["stdout"] or "") + len(each["stderr"] or "") for each in self.outputs
        )
        return _SIZE_PER_COMMAND + len(self.event["command"]) + printed


class BashCommands(Closable):
    """The commands of one session. `masked` hides the session's secrets in their output."""

    def __init__(self, programs: ProgramRunner, *, masked: Callable[[str], str]) -> None:
        self._programs = programs
        self._masked = masked
        self._commands: OrderedDict[str, _Command] = OrderedDict()

    async def aclose(self) -> None:
        """End all running commands."""
        tasks = [each.task for each in self._commands.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def start(
        self, runtime: SessionRuntime, command: str, *, directory: str | None, timeout: float
    ) -> Event:
        """Start a command and return its start event. Raises `QuotaExceeded` if too many commands
        run."""
        if sum(not each.outputs for each in self._commands.values()) >= _MAX_RUNNING:
            raise QuotaExceeded(
                f"The session already runs {_MAX_RUNNING} commands for OpenHands, the maximum; "
                "stop one, or wait for it"
            )
        event = _event("BashCommand", command=command, cwd=directory, timeout=timeout)
        command_state = _Command(event)
        self._commands[event["id"]] = command_state
        command_state.task = asyncio.create_task(self._run(runtime, command_state))
        return event

    async def wait_finished(self, command_id: str) -> Event:
        """Wait until the command has ended, and return all its output as one event."""
        command_state = self._commands[command_id]
        assert command_state.task is not None
        await asyncio.wait({command_state.task})
        printed = {
            name: "".join(each[name] or "" for each in command_state.outputs) or None
            for name in ("stdout", "stderr")
        }
        return {**command_state.outputs[-1], **printed}

    async def stop(self, runtime: SessionRuntime, command_id: str) -> bool:
        """End the command if it runs. Returns whether the command is known."""
        if command_id not in self._commands:
            return False
        await self._programs.stop(runtime, command_id)
        return True

    def find(self, event_id: str) -> Event | None:
        return next((each for each in self._events() if each["id"] == event_id), None)

    def search(
        self,
        *,
        kind: str | None = None,
        command_id: str | None = None,
        after: int | None = None,
        newest_first: bool = False,
        page_id: str | None = None,
        limit: int = 100,
    ) -> Mapping[str, Any]:
        """A page of events, and the id of the next page. `after`: only outputs with a higher
        `order`."""
        found = [
            each
            for each in self._events()
            if (kind is None or each["kind"] == kind)
            and (command_id is None or each.get("command_id") == command_id)
            and (after is None or each.get("order", after + 1) > after)
        ]
        if newest_first:
            found.reverse()
        ids = [each["id"] for each in found]
        start = ids.index(page_id) if page_id in ids else 0
        rest = ids[start + limit : start + limit + 1]
        return {"items": found[start : start + limit], "next_page_id": rest[0] if rest else None}

    def clear(self) -> int:
        """Drop all ended commands. Returns the number of dropped events."""
        ended = [key for key, each in self._commands.items() if each.outputs]
        return sum(1 + len(self._commands.pop(key).outputs) for key in ended)

    def _events(self) -> Iterator[Event]:
        for each in self._commands.values():
            yield each.event
            yield from each.outputs

    async def _run(self, runtime: SessionRuntime, command_state: _Command) -> None:
        """Run a command. Its last output always has an exit code, even after a failure."""
        event = command_state.event
        try:
            ended = await self._programs.run(
                runtime,
                event["command"],
                directory=event["cwd"],
                timeout=event["timeout"],
                key=event["id"],
            )
        except BasculeError as error:
            ended = ProgramResult(
                status=-1, err=f"Error executing command: {error.message}".encode()
            )
        except Exception:  # the edge of a task; the log has it
            logger.exception("a command of OpenHands' failed in the hub")
            ended = ProgramResult(status=-1, err=b"Error executing command: the hub failed")
        except asyncio.CancelledError:
            self._end(
                command_state,
                ProgramResult(status=-1, err=b"The hub stopped before the command ended"),
            )
            raise
        self._end(command_state, ended)
        self._forget()

    def _end(self, command_state: _Command, ended: ProgramResult) -> None:
        event = command_state.event
        note = f"Command timed out after {event['timeout']} seconds" if ended.is_late else ""
        outputs = self._outputs(ended, note)
        command_state.outputs = [
            _event("BashOutput", command_id=event["id"], **each) for each in outputs
        ]

    def _outputs(self, ended: ProgramResult, note: str) -> Sequence[Mapping[str, Any]]:
        out = _pieces(self._masked(ended.out.decode(errors="replace")))
        err = _pieces(self._masked(ended.err.decode(errors="replace") + note))
        pairs = list(itertools.zip_longest(out, err)) or [(None, None)]
        return [
            {
                "order": order,
                "exit_code": ended.status if order == len(pairs) - 1 else None,
                "stdout": stdout,
                "stderr": stderr,
            }
            for order, (stdout, stderr) in enumerate(pairs)
        ]

    def _forget(self) -> None:
        kept = sum(each.size for each in self._commands.values())
        for key, each in list(self._commands.items())[:-1]:
            if kept <= _MAX_KEPT_CHARACTERS:
                return
            if each.outputs:
                kept -= each.size
                del self._commands[key]


def _event(kind: str, **fields: Any) -> Event:
    now = datetime.now(UTC).isoformat()
    return {"id": str(uuid.uuid4()), "timestamp": now, "kind": kind, **fields}


def _pieces(text: str) -> list[str]:
    return [
        text[at : at + _MAX_PIECE_CHARACTERS] for at in range(0, len(text), _MAX_PIECE_CHARACTERS)
    ]
