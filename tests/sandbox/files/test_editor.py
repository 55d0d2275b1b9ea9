"""The editor, with the words that OpenHands' clients look for in its answers."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from bascule.core.actions import FileEdit, FileRead, FileWrite
from bascule.core.errors import NotSupported
from bascule.core.observations import FileEdited
from bascule.sandbox.files.editor import FileEditor
from bascule.sandbox.files.files import SandboxFiles
from bascule.sandbox.files.paths import Paths
from bascule.sandbox.files.storage import Storage

REVIEW = "Review the changes and make sure they are as expected. Edit the file again if necessary."


@pytest.fixture
def storage() -> Storage:
    return Storage(Paths())


@pytest.fixture
def editor(storage: Storage) -> FileEditor:
    return FileEditor(storage)


@pytest.fixture
def file(tmp_path: Path, storage: Storage) -> Path:
    content = "This is a test file.\nThis file is for testing purposes."
    SandboxFiles(storage).write(FileWrite(str(tmp_path / "test.txt"), content), "/")
    return tmp_path / "test.txt"


def edit(editor: FileEditor, path: Path | str, command: str, **arguments: Any) -> FileEdited:
    return editor.edit(FileEdit(str(path), command=command, **arguments), "/")


# Viewing --------------------------------------------------------------------------------


def test_a_file_is_viewed_with_its_lines_numbered(editor: FileEditor, file: Path) -> None:
    viewed = edit(editor, file, "view")

    assert viewed.content == (
        f"Here's the result of running `cat -n` on {file}:\n"
        "     1\tThis is a test file.\n"
        "     2\tThis file is for testing purposes.\n"
        "     3\t\n"
    )
    assert (viewed.prev_exist, viewed.diff, viewed.impl_source) == (True, "", "oh_aci")


def test_a_read_by_the_editor_shows_the_same(editor: FileEditor, file: Path) -> None:
    read = editor.view(FileRead(str(file), impl_source="oh_aci"), "/")

    assert read.content == edit(editor, file, "view").content
    assert (read.path, read.impl_source) == (str(file), "oh_aci")


def test_a_read_by_the_editor_that_fails_is_still_a_read(
    editor: FileEditor, tmp_path: Path
) -> None:
    read = editor.view(FileRead(str(tmp_path / "nothing"), impl_source="oh_aci"), "/")

    assert read.kind == "read"
    assert read.content.startswith("ERROR:\nInvalid `path` parameter")


@pytest.mark.parametrize(
    ("view_range", "expected"),
    [
        ([2, 3], "     2\tb\n     3\tc\n"),
        ([3, -1], "     3\tc\n     4\td\n"),
        ([4, 9], "     4\td\n\nNOTE: the file ends with line 4.\n"),
        ([1, 4], "     1\ta\n     2\tb\n     3\tc\n     4\td\n"),
    ],
)
def test_a_range_of_lines_is_viewed(
    editor: FileEditor, tmp_path: Path, view_range: list[int], expected: str
) -> None:
    (tmp_path / "f").write_text("a\nb\nc\nd\n")

    viewed = edit(editor, tmp_path / "f", "view", view_range=view_range)

    assert viewed.content.partition(":\n")[2] == expected


@pytest.mark.parametrize("view_range", [[0, 1], [5, 6], [3, 2], [1], [1, 2, 3], ["1", "2"]])
def test_an_invalid_view_range_is_rejected(
    editor: FileEditor, tmp_path: Path, view_range: list[int]
) -> None:
    (tmp_path / "f").write_text("a\nb\nc\nd\n")

    viewed = edit(editor, tmp_path / "f", "view", view_range=view_range)

    assert viewed.content.startswith("ERROR:\nInvalid `view_range` parameter: ")


def test_a_directory_is_viewed_two_levels_deep(editor: FileEditor, tmp_path: Path) -> None:
    for name in ("a/b/c/d", "a/.x", "z.txt", ".one", ".two/f", "a-b"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("a")

    assert edit(editor, tmp_path, "view").content == (
        f"Here's the files and directories up to 2 levels deep in {tmp_path}, "
        "excluding hidden items:\n"
        f"{tmp_path}/\n{tmp_path}/a/\n{tmp_path}/a/b/\n{tmp_path}/a-b\n{tmp_path}/link/\n"
        f"{tmp_path}/z.txt\n\n2 hidden files/directories in this directory are excluded. "
        f"You can use 'ls -la {tmp_path}' to see them."
    )


def test_hidden_entries_are_mentioned_only_if_there_are_some(
    editor: FileEditor, tmp_path: Path
) -> None:
    (tmp_path / "f").touch()

    content = edit(editor, tmp_path, "view").content

    assert content.endswith(f"hidden items:\n{tmp_path}/\n{tmp_path}/f")
    assert "range" in edit(editor, tmp_path, "view", view_range=[1, 2]).content


def test_a_view_that_is_too_long_is_clipped(editor: FileEditor, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("Line 1\n" * 16_000)
    (tmp_path / "one-line").write_text("x" * 50_000)
    (tmp_path / "many").mkdir()
    for n in range(300):
        (tmp_path / "many" / f"{'x' * 200}{n}").touch()

    content = edit(editor, tmp_path / "f", "view").content

    assert (
        "Due to the max output limit, only part of this file has been shown to you. Above are"
        " lines 1 to 2285 of 16000; ask for others with `view_range`.\n"
    ) in content
    assert "\n  2285\tLine 1\nDue" in content
    assert len(edit(editor, tmp_path / "one-line", "view").content) < 17_000
    assert "only part of this directory" in edit(editor, tmp_path / "many", "view").content


def test_a_part_of_a_file_too_large_to_edit_can_be_viewed(storage: Storage, tmp_path: Path) -> None:
    editor = FileEditor(storage, size_limit=1000)
    (tmp_path / "f").write_text("".join(f"line {n}\n" for n in range(1, 1001)))

    assert "Look at a part of it with `view_range`" in edit(editor, tmp_path / "f", "view").content
    viewed = edit(editor, tmp_path / "f", "view", view_range=[500, 501])
    assert viewed.content.partition(":\n")[2] == "   500\tline 500\n   501\tline 501\n"
    edited = edit(editor, tmp_path / "f", "str_replace", old_str="line 7\n", new_str="")
    assert edited.content.startswith("ERROR:\n")
    assert "past the limit of 1,000" in edited.content


def test_carriage_returns_are_not_shown(editor: FileEditor, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\r\nb\r\n")

    assert "\r" not in edit(editor, tmp_path / "f", "view").content


# Creating -------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["New file content", "", "a\n", "a\r\nb"])
def test_a_file_is_created_exactly_as_given(editor: FileEditor, tmp_path: Path, text: str) -> None:
    created = edit(editor, tmp_path / "deep" / "new.txt", "create", file_text=text)

    assert created.content == f"File created successfully at: {tmp_path}/deep/new.txt"
    assert (tmp_path / "deep" / "new.txt").read_bytes() == text.encode()
    assert not created.prev_exist
    assert (created.old_content, created.new_content) == (None, None)
    assert "1\t" in edit(editor, tmp_path / "deep" / "new.txt", "view").content


def test_the_diff_of_a_new_file_is_its_whole_content(editor: FileEditor, tmp_path: Path) -> None:
    path = tmp_path / "f"

    created = edit(editor, path, "create", file_text="a\nb\n")

    assert created.diff == f"--- {path}\n+++ {path}\n@@ -0,0 +1,2 @@\n+a\n+b"


def test_a_file_that_exists_is_not_created(editor: FileEditor, file: Path) -> None:
    refused = edit(editor, file, "create", file_text="New content")

    assert refused.content.startswith(f"ERROR:\nInvalid `path` parameter: {file}. File already ex")
    assert refused.prev_exist
    assert "test file" in file.read_text()


def test_a_relative_path_starts_from_the_shells_directory(
    editor: FileEditor, tmp_path: Path
) -> None:
    created = editor.edit(FileEdit("f", command="create", file_text="x"), str(tmp_path))

    assert created.path == f"{tmp_path}/f"
    assert (tmp_path / "f").read_text() == "x"


# Replacing ------------------------------------------------------------------------------


def test_replacing_text_shows_the_lines_around_it(editor: FileEditor, tmp_path: Path) -> None:
    path = tmp_path / "f"
    edit(editor, path, "create", file_text='def test():\n\tprint("Hello, World!")')

    edited = edit(
        editor,
        path,
        "str_replace",
        old_str='def test():\n\tprint("Hello, World!")',
        new_str='def test():\n\tprint("Hello, Universe!")',
    )

    assert edited.content == (
        f"The file {path} has been edited. Here's the result of running `cat -n` on a snippet of"
        f' {path}:\n     1\tdef test():\n     2\t\tprint("Hello, Universe!")\n{REVIEW}'
    )
    assert edited.diff == (
        f'--- {path}\n+++ {path}\n@@ -2 +2 @@\n-\tprint("Hello, World!")\n'
        "\\ No newline at end of file\n"
        '+\tprint("Hello, Universe!")\n\\ No newline at end of file'
    )
    assert edited.old_content == 'def test():\n\tprint("Hello, World!")'
    assert edited.new_content == 'def test():\n\tprint("Hello, Universe!")'
    assert edited.prev_exist


def test_the_snippet_has_four_lines_around_the_change(editor: FileEditor, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"{n}\n" for n in range(1, 21)))

    edited = edit(editor, tmp_path / "f", "str_replace", old_str="10\n", new_str="a\nb\n")

    numbers = [line.split("\t")[0].strip() for line in edited.content.split("\n")[1:-1]]
    assert numbers == [str(n) for n in range(6, 17)]


def test_a_text_can_be_removed(editor: FileEditor, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("Line 1\nLine to remove\nLine 3\n")

    edited = edit(editor, tmp_path / "f", "str_replace", old_str="Line to remove\n", new_str="")

    assert (tmp_path / "f").read_text() == "Line 1\nLine 3\n"
    assert "Line to remove" not in edited.content
    assert "Line 1" in edited.content
    assert "Line 3" in edited.content


BLOCK = 'def example():\n        print("Hello")\n        return True'
MANY = "No replacement was performed. Multiple occurrences of old_str `{}` in lines {}."
SAME = "No replacement was performed. `new_str` and `old_str` must be different."
NONE = "No replacement was performed, old_str `x` did not appear verbatim in {path}."


@pytest.mark.parametrize(
    ("content", "old", "expected"),
    [
        ("a\n", "x", NONE),
        ("test\ntest\n", "test", MANY.format("test", "[1, 2]") + " Please ensure it is unique."),
        (f"{BLOCK}\n\nprint()\n\n{BLOCK}\n", BLOCK, MANY.format(BLOCK, "[1, 7]")),
        ("1\n2\n3\n", "", MANY.format("", "[1, 2, 3, 4]") + " Please ensure it is unique."),
        ("a\n", "new", SAME),
        ("a\n", None, "Parameter `old_str` is required for command: str_replace."),
    ],
)
def test_a_replacement_that_cannot_be_made_says_why(
    editor: FileEditor, tmp_path: Path, content: str, old: str | None, expected: str
) -> None:
    path = tmp_path / "f"
    path.write_text(content)

    refused = edit(editor, path, "str_replace", old_str=old, new_str="new")

    assert refused.content.startswith("ERROR:\n" + expected.replace("{path}", str(path)))
    assert refused.kind == "edit"
    assert (refused.prev_exist, refused.diff) == (True, "")
    assert path.read_text() == content


# Inserting ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "line", "new", "expected"),
    [
        ("1\n2\n", 1, "x", "1\nx\n2\n"),
        ("1\n2\n", 0, "x\ny", "x\ny\n1\n2\n"),
        ("1\n2\n", 2, "x", "1\n2\nx\n"),
        ("1\n2", 2, "x", "1\n2\nx"),
        ("1\n2\n", "1", "", "1\n\n2\n"),
        ("", 0, "x", "x\n"),
    ],
)
def test_lines_are_inserted_after_a_line(
    editor: FileEditor, tmp_path: Path, content: str, line: int | str, new: str, expected: str
) -> None:
    path = tmp_path / "f"
    path.write_text(content)

    edited = edit(editor, path, "insert", insert_line=line, new_str=new)

    assert path.read_text() == expected
    assert edited.content.startswith(f"The file {path} has been edited. ")


def test_an_empty_line_that_was_inserted_is_shown(editor: FileEditor, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("Line 1\nLine 2\n")

    content = edit(editor, tmp_path / "f", "insert", insert_line=1, new_str="").content

    assert "1\tLine 1\n     2\t\n     3\tLine 2\n" in content


@pytest.mark.parametrize(
    ("line", "new", "expected"),
    [
        (10, "x", "Invalid `insert_line` parameter: 10. It should be within the range of allowed"),
        ("ten", "x", "Invalid `insert_line` parameter: 'ten' is not a number"),
        (1, None, "Parameter `new_str` is required for command: insert."),
        (None, "x", "Parameter `insert_line` is required for command: insert."),
    ],
)
def test_an_insertion_that_cannot_be_made_says_why(
    editor: FileEditor, file: Path, line: int | str | None, new: str | None, expected: str
) -> None:
    refused = edit(editor, file, "insert", insert_line=line, new_str=new)

    assert refused.content.startswith(f"ERROR:\n{expected}")


# Undoing --------------------------------------------------------------------------------


def test_the_last_edit_is_undone(editor: FileEditor, file: Path) -> None:
    edit(editor, file, "str_replace", old_str="test file", new_str="sample file")

    undone = edit(editor, file, "undo_edit")

    assert undone.content.startswith(f"Last edit to {file} undone successfully. Here's the result")
    assert "This is a test file." in undone.content
    assert undone.diff == (
        f"--- {file}\n+++ {file}\n@@ -1 +1 @@\n-This is a sample file.\n+This is a test file."
    )
    assert file.read_text().startswith("This is a test file.\n")


def test_up_to_ten_edits_are_undone_one_by_one(editor: FileEditor, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0\r\n")
    for n in range(12):
        edit(editor, path, "str_replace", old_str=str(n), new_str=str(n + 1))
    seen = []
    while edit(editor, path, "undo_edit").content.startswith("Last edit"):
        seen.append(path.read_bytes())

    assert seen == [b"%d\r\n" % n for n in range(11, 1, -1)]
    assert edit(editor, path, "undo_edit").content == (f"ERROR:\nNo edit history found for {path}.")


@pytest.mark.parametrize("command", ["create", "write"])
def test_a_file_without_edits_cannot_be_undone(
    editor: FileEditor, storage: Storage, tmp_path: Path, command: str
) -> None:
    path = tmp_path / "f"
    if command == "create":
        edit(editor, path, "create", file_text="x")
    else:
        SandboxFiles(storage).write(FileWrite(str(path), ""), "/")

    assert "No edit history found for" in edit(editor, path, "undo_edit").content


# What a file is stays -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("str_replace", {"old_str": "één", "new_str": "ééns\ntwééé"}),
        ("insert", {"insert_line": 1, "new_str": "é\né"}),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_edit_keeps_encoding_line_ends_and_mode(
    editor: FileEditor,
    tmp_path: Path,
    command: str,
    arguments: dict[str, Any],
    encoding: str,
    newline: str,
) -> None:
    path = tmp_path / "f"
    original = f"één{newline}two{newline}".encode(encoding)
    path.write_bytes(original)
    path.chmod(0o755)

    edited = edit(editor, path, command, **arguments)

    assert edited.content.startswith("The file ")
    text = path.read_bytes().decode(encoding)
    assert text.count("\n") == text.count(newline) == 3 + (command == "insert")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    edit(editor, path, "undo_edit")
    assert path.read_bytes() == original


def test_a_text_over_several_lines_is_found_in_a_crlf_file(
    editor: FileEditor, tmp_path: Path
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a\r\nb\r\nc\r\n")

    edit(editor, path, "str_replace", old_str="a\nb", new_str="x\ny")
    assert path.read_bytes() == b"x\r\ny\r\nc\r\n"
    edit(editor, path, "str_replace", old_str="y\r\nc", new_str="z\r\n")
    assert path.read_bytes() == b"x\r\nz\r\n\r\n"


def test_a_character_the_encoding_lacks_changes_nothing(editor: FileEditor, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes("één".encode("cp1252"))

    refused = edit(editor, path, "str_replace", old_str="één", new_str="日本")

    assert refused.content.startswith("ERROR:\n")
    assert path.read_bytes() == "één".encode("cp1252")


# What is refused ------------------------------------------------------------------------


def test_a_missing_path_is_named_in_the_error(editor: FileEditor, tmp_path: Path) -> None:
    for command in ("view", "str_replace", "insert", "undo_edit"):
        path = tmp_path / "nonexistent.txt"
        refused = edit(
            editor, path, command, old_str="a", new_str="b", insert_line=0, file_text="x"
        )

        assert refused.content.startswith("ERROR:\nInvalid `path` parameter")
        assert f"The path {path} does not exist" in refused.content
        assert not refused.prev_exist


def test_directories_documents_and_binaries_are_not_edited(
    editor: FileEditor, tmp_path: Path
) -> None:
    (tmp_path / "a.docx").write_bytes(b"PK\0\0")
    (tmp_path / "a.bin").write_bytes(b"\0\1")
    arguments = {"old_str": "a", "new_str": "b"}

    assert "is a directory" in edit(editor, tmp_path, "str_replace", **arguments).content
    assert "pandoc" in edit(editor, tmp_path / "a.docx", "view").content
    assert "pandoc" in edit(editor, tmp_path / "b.pdf", "create", file_text="x").content
    for command in ("view", "str_replace"):
        refused = edit(editor, tmp_path / "a.bin", command, **arguments)
        assert (
            refused.content
            == f"ERROR:\n{tmp_path}/a.bin is not text and cannot be viewed or edited here"
        )


def test_unknown_edit_commands_and_invalid_paths_are_reported(editor: FileEditor) -> None:
    assert "Unrecognized command 'fly'" in edit(editor, "/tmp", "fly").content
    assert edit(editor, "", "view").content == "ERROR:\nThe path is empty"
    assert edit(editor, "a\0b", "view").path == "a\0b"


def test_llm_based_edits_are_not_supported(editor: FileEditor) -> None:
    with pytest.raises(NotSupported):
        editor.edit(FileEdit("/f", impl_source="llm_based_edit"), "/")


def test_a_missing_parameter_is_named_even_if_the_file_does_not_exist(
    editor: FileEditor, tmp_path: Path
) -> None:
    refused = edit(editor, tmp_path / "none.txt", "create", file_text=None)

    assert refused.content == "ERROR:\nParameter `file_text` is required for command: create."


def test_a_file_that_changes_during_an_edit_is_left_as_it_is(
    editor: FileEditor, storage: Storage, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = storage.load

    def load_and_change(*args: Any, **kwargs: Any) -> Any:
        version = load(*args, **kwargs)
        file.write_text("someone else was here")
        return version

    monkeypatch.setattr(storage, "load", load_and_change)

    refused = edit(editor, file, "str_replace", old_str="test file", new_str="sample")

    assert refused.content.startswith("ERROR:\n")
    assert "changed by someone else" in refused.content
    assert file.read_text() == "someone else was here"
    assert os.listdir(file.parent) == ["test.txt"]


@pytest.mark.slow
def test_concurrent_edits_of_one_file_are_all_applied(editor: FileEditor, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("".join(f"<{n}>\n" for n in range(60)))

    def work(worker: int) -> None:
        for n in range(worker, 60, 3):
            edit(editor, path, "str_replace", old_str=f"<{n}>", new_str=f"done {n}")

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert path.read_text() == "".join(f"done {n}\n" for n in range(60))
