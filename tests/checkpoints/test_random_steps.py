"""A person, two agents, commands and restores in random order: nothing of the person's is lost."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bascule.checkpoints import CheckpointLimits, CheckpointStore
from bascule.checkpoints.store import RESTORE

NAMES = [f"{directory}{name}" for directory in ("", "d/", "d/e/", "f/") for name in "abc"]
STEPS = 1000


class Play:
    """Takes random steps. Every content is unique, so its author is known by its text.

    The model is `persons`: what the person wrote to a path, for as long as no agent touched the
    path. No restore may change these. Other texts of the person's, which agents moved elsewhere,
    may be moved back, but must be somewhere in the workspace after a restore as before. What
    the person gave up, by writing something else or removing it, does not count. Nor does a
    restore that undoes another: it removes again what that one brought back.
    """

    def __init__(self, store: CheckpointStore, chance: random.Random) -> None:
        self.store, self.chance = store, chance
        self.workspace = store.workspace
        self.persons: dict[str, str] = {}
        self.written: dict[str, str] = {}
        self.given_up: set[str] = set()
        self.count = 0
        self.open: list[int] = []
        self.restores = self.conflicts = self.undone = self.checked = 0

    def text(self, author: str) -> str:
        self.count += 1
        return f"{author} {self.count}" + "." * self.chance.randrange(50)

    def write(self, path: str, text: str) -> bool:
        """False if a file is where a directory would have to be, or the other way round."""
        try:
            (self.workspace / path).parent.mkdir(parents=True, exist_ok=True)
            (self.workspace / path).write_text(text)
        except OSError:
            return False
        return True

    def person(self) -> None:
        path = self.chance.choice(NAMES)
        text = self.text("person")
        if self.write(path, text):
            self.given_up.add(self.written.get(path, ""))
            self.persons[path] = self.written[path] = text
            if self.open:
                self.store.observe([path])

    def person_removes(self) -> None:
        path = self.chance.choice(NAMES)
        if (self.workspace / path).is_file():
            self.given_up |= {(self.workspace / path).read_text(), self.written.pop(path, "")}
            (self.workspace / path).unlink()
            self.persons.pop(path, None)
            if self.open:
                self.store.observe([path])

    def damage(self) -> None:
        """What a command does."""
        for _ in range(self.chance.randrange(4)):
            path = self.chance.choice(NAMES)
            match self.chance.randrange(5):
                case 0:
                    (self.workspace / path).unlink(missing_ok=True)
                case 1 if "/" in path:
                    shutil.rmtree(self.workspace / path.split("/")[0], ignore_errors=True)
                case 2:
                    if (self.workspace / path).exists():
                        target = self.workspace / f"{path}.moved"
                        (self.workspace / path).rename(target)
                case _:
                    self.write(path, self.text("agent"))
        self.forget_overwritten()

    def forget_overwritten(self) -> None:
        self.persons = {path: text for path, text in self.persons.items() if self.has(path, text)}

    def has(self, path: str, text: str) -> bool:
        try:
            return (self.workspace / path).read_text() == text
        except OSError:
            return False

    def command(self) -> None:
        number = self.store.begin("one", "command")
        self.damage()
        self.store.end(number)

    def edit(self) -> None:
        path = self.chance.choice(NAMES)
        number = self.store.begin("two", "edit", paths=[path])
        self.write(path, self.text("agent"))
        self.forget_overwritten()
        self.store.end(number)

    def begin(self) -> None:
        if len(self.open) < 2:
            self.open.append(self.store.begin("two", "long command"))

    def end(self) -> None:
        if self.open:
            self.store.end(self.open.pop(self.chance.randrange(len(self.open))))

    def during(self) -> None:
        if self.open:
            self.damage()

    def restore(self) -> None:
        known = self.store.checkpoints()
        ended = [each.id for each in known if each.ended is not None]
        if not ended:
            return
        first = self.chance.choice(ended[-6:])
        last = first if self.chance.random() < 0.5 else None
        paths = None
        if self.chance.random() < 0.3:
            changed = [change.path for change in self.store.changes(first)]
            paths = [self.chance.choice(changed)] if changed else None
        before = self.everything()
        restored = self.store.restore(first, last, paths=paths)
        self.restores += bool(restored.paths)
        self.conflicts += len(restored.conflicts)
        self.check_person()
        chosen = [each.agent for each in known if each.id >= first and last in (None, each.id)]
        if paths is None and RESTORE not in chosen:
            self.check_texts(before)
            self.checked += 1
        self.check_undo(before, restored.id)

    def check_person(self) -> None:
        for path, text in self.persons.items():
            assert self.has(path, text), f"lost {text!r} of the person in {path}"

    def check_texts(self, before: dict[str, str]) -> None:
        texts = {text for text in before.values() if text.startswith("person")}
        lost = texts - self.given_up - set(self.everything().values())
        assert lost == set(), "texts of the person are gone"

    def check_undo(self, before: dict[str, str], number: int | None) -> None:
        """Now and then a restore is undone, and everything is as it was."""
        if number is not None and self.chance.random() < 0.3:
            assert self.store.restore(number, number).conflicts == []
            assert self.everything() == before
            self.undone += 1

    def everything(self) -> dict[str, str]:
        files = (path for path in self.workspace.rglob("*") if path.is_file())
        return {str(path.relative_to(self.workspace)): path.read_text() for path in files}

    def step(self) -> None:
        steps: list[Callable[[], None]] = [
            *(self.person, self.person, self.person_removes, self.command, self.command),
            *(self.edit, self.begin, self.during, self.end, self.restore, self.restore),
        ]
        self.chance.choice(steps)()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_random_restores_lose_none_of_the_users_changes(
    tmp_path: Path, workspace: Path, seed: int
) -> None:
    limits = CheckpointLimits(free_disk_bytes=0)
    with CheckpointStore(tmp_path / "store", workspace, limits) as store:
        play = Play(store, random.Random(seed))
        for _ in range(STEPS):
            play.step()
            play.check_person()
        assert play.restores > 50, "so many restores changed something"
        assert play.conflicts > 50, "so many paths were left alone"
        assert play.undone > 10
        assert play.checked > 50
