"""A whole hub with its sessions in containers: a process of a user who has no rights.

That user is a member of the group that may ask the engine, as people who use Docker are.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from bascule.runtime.spawn.docker.container import SCOPE
from bascule.runtime.spawn.docker.engine import Engine
from tests.cli.processes import BASCULE, environment
from tests.dockerd import PROJECT, Dockerd
from tests.e2e.code_server import CHROMIUM

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(300)]

USER = 4321
TIMEOUT = 120.0
"""Seconds before a test gives up; never a pause."""


class Machine:
    """A user's place on a machine with an engine, and what they do there."""

    def __init__(self, place: Path, engine: Dockerd, image: str) -> None:
        self.place = place
        self.engine = engine
        self.state = place / "bascule"
        self.url = ""
        """Of the hub that runs."""
        self.environment = environment(
            HOME=str(place),
            XDG_STATE_HOME=str(place),
            BASCULE_SPAWNERS="docker",
            BASCULE_DOCKER_ENGINE=engine.address,
            BASCULE_DOCKER_IMAGE=image,
            BASCULE_WORKSPACE_ROOTS=str(place),
        )

    @contextmanager
    def hub(self) -> Iterator[subprocess.Popen[bytes]]:
        with (self.place / "log").open("ab") as log:
            command = _as_user("serve", "--port", "0")
            process = subprocess.Popen(
                command, env=self.environment, stdout=subprocess.PIPE, stderr=log
            )
        with process:
            assert process.stdout is not None
            try:
                self.url = process.stdout.readline().decode().strip()
                assert self.url.startswith("http://"), (self.place / "log").read_text()
                yield process
            finally:
                process.kill()

    def must(self, *arguments: str, typed: str | None = None) -> str:
        done = subprocess.run(
            _as_user(*arguments),
            env=self.environment,
            input=typed or "",
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stderr + (self.place / "log").read_text()
        return done.stdout.strip()

    def containers(self) -> int:
        async def count() -> int:
            async with Engine(self.engine.address) as engine:
                await engine.open()
                found = await engine.all(SCOPE)
                return sum(each.run_dir.is_relative_to(self.place) for each in found)

        return asyncio.run(count())

    def told(self, session: str, wanted: str) -> Any:
        """The first event of that name, once there is one."""
        shown = json.loads(self.must("session", "show", session, "--json"))
        where = shown["vscode_url"].partition("/vscode/")[0] + f"/api/sessions/{session}/events"
        asking = urllib.request.Request(where)
        asking.add_header("Authorization", f"Bearer {self.must('token')}")
        with urllib.request.urlopen(asking, timeout=TIMEOUT) as events:
            while (line := events.readline()).rstrip() != f"event: {wanted}".encode():
                assert line, f"no {wanted}"
            return json.loads(events.readline().removeprefix(b"data: "))


def _as_user(*arguments: str) -> Sequence[str]:
    """A command of ours as somebody without rights, but for reading Python and this clone, where
    these lie in a home that is closed to others."""
    numbers = (f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs")
    places = [place for each in (sys.base_prefix, PROJECT) for place in (each, *Path(each).parents)]
    is_closed = any(not Path(each).stat().st_mode & 0o001 for each in places)
    rights = [f"--{kind}-caps=+dac_read_search" for kind in ("inh", "ambient") if is_closed]
    return ["setpriv", *numbers, *rights, *BASCULE, *arguments]


@pytest.fixture
def machine(engine: Dockerd, image: str) -> Iterator[Machine]:
    place = Path(tempfile.mkdtemp(prefix="bsc-"))
    os.chown(place, USER, USER)
    engine.admit(USER)
    yield Machine(place, engine, image)
    shutil.rmtree(place)


def test_container_sessions_outlive_the_hub_and_leave_nothing_when_removed(
    machine: Machine,
) -> None:
    folder = machine.place / "project"
    folder.mkdir()
    os.chown(folder, USER, USER)
    with machine.hub() as hub:
        shared = ("--folder", str(folder), "--shells", "tmux")
        session = machine.must("session", "create", "--name", "mine", *shared)
        machine.must("session", "exec", "mine", "word=kept; echo text > made")
        hub.kill()
        hub.wait()
    assert machine.containers() == 1
    with machine.hub() as hub:
        assert machine.must("session", "exec", "mine", "echo $word") == "kept"
        starting = machine.must("session", "create", "--no-wait")
        hub.kill()
        hub.wait()
    with machine.hub() as hub:
        assert machine.must("session", "resume", starting) == "ready"
        assert machine.must("session", "attach", "mine", typed="echo typed $word\n") == "typed kept"
        hub.terminate()
        assert hub.wait() == 0
    assert machine.containers() == 2
    with machine.hub():
        assert machine.must("session", "exec", "mine", "echo $word; id -u") == f"kept\n{USER}"
        assert set(machine.must("session", "rm", "--all").split()) == {session, starting}
    assert machine.containers() == 0
    assert (folder / "made").read_text() == "text\n"
    assert (folder / "made").stat().st_uid == USER
    for name in ("sessions", "run", "run/.doors", "secrets"):
        assert set(os.listdir(machine.state / name)) <= {".doors"}


def test_forks_of_a_session_are_containers_whose_changes_are_merged_back(machine: Machine) -> None:
    folder = machine.place / "project"
    folder.mkdir()
    os.chown(folder, USER, USER)
    with machine.hub():
        machine.must("session", "create", "--name", "home", "--folder", str(folder))
        machine.must("session", "exec", "home", "printf '1\\n2\\n3\\n' > file; echo gone > gone")
        machine.must("session", "fork", "home", "--count", "2")
        assert machine.containers() == 3
        work = "sed -i s/3/three/ file; rm gone; mkdir d; echo new > d/new"
        machine.must("session", "exec", "home-fork-1", work)
        looks = f"cat file gone; ls {folder} 2>/dev/null || true"
        seen = machine.must("session", "exec", "home-fork-2", looks)
        assert seen.split() == ["1", "2", "3", "gone"]
        machine.must("session", "exec", "home", "sed -i s/1/one/ file")
        merged = machine.must("session", "merge", "home-fork-1")
        assert merged.splitlines() == ["taken d", "taken d/new", "merged file", "taken gone"]
        assert machine.must("session", "exec", "home", "cat file d/new; ls -1") == (
            "one\n2\nthree\nnew\nd\nfile"
        )
        assert (folder / "d/new").stat().st_uid == USER
        assert len(machine.must("session", "rm", "--all").split()) == 3
    assert machine.containers() == 0
    assert (folder / "file").read_text() == "one\n2\nthree\n"
    assert os.listdir(machine.state / "bases") == []


def test_vs_code_and_an_app_of_a_session_render_in_a_browser(
    machine: Machine, tmp_path: Path
) -> None:
    with machine.hub(), _browser_page(tmp_path) as page:
        session = machine.must("session", "create")
        machine.must("session", "exec", session, "echo from a container > made.txt")
        page.goto(machine.must("session", "url", session))
        page.get_by_label("Token").fill(machine.must("token"))
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("treeitem", name="made.txt").dblclick()
        expect(page.locator(".view-lines", has_text="from a container")).to_be_visible()
        _type_in_terminal(page, "python3 -m http.server 8123")
        app = machine.told(session, "port.opened")
        assert app["port"] == 8123
        page.goto(app["url"])
        page.get_by_role("link", name="made.txt").click()
        expect(page.get_by_text("from a container")).to_be_visible()
        machine.must("session", "rm", "--all")
    assert machine.containers() == 0


def test_actions_of_a_session_run_in_its_window_if_requested(
    machine: Machine,
) -> None:
    with machine.hub():
        session = machine.must("session", "create", "--runtime", "vscode")
        parent = machine.must("session", "exec", session, "tr '\\0' ' ' </proc/$PPID/cmdline")
        seen = machine.must("session", "exec", session, "echo by the window >made; cat made")
        machine.must("session", "rm", "--all")
    assert "extensionHost" in parent
    assert seen == "by the window"


@contextmanager
def _browser_page(tmp_path: Path) -> Iterator[Page]:
    """What it shows last is kept beside the test's files."""
    if not Path(CHROMIUM).exists():
        pytest.skip("NO BROWSER: scripts/browser installs one")
    expect.set_options(timeout=TIMEOUT * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(TIMEOUT * 1000)
        try:
            yield page
        finally:
            page.screenshot(path=tmp_path / "last.png")
            browser.close()


def _type_in_terminal(page: Page, command: str) -> None:
    page.keyboard.press("Control+Backquote")
    page.locator(".terminal.xterm").click()
    page.keyboard.type(f"{command}\n")
