"""Executes SWE-ReX's commands, and reads and writes its files, with programs in the session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from bascule.core.errors import FileTooLarge, NoSuchPath, PermissionRefused
from bascule.hub.sessions.session_runtime import SessionRuntime
from bascule.runtime.program_files import read_file, write_file
from bascule.runtime.program_run import run_program

from ._messages import RexCommand, RexError, RexReadFile, RexWriteFile
from ._text import decoded

_MAX_FILE_BYTES: Final = 64 << 20
_MAX_SHOWN: Final = 1 << 20
"""Maximum characters of each stream in the message of an error."""


async def execute(runtime: SessionRuntime, request: RexCommand) -> Mapping[str, Any]:
    """Run a command as `subprocess.run` would."""
    with _python_errors():
        run = await run_program(
            runtime,
            _argv(request),
            env=request.env,
            cwd=request.cwd or "",
            timeout=request.timeout,
        )
    if run.timed_out:
        raise RexError(
            "CommandTimeoutError", f"Timeout ({request.timeout}s) exceeded while running command"
        )
    stdout = await decoded(run.stdout, errors="backslashreplace")
    stderr = await decoded(run.stderr, errors="backslashreplace")
    if run.left_out:
        stdout += f"\n[{run.left_out:,} bytes are left out here.]\n"
    if request.check and run.exit_code != 0:
        raise RexError(
            "NonZeroExitCodeError",
            f"{request.error_msg}: "
            * bool(request.error_msg)
            + f"Command {request.command!r} failed with exit code {run.exit_code}. "
            f"Stdout:\n{_shown(stdout)}\nStderr:\n{_shown(stderr)}",
        )
    return {"stdout": stdout, "stderr": stderr, "exit_code": run.exit_code}


async def read(runtime: SessionRuntime, request: RexReadFile) -> Mapping[str, Any]:
    try:
        with _python_errors():
            content = await read_file(runtime, request.path, limit=_MAX_FILE_BYTES)
    except FileTooLarge as error:
        raise RexError("builtins.ValueError", error.message) from error
    try:
        encoding, errors = request.encoding or "utf-8", request.errors or "strict"
        text = await decoded(content, encoding=encoding, errors=errors)
    except (LookupError, ValueError) as error:  # UnicodeDecodeError takes five arguments
        raise RexError("builtins.ValueError", str(error)) from error
    return {"content": text}


async def write(runtime: SessionRuntime, request: RexWriteFile) -> Mapping[str, Any]:
    with _python_errors():
        await write_file(runtime, request.path, request.content.encode())
    return {}


def _shown(text: str) -> str:
    left_out = len(text) - _MAX_SHOWN
    note = f" [{left_out:,} characters are left out here.]" if left_out > 0 else ""
    return repr(text[:_MAX_SHOWN]) + note


def _argv(request: RexCommand) -> Sequence[str]:
    command = request.command
    words = [command] if isinstance(command, str) else command
    argv = ["/bin/sh", "-c", *words] if request.shell else words
    return (
        ["/bin/sh", "-c", 'exec "$@" 2>&1', "sh", *argv] if request.merge_output_streams else argv
    )


@contextmanager
def _python_errors() -> Iterator[None]:
    """Turns errors into the exceptions that Python itself raises, which the client raises again."""
    try:
        yield
    except NoSuchPath as error:
        raise RexError("builtins.FileNotFoundError", error.message) from error
    except PermissionRefused as error:
        raise RexError("builtins.PermissionError", error.message) from error
    except OSError as error:
        raise RexError(f"builtins.{type(error).__name__}", str(error)) from error
