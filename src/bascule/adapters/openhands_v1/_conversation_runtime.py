"""The runtime in which a conversation's tools act: its own sandbox, a VS Code window, or a
session."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, Literal

from openhands.sdk.utils import sanitized_env

from bascule.adapters.shell_names import ShellNames
from bascule.core.actions import Action
from bascule.core.errors import ActionCancelled, BasculeError, InvalidSetting, UsageError
from bascule.core.observations import Observation
from bascule.runtime import CloudRuntime, LocalRuntime, SyncRuntime, VSCodeRuntime
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.wire import error_observation

if TYPE_CHECKING:
    from openhands.sdk.conversation.state import ConversationState

SOFT_TIMEOUT: Final = 30.0
"""Seconds without output after which a sandbox returns. OpenHands' own terminal has the same
default."""

_CONNECT_TIMEOUT: Final = 2.0
"""Seconds to wait for hub and window. This is short, because OpenHands opens the tools of a
conversation one after another."""
_ENVIRONMENT: Final = {"PAGER": "cat", "GIT_PAGER": "cat", "TERM": "xterm-256color"}
"""Agents cannot use a pager. TERM describes Bascule's terminal, not that of the agent server."""


PlaceName = Literal["auto", "sandbox", "window", "session"]


@dataclass(frozen=True, slots=True)
class RuntimeChoice:
    """Which runtime new conversations use; empty fields are read from the environment."""

    place: PlaceName = "auto"
    hub: str = ""
    token: str = field(default="", repr=False)
    window: str = ""
    session: str = ""
    soft_timeout: float = SOFT_TIMEOUT

    @property
    def kind(self) -> PlaceName:
        """The chosen kind. "auto" is a session if a session is named, a window if only a hub is
        named, and otherwise a sandbox."""
        if self.place != "auto":
            return self.place
        if self.session or os.environ.get("BASCULE_SESSION"):
            return "session"
        return "window" if self.hub or os.environ.get("BASCULE_HUB") else "sandbox"


class ConversationRuntime:
    """A connected runtime, the directory to which paths are relative, and the shell for commands.

    Every action gets an observation: a raised error becomes an `Error` observation.
    """

    def __init__(
        self,
        runtime: SyncRuntime,
        *,
        working_dir: str,
        shell: str = "",
        shell_outlives_conversation: bool = False,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self.runtime = runtime
        self.working_dir = working_dir
        self.shell = shell
        self.shell_outlives_conversation = shell_outlives_conversation
        """Whether the shell outlives the conversation: it is in a user's window or in a session."""
        self._on_close = on_close
        self._pending: set[Future[Observation]] = set()

    def path(self, path: str) -> str:
        """`path` as an absolute path. Relative paths start at `working_dir`, not at the shell's
        current directory."""
        return str(PurePosixPath(self.working_dir, path))

    def act(self, action: Action, *, timeout: float | None = None) -> Observation:
        """Run `action`, and cancel it after `timeout` seconds."""
        try:
            future = self.runtime.begin(action)
            self._pending.add(future)
            try:
                return future.result(timeout)
            finally:
                future.cancel()
                self._pending.discard(future)
        except CancelledError:
            error: BasculeError = ActionCancelled("The action was cancelled")
        except TimeoutError:
            error = ActionCancelled(f"The action was cancelled after {timeout} seconds")
        except BasculeError as raised:
            error = raised
        return error_observation(error, action.id)

    def close(self) -> None:
        self.runtime.close()
        self._on_close()

    def cancel(self) -> None:
        """Cancel all running actions. May be called from any thread."""
        for future in tuple(self._pending):
            future.cancel()


class RuntimeHold:
    """A tool's reference to a runtime. It may be released twice, because OpenHands may close
    a tool twice."""

    def __init__(self, runtime: ConversationRuntime, release: Callable[[], None]) -> None:
        self.runtime = runtime
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()


@dataclass(slots=True)
class _Shared:
    runtime: ConversationRuntime
    holders: int = 0


class ConversationRuntimes:
    """The runtime of each conversation: opened for its first tool, closed with its last."""

    def __init__(self) -> None:
        self.choice = RuntimeChoice()
        self._shared: dict[str, _Shared] = {}
        self._names = ShellNames()
        self._lock = threading.Lock()

    def hold(self, conversation_id: str, working_dir: str) -> RuntimeHold:
        """A reference to the conversation's runtime, which is opened if necessary. Raises an error
        if the runtime cannot be opened: no hub, no window, or several windows."""
        with self._lock:
            shared = self._shared.get(conversation_id)
            if shared is None:
                shared = _Shared(_open(self.choice, working_dir, self._names))
                self._shared[conversation_id] = shared
            shared.holders += 1
        return RuntimeHold(shared.runtime, lambda: self._release(conversation_id, shared))

    def _release(self, conversation_id: str, shared: _Shared) -> None:
        with self._lock:
            shared.holders -= 1
            if shared.holders:
                return
            del self._shared[conversation_id]
        shared.runtime.close()


CONVERSATION_RUNTIMES: Final = ConversationRuntimes()
"""Global, because OpenHands' registry of tools is global too."""


def hold(conv_state: ConversationState) -> RuntimeHold:
    """A tool's reference to the runtime of its conversation. Raises an error if there is no
    runtime."""
    return CONVERSATION_RUNTIMES.hold(str(conv_state.id), conv_state.workspace.working_dir)


def _open(choice: RuntimeChoice, working_dir: str, names: ShellNames) -> ConversationRuntime:
    match choice.kind:
        case "window":
            return _in_window(choice, names)
        case "session":
            return _in_session(choice)
    shells = ShellSettings(env=sanitized_env() | _ENVIRONMENT, soft_timeout=choice.soft_timeout)
    sandbox = LocalRuntime(
        working_dir, settings=SandboxSettings(shells=shells), default_timeout=None
    )
    runtime = SyncRuntime(sandbox)
    runtime.connect()
    return ConversationRuntime(runtime, working_dir=working_dir)


def _in_window(choice: RuntimeChoice, names: ShellNames) -> ConversationRuntime:
    window = VSCodeRuntime(
        choice.hub,
        choice.token,
        window=choice.window,
        default_timeout=None,
        connect_patience=_CONNECT_TIMEOUT,
    )
    runtime = SyncRuntime(window)
    runtime.connect()
    folders = window.window.folders
    if not folders:
        runtime.close()
        raise UsageError(f"The window {window.window.name!r} has no folder open to work in")
    shell = names.take()
    return ConversationRuntime(
        runtime,
        working_dir=folders[0].path,
        shell=shell,
        shell_outlives_conversation=True,
        on_close=lambda: names.release(shell),
    )


def _in_session(choice: RuntimeChoice) -> ConversationRuntime:
    """Connect to a session, with a separate shell, because others may use the session too."""
    named = {
        "BASCULE_HUB": choice.hub,
        "BASCULE_TOKEN": choice.token,
        "BASCULE_SESSION": choice.session,
    }
    hub, token, session = (value or os.environ.get(name, "") for name, value in named.items())
    if not (hub and token and session):
        raise InvalidSetting(
            f"A session needs all of {', '.join(named)}, or the arguments for them"
        )
    runtime = SyncRuntime(CloudRuntime(hub, token, session_id=session, default_timeout=None))
    runtime.connect()
    shell = f"openhands-{secrets.token_hex(4)}"
    try:
        working_dir = runtime.run("pwd", shell=shell).content.strip()
    except BaseException:
        runtime.close()
        raise
    return ConversationRuntime(
        runtime, working_dir=working_dir, shell=shell, shell_outlives_conversation=True
    )
