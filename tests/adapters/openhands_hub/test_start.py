"""What is read from the way OpenHands asks for a runtime."""

from __future__ import annotations

import pytest

from bascule.adapters.openhands_hub._commands import commands_in
from bascule.adapters.openhands_hub._start import read_start, spec_of
from bascule.core.errors import InvalidRequest

COMMAND = [
    *("/openhands/micromamba/bin/micromamba", "run", "-n", "openhands", "poetry", "run", "python"),
    *("-u", "-m", "openhands.runtime.action_execution_server", "60000"),
    *("--working-dir", "/workspace", "--plugins", "agent_skills", "jupyter"),
    *("--username", "root", "--user-id", "0", "--no-enable-browser"),
]


def test_known_flags_of_the_start_command_are_parsed_and_others_ignored() -> None:
    body = {
        "image": "docker.example/runtime:1",
        "command": COMMAND,
        "working_dir": "/openhands/code/",
        "environment": {"NO_CHANGE_TIMEOUT_SECONDS": "1"},
        "session_id": "conversation",
        "resource_factor": 2,
        "runtime_class": "sysbox-runc",
    }
    spec = spec_of(read_start(body), "local")

    assert (spec.name, spec.spawner, spec.user, spec.browser) == (
        *("conversation", "local"),
        *("root", False),
    )
    assert spec.limits.memory == 4 << 30
    assert spec.environment == {"NO_CHANGE_TIMEOUT_SECONDS": "1"}
    assert spec.egress.mode == "off"


def test_without_flags_the_user_is_that_of_openhands_images_with_a_browser() -> None:
    spec = spec_of(read_start({"session_id": "c"}), "local")

    assert (spec.user, spec.browser, spec.file_layout) == ("openhands", True, "openhands")


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({}, "session_id"),
        ({"session_id": "c", "environment": {"A": []}}, "environment.A"),
        ({"session_id": "c", "command": ["--working-dir", "/elsewhere"]}, "/elsewhere"),
        ({"session_id": "c", "environment": {"BASCULE_EGRESS": "some"}}, "BASCULE_EGRESS"),
    ],
)
def test_an_unsupported_start_request_is_rejected(body: object, complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        spec_of(read_start(body), "local")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("ls -l", 1),
        ("echo a\necho b", 2),
        ("echo 'a\nb'", 1),
        ("echo \\\n  a", 1),
        ("for i in 1 2; do\n  echo $i\ndone", 1),
        ("cat <<END\nfirst\nsecond\nEND", 1),
        ("cat <<END\nfirst\nEND\necho last", 2),
        ("echo a &&\necho b", 1),
        ("echo 'never closed\necho b", 1),
    ],
)
def test_bash_counts_the_commands_of_a_text(text: str, count: int) -> None:
    assert len(commands_in(text)) == count
