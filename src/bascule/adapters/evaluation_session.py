"""A session of a hub for one run of an evaluation, which is removed at the end of the run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from bascule.core.errors import InvalidSetting
from bascule.runtime import CloudRuntime
from bascule.runtime.program_run import OUTPUT_LIMIT, ProgramRun, run_program

_MAX_NAME: Final = 200
_PRINT_DIRECTORY: Final = ("sh", "-c", "pwd")


class EvaluationSession:
    """A new session, in which programs run. Whoever opened it closes it, which removes it."""

    def __init__(self, runtime: CloudRuntime, working_dir: str) -> None:
        self.runtime = runtime
        self.working_dir = working_dir
        """Path of the workspace in the session, where programs start."""

    @classmethod
    async def open(
        cls, body: Mapping[str, Any], *, name: str = "", hub: str = "", token: str = ""
    ) -> Self:
        """Create a session and wait until it is ready.

        `body`: as for `POST /api/sessions`. `name`: the session's name, if `body` has none. `hub`
        and `token` default to BASCULE_HUB and BASCULE_TOKEN. Raises `InvalidSetting` without them.
        """
        url, key = _hub(hub, token)
        named = {"name": displayable(name), **body}
        runtime = CloudRuntime(url, key, session=named, remove=True)
        try:
            await runtime.connect()
            found = await run_program(runtime, _PRINT_DIRECTORY)
        except BaseException:
            await runtime.aclose()
            raise
        return cls(runtime, found.stdout.decode().removesuffix("\n"))

    async def aclose(self) -> None:
        await self.runtime.aclose()

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        user: str = "",
        timeout: float | None = None,
        output_limit: int = OUTPUT_LIMIT,
    ) -> ProgramRun:
        return await run_program(
            self.runtime,
            argv,
            stdin=stdin,
            env=env,
            cwd=cwd,
            user=user,
            timeout=timeout,
            output_limit=output_limit,
        )


def hub_settings() -> tuple[str, str]:
    """URL and token of the hub in the environment. Raises `InvalidSetting` without them."""
    return _hub("", "")


def displayable(name: str) -> str:
    """A session's name: `name` without control characters, and not too long."""
    return "".join(each for each in name if each.isprintable())[:_MAX_NAME]


def _hub(hub: str, token: str) -> tuple[str, str]:
    url = hub or os.environ.get("BASCULE_HUB", "")
    key = token or os.environ.get("BASCULE_TOKEN", "")
    if not url:
        raise InvalidSetting("No hub was given; set BASCULE_HUB to its URL")
    if not key:
        raise InvalidSetting("The hub needs a token of scope agent; set BASCULE_TOKEN")
    return url.rstrip("/"), key
