"""What files held before: so deep, and so many bytes."""

from __future__ import annotations

from bascule.sandbox.files.history import EditHistory, RecordedEdit


def drain(history: EditHistory, key: str) -> list[bytes]:
    found = []
    while (made := history.last(key)) is not None:
        found.append(made.before)
        history.drop_last(key)
    return found


def test_earlier_versions_are_returned_newest_first_per_file() -> None:
    history = EditHistory(depth=10, limit=1000)
    for data in (b"1", b"2", b"3"):
        history.push("a", RecordedEdit(data, b""))
    history.push("b", RecordedEdit(b"other", b""))

    assert drain(history, "a") == [b"3", b"2", b"1"]
    assert drain(history, "b") == [b"other"]


def test_the_oldest_edit_of_a_file_is_dropped_past_the_depth_limit() -> None:
    history = EditHistory(depth=2, limit=1000)
    for data in (b"1", b"2", b"3"):
        history.push("a", RecordedEdit(data, b""))

    assert drain(history, "a") == [b"3", b"2"]


def test_the_oldest_edit_of_all_files_is_dropped_past_the_size_limit() -> None:
    history = EditHistory(depth=10, limit=10)
    history.push("a", RecordedEdit(b"aaaaa", b""))
    history.push("b", RecordedEdit(b"bbbbb", b""))
    history.push("a", RecordedEdit(b"ccccc", b""))

    assert drain(history, "a") == [b"ccccc"]
    assert drain(history, "b") == [b"bbbbb"]
    history.push("a", RecordedEdit(b"x" * 11, b""))
    assert drain(history, "a") == []
