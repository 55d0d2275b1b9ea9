"""What is tried on machines nobody has used. Each trial has a machine of its own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .debian import add_node, copy_of_debian
from .diary import Diary, say, write
from .machine import Machine, Terminal, beside, new_machine
from .readme import ADDRESS, first_commands
from .record import PAGE, PICTURES, record
from .visitor import follow_the_page, visitor

SHELL: Final = r"^fresh\$ "
SESSION: Final = r"^\S* \$ "
"""The prompt in a session."""
SIGN_IN: Final = r"(http://127\.0\.0\.1:\d+/\S+)"
QUICK, SLOW = 120.0, 1200.0
"""Seconds until a trial gives up: on what is on the machine, and on what comes over the network."""
HOME: Final = "/home/ann"
PROGRAMS: Final = "ripgrep tmux bubblewrap slirp4netns"
VENV: Final = "as root: apt-get install python3.11-venv"
REPOSITORY: Final = "/srv/bascule.git"
CTRL_C, CTRL_D = "\x03", "\x04"


@dataclass(frozen=True, slots=True)
class Ground:
    """What all trials stand on."""

    project: Path
    cache: Path

    @contextmanager
    def machine(self, *, node: bool = True) -> Iterator[Machine]:
        """With a home, and the repository at a place from which it can be cloned."""

        def furnish(root: Path) -> None:
            copy_of_debian(self.cache, root, say)
            if node:
                add_node(self.cache, root, say)
            subprocess.run(["chroot", root, "useradd", "ann"], check=True)
            (root / HOME[1:]).mkdir()  # root's, who uses it in most trials
            target = f"{root}{REPOSITORY}"
            subprocess.run(["git", "clone", "--quiet", "--bare", self.project, target], check=True)

        with new_machine(furnish) as machine:
            yield machine

    def commands(self) -> list[str]:
        """Of the README, with the address that a reader would put in."""
        told = first_commands((self.project / "README.md").read_text())
        return [each.replace(ADDRESS, REPOSITORY) for each in told]


@contextmanager
def at_shell(machine: Machine, *through: str) -> Iterator[Terminal]:
    with machine.terminal(*through, cwd=HOME, HOME=HOME) as terminal:
        terminal.expect(SHELL, within=QUICK)
        yield terminal


def enter(terminal: Terminal, line: str, *, within: float = QUICK) -> str:
    """Type a line and wait for the next prompt; what was shown in between."""
    begin = len(terminal.seen)
    terminal.type(f"{line}\r")
    terminal.expect(SHELL, within=within)
    return terminal.seen[begin:]


def expect_words(said: str, *wanted: str) -> None:
    missing = [each for each in wanted if each not in said]
    assert not missing, f"{missing} not in what was said:\n{said}"


def leave(terminal: Terminal) -> None:
    """As people do, from the prompt in the session."""
    terminal.type(CTRL_D)
    terminal.expect(SHELL, within=QUICK)
    expect_nothing_left(terminal)


def expect_nothing_left(terminal: Terminal) -> None:
    """Of what was started from here: whoever left it has the machine back."""
    told = enter(terminal, "cat /proc/[0-9]*/comm | sed 's/^/runs: /'")
    left = set(re.findall(r"^runs: (.+)$", told, re.MULTILINE)) - {
        "sh",
        "bash",
        "cat",
        "sed",
        "setsid",
    }
    assert not left, f"still running: {left}"


# As root ----------------------------------------------------------------------------------


def newcomer(ground: Ground) -> None:
    """Does what the README says, up to the end of the demo, and writes down how it went."""
    diary = Diary()
    pictures = ground.project / PICTURES
    with ground.machine() as machine, at_shell(machine) as terminal:
        *before, last = ground.commands()
        for each in before:
            with diary.step(f"type `{each.replace(REPOSITORY, '…')}`"):
                enter(terminal, each)
        with diary.step(f"type `{last}`", "progress, then one address"):
            terminal.type(f"{last}\r")
            address = terminal.expect(SIGN_IN, within=SLOW)[1]
        terminal.expect(SESSION, within=QUICK)
        shown = str(terminal.screen)
        with visitor(pictures) as page:
            follow_the_page(page, address, diary)
        with diary.step("in another terminal, `bascule session rm --all`", "no sessions are left"):
            remove_sessions(terminal)
        leave(terminal)
        began = time.monotonic()
        terminal.type("make run\r")
        terminal.expect(SIGN_IN, within=QUICK)
        again = time.monotonic() - began
        terminal.expect(SESSION, within=QUICK)
        leave(terminal)
    write(ground.project / PAGE, record(diary, shown, again=again))


def remove_sessions(terminal: Terminal) -> None:
    """Their sandboxes and files are gone, and the folder is still there."""
    bascule = f"{HOME}/bascule/.venv/bin/bascule"
    with_home = ("env", f"HOME={HOME}", bascule, "session")
    assert len(json.loads(beside(terminal, *with_home, "list", "--json"))) == 2
    beside(terminal, *with_home, "rm", "--all", "--yes")
    assert json.loads(beside(terminal, *with_home, "list", "--json")) == []
    kept = f"{HOME}/.local/state/bascule/up-*/sessions"
    assert beside(
        terminal, "sh", "-c", f"ls -A {kept}; ls -d {HOME}/bascule/workspace"
    ).split() == [f"{HOME}/bascule/workspace"]


def service(ground: Ground) -> None:
    """Started by a program: no terminal, no HOME, nothing on stdin. It serves until it is told."""
    with ground.machine() as machine, at_shell(machine) as terminal:
        enter(terminal, f"git clone -q {REPOSITORY} b && cd b")
        enter(terminal, "env -u HOME make run </dev/null >out 2>&1 &")
        terminal.type("tail -f out\r")
        terminal.expect(SIGN_IN, within=SLOW)
        assert "\x1b" not in (machine.root / f"{HOME[1:]}/b/out").read_text()
        terminal.type(CTRL_C)
        terminal.expect(SHELL, within=QUICK)
        enter(terminal, "kill %1; wait %1")
        expect_nothing_left(terminal)


def offline(ground: Ground) -> None:
    """Without a network nothing can be had, and that is what is said."""
    with (
        ground.machine() as machine,
        at_shell(machine, "unshare", "--net") as terminal,
    ):
        enter(terminal, f"git clone -q {REPOSITORY} b && cd b")
        said = enter(terminal, "make run; echo status $?", within=SLOW)
        expect_words(said, f"missing on this machine: {PROGRAMS}", VENV, "status 2")


# As somebody else -------------------------------------------------------------------------


def user(ground: Ground) -> None:
    """Who may install nothing is told what to ask for; with that it goes on."""
    become = ("setpriv", "--reuid=ann", "--regid=ann", "--init-groups")
    with ground.machine() as machine:
        subprocess.run(["chroot", machine.root, "chown", "-R", "ann", REPOSITORY, HOME], check=True)
        with at_shell(machine, *become) as terminal:
            enter(terminal, f"git clone -q {REPOSITORY} b && cd b")
            said = enter(terminal, "make run; echo status $?")
            expect_words(said, f"apt-get install {PROGRAMS}", VENV, "status 2")
        with at_shell(machine) as terminal:
            enter(
                terminal, "apt-get -qq update && apt-get -qqy install python3.11-venv", within=SLOW
            )
        with at_shell(machine, *become) as terminal:
            enter(terminal, "cd b")
            said = enter(terminal, "make run; echo status $?", within=SLOW)
            expect_words(said, "apt-get install chromium", "--allow-unisolated")
            terminal.type("make run ARGS=--allow-unisolated\r")
            terminal.expect(SIGN_IN, within=SLOW)
            terminal.expect(SESSION, within=QUICK)
            leave(terminal)


# With a wheel -----------------------------------------------------------------------------


def wheel(ground: Ground) -> None:
    """What is installed is enough: no clone, no Node."""
    subprocess.run([ground.project / "scripts/wheel"], check=True, stdout=subprocess.DEVNULL)
    package = next((ground.project / "dist").glob("bascule-*.whl"))
    with ground.machine(node=False) as machine:
        shutil.copy(package, machine.root / HOME[1:])
        shutil.rmtree(machine.root / REPOSITORY[1:])
        with at_shell(machine) as terminal:
            wanted = "python3-venv bubblewrap slirp4netns"
            enter(terminal, f"apt-get -qq update && apt-get -qqy install {wanted}", within=SLOW)
            enter(
                terminal,
                'python3 -m venv v && v/bin/pip install -q "$(ls *.whl)[all]"',
                within=SLOW,
            )
            enter(terminal, "v/bin/bascule install vscode", within=SLOW)
            terminal.type("v/bin/bascule up\r")
            address = terminal.expect(SIGN_IN, within=QUICK)[1]
            terminal.expect(SESSION, within=QUICK)
            with visitor(Path("/nowhere")) as page:
                page.open(address)
                page.ask_for_demo()
            leave(terminal)


TRIALS: Final[Mapping[str, Callable[[Ground], None]]] = {
    each.__name__: each for each in (newcomer, service, offline, user, wheel)
}
