"""Actions in a real window: what an agent does is what the user sees."""

from __future__ import annotations

from bascule.runtime.vscode import VSCodeRuntime

from .rig import EditorWindow


async def test_a_command_runs_in_the_window(
    runtime: VSCodeRuntime, vscode_window: EditorWindow
) -> None:
    seen = await runtime.run("echo hello from $PWD")
    assert seen.content == f"hello from {vscode_window.folder}\n"
    assert seen.exit_code == 0


async def test_a_file_is_written_read_and_edited(
    runtime: VSCodeRuntime, vscode_window: EditorWindow
) -> None:
    await runtime.write("note.txt", "one\ntwo\n")
    assert (await runtime.read("note.txt")).content == "one\ntwo\n"
    path = str(vscode_window.folder / "note.txt")
    await runtime.edit(path, "str_replace", old_str="two", new_str="zwei")
    assert (vscode_window.folder / "note.txt").read_text() == "one\nzwei\n"
