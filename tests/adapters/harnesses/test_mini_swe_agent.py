"""mini-swe-agent with its deterministic model, in sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments import get_environment
from minisweagent.models.test_models import DeterministicModel, make_output

from bascule.adapters.mini_swe_agent import BasculeEnvironment
from bascule.core.errors import InvalidRequest

CLASS = "bascule.adapters.mini_swe_agent.BasculeEnvironment"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat answer"


@pytest.fixture(scope="module")
def environment() -> Iterator[BasculeEnvironment]:
    config = {"environment_class": CLASS, "env": {"WORD": "from env"}, "timeout": 60}
    made = get_environment(config)
    assert isinstance(made, BasculeEnvironment)
    yield made
    made.cleanup()
    made.cleanup()


def execute(environment: BasculeEnvironment, command: str, **keywords: Any) -> dict[str, Any]:
    return environment.execute({"command": command}, **keywords)


def test_the_agent_solves_a_task_in_a_session(environment: BasculeEnvironment) -> None:
    commands = ("echo $WORD >answer", "ls; ls missing", SUBMIT)
    outputs = [make_output(f"run {each}", [{"command": each}]) for each in commands]
    agent = DefaultAgent(
        DeterministicModel(outputs=outputs),
        environment,
        system_template="on {{system}} {{machine}}",
        instance_template="{{task}} in {{timeout}} seconds",
    )
    result = agent.run("do it")
    assert result["exit_status"] == "Submitted"
    assert result["submission"] == "from env\n"
    assert agent.messages[0]["content"].startswith("on Linux ")
    assert any("No such file" in str(each["content"]) for each in agent.messages)
    saved = agent.serialize()["info"]["config"]
    assert saved["environment_type"].endswith("BasculeEnvironment")
    assert "token" not in str(saved).lower()


def test_stderr_and_stdout_are_one_stream_in_order(environment: BasculeEnvironment) -> None:
    seen = execute(environment, "for i in 1 2 3; do echo o$i; echo e$i >&2; done; exit 7", cwd="/")
    assert seen["output"] == "o1\ne1\no2\ne2\no3\ne3\n"
    assert (seen["returncode"], seen["exception_info"]) == (7, "")


def test_a_command_that_takes_too_long_is_ended(environment: BasculeEnvironment) -> None:
    seen = execute(environment, "echo begun; sleep 1000", timeout=2)
    assert (seen["output"], seen["returncode"]) == ("begun\n", -1)
    assert "2 seconds" in seen["exception_info"]
    assert execute(environment, "echo still here")["output"] == "still here\n"
    missing = execute(environment, "true", cwd="/nowhere")
    assert (missing["returncode"], missing["output"]) == (-1, "")
    assert "/nowhere" in missing["exception_info"]


@pytest.mark.usefixtures("no_session_is_left")
def test_the_session_ends_with_the_environment() -> None:
    environment = BasculeEnvironment()
    assert execute(environment, "pwd")["returncode"] == 0
    del environment
    with pytest.raises(InvalidRequest, match="imagine"):
        BasculeEnvironment(session={"imagine": "x"})
