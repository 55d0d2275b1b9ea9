"""`bascule mcp` as a client starts it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.window_hub import HubWithWindow, open_hub_with_window
from tests.cli.processes import BASCULE, TIMEOUT, bascule, environment

from .clients import call, code_of, names_of, over_stdio, text_of

pytestmark = pytest.mark.slow


async def test_a_client_works_in_a_new_sandbox(tmp_path: Path) -> None:
    async with over_stdio("--working-dir", str(tmp_path)) as client:
        assert "run_command" in names_of(await client.list_tools())
        seen = await call(client, "run_command", command="pwd")
        outside = await call(client, "read_file", path="/etc/passwd")

    assert text_of(seen).startswith(f"{tmp_path}\n")
    assert code_of(outside) == "path.outside_roots"


async def test_a_given_directory_overrides_the_hub_from_the_environment(
    tmp_path: Path,
) -> None:
    elsewhere = {"BASCULE_HUB": "http://127.0.0.1:9", "BASCULE_SESSION": "mine"}
    async with over_stdio("--working-dir", str(tmp_path), **elsewhere) as client:
        seen = await call(client, "run_command", command="pwd")

    assert text_of(seen).startswith(f"{tmp_path}\n")


async def test_additional_roots_can_be_given(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (there / "note").write_text("hello\n")

    roots = ("--root", str(here), "--root", str(there))
    async with over_stdio("--working-dir", str(here), *roots) as client:
        seen = await call(client, "read_file", path=str(there / "note"))

    assert text_of(seen) == "hello\n"


async def test_rules_decide_on_commands_of_a_client(tmp_path: Path) -> None:
    rules = tmp_path / "mine.toml"
    rules.write_text('[[allow]]\nrun = ["pwd"]\n[[deny]]\nrun = ["touch"]\n')
    async with over_stdio("--working-dir", str(tmp_path), "--rules", str(rules)) as client:
        allowed = await call(client, "run_command", command="pwd")
        denied = await call(client, "run_command", command="touch made")
        asked = await call(client, "run_command", command="make")

    assert text_of(allowed).startswith(f"{tmp_path}\n")
    assert (code_of(denied), code_of(asked)) == ("rule.denied", "consent.denied")
    assert not (tmp_path / "made").exists()


@pytest.fixture
def hub_with_window(tmp_path: Path) -> Iterator[HubWithWindow]:
    with open_hub_with_window(tmp_path) as place:
        yield place


async def test_a_client_works_in_a_window(hub_with_window: HubWithWindow, tmp_path: Path) -> None:
    async with over_stdio(
        BASCULE_HUB=hub_with_window.url, BASCULE_TOKEN=hub_with_window.token
    ) as client:
        names = names_of(await client.list_tools())
        seen = await call(client, "run_command", command="pwd")
        asked = await call(client, "ask_user", question="Which colour?")
        windows = await call(client, "list_windows")

    assert {"ask_user", "diagnostics", "open_file", "show_diff", "list_windows"} <= names
    assert text_of(seen).startswith(f"{tmp_path}\n")
    assert text_of(asked) == "blue"
    assert "desk" in text_of(windows)


async def test_a_wrong_token_is_reported_in_the_tool_result(hub_with_window: HubWithWindow) -> None:
    async with over_stdio(BASCULE_HUB=hub_with_window.url, BASCULE_TOKEN="wrong") as client:
        assert code_of(await call(client, "run_command", command="pwd")) == "access.denied"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_stdio_server_while_stdin_is_open(tmp_path: Path, number: int) -> None:
    with subprocess.Popen(
        [*BASCULE, "mcp"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        server.stdin.flush()
        assert server.stdout.readline()
        server.send_signal(number)
        assert server.wait(TIMEOUT) == 0


def test_the_stdio_server_exits_at_end_of_input(tmp_path: Path) -> None:
    ran = bascule("mcp", cwd=tmp_path, input="")

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--working-dir", "/dev/null/x"), "--working-dir is not a directory: /dev/null/x"),
        (("--url", "http://x", "--hub", "http://y"), "--url cannot be combined"),
    ],
)
def test_invalid_arguments_print_a_one_sentence_error(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    ran = bascule("mcp", *arguments, cwd=tmp_path)

    assert ran.returncode == 2
    assert ran.stderr.startswith(f"bascule: {sentence}")
