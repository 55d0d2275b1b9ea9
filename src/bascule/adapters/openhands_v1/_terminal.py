"""`terminal`: OpenHands' schema and descriptions over a shell that knows when commands end."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from openhands.sdk.tool import ToolAnnotations
from openhands.tools.terminal.definition import (
    TerminalAction,
    TerminalObservation,
    TerminalTool,
)
from openhands.tools.terminal.descriptions import UNIX_TOOL_DESCRIPTION
from openhands.tools.terminal.env import ENV_VAR_NAME_RE
from openhands.tools.terminal.metadata import CmdOutputMetadata

from bascule.adapters.terminal_text import readable
from bascule.core.actions import CmdRun, Interrupt
from bascule.core.observations import CmdMetadata, CmdOutput, Observation
from bascule.wire.events import with_note_in_suffix

from ._conversation_runtime import RuntimeHold, hold
from ._executor import RuntimeExecutor, failure

if TYPE_CHECKING:
    from openhands.sdk.conversation import LocalConversation

logger = logging.getLogger(__name__)

_OUTPUT_LIMIT: Final = 29_000
"""Maximum characters of output. OpenHands cuts the middle out of a result over 30,000 characters,
and the result includes the notes around the output."""

_RESET: Final = (
    "The terminal was reset: its programs were ended, variables and directory changes are gone."
)
_KILL_JOBS_AND_EXIT: Final = 'for p in $(jobs -p); do kill -KILL -- "-$p" 2>/dev/null; done; exit 0'
_RESET_TIMEOUT: Final = 5.0

_KEYS: Final = {"TAB": "C-i", "ESC": "C-[", "BS": "C-h", "ENTER": "\n"}
"""OpenHands' names of keys that are control characters."""
_UNSUPPORTED_KEYS: Final = frozenset({"UP", "DOWN", "LEFT", "RIGHT", "HOME", "END", "PGUP", "PGDN"})

_REFUSED: Final = (
    '\n[Your command "{}" is NOT executed. The previous command is still running. Send an empty '
    "command to wait for it, use is_input to type into it or to interrupt it with C-c, or set "
    "reset for a new terminal.]"
)


class TerminalExecutor(RuntimeExecutor[TerminalAction, TerminalObservation]):
    """One shell for one conversation. OpenHands makes one call at a time."""

    def __init__(self, held: RuntimeHold, *, env: Mapping[str, str]) -> None:
        super().__init__(held)
        self._shell = self._runtime.shell
        self._env = env
        self._exported: dict[str, str] = {}
        self._is_running = False
        self._is_fresh = True
        self._resets = 0

    def _do(
        self, action: TerminalAction, conversation: LocalConversation | None
    ) -> TerminalObservation:
        if action.reset and action.is_input:
            return _error("`reset` and `is_input` exclude each other", action)
        if action.is_input and action.command.strip() in _UNSUPPORTED_KEYS:
            return _error(f"The key {action.command.strip()} cannot be pressed here", action)
        if not action.reset:
            return self._run(action, conversation)
        self._reset()
        if not action.command.strip():
            return TerminalObservation.from_text(_RESET, command="[RESET]", exit_code=0)
        answer = self._run(action, conversation)
        metadata = answer.metadata.model_copy(
            update={"prefix": f"{_RESET}\n\n{answer.metadata.prefix}"}
        )
        changed = {"command": f"[RESET] {action.command}", "metadata": metadata}
        return answer.model_copy(update=changed)

    def interrupt(self) -> None:
        self._runtime.act(Interrupt(self._shell))

    def close(self) -> None:
        """In a window or session, the shell outlives the conversation. End the shell if it was
        used, so that the next conversation gets a new shell. A running program continues."""
        if (
            self._runtime.shell_outlives_conversation
            and not self._is_fresh
            and not self._is_running
        ):
            self._runtime.act(CmdRun("exit 0", shell=self._shell), timeout=_RESET_TIMEOUT)
            self._is_fresh = True
        super().close()

    def _run(
        self, action: TerminalAction, conversation: LocalConversation | None
    ) -> TerminalObservation:
        is_new = not action.is_input and bool(action.command.strip())
        if is_new and not self._is_running:
            self._export(self._variables(action.command, conversation))
        typed = _KEYS.get(action.command.strip(), action.command)
        command = CmdRun(
            typed if action.is_input else action.command,
            is_input=action.is_input,
            shell=self._shell,
            cwd=self._runtime.working_dir if is_new and self._is_fresh else None,
            timeout=action.timeout,
            blocking=action.timeout is not None,
            output_limit=_OUTPUT_LIMIT,
        )
        return self._observation(action, self._runtime.act(command))

    def _observation(self, action: TerminalAction, seen: Observation) -> TerminalObservation:
        if why := failure(seen):
            return _error(why, action)
        if not isinstance(seen, CmdOutput):
            return _error(seen.content or f"The answer was {seen.kind!r}", action)
        state = seen.metadata.state
        self._is_running = state in ("running", "refused")
        if state == "done":
            self._is_fresh = False
        if seen.metadata.shell_ended:
            self._forget()
        return _observation(action, seen)

    def _variables(self, command: str, conversation: LocalConversation | None) -> Mapping[str, str]:
        """The terminal's own variables, and the secrets that the command mentions."""
        if conversation is None:
            return self._env
        registry = conversation.state.secret_registry
        return {**self._env, **registry.get_secrets_as_env_vars(command)}

    def _export(self, variables: Mapping[str, str]) -> None:
        """Export variables with a separate hidden command, so that no result shows them. Each
        value is exported once per shell."""
        new = {
            name: value
            for name, value in variables.items()
            if ENV_VAR_NAME_RE.match(name) and self._exported.get(name) != value
        }
        if not new:
            return
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in new.items())
        export = CmdRun(f"export {words}", shell=self._shell, hidden=True, timeout=10)
        if why := failure(self._runtime.act(export)):
            logger.warning("the terminal could not be given %s: %s", ", ".join(new), why)
        else:
            self._exported.update(new)

    def _reset(self) -> None:
        """End the running program, its jobs and bash. If this fails, switch to a new shell."""
        self._runtime.act(Interrupt(self._shell, kill=True))
        end = CmdRun(_KILL_JOBS_AND_EXIT, shell=self._shell, queue=True)
        if failure(self._runtime.act(end, timeout=_RESET_TIMEOUT)):
            self._resets += 1
            self._shell = f"{self._runtime.shell or 'main'}-reset-{self._resets}"
        self._is_running = False
        self._forget()

    def _forget(self) -> None:
        self._exported.clear()
        self._is_fresh = True


class BasculeTerminal(TerminalTool):
    """Creates OpenHands' own `terminal` with our executor. Clients see no difference."""

    name = "terminal"

    @classmethod
    def create(cls, conv_state: Any, **params: Any) -> Sequence[TerminalTool]:
        return [_tool(hold(conv_state), **params)]


def _tool(
    held: RuntimeHold,
    *,
    env: Mapping[str, str] | None = None,
    no_change_timeout_seconds: float | None = None,
    **unsupported: Any,
) -> TerminalTool:
    """The tool. Logs a warning for parameters that only OpenHands' own terminal supports."""
    ignored = [name for name, value in unsupported.items() if value is not None]
    if no_change_timeout_seconds is not None:
        ignored.append("no_change_timeout_seconds")
    if ignored:
        logger.warning("bascule's terminal ignores %s", ", ".join(ignored))
    return TerminalTool(
        action_type=TerminalAction,
        observation_type=TerminalObservation,
        description=UNIX_TOOL_DESCRIPTION,
        annotations=ToolAnnotations(
            title="terminal",
            readOnlyHint=False,
            destructiveHint=True,
            idempotentHint=False,
            openWorldHint=True,
        ),
        executor=TerminalExecutor(held, env=env or {}),
    )


def _observation(action: TerminalAction, seen: CmdOutput) -> TerminalObservation:
    noted = with_note_in_suffix(seen)
    metadata = noted.metadata if isinstance(noted, CmdOutput) else seen.metadata
    is_refused = metadata.state == "refused"
    return TerminalObservation.from_text(
        readable(metadata.background + seen.content),
        is_error=metadata.state == "idle",
        command=action.command,
        exit_code=None if metadata.state == "idle" else metadata.exit_code,
        timeout=bool(metadata.timed_out),
        metadata=_metadata(metadata, _REFUSED.format(action.command[:200]) if is_refused else ""),
    )


def _metadata(metadata: CmdMetadata, suffix: str) -> CmdOutputMetadata:
    return CmdOutputMetadata(
        exit_code=metadata.exit_code,
        pid=metadata.pid,
        username=metadata.username,
        hostname=metadata.hostname,
        working_dir=metadata.working_dir,
        py_interpreter_path=metadata.py_interpreter_path,
        prefix=metadata.prefix,
        suffix=suffix or metadata.suffix,
    )


def _error(text: str, action: TerminalAction) -> TerminalObservation:
    return TerminalObservation.from_text(
        text, is_error=True, command=action.command, exit_code=None
    )
