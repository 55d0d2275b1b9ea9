"""Inspect AI's `SandboxEnvironment` on a session of a hub."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, Final, Literal, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from inspect_ai.util._sandbox.environment import SandboxUnavailableError
from pydantic import BaseModel

from bascule.adapters.evaluation_session import EvaluationSession, hub_settings
from bascule.core.errors import (
    AccessDenied,
    FileTooLarge,
    InvalidRequest,
    LinkError,
    NoSuchPath,
    NoSuchSession,
    PermissionRefused,
    SandboxDied,
)
from bascule.link.sessions import SessionCalls
from bascule.runtime.program_files import read_file, write_file
from bascule.runtime.program_run import ProgramRun

from ._config import CONFIG_FILE, SessionConfig, session_body

_NAME: Final = "bascule"
_SESSION_PREFIX: Final = "inspect: "
"""Prefix of the names of sessions, by which `inspect sandbox cleanup` finds them."""
_NOT_FOUND_STATUS: Final = 127
_POLL_SECONDS: Final = 0.2


@sandboxenv(name=_NAME)
class BasculeSandboxEnvironment(SandboxEnvironment):
    """One sample's session. The session is created with the sample and removed at its end."""

    def __init__(self, session: EvaluationSession) -> None:
        super().__init__()
        self._session = session

    # Lifecycle ------------------------------------------------------------------------------

    @classmethod
    async def sample_init(
        cls, task_name: str, config: BaseModel | str | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        del metadata
        body = await asyncio.to_thread(session_body, config)
        name = f"{_SESSION_PREFIX}{task_name}"
        return {"default": cls(await EvaluationSession.open(body, name=name))}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: BaseModel | str | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        del task_name, config, interrupted
        for each in environments.values():
            await each.as_type(cls)._session.aclose()

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        """Remove the session `id`; without id, all sessions that Inspect has left on the hub."""
        async with SessionCalls(*hub_settings()) as calls:
            found = [] if id is not None else await calls.sessions()
            left = [each.id for each in found if each.name.startswith(_SESSION_PREFIX)]
            for session_id in left if id is None else [id]:
                await calls.remove(session_id, force=True)

    @classmethod
    def config_files(cls) -> list[str]:
        return [CONFIG_FILE]

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return SessionConfig(**config)

    def default_polling_interval(self) -> float:
        return _POLL_SECONDS

    # Programs -------------------------------------------------------------------------------

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a program. A program that did not end in time is not run again."""
        del timeout_retry, concurrency
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        try:
            with _inspect_errors(user):
                run = await self._session.run(
                    cmd,
                    stdin=input.encode() if isinstance(input, str) else input or b"",
                    env=env,
                    cwd=cwd or "",
                    user=user or "",
                    timeout=timeout,
                    output_limit=limit,
                )
        except NoSuchPath as error:
            return ExecResult(False, _NOT_FOUND_STATUS, "", f"{error.message}\n")
        if run.timed_out:
            raise TimeoutError(f"{cmd[0]!r} was ended after {timeout} seconds")
        return _result(run)

    # Files ----------------------------------------------------------------------------------

    async def write_file(self, file: str, contents: str | bytes) -> None:
        data = contents.encode() if isinstance(contents, str) else contents
        with _inspect_errors():
            await write_file(self._session.runtime, self._path(file), data)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        try:
            with _inspect_errors():
                data = await read_file(self._session.runtime, self._path(file), limit=limit)
        except FileTooLarge as error:
            limit_text = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR
            raise OutputLimitExceededError(limit_text, None) from error
        return data.decode() if text else data

    # For people -----------------------------------------------------------------------------

    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        """How people reach the session: its shell, and its VS Code in a browser."""
        if user is not None:
            raise NotImplementedError("Shells of a session always run as the session's user")
        runtime = self._session.runtime
        return SandboxConnection(
            type=_NAME,
            command=f"bascule session attach {runtime.session_id} --hub {runtime.hub_url}",
            vscode_command=["vscode.open", runtime.vscode_url],
            container=runtime.session_id,
        )

    def _path(self, file: str) -> str:
        return str(PurePosixPath(self._session.working_dir, file))


def _result(run: ProgramRun) -> ExecResult[str]:
    stdout, stderr = (each.decode(errors="replace") for each in (run.stdout, run.stderr))
    if run.left_out:
        raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, stdout)
    return ExecResult(run.exit_code == 0, run.status, stdout, stderr)


@contextmanager
def _inspect_errors(user: str | None = None) -> Iterator[None]:
    """Turns our errors into those that Inspect knows."""
    try:
        yield
    except PermissionRefused as error:
        raise PermissionError(error.message) from error
    except (AccessDenied, InvalidRequest) as error:
        if user is None or error.detail.get("user") != user:
            raise
        raise SandboxUserUnsupportedError(error.message) from error
    except (LinkError, SandboxDied, NoSuchSession) as error:
        raise SandboxUnavailableError(error.message) from error
