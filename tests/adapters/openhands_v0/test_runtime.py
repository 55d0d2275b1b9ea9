"""What OpenHands V0 asks of a runtime, in a sandbox and in a window."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openhands.core.exceptions import AgentRuntimeUnavailableError
from openhands.events.action import (
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
)
from openhands.events.action.mcp import MCPAction
from openhands.events.observation import (
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    IPythonRunCellObservation,
)
from openhands.runtime.runtime_status import RuntimeStatus
from openhands.utils.async_utils import call_async_from_sync

from bascule.adapters.openhands_v0 import SandboxRuntime

from .making import Kind, configured, opened, use


@pytest.fixture(params=["sandbox", "window", "session"])
def runtime(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    kind: Kind = request.param
    use(kind, monkeypatch)
    workspace = tmp_path / "workspace" if kind == "sandbox" else None
    with opened(configured(kind, workspace, tmp_path / "store")) as runtime:
        yield runtime
    if kind == "session":
        call_async_from_sync(SandboxRuntime.delete, 60, runtime.sid)


def run(runtime: Any, command: str, **keywords: Any) -> CmdOutputObservation:
    seen = runtime.run_action(CmdRunAction(command, **keywords))
    assert isinstance(seen, CmdOutputObservation), seen
    return seen


def test_a_shell_keeps_state_and_reports_exit_codes(runtime: Any) -> None:
    run(runtime, "COLOUR=blue; mkdir -p sub; cd sub")
    seen = run(runtime, "echo $COLOUR; (exit 3)")
    run(runtime, "cd ..; rmdir sub")

    assert (seen.content, seen.exit_code) == ("blue\n", 3)
    assert seen.metadata.working_dir == f"{runtime.workspace_root}/sub"


def test_a_timed_out_command_keeps_running_and_accepts_input(runtime: Any) -> None:
    action = CmdRunAction("read answer; echo got $answer")
    action.set_hard_timeout(0.3)
    late = runtime.run_action(action)
    done = run(runtime, "forty-two", is_input=True)

    assert late.exit_code == -1
    assert (done.content, done.exit_code) == ("got forty-two\n", 0)


def test_a_silent_command_returns_after_the_configured_no_change_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use("sandbox", monkeypatch)
    config = configured("sandbox", tmp_path, tmp_path / "store")
    config.sandbox.runtime_startup_env_vars = {"NO_CHANGE_TIMEOUT_SECONDS": "1"}
    with opened(config) as runtime:
        seen = run(runtime, "sleep 60")

    assert seen.exit_code == -1
    assert "no new output after 1 seconds" in seen.metadata.suffix


def test_an_observation_carries_the_integer_id_of_its_action(runtime: Any) -> None:
    action = CmdRunAction("true")
    action._id = 41
    seen = runtime.run_action(action)

    assert seen.cause == 41


def test_files_are_written_read_and_edited(runtime: Any) -> None:
    path = f"{runtime.workspace_root}/notes.txt"
    runtime.run_action(FileWriteAction(path, "one\ntwo\n"))
    edited = runtime.run_action(
        FileEditAction(path, command="str_replace", old_str="two", new_str="2")
    )
    seen = runtime.run_action(FileReadAction(path))
    run(runtime, "rm notes.txt")

    assert isinstance(edited, FileEditObservation)
    assert isinstance(seen, FileReadObservation)
    assert seen.content == "one\n2\n"


def test_a_failed_action_returns_an_error_observation(runtime: Any) -> None:
    missing = runtime.run_action(FileReadAction("/nowhere/at/all"))
    no_server = call_async_from_sync(runtime.call_tool_mcp, 15, MCPAction("tool"))
    runtime.close()
    closed = runtime.run_action(CmdRunAction("true"))

    assert isinstance(missing, ErrorObservation)
    assert isinstance(no_server, ErrorObservation)
    assert isinstance(closed, ErrorObservation)


def test_an_internal_error_returns_an_error_observation(
    runtime: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_action: Any) -> None:
        raise ZeroDivisionError("no such luck")

    monkeypatch.setattr(runtime, "run", fail)
    seen = runtime.run_action(CmdRunAction("true"))

    assert isinstance(seen, ErrorObservation)
    assert "ZeroDivisionError: no such luck" in seen.content


def test_cells_keep_state_between_calls(runtime: Any) -> None:
    runtime.run_action(IPythonRunCellAction("x = 20"))
    seen = runtime.run_action(IPythonRunCellAction("x + 1"))

    assert isinstance(seen, IPythonRunCellObservation), seen
    assert "21" in seen.content


def test_files_are_copied_into_and_out_of_the_runtime(runtime: Any, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "bytes").write_bytes(bytes(range(256)) * 2000)
    (source / "text").write_text("hello\n")
    runtime.copy_to(str(source), str(runtime.workspace_root), recursive=True)
    runtime.copy_to(str(source / "text"), f"{runtime.workspace_root}/source/new")
    with zipfile.ZipFile(packed := runtime.copy_from(f"{runtime.workspace_root}/source")) as names:
        found = {name: names.read(name) for name in names.namelist() if not name.endswith("/")}
    packed.unlink()
    listed = runtime.list_files(f"{runtime.workspace_root}/source")
    run(runtime, "rm -r source")

    assert found == {
        "deep/bytes": bytes(range(256)) * 2000,
        "text": b"hello\n",
        "new/text": b"hello\n",
    }
    assert listed == ["deep/", "new/", "text"]
    assert runtime.list_files("nowhere") == []
    with pytest.raises(FileNotFoundError):
        runtime.copy_to(str(tmp_path / "nothing"), "/")
    with pytest.raises(FileNotFoundError):
        runtime.copy_from("nowhere")


def test_microagents_of_the_workspace_are_found(runtime: Any) -> None:
    text = "---\nname: colours\ntype: knowledge\ntriggers:\n- blue\n---\nBlue is blue.\n"
    directory = f"{runtime.workspace_root}/.openhands/microagents"
    run(runtime, f"mkdir -p {directory}")
    runtime.run_action(FileWriteAction(f"{directory}/colours.md", text))
    found = runtime.get_microagents_from_selected_repo(None)
    run(runtime, "rm -r .openhands")

    assert [each.name for each in found] == ["colours"]


def test_the_git_panel_shows_changes(runtime: Any) -> None:
    commit = "git init -q -b main . && echo 1 > kept && git add kept && git commit -qm first"
    assert run(runtime, f"mkdir repo && cd repo && {commit}").exit_code == 0
    run(runtime, "echo 2 >> kept; touch new; cd ..")
    changes = runtime.get_git_changes(f"{runtime.workspace_root}/repo")
    diff = runtime.get_git_diff("kept", f"{runtime.workspace_root}/repo")
    run(runtime, "rm -rf repo")

    assert {each["path"] for each in changes or []} == {"kept", "new"}
    assert diff["modified"] == "1\n2"


def test_variables_reach_the_shell_and_no_file(runtime: Any) -> None:
    before = Path("~/.bashrc").expanduser()
    text = before.read_text() if before.exists() else None
    runtime.add_env_vars({"colour": 'it\'s "$blue"'})

    assert run(runtime, "echo $COLOUR").content == 'it\'s "$blue"\n'
    assert (before.read_text() if before.exists() else None) == text


def test_output_is_streamed_while_a_command_runs(runtime: Any) -> None:
    pieces: list[str] = []
    assert runtime.subscribe_to_shell_stream(pieces.append)
    run(runtime, "echo one; sleep 0.2; echo two")

    assert "".join(pieces) == "one\ntwo\n"


def test_a_conversation_receives_the_status_of_its_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use("sandbox", monkeypatch)
    told: list[RuntimeStatus] = []
    config = configured("sandbox", tmp_path, tmp_path / "store")
    with opened(config) as first:
        again = SandboxRuntime(
            config,
            first.event_stream,
            None,
            sid="another",
            status_callback=lambda _level, status, _text: told.append(status),
        )
        call_async_from_sync(again.connect)
        again.close()

    assert told == [RuntimeStatus.STARTING_RUNTIME, RuntimeStatus.READY]


def test_connecting_to_a_window_fails_without_a_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BASCULE_HUB", raising=False)
    with (
        pytest.raises(AgentRuntimeUnavailableError, match="BASCULE_HUB"),
        opened(configured("window", None, tmp_path)),
    ):
        pass


def test_the_directory_of_a_conversation_is_kept_until_its_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use("sandbox", monkeypatch)
    config = configured("sandbox", None, tmp_path)
    with opened(config, sid="lasting") as runtime:
        root = runtime.workspace_root
        run(runtime, "touch kept")
    with opened(config, sid="lasting") as runtime:
        assert runtime.workspace_root == root
        assert runtime.list_files() == ["kept"]
    call_async_from_sync(SandboxRuntime.delete, 15, "lasting")

    assert not root.exists()
