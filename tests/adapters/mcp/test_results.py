"""Results of tool calls, made from observations."""

from __future__ import annotations

import pytest

from bascule.adapters.mcp._results import result_of
from bascule.core.observations import CmdOutput, Error, FileWritten, Observation

TOLD = "The user took back line 3 of a.py."


@pytest.mark.parametrize(
    ("seen", "before"),
    [
        (FileWritten(path="/a.py", note=TOLD), ""),
        (CmdOutput(command="ls", note=TOLD), "[exit status -1]\n"),
        (Error(content="No", error_id="path.not_found", note=TOLD), "[path.not_found]\n"),
    ],
)
def test_a_note_to_the_agent_comes_after_the_result(seen: Observation, before: str) -> None:
    assert result_of(seen).note == f"{before}[{TOLD}]"
