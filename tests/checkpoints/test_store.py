"""What an agent changed can be put back; what a person changed is left alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bascule.checkpoints import CheckpointLimits, CheckpointStore
from bascule.core.errors import (
    CheckpointsUnavailable,
    InvalidPath,
    InvalidSetting,
    NoSuchCheckpoint,
    NoSuchPath,
)
from tests.checkpoints.trees import git, hard_links, picture


def command(store: CheckpointStore, text: str, agent: str = "agent") -> int:
    """Run a command as an agent would, with a checkpoint around it."""
    number = store.begin(agent, text)
    subprocess.run(["bash", "-c", text], cwd=store.workspace, check=True)
    store.end(number)
    return number


def test_a_command_is_undone_exactly(store: CheckpointStore, workspace: Path) -> None:
    (workspace / "a").write_text("one")
    (workspace / "b").mkdir()
    (workspace / "b/c").write_text("two")
    before = picture(workspace)
    number = command(store, "echo more >> a; rm -r b; mkdir -p new/deep; echo x > new/deep/file")

    restored = store.restore(number, number)

    assert picture(workspace) == before
    assert restored.conflicts == []
    assert set(restored.paths) == {"a", "b", "b/c", "new", "new/deep", "new/deep/file"}


def test_a_restore_is_undone_exactly(store: CheckpointStore, workspace: Path) -> None:
    (workspace / "a").write_text("one")
    number = command(store, "echo two > a; echo b > b; mkdir d; ln -s a link")
    after = picture(workspace)
    undone = store.restore(number, number).id
    assert undone is not None

    store.restore(undone, undone)

    assert picture(workspace) == after


def test_a_file_that_was_changed_since_is_left_alone_and_named(
    store: CheckpointStore, workspace: Path
) -> None:
    (workspace / "a").write_text("one")
    (workspace / "b").write_text("one")
    number = command(store, "echo two > a; echo two > b; echo new > c")
    (workspace / "a").write_text("mine")
    (workspace / "c").write_text("mine too")

    restored = store.restore(number, number)

    assert [(each.path, each.reason) for each in restored.conflicts] == [
        ("a", "it was changed since"),
        ("c", "it was changed since"),
    ]
    assert (workspace / "a").read_text() == "mine"
    assert (workspace / "b").read_text() == "one"
    assert (workspace / "c").read_text() == "mine too"


def test_a_file_with_only_a_newer_timestamp_is_restored(
    store: CheckpointStore, workspace: Path
) -> None:
    (workspace / "a").write_text("one")
    number = command(store, "echo two > a")
    os.utime(workspace / "a")

    assert store.restore(number, number).paths == ["a"]
    assert (workspace / "a").read_text() == "one"


def test_a_change_between_two_actions_is_not_lost(store: CheckpointStore, workspace: Path) -> None:
    (workspace / "a").write_text("one")
    first = command(store, "echo two > a")
    (workspace / "a").write_text("mine")
    second = command(store, "echo four > a")

    everything = store.restore(first)
    assert "between checkpoints" in everything.conflicts[0].reason
    assert (workspace / "a").read_text() == "four\n"

    store.restore(second, second)
    assert (workspace / "a").read_text() == "mine"


def test_restoring_to_a_point_undoes_several_actions(
    store: CheckpointStore, workspace: Path
) -> None:
    (workspace / "a").write_text("one")
    before = picture(workspace)
    first = command(store, "echo two > a")
    command(store, "echo three > a; echo b > b", agent="another")
    command(store, "rm a; mv b c")

    store.restore(first)

    assert picture(workspace) == before


def test_an_action_is_not_undone_where_a_later_action_changed_the_file(
    store: CheckpointStore, workspace: Path
) -> None:
    (workspace / "a").write_text("one")
    first = command(store, "echo two > a")
    command(store, "echo three > a")

    assert [each.path for each in store.restore(first, first).conflicts] == ["a"]
    assert (workspace / "a").read_text() == "three\n"


def test_a_single_file_can_be_restored(store: CheckpointStore, workspace: Path) -> None:
    (workspace / "a").write_text("one")
    (workspace / "b").write_text("one")
    number = command(store, "echo two > a; echo two > b")

    store.restore(number, number, paths=["a"])

    assert (workspace / "a").read_text() == "one"
    assert (workspace / "b").read_text() == "two\n"
    with pytest.raises(NoSuchPath, match="No agent changed c"):
        store.restore(number, number, paths=["c"])


def test_a_directory_with_a_new_file_of_the_user_is_kept(
    store: CheckpointStore, workspace: Path
) -> None:
    number = command(store, "mkdir d; echo x > d/x")
    (workspace / "d/mine").write_text("mine")

    restored = store.restore(number, number)

    assert [(each.path, each.reason) for each in restored.conflicts] == [
        ("d", "the directory is not empty")
    ]
    assert sorted(os.listdir(workspace / "d")) == ["mine"]


def test_a_moved_file_stays_if_its_old_path_is_taken(
    store: CheckpointStore, workspace: Path
) -> None:
    (workspace / "a").write_text("one")
    number = command(store, "mv a b")
    (workspace / "a").write_text("mine")

    restored = store.restore(number, number)

    assert [(each.path, each.reason) for each in restored.conflicts] == [
        ("a", "it was changed since"),
        ("b", "it has the content of a, which is left alone"),
    ]
    assert (workspace / "b").read_text() == "one"


def test_an_edit_needs_no_walk_and_is_undone(store: CheckpointStore, workspace: Path) -> None:
    (workspace / "d").mkdir()
    (workspace / "d/a").write_text("one")
    before = picture(workspace)
    number = store.begin("agent", "edit", paths=["d/a", "new/b"])
    (workspace / "other").write_text("the person's")
    (workspace / "d/a").write_text("two")
    (workspace / "new").mkdir()
    (workspace / "new/b").write_text("b")
    recorded = store.end(number)

    assert {each.path for each in recorded.changes} >= {"d/a", "new", "new/b"}
    assert "other" not in {each.path for each in recorded.changes}
    store.restore(number, number)
    (workspace / "other").unlink()
    assert picture(workspace) == before


def test_files_the_user_saves_during_a_command_belong_to_the_user(
    store: CheckpointStore, workspace: Path
) -> None:
    (workspace / "a").write_text("one")
    number = store.begin("agent", "make")
    (workspace / "a").write_text("mine")
    store.observe(["a"])
    (workspace / "b").write_text("the command's")
    recorded = store.end(number)

    assert [each.path for each in recorded.changes] == ["b"]


def test_a_change_during_two_commands_is_undone_only_with_both_or_by_name(
    store: CheckpointStore, workspace: Path
) -> None:
    (workspace / "a").write_text("one")
    first = store.begin("agent", "make")
    second = store.begin("another", "make too")
    (workspace / "a").write_text("two")
    store.end(first)
    store.end(second)

    assert "ran at the same time" in store.restore(first, first).conflicts[0].reason
    assert store.restore(first, paths=["a"]).paths == ["a"]
    assert (workspace / "a").read_text() == "one"


def test_an_action_without_a_recorded_end_is_undone_only_by_path(
    tmp_path: Path, workspace: Path
) -> None:
    (workspace / "a").write_text("one")
    with CheckpointStore(tmp_path / "store", workspace) as store:
        number = store.begin("agent", "make")
    (workspace / "a").write_text("two")
    with CheckpointStore(tmp_path / "store", workspace) as store:
        restored = store.restore(number, number)
        assert "was not seen" in restored.conflicts[0].reason
        assert [each.is_interrupted for each in store.checkpoints()] == [True]
        store.restore(number, number, paths=["a"])
    assert (workspace / "a").read_text() == "one"


def test_symlinks_are_not_followed_during_a_restore(
    store: CheckpointStore, workspace: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("outside")
    (workspace / "d").mkdir()
    (workspace / "d/a").write_text("one")
    number = command(store, "rm -r d")
    (workspace / "d").symlink_to(outside)

    restored = store.restore(number, number)

    assert [(each.path, each.reason) for each in restored.conflicts] == [
        ("d", "it was changed since"),
        ("d/a", "d is not a directory any longer"),
    ]
    assert (outside / "a").read_text() == "outside"
    assert os.listdir(outside) == ["a"]


def test_hard_links_to_files_outside_are_not_written_through(
    store: CheckpointStore, workspace: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_text("one")
    os.link(tmp_path / "outside", workspace / "a")
    number = command(store, "echo two >> a")
    changed = (tmp_path / "outside").read_text()

    store.restore(number, number)

    assert (workspace / "a").read_text() == "one"
    assert (tmp_path / "outside").read_text() == changed


@pytest.mark.parametrize(
    "text", ["rm a b", "echo x >> a", "sed -i s/o/0/ a", "rm a", "rm b; echo x > b"]
)
def test_hard_links_are_restored_as_one_file(
    store: CheckpointStore, workspace: Path, text: str
) -> None:
    (workspace / "a").write_text("one")
    os.link(workspace / "a", workspace / "b")
    before = picture(workspace)
    number = command(store, text)

    store.restore(number, number)

    assert picture(workspace) == before
    assert hard_links(workspace) == [["a", "b"]]


def test_a_rewrite_with_the_same_timestamp_is_detected(
    store: CheckpointStore, workspace: Path
) -> None:
    file = workspace / "a"
    for turn in range(50):
        file.write_bytes(b"%04d" % turn)
        number = store.begin("agent", "in place", paths=["a"])
        with file.open("r+b") as opened:
            opened.write(b"%04d" % (turn + 1000))
        store.end(number)
        store.restore(number, number)
        assert file.read_bytes() == b"%04d" % turn


def test_removing_the_whole_repository_loses_no_file(
    store: CheckpointStore, workspace: Path
) -> None:
    for number in range(300):
        (workspace / f"{number}.txt").write_text(f"text {number}\n")
    git(workspace, "init", "-q")
    git(workspace, "add", "-A")
    git(workspace, "commit", "-qm", "all")
    git(workspace, "gc", "-q")
    (workspace / "0.txt").write_text("not committed\n")
    before = picture(workspace)
    number = command(store, "rm -rf ./* .git")
    assert store.used_bytes() < 300 * 4096 + 3 * 4096

    restored = store.restore(number, number)

    assert restored.conflicts == []
    assert picture(workspace) == before
    assert "was removed" in store.checkpoints()[0].notes[0]


def test_clean_files_of_git_take_no_space(store: CheckpointStore, workspace: Path) -> None:
    for number in range(300):
        (workspace / f"{number}.txt").write_text(f"text {number}\n")
    git(workspace, "init", "-q")
    git(workspace, "add", "-A")
    git(workspace, "commit", "-qm", "all")
    # Files written in the same tick as the index might have changed since: git distrusts them too.
    later = (workspace / ".git/index").stat().st_mtime_ns + 1_000_000_000
    os.utime(workspace / ".git/index", ns=(later, later))

    store.end(store.begin("agent", "ls"))

    assert store.used_bytes() == 0
    number = command(store, "echo more >> 7.txt")
    assert store.used_bytes() == 2 * 4096
    store.restore(number, number)
    assert git(workspace, "status", "--short") == ""


@pytest.mark.parametrize("gone", ["gc --prune=now", "repack -adq"])
def test_contents_survive_when_git_drops_a_pack(
    store: CheckpointStore, workspace: Path, tmp_path: Path, gone: str
) -> None:
    for number in range(300):
        (workspace / f"{number}.txt").write_text(f"text {number}\n")
    git(workspace, "init", "-q")
    git(workspace, "add", "-A")
    git(workspace, "commit", "-qm", "all")
    git(workspace, "gc", "-q")
    later = (workspace / ".git/index").stat().st_mtime_ns + 1_000_000_000
    os.utime(workspace / ".git/index", ns=(later, later))
    before = picture(workspace)
    store.end(store.begin("agent", "ls"))
    assert store.used_bytes() == 0
    # Half of the files stay in git, the other half is known to our link to the old pack alone.
    git(workspace, "rm", "-q", "--cached", *(f"{number}.txt" for number in range(150)))
    git(workspace, "commit", "-q", "--amend", "-m", "half")
    git(workspace, "reflog", "expire", "--expire=now", "--all")
    git(workspace, *gone.split())

    number = command(store, "rm -f *.txt")

    packs = list((tmp_path / "store/git/objects/pack").glob("*.pack"))
    assert all(pack.stat().st_nlink == 2 for pack in packs)
    store.restore(number, number)
    assert picture(workspace) == before


def test_two_processes_share_a_store(tmp_path: Path, workspace: Path) -> None:
    (workspace / "a").write_text("one")
    with CheckpointStore(tmp_path / "store", workspace) as one:
        number = command(one, "echo two > a")
        with CheckpointStore(tmp_path / "store", workspace) as other:
            assert other.restore(number, number).paths == ["a"]
            open_ = one.begin("agent", "make")
            assert not any(each.is_interrupted for each in other.checkpoints())
            (workspace / "a").write_text("three")
            other.observe(["a"])
            assert one.end(open_).changes == []


def test_moved_branches_are_reported(store: CheckpointStore, workspace: Path) -> None:
    git(workspace, "init", "-q", "-b", "main")
    (workspace / "a").write_text("one")
    git(workspace, "add", "a")
    number = store.begin("agent", "git commit")
    git(workspace, "commit", "-qm", "one")
    recorded = store.end(number)

    assert "main at no commit became main at " in recorded.notes[0]
    assert "not commits" in recorded.notes[0]


def test_files_over_a_limit_are_named_and_left_alone(tmp_path: Path, workspace: Path) -> None:
    git(workspace, "init", "-q")
    (workspace / ".gitignore").write_text("*.log\nlocal/\n")
    (workspace / "large").write_bytes(bytes(3000))
    (workspace / "a.log").write_bytes(bytes(300))
    (workspace / "b.log").write_bytes(bytes(90))
    (workspace / "local").mkdir()
    (workspace / "local/env").write_text("KEY=1")
    (workspace / "node_modules").mkdir()
    (workspace / "node_modules/x.js").write_text("x")
    limits = CheckpointLimits(
        file_bytes=2000, ignored_file_bytes=200, ignored_total_bytes=90, free_disk_bytes=0
    )
    with CheckpointStore(tmp_path / "store", workspace, limits) as store:
        number = command(store, "rm -r large *.log local node_modules")

        assert {(each.path, each.reason) for each in store.restore(number, number).conflicts} == {
            ("large", "its earlier content was not kept"),
            ("a.log", "its earlier content was not kept"),
            ("b.log", "its earlier content was not kept"),
        }
    assert (workspace / "local/env").read_text() == "KEY=1"


def test_files_beyond_the_limits_are_reported_when_a_checkpoint_begins(
    tmp_path: Path, workspace: Path
) -> None:
    (workspace / "large").write_bytes(bytes(3000))
    (workspace / "node_modules").mkdir()
    limits = CheckpointLimits(file_bytes=2000, free_disk_bytes=0)
    with CheckpointStore(tmp_path / "store", workspace, limits) as store:
        store.begin("agent", "make")
        assert [(each.path, each.size, each.reason) for each in store.not_kept()] == [
            ("large", 3000, "larger than 2 KiB"),
            ("node_modules", 0, "generated by a tool"),
        ]


def test_tracked_files_in_a_generated_directory_are_kept(
    store: CheckpointStore, workspace: Path
) -> None:
    (workspace / "node_modules").mkdir()
    (workspace / "node_modules/x.js").write_text("x")
    git(workspace, "init", "-q")
    git(workspace, "add", "-A")

    number = command(store, "rm -r node_modules")

    assert "node_modules/x.js" in store.restore(number, number).paths


def test_a_directory_that_becomes_generated_keeps_its_files(
    store: CheckpointStore, workspace: Path
) -> None:
    (workspace / "d").mkdir()
    (workspace / "d/a").write_text("one")
    command(store, "touch d/CACHEDIR.TAG")
    number = command(store, "rm d/a")

    assert store.restore(number, number).paths == ["d/a"]


def test_no_file_is_copied_below_the_free_disk_limit(tmp_path: Path, workspace: Path) -> None:
    (workspace / "a").write_text("one")
    limits = CheckpointLimits(free_disk_bytes=1 << 62)
    with CheckpointStore(tmp_path / "store", workspace, limits) as store:
        store.begin("agent", "make")
        assert [each.path for each in store.not_kept()] == ["a"]
        assert "free on the disk" in store.not_kept()[0].reason
        assert store.used_bytes() == 0


def test_a_workspace_with_too_many_files_gets_no_checkpoints(
    tmp_path: Path, workspace: Path
) -> None:
    for number in range(11):
        (workspace / str(number)).touch()
    with (
        CheckpointStore(tmp_path / "store", workspace, CheckpointLimits(entries=10)) as store,
        pytest.raises(CheckpointsUnavailable, match="more than 10 files"),
    ):
        store.begin("agent", "make")


def test_a_command_that_makes_too_many_files_is_recorded_with_a_note(
    tmp_path: Path, workspace: Path
) -> None:
    with CheckpointStore(tmp_path / "store", workspace, CheckpointLimits(entries=10)) as store:
        number = store.begin("agent", "make")
        for each in range(11):
            (workspace / str(each)).touch()
        assert "more than 10 files" in store.end(number).notes[0]


def test_home_and_root_and_a_store_in_the_workspace_are_refused(
    tmp_path: Path, workspace: Path
) -> None:
    for place in (Path("/"), Path("~").expanduser()):
        with pytest.raises(CheckpointsUnavailable):
            CheckpointStore(tmp_path / "store", place)
    with pytest.raises(CheckpointsUnavailable, match="inside of the workspace"):
        CheckpointStore(workspace / ".store", workspace)
    with pytest.raises(NoSuchPath):
        CheckpointStore(tmp_path / "store", workspace / "none")
    CheckpointStore(tmp_path / "store", workspace).close()
    (tmp_path / "other").mkdir()
    with pytest.raises(CheckpointsUnavailable, match="belongs to"):
        CheckpointStore(tmp_path / "store", tmp_path / "other")


def test_paths_outside_and_of_git_are_refused(store: CheckpointStore) -> None:
    for path in ("..", "../x", "/etc/passwd", ".", "a/../..", ".git/config", "a/.git"):
        with pytest.raises(InvalidPath):
            store.begin("agent", "edit", paths=[path])


def test_unknown_checkpoints_are_refused(store: CheckpointStore) -> None:
    for use in (store.changes, store.end, lambda number: store.restore(number, number)):
        with pytest.raises(NoSuchCheckpoint, match="no checkpoint 7"):
            use(7)


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="entries"):
        CheckpointLimits(entries=-1)
