"""Forks of sessions on a real hub: made, shown side by side, merged and removed."""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bascule.runtime.spawn.plain import PlainSpawner
from tests.checkpoints.trees import git, git_picture
from tests.cli.processes import bascule, environment
from tests.hub.serving import ADMIN
from tests.hub.sessions.serving import (
    SessionHub,
    SessionsClient,
    open_local_session_hub,
    open_session_hub,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "folder"
    (root / "src").mkdir(parents=True)
    (root / "src/main.py").write_text("one\ntwo\nthree\n")
    (root / "README").write_text("read me\n")
    (root / ".env").write_text("KEY=1\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "src", "README")
    git(root, "commit", "-qm", "all")
    return root


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[SessionHub]:
    async with open_session_hub(workspace_roots=(tmp_path,)) as made:
        yield made


@pytest.fixture
async def admin(hub: SessionHub) -> AsyncIterator[SessionsClient]:
    async with SessionsClient(hub.url) as asker:
        yield asker


async def opened(admin: SessionsClient, folder: Path) -> str:
    body = {"name": "home", "workspace": {"kind": "folder", "folder": str(folder)}}
    return await admin.ready(body)


async def forked(admin: SessionsClient, session: str, **body: object) -> list[str]:
    made = await admin.must("POST", f"/api/sessions/{session}/forks", body)
    for each in made:
        await admin.reaches(each["id"], "ready")
    return [each["id"] for each in made]


async def merged(admin: SessionsClient, fork: str, **body: object) -> Mapping[str, Any]:
    answer: Mapping[str, Any] = await admin.must("POST", f"/api/sessions/{fork}/merge", body)
    return answer


def outcomes(answer: Mapping[str, Any]) -> dict[str, str]:
    return {each["path"]: each["outcome"] for each in answer["results"]}


async def test_a_fork_starts_with_everything_but_secrets(
    hub: SessionHub, admin: SessionsClient, folder: Path
) -> None:
    session = await opened(admin, folder)
    (folder / "uncommitted").write_text("new\n")
    of_git = git_picture(folder)
    one, two = await forked(admin, session, count=2)
    shown = await admin.show(one)
    assert (shown["name"], shown["workspace"]["fork_of"]) == ("home-fork-1", session)
    assert await admin.run(one, "ls -A1") == ".git\nREADME\nsrc\nuncommitted\n"
    assert await admin.run(one, "git status --porcelain") == "?? uncommitted\n"
    await admin.run(one, "git config user.email a@b; git config user.name a; git commit -qam x")
    await admin.run(one, "echo changed > README; rm -rf .git/objects")
    assert await admin.run(two, "cat README; git log --format=%s") == "read me\nall\n"
    assert git_picture(folder) == of_git
    assert (folder / "README").read_text() == "read me\n"
    (with_secrets,) = await forked(admin, session, secrets=True, name="secret")
    assert await admin.run(with_secrets, "cat .env") == "KEY=1\n"
    listed = await admin.must("GET", f"/api/sessions/{session}/forks")
    assert listed["forks"][0]["left_out"] == {".env": "its name is that of a secret"}


async def test_a_session_whose_files_the_hub_cannot_read_cannot_be_forked(
    admin: SessionsClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await opened(admin, folder)
    monkeypatch.setattr(PlainSpawner, "shares_files", False)
    status, answer = await admin.ask("POST", f"/api/sessions/{session}/forks", {})
    assert (status, answer["code"]) == (400, "capability.missing")
    assert "cannot be forked" in answer["message"]


async def test_fork_changes_are_merged_three_way_and_can_be_undone(
    admin: SessionsClient, folder: Path
) -> None:
    session = await opened(admin, folder)
    (fork,) = await forked(admin, session)
    await admin.run(fork, "sed -i s/three/THREE/ src/main.py; rm README; mkdir d; echo new > d/f")
    (folder / "src/main.py").write_text("ONE\ntwo\nthree\n")
    planned = await merged(admin, fork, dry_run=True)
    assert outcomes(planned) == {
        "README": "taken", "d": "taken", "d/f": "taken", "src/main.py": "merged"
    }  # fmt: skip
    assert (folder / "README").exists()
    done = await merged(admin, fork)
    assert outcomes(done) == outcomes(planned)
    assert (folder / "src/main.py").read_text() == "ONE\ntwo\nTHREE\n"
    assert not (folder / "README").exists()
    assert (await merged(admin, fork))["results"] == []

    where = f"/api/sessions/{session}/checkpoints"
    listed = (await admin.must("GET", where))["items"]
    assert [each["title"] for each in listed] == ["Merge the fork home-fork-1"]
    await admin.must("POST", f"{where}/{done['checkpoint']}/restore")
    assert (folder / "src/main.py").read_text() == "ONE\ntwo\nthree\n"
    assert (folder / "README").read_text() == "read me\n"
    assert not (folder / "d").exists()


async def test_a_second_merge_starts_from_the_first(admin: SessionsClient, folder: Path) -> None:
    session = await opened(admin, folder)
    (fork,) = await forked(admin, session)
    await admin.run(fork, "sed -i s/one/1/ src/main.py")
    await merged(admin, fork)
    await admin.run(fork, "sed -i s/one/1/\\;s/1/eins/ src/main.py")
    (folder / "src/main.py").write_text("1\ntwo\n3\n")
    assert outcomes(await merged(admin, fork)) == {"src/main.py": "merged"}
    assert (folder / "src/main.py").read_text() == "eins\ntwo\n3\n"


async def test_a_conflict_is_named_and_settled_by_choice(
    admin: SessionsClient, folder: Path
) -> None:
    session = await opened(admin, folder)
    one, two = await forked(admin, session, count=2)
    for fork in (one, two):
        await admin.run(fork, f"echo {fork} > README")
    await merged(admin, one)
    answer = await merged(admin, two)
    assert answer["conflicts"] == 1
    assert answer["results"] == [
        {
            "path": "README",
            "outcome": "conflict",
            "reason": "the same lines were changed in both",
            "lines": [[1, 1]],
        }
    ]
    assert (folder / "README").read_text() == f"{one}\n"
    assert outcomes(await merged(admin, two, keep=["README"])) == {"README": "kept"}
    assert (await merged(admin, two))["results"] == []
    await admin.run(two, "echo again > README")
    assert outcomes(await merged(admin, two, take=["README"])) == {"README": "taken"}
    assert (folder / "README").read_text() == "again\n"


async def test_an_unknown_path_resolves_no_conflict(admin: SessionsClient, folder: Path) -> None:
    session = await opened(admin, folder)
    (fork,) = await forked(admin, session)
    await admin.run(fork, "echo fork > README")
    (folder / "README").write_text("here\n")
    for field in ("paths", "take", "keep"):
        for path in ("", "/", "..", "../x", "src/../.."):
            where = f"/api/sessions/{fork}/merge"
            status, answer = await admin.ask("POST", where, {field: ["src", path]})
            assert (status, answer["code"]) == (400, "request.invalid"), (field, path)
            assert f"A path in `{field}`" in answer["message"]
    assert (folder / "README").read_text() == "here\n"
    assert outcomes(await merged(admin, fork, take=["./"])) == {"README": "taken"}
    assert (folder / "README").read_text() == "fork\n"


async def test_overlaps_name_the_first_path_that_two_forks_changed(
    admin: SessionsClient, folder: Path
) -> None:
    session = await opened(admin, folder)
    one, two = await forked(admin, session, count=2)
    where = f"/api/sessions/{session}/forks"
    assert (await admin.must("GET", where))["overlaps"] == []
    await admin.run(one, "echo 1 > a; echo 1 > README; touch src/main.py")
    await admin.run(two, "echo 2 > a; echo x > only-here")
    (folder / "README").write_text("mine\n")
    listed = await admin.must("GET", where)
    assert listed["overlaps"] == [
        {"path": "README", "sessions": [session, one]},
        {"path": "a", "sessions": [one, two]},
    ]
    assert listed["changes"] == [{"path": "README", "change": "changed"}]
    changes = {each["id"]: each["changes"] for each in listed["forks"]}
    assert changes[one] == [
        {"path": "README", "change": "changed"},
        {"path": "a", "change": "added"},
    ]


async def test_ignoring_a_file_in_a_fork_does_not_remove_it_from_the_source(
    admin: SessionsClient, folder: Path
) -> None:
    (folder / "notes").write_text("mine\n")
    session = await opened(admin, folder)
    (fork,) = await forked(admin, session)
    await admin.run(fork, "echo notes > .gitignore; echo out > log; echo log >> .gitignore")
    assert outcomes(await merged(admin, fork)) == {".gitignore": "taken"}
    assert (folder / "notes").read_text() == "mine\n"
    assert outcomes(await merged(admin, fork, ignored=True)) == {"log": "taken"}
    assert (await merged(admin, fork))["results"] == []
    (other,) = await forked(admin, session)
    await admin.run(other, "rm .gitignore")
    assert outcomes(await merged(admin, other)) == {".gitignore": "taken"}


async def test_windows_of_the_folder_are_told_about_a_merge(
    hub: SessionHub, admin: SessionsClient, folder: Path, tmp_path: Path
) -> None:
    """They know the files before the merge, and which fork changed them."""
    session = await opened(admin, folder)
    (fork,) = await forked(admin, session)
    await admin.run(fork, "echo new > README")
    told: list[tuple[str, str, Mapping[str, Any], str]] = []
    ended = asyncio.Event()
    tokens = {
        "own": await hub.token("inside", "session", session_id=session),
        "person": hub.window,
        "session": await hub.token("other", "session", session_id=fork),
        "stranger": await hub.token("stranger", "window", owner="somebody else"),
    }

    def note(name: str) -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
        async def on_merge(what: str, merge: Mapping[str, Any]) -> None:
            text = await asyncio.to_thread((folder / "README").read_text)
            told.append((name, what, merge, text))
            if len(told) == 4:
                ended.set()

        return on_merge

    async with AsyncExitStack() as stack:
        for name, token in tokens.items():
            fake = hub.fake_window(tmp_path, token=token, name=name)
            (await stack.enter_async_context(fake)).on_merge = note(name)
        await merged(admin, fork, dry_run=True)
        assert told == []
        await merged(admin, fork)
        await ended.wait()
    assert sorted((name, what, text) for name, what, _, text in told) == [
        ("own", "began", "read me\n"),
        ("own", "ended", "new\n"),
        ("person", "began", "read me\n"),
        ("person", "ended", "new\n"),
    ]
    began = {name: merge for name, what, merge, _ in told if what == "began"}
    found = folder.stat()
    identity = {"device": str(found.st_dev), "inode": str(found.st_ino)}
    assert began["own"] == {"id": began["own"]["id"], "agent": "fork home-fork-1"}
    assert began["person"] == {**began["own"], "folder": identity}
    assert {merge["id"] for _, _, merge, _ in told} == {began["own"]["id"]}


async def test_a_session_starts_without_the_file_of_a_killed_merge(
    hub: SessionHub, admin: SessionsClient, folder: Path
) -> None:
    session = await opened(admin, folder)
    await admin.must("POST", f"/api/sessions/{session}/stop")
    await admin.reaches(session, "stopped")
    names = (".bascule-0123456789abcdef", ".bascule-fedcba9876543210")
    for name in names:
        (folder / "src" / name).write_text("part of a file")
    journal = hub.directory / "sessions" / session / "state/merge.journal"
    journal.write_text(f"src/{names[0]}")
    await admin.must("POST", f"/api/sessions/{session}/resume")
    await admin.reaches(session, "ready")
    assert not (folder / "src" / names[0]).exists()
    assert (folder / "src" / names[1]).exists()
    assert journal.read_text() == ""


async def test_a_fork_with_changes_is_removed_only_by_force(
    hub: SessionHub, admin: SessionsClient, folder: Path
) -> None:
    session = await opened(admin, folder)
    one, two, three = await forked(admin, session, count=3)
    await admin.run(one, "echo 1 > a")
    await admin.run(two, "echo 2 > b")
    status, answer = await admin.ask("DELETE", f"/api/sessions/{one}")
    assert (status, answer["code"]) == (409, "fork.not_merged")
    assert "home-fork-1 has changes that are not merged: a." in answer["message"]
    await merged(admin, one)
    await admin.must("DELETE", f"/api/sessions/{one}")
    assert (await admin.ask("DELETE", f"/api/sessions/{two}"))[0] == 409
    await admin.must("DELETE", f"/api/sessions/{two}?force=true")
    assert len(os.listdir(hub.directory / "bases")) == 1
    await admin.must("DELETE", f"/api/sessions/{three}")
    assert os.listdir(hub.directory / "bases") == []
    assert (folder / "a").read_text() == "1\n"


async def test_snapshots_without_forks_are_removed_once(hub: SessionHub) -> None:
    """Also if a removal and the periodic check look for them at the same moment."""
    for number in range(3000):
        directory = hub.directory / f"bases/unused/tree/{number % 100}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / str(number)).touch()
    await asyncio.gather(*(hub.hub.sessions.reconcile() for _ in range(3)))
    assert os.listdir(hub.directory / "bases") == []


async def test_either_all_forks_are_created_or_none(tmp_path: Path, folder: Path) -> None:
    async with (
        open_session_hub(workspace_roots=(tmp_path,), max_sessions=3) as hub,
        SessionsClient(hub.url) as admin,
    ):
        session = await opened(admin, folder)
        status, answer = await admin.ask("POST", f"/api/sessions/{session}/forks", {"count": 5})
        assert (status, answer["code"]) == (429, "quota.exceeded")
        assert [each["id"] for each in await admin.must("GET", "/api/sessions")] == [session]
        assert os.listdir(hub.directory / "bases") == []


async def test_only_users_who_can_see_a_session_can_fork_it(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready()
    stranger = await hub.token("stranger", "agent", owner="somebody else")
    inside = await hub.token("inside", "session", session_id=session)
    for token, status in {"": 401, hub.window: 403, stranger: 404, inside: 403}.items():
        async with SessionsClient(hub.url, token=token) as asker:
            for method, verb in (("POST", "forks"), ("GET", "forks"), ("POST", "merge")):
                where = f"/api/sessions/{session}/{verb}"
                assert (await asker.ask(method, where))[0] == status, (token, verb)
    status, answer = await admin.ask("POST", f"/api/sessions/{session}/merge")
    assert (status, answer["code"]) == (400, "request.invalid")
    body = {"workspace": {"kind": "fork"}}
    assert (await admin.ask("POST", "/api/sessions", body))[0] == 422


@pytest.mark.skipif(os.geteuid() != 0, reason="the warden needs root for users of sessions")
async def test_an_isolated_fork_cannot_reach_the_folder_it_came_from(
    tmp_path: Path, folder: Path
) -> None:
    for each in (tmp_path, *tmp_path.parents):
        if each.stat().st_mode & 0o005 != 0o005 and each.is_relative_to(tmp_path.parent.parent):
            each.chmod(each.stat().st_mode | 0o055)
    for each in (folder, *folder.rglob("*")):
        os.chown(each, 4321, 4321)
    async with (
        open_local_session_hub(workspace_roots=(tmp_path,)) as hub,
        SessionsClient(hub.url) as admin,
    ):
        session = await opened(admin, folder)
        (fork,) = await forked(admin, session)
        seen = await admin.run(
            fork, f"ls {folder} {hub.directory}/bases; grep -c folder /proc/mounts"
        )
        assert "main.py" not in seen
        assert seen.count("No such file or directory") == 2
        assert await admin.run(fork, "git log --format=%s; cat src/main.py") == (
            "all\none\ntwo\nthree\n"
        )
        await admin.run(fork, "echo new > file; echo 1 > README")
        assert outcomes(await merged(admin, fork)) == {"README": "taken", "file": "taken"}
        assert (folder / "file").stat().st_uid == 4321
        assert (folder / "file").read_text() == "new\n"


async def test_the_command_line_forks_a_folder_and_merges_the_results(
    hub: SessionHub, admin: SessionsClient, folder: Path
) -> None:
    env = environment(BASCULE_HUB=hub.url, BASCULE_TOKEN=ADMIN)

    async def session(*words: str, code: int = 0) -> tuple[str, str]:
        done = await asyncio.to_thread(bascule, "session", *words, env=env)
        assert done.returncode == code, done.stderr
        return done.stdout, done.stderr

    made, _ = await session("fork", str(folder), "--count", "2")
    one, two = made.split()
    again, _ = await session("fork", str(folder), "--name", "third")
    assert len(await admin.must("GET", "/api/sessions")) == 4  # the folder is one session
    assert (await session("rm", again.strip()))[0] == again

    await admin.run(one, "echo 1 > README; git config user.email a@b; git config user.name a")
    await admin.run(two, "echo 2 > README; echo new > file")
    listed, _ = await session("forks", "folder")
    assert listed.splitlines() == [
        "folder-fork-1  ready  1 changed",
        "  M README",
        "folder-fork-2  ready  2 changed",
        "  M README",
        "  A file",
        "overlap: README (folder-fork-1, folder-fork-2)",
    ]
    assert (await session("merge", "folder-fork-1", "--dry-run"))[0] == "would be taken README\n"
    shown, hint = await session("merge", "folder-fork-1")
    assert shown == "taken README\n"
    assert "To undo: bascule checkpoint restore" in hint
    shown, _ = await session("merge", "folder-fork-2", code=1)
    assert shown.splitlines() == [
        "conflict README (the same lines were changed in both: line 1)",
        "taken file",
    ]
    shown, kept = await session("rm", "folder-fork-1", "folder-fork-2", code=1)
    assert shown == f"{one}\n"
    assert f"kept {two}: The fork folder-fork-2 has changes that are not merged: README." in kept
    assert (await session("merge", "folder-fork-2", "--take", "README"))[0] == "taken README\n"
    assert (folder / "README").read_text() == "2\n"
    assert (await session("rm", "--force", two))[0] == f"{two}\n"


async def test_commits_are_merged_only_as_a_branch_on_request(
    hub: SessionHub, admin: SessionsClient, folder: Path
) -> None:
    env = environment(BASCULE_HUB=hub.url, BASCULE_TOKEN=ADMIN)
    session = await opened(admin, folder)
    (fork,) = await forked(admin, session)
    await admin.run(fork, "git config user.email a@b; git config user.name a; touch f; git add f")
    await admin.run(fork, "git commit -qm 'in the fork'")
    of_git = git_picture(folder)
    await merged(admin, fork)
    assert git_picture(folder) == of_git

    def bring(branch: str) -> subprocess.CompletedProcess[str]:
        return bascule("session", "merge", fork, "--branch", branch, env=env)

    done = await asyncio.to_thread(bring, "agent/work")
    assert (done.returncode, done.stdout) == (0, "branch agent/work: 1 commit\n"), done.stderr
    assert git(folder, "log", "--format=%s", "agent/work") == "in the fork\nall\n"
    assert git(folder, "log", "--format=%s", "main") == "all\n"
    changed = {path for path, facts in git_picture(folder).items() if of_git.get(path) != facts}
    assert not [path for path in changed if not re.match(r"\.git/(refs|logs|objects)", path)]
    done = await asyncio.to_thread(bring, "agent/work")
    assert done.returncode != 0
    assert "the branch agent/work exists already" in done.stderr


class Person:
    """Edits files of a tree at random, and knows which lines it added and removed."""

    def __init__(self, name: str, root: Path, source: random.Random) -> None:
        self.name, self.root, self.source = name, root, source
        self.added: dict[str, set[str]] = {}
        self.removed: dict[str, set[str]] = {}

    def step(self, number: int, file: str) -> None:
        path = self.root / file
        lines = path.read_text().splitlines()
        at = self.source.randrange(len(lines) + 1)
        if self.source.random() < 0.7 or at == len(lines):
            line = f"{self.name} {number}"
            lines.insert(at, line)
            self.added.setdefault(file, set()).add(line)
        else:
            gone = lines.pop(at)
            self.added.setdefault(file, set()).discard(gone)
            self.removed.setdefault(file, set()).add(gone)
        path.write_text("".join(f"{line}\n" for line in lines))


async def test_no_line_is_lost_when_two_forks_and_the_window_edit_the_same_files(
    hub: SessionHub, admin: SessionsClient, folder: Path
) -> None:
    """1,000 steps on 100 files; then both forks are merged, and every line is accounted for."""
    files = [f"src/{number}.txt" for number in range(100)]
    base = {file: [f"{file} line {number}" for number in range(40)] for file in files}
    for file, lines in base.items():
        (folder / file).write_text("".join(f"{line}\n" for line in lines))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "files")
    session = await opened(admin, folder)
    forks = await forked(admin, session, count=2)
    of_git = git_picture(folder)
    source = random.Random(7)
    own = hub.directory / "sessions"
    window = Person("window", folder, source)
    people = [window, *(Person(each, own / each / "workspace", source) for each in forks)]
    for number in range(1000):
        source.choice(people).step(number, source.choice(files))

    conflicts: dict[str, set[str]] = {fork: set() for fork in forks}
    for fork in forks:
        answer = await merged(admin, fork)
        for each in answer["results"]:
            if each["outcome"] == "conflict":
                assert each["reason"]
                assert each["lines"]
                conflicts[fork].add(each["path"])
    for file in files:
        home = [window, *(each for each in people[1:] if file not in conflicts[each.name])]
        removed = set().union(*(each.removed.get(file, set()) for each in home))
        added = set().union(*(each.added.get(file, set()) for each in home))
        expected = (set(base[file]) | added) - removed
        assert set((folder / file).read_text().splitlines()) == expected, file
        for fork, person in zip(forks, people[1:], strict=True):
            if file in conflicts[fork]:  # nothing of it was merged, and all of it is in the fork
                there = set((own / fork / "workspace" / file).read_text().splitlines())
                assert person.added.get(file, set()) <= there
    merged_files = 200 - sum(map(len, conflicts.values()))
    assert merged_files > 50
    assert sum(map(len, conflicts.values())) > 10
    assert git_picture(folder) == of_git
    status, _ = await admin.ask("DELETE", f"/api/sessions/{forks[0]}")
    assert status == (409 if conflicts[forks[0]] else 200)
