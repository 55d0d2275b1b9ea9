"""mini-swe-agent's `Environment` in a session of a hub."""

from __future__ import annotations

from typing import Any, Final

from minisweagent.exceptions import Submitted
from minisweagent.utils.serialize import recursive_merge
from pydantic import BaseModel, ConfigDict, Field

from bascule.adapters.evaluation_session import hub_settings
from bascule.core.errors import BasculeError
from bascule.runtime import CloudRuntime, SyncRuntime
from bascule.runtime.program_run import ProgramRun

_SUBMISSION: Final = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""First line of the output of the command that ends the task."""
_ONE_STREAM: Final = "exec 2>&1\n"
"""Sends stderr to stdout, so that the order of both is kept."""
_UNAME: Final = {"system": "s", "node": "n", "release": "r", "version": "v", "machine": "m"}
"""Names of Python's `platform.uname`, which prompts use, with options of the program `uname`."""


class BasculeEnvironmentConfig(BaseModel):
    """The keys of `environment:` in a configuration of mini-swe-agent."""

    model_config = ConfigDict(extra="forbid")

    session: dict[str, Any] = Field(default_factory=dict)
    """Body of `POST /api/sessions` for the new session, such as `spawner`, `image` and `egress`."""
    session_id: str = ""
    """Id of an existing session to use instead of a new one. It is not removed at the end."""
    image: str = ""
    """Image of the new session. Benchmarks of mini-swe-agent set it for each task."""
    cwd: str = ""
    """Directory in which commands run; empty: the session's workspace."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of commands."""
    timeout: int = 30
    """Seconds after which a command is ended."""
    interpreter: list[str] = ["bash", "-c"]
    """Program that gets the command as its last argument."""


class BasculeEnvironment:
    """Runs each command as a separate program in one session.

    The session is removed with this object, unless the configuration names an existing session.
    """

    def __init__(self, *, config_class: type = BasculeEnvironmentConfig, **kwargs: Any) -> None:
        self.config: BasculeEnvironmentConfig = config_class(**kwargs)
        image = {"image": self.config.image} if self.config.image else {}
        self._runtime: SyncRuntime | None = SyncRuntime(
            CloudRuntime(
                *hub_settings(),
                session_id=self.config.session_id,
                session={**self.config.session, **image},
                remove=True,
            )
        )
        self._runtime.connect()
        self._machine = self._uname()

    def execute(
        self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None
    ) -> dict[str, Any]:
        """Run `action["command"]`. Raises `Submitted` for the command that ends the task."""
        seconds = timeout or self.config.timeout
        try:
            run = self._run(action.get("command", ""), cwd or self.config.cwd, seconds)
        except BasculeError as error:
            return _failed("", error, f"An error occurred while executing the command: {error}")
        if run.timed_out:
            late = TimeoutError(f"the command was ended after {seconds} seconds")
            return _failed(_text(run), late, f"The command timed out: {late}")
        output = {"output": _text(run), "returncode": run.status, "exception_info": ""}
        _ensure_not_submitted(output)
        return output

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        merged: dict[str, Any] = recursive_merge(self.config.model_dump(), self._machine, kwargs)
        return merged

    def serialize(self) -> dict[str, Any]:
        return {
            "info": {
                "config": {
                    "environment": self.config.model_dump(mode="json"),
                    "environment_type": f"{type(self).__module__}.{type(self).__name__}",
                }
            }
        }

    def cleanup(self) -> None:
        """Remove the session, unless it existed before. May be called twice."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.close()

    def __del__(self) -> None:
        if getattr(self, "_runtime", None) is not None:  # missing if `__init__` failed early
            self.cleanup()

    def _run(self, command: str, cwd: str, timeout: float) -> ProgramRun:
        assert self._runtime is not None, "the environment was closed"
        return self._runtime.run_program(
            [*self.config.interpreter, _ONE_STREAM + command],
            env=self.config.env,
            cwd=cwd,
            timeout=timeout,
        )

    def _uname(self) -> dict[str, str]:
        assert self._runtime is not None
        script = "; ".join(f"uname -{option}" for option in _UNAME.values())
        found = self._runtime.run_program(["sh", "-c", script]).stdout.decode().splitlines()
        return dict(zip(_UNAME, found, strict=False))


def _text(run: ProgramRun) -> str:
    text = run.stdout.decode(errors="replace")
    return f"{text}\n[{run.left_out:,} bytes are left out here.]\n" if run.left_out else text


def _failed(output: str, error: Exception, why: str) -> dict[str, Any]:
    extra = {"exception_type": type(error).__name__, "exception": str(error)}
    return {"output": output, "returncode": -1, "exception_info": why, "extra": extra}


def _ensure_not_submitted(output: dict[str, Any]) -> None:
    first, _, submission = output["output"].lstrip().partition("\n")
    if first.strip() == _SUBMISSION and output["returncode"] == 0:
        extra = {"exit_status": "Submitted", "submission": submission}
        raise Submitted({"role": "exit", "content": submission, "extra": extra})
