"""Contexts: further IPython kernels of a sandbox, whose cells answer with rich results.

A rich result is a message of Jupyter's: a stream's text, a result or an exception.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from bascule.core.actions import IPythonRun
from bascule.core.contracts import Closable
from bascule.core.errors import InvalidRequest, NoSuchProgram, QuotaExceeded, SandboxDied
from bascule.core.observations import Error, IPythonOutput, Observation
from bascule.link.json_lines import Message
from bascule.sandbox.shell.keeper import Keeper
from bascule.sandbox.shell.settings import ShellSettings

from .kernel import IPythonKernel
from .settings import IPythonSettings

MAX_CONTEXTS: Final = 16
_MAX_WAITING: Final = 64 << 20
"""Characters of results that wait for a slow reader. Further ones are dropped."""

ActInKernel = Callable[[IPythonRun, IPythonKernel], Awaitable[Observation]]
"""Runs a cell in a kernel as an action of the sandbox: rules and records apply."""


@dataclass(frozen=True, slots=True)
class CellEnd:
    """The end of a cell."""

    count: int | None
    """The execution count; None if the cell did not run."""
    error: str = ""
    """Why the cell did not run to its end, if that is no exception of its code."""


class CodeContext:
    """One kernel. Its cells run one at a time."""

    def __init__(self, context_id: str, cwd: str, make: Callable[[], IPythonKernel]) -> None:
        self.id = context_id
        self.cwd = cwd
        self._make = make
        self.kernel = make()
        self.lock = asyncio.Lock()

    async def restart(self) -> None:
        """End the kernel with its variables. The next cell starts a new one."""
        old, self.kernel = self.kernel, self._make()
        await old.aclose()


@dataclass(slots=True)
class _Results:
    """Results of a running cell that its reader has not taken yet."""

    waiting: deque[dict[str, Any]] = field(default_factory=deque)
    size: int = 0
    dropped: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, output: dict[str, Any]) -> None:
        size = len(str(output.get("text", ""))) + sum(
            len(str(each)) for each in (output.get("data") or {}).values()
        )
        if self.size + size > _MAX_WAITING:
            self.dropped += size
            return
        output["_size"] = size
        self.size += size
        self.waiting.append(output)
        self.arrived.set()

    def take(self) -> dict[str, Any]:
        output = self.waiting.popleft()
        self.size -= output.pop("_size")
        return output


class CodeContexts(Closable):
    """The contexts of one sandbox, from their creation until `remove` or the sandbox's end."""

    def __init__(
        self,
        settings: IPythonSettings,
        shells: ShellSettings,
        *,
        keeper: Keeper,
        ensure_dir: Callable[[], Path],
        act: ActInKernel,
    ) -> None:
        self._settings = replace(settings, follow_shell=False)
        self._shells = shells
        self._keeper = keeper
        self._ensure_dir = ensure_dir
        self._act = act
        self._contexts: dict[str, CodeContext] = {}

    async def aclose(self) -> None:
        await asyncio.gather(*(each.kernel.aclose() for each in self._contexts.values()))
        self._contexts.clear()

    def create(self, cwd: str, context_id: str = "") -> CodeContext:
        """A new context, or the existing one with this id. `cwd`: an existing directory, in which
        its kernel starts."""
        if context_id in self._contexts:
            return self._contexts[context_id]
        if len(self._contexts) >= MAX_CONTEXTS:
            raise QuotaExceeded(
                f"The sandbox has {MAX_CONTEXTS} contexts, the maximum; remove one first"
            )
        context_id = context_id or secrets.token_hex(8)
        shells = replace(self._shells, working_dir=Path(cwd))

        def make() -> IPythonKernel:
            return IPythonKernel(
                self._settings,
                shells,
                keeper=self._keeper,
                ensure_dir=self._ensure_dir,
                shell_cwd=lambda: cwd,
                name=f"context-{context_id}-{secrets.token_hex(2)}",
                is_rich=True,
            )

        context = self._contexts[context_id] = CodeContext(context_id, cwd, make)
        return context

    def all(self) -> Sequence[CodeContext]:
        return list(self._contexts.values())

    def get(self, context_id: str) -> CodeContext:
        found = self._contexts.get(context_id)
        if found is None:
            raise NoSuchProgram(f"There is no context {context_id!r}")
        return found

    async def remove(self, context_id: str) -> None:
        context = self.get(context_id)
        del self._contexts[context_id]
        await context.kernel.aclose()

    async def run(
        self, context: CodeContext, code: str, timeout: float | None
    ) -> AsyncGenerator[dict[str, Any] | CellEnd, None]:
        """The results of a cell as they arrive, and its end. Closing interrupts the cell."""
        async with context.lock:
            results, begun = _Results(), ""

            def on_rich(message: Message) -> None:
                nonlocal begun
                if message["op"] == "begun":
                    begun = message["cell"]
                elif message["op"] == "output" and message["cell"] == begun:
                    results.add(dict(message["output"]))

            context.kernel.on_rich = on_rich
            action = IPythonRun(code, include_extra=False, timeout=timeout)
            running = asyncio.ensure_future(self._act(action, context.kernel))
            running.add_done_callback(lambda _: results.arrived.set())
            try:
                while not running.done() or results.waiting:
                    while results.waiting:
                        yield results.take()
                    results.arrived.clear()
                    if not running.done():
                        await results.arrived.wait()
                yield _end(running.result(), results.dropped)
            finally:
                context.kernel.on_rich = None
                running.cancel()
                with suppress(asyncio.CancelledError, SandboxDied):
                    await running


def ensure_directory(path: str) -> None:
    """Blocks. Raises `InvalidRequest` if there is no such directory."""
    if not Path(path).is_dir():
        raise InvalidRequest(f"`cwd` is {path!r}, and there is no such directory")


def _end(observation: Observation, dropped: int) -> CellEnd:
    if isinstance(observation, Error):
        return CellEnd(None, observation.content)
    assert isinstance(observation, IPythonOutput)
    metadata, why = observation.metadata, ""
    if metadata.timed_out:
        why = "The cell was interrupted because its time was over"
    elif metadata.state not in ("done", "failed"):
        why = observation.content or f"The cell ended: {metadata.state}"
    elif dropped:
        why = f"{dropped} characters of output were dropped, because they were read too slowly"
    return CellEnd(metadata.execution_count, why)
