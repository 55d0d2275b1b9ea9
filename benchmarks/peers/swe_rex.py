"""SWE-ReX's local runtime, in process: bash sessions over pexpect."""

from __future__ import annotations

import itertools
from importlib.metadata import version

from benchmarks.peers.serve import serve
from benchmarks.peers.subject import Answer, Files, Refused, Subject


class SweRex(Subject[str], Files):
    name = "swe-rex"

    def __init__(self) -> None:
        from swerex.exceptions import CommandTimeoutError
        from swerex.runtime import abstract
        from swerex.runtime.local import LocalRuntime

        self._api = abstract
        self._timed_out = CommandTimeoutError
        self._runtime = LocalRuntime()
        self._names = map(str, itertools.count())

    def versions(self) -> dict[str, str]:
        return {"swe-rex": version("swe-rex")}

    async def open(self) -> str:
        name = next(self._names)
        await self._runtime.create_session(self._api.CreateBashSessionRequest(session=name))
        return name

    async def run(self, shell: str, command: str, timeout: float) -> Answer:
        action = self._api.BashAction(
            command=command, session=shell, timeout=timeout, check="silent"
        )
        try:
            seen = await self._runtime.run_in_session(action)
        except self._timed_out:
            raise Refused(f"no end after {timeout:.0f} s") from None
        return Answer(seen.output, seen.exit_code)

    async def close(self, shell: str) -> None:
        await self._runtime.close_session(self._api.CloseBashSessionRequest(session=shell))

    async def read(self, path: str) -> str:
        content: str = (await self._runtime.read_file(self._api.ReadFileRequest(path=path))).content
        return content

    async def write(self, path: str, text: str) -> None:
        await self._runtime.write_file(self._api.WriteFileRequest(path=path, content=text))

    async def edit(self, path: str, old: str, new: str) -> None:  # noqa: ARG002
        raise Refused("has no editor")


if __name__ == "__main__":
    serve(SweRex())
