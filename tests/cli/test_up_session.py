"""`bascule up` with a session and, in one of these, a real VS Code in a real browser."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from playwright.async_api import Page, expect

from bascule.hub.web.page import is_built
from bascule.runtime.spawn.local import LocalSettings, LocalSpawner
from tests.runtime.spawn.attacks.report import PROBE, Report

from .processes import Terminal, at_terminal, bascule, ended, environment

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]


@pytest.fixture
def env(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """A user whose hub is not that of whoever runs the tests, without a screen."""
    own = {"TERM": "dumb", "COLUMNS": "500", "XDG_STATE_HOME": str(tmp_path / "state")}
    with tempfile.TemporaryDirectory(prefix="bsc-") as short:  # for sockets
        clean = environment(BASCULE_PORT="0", XDG_RUNTIME_DIR=short, **own)
        yield {
            name: value
            for name, value in clean.items()
            if name not in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
        }
        for state in (tmp_path / "state/bascule").glob("up-*"):
            end_sessions(state, Path(short, "bascule", state.name))


def end_sessions(state: Path, run_dir: Path) -> None:
    """Those of a hub that was killed, or of a test that failed."""
    settings = LocalSettings(
        sessions_dir=state / "sessions", run_dir=run_dir, state_dir=state / "warden"
    )

    async def end() -> None:
        async with LocalSpawner(settings) as spawner:
            await spawner.open()
            for each in await spawner.running():
                await spawner.stop(each.session_id, grace=0)

    with ThreadPoolExecutor() as thread:  # this one may have a loop
        thread.submit(asyncio.run, end()).result()


@contextmanager
def up(tmp_path: Path, env: Mapping[str, str], *flags: str) -> Iterator[Terminal]:
    """At its first prompt."""
    with at_terminal("up", *flags, cwd=tmp_path, env=env) as terminal:
        terminal.expect(" $ ")
        yield terminal


def fact(terminal: Terminal, name: str) -> str:
    found = re.search(rf"^  {name} +(.+?)(?:  .*)?\r?$", terminal.seen, re.MULTILINE)
    assert found is not None, terminal.seen
    return found[1]


def run(terminal: Terminal, command: str) -> str:
    terminal.type(f"{command}\r")
    terminal.expect("\r\n")
    return terminal.expect(" $ ")


def sandboxes(tmp_path: Path) -> list[Path]:
    """Of sessions that run now, by the warden's notes."""
    return list((tmp_path / "state/bascule").glob("up-*/warden/sandboxes/*"))


# Other commands -------------------------------------------------------------------------------


def test_tokens_and_backups_belong_to_the_running_hub(
    tmp_path: Path, env: Mapping[str, str]
) -> None:
    with up(tmp_path, env) as terminal:
        address = fact(terminal, "hub")
        which = f"hub: {address} (bascule up --working-dir {tmp_path}/workspace)"
        made = bascule("token", "--create", "my agent", env=env)
        assert which in made.stderr
        as_agent = {**env, "BASCULE_TOKEN": made.stdout.strip()}
        for command in (("windows",), ("session", "list")):
            asked = bascule(*command, env=as_agent)
            assert (asked.returncode, which in asked.stderr) == (0, True), asked
        assert "my agent" in bascule("token", "--list", env=env).stdout
        far = bascule(
            "token", "--list", "--hub", address.replace("127.0.0.1", "localhost"), env=env
        )
        assert "my agent" in far.stdout, far
        run(terminal, "echo kept >~/note")

        file = tmp_path / "copy.tar"
        saved = bascule("backup", str(file), env=env)
        assert saved.returncode == 0, saved
        assert "(running): sessions 1, tokens 1" in saved.stderr
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        terminal.type("exit\r")
        assert terminal.status() == 0

    shutil.rmtree(tmp_path / "state/bascule")
    (tmp_path / "state/bascule").mkdir()
    with tarfile.open(file) as archive:
        archive.extractall(tmp_path / "state/bascule", filter="fully_trusted")
    with up(tmp_path, env) as terminal:
        assert run(terminal, "cat ~/note").startswith("kept")
        assert bascule("windows", env=as_agent).returncode == 0
        assert bascule("token", "--revoke", "my agent", env=env).returncode == 0
        assert bascule("windows", env=as_agent).returncode == 2


def test_a_backup_without_hub_state_fails(tmp_path: Path, env: Mapping[str, str]) -> None:
    bascule("token", env=env)
    told = bascule("token", "--list", env=env)
    assert "no hub is running here" in told.stderr
    assert "`bascule serve`" in told.stderr

    saved = bascule("backup", str(tmp_path / "copy.tar"), env=env)

    assert saved.returncode != 0
    assert f"nothing to back up in {tmp_path}/state/bascule" in saved.stderr
    assert not (tmp_path / "copy.tar").exists()


# Without VS Code ----------------------------------------------------------------------------


def test_up_makes_a_folder_a_session_and_resumes_it_the_next_time(
    tmp_path: Path, env: Mapping[str, str]
) -> None:
    nothing = {**env, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with up(tmp_path, nothing) as terminal:
        assert "`bascule install vscode`" in fact(terminal, "VS Code")
        assert "a demo agent" not in terminal.seen
        assert is_built() == ("/sign-in?code=" in terminal.seen)
        name = fact(terminal, "session")
        assert run(terminal, "pwd; echo fi''rst >made; echo kept >~/note").startswith("/workspace")
        assert (tmp_path / "workspace/made").read_text() == "first\n"
        assert (tmp_path / "workspace/made").stat().st_uid == os.geteuid()
        assert "No such file" in run(terminal, f"ls {Path(__file__)}")
        listed = json.loads(bascule("session", "list", "--json", env=nothing).stdout)
        assert [(each["name"], each["state"]) for each in listed] == [(name, "ready")]
        with up(tmp_path, nothing) as second:  # another terminal in the same folder
            assert fact(second, "session") == name
            assert run(second, "cat made").startswith("first")
            second.type("exit\r")
            assert second.status() == 0
        assert run(terminal, "echo still he''re").startswith("still here")
        pids = [each.pid for each in psutil.Process(terminal.pid).children(recursive=True)]
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.status() == 128 + signal.SIGTERM
        assert all(ended(pid) for pid in pids)
        assert not sandboxes(tmp_path)
    after = bascule("windows", env=nothing)
    assert (after.returncode, "start one with `bascule up`" in after.stderr) == (1, True)

    with up(tmp_path, nothing) as terminal:
        assert run(terminal, "cat ~/note").startswith("kept")
        another = bascule("session", "create", "--name", "another", env=nothing)
        assert another.returncode == 0, another.stderr
        os.kill(terminal.pid, signal.SIGKILL)
    with up(tmp_path, nothing) as terminal:  # what a killed one left is taken up, and ended
        assert fact(terminal, "session") == name
        removed = bascule("session", "rm", name, env=nothing)  # by somebody else, meanwhile
        assert removed.returncode == 0
        terminal.type("\x04")
        assert terminal.status() == 0
    assert not sandboxes(tmp_path)
    assert not list(Path(env["XDG_RUNTIME_DIR"], "bascule").iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="is about a session that root starts")
def test_a_session_started_by_root_has_the_rights_the_docs_list(
    tmp_path: Path, env: Mapping[str, str]
) -> None:
    """The table of `docs/sandboxes.md`, made from inside."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "probe.py").write_text(PROBE.read_text())
    nothing = {**env, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with up(tmp_path, nothing) as terminal:
        run(terminal, f"python3 probe.py {tmp_path.name} > report.json")
        os.kill(terminal.pid, signal.SIGTERM)
        terminal.status()
    report = Report(**json.loads((folder / "report.json").read_text()))
    assert (folder / "report.json").stat().st_uid == 0
    assert report.gained() == {}
    page = (Path(__file__).parents[2] / "docs/sandboxes.md").read_text()
    rows = page.partition("| Asked from inside | Answer |\n| --- | --- |\n")[2].partition("\n\n")[0]
    assert dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", rows, re.M)) == table(report)


def table(report: Report) -> dict[str, str]:
    seen, attacks = report.seen, report.attacks
    uid = str(seen["uid"])
    assert int(uid) in range(70_000, 90_000)

    def listed(values: Sequence[object]) -> str:
        return ", ".join(f"`{value}`" for value in values).replace(uid, "LEASED") or "none"

    refused = [*attacks["system_calls"], *attacks["other_numbers"]]
    network = f"{listed(seen['interfaces'])}; {listed(seen['gateways'])}"
    modes = (seen["no_new_privileges"], seen["seccomp"])
    return {
        "UID, other groups": f"{listed([uid])}, {listed(seen['groups'])}",
        "UID map": listed([seen["uid_map"]]),
        "Capabilities, also of programs it starts": listed(seen["capabilities"]),
        "No new privileges, seccomp": f"{listed(modes)} (a filter)",
        "Namespaces it can make": listed(attacks["namespaces"]),
        "Settings of the kernel it can write (`/proc`, `/sys`)": listed(
            attacks["kernel_files_to_write"]
        ),
        "Writable mounts": listed(seen["writable_mounts"]),
        "Mounts where set-ID bits have an effect": listed(attacks["mounts_that_keep_set_id_bits"]),
        "Set-ID files it can make": listed(attacks["set_id_files"]),
        "Devices": listed(seen["devices"]),
        "Socket families": listed(seen["families"]),
        "Network interfaces, gateways (`egress` is open)": network,
        "Keys of kernel keyrings": listed(attacks["keys_of_whoever_started_us"]),
        "Processes of other users that it sees": listed(seen["others"]),
        "Processes of other users that it can signal": listed(attacks["other_users_processes"]),
        "Secrets of the machine it can read": listed(attacks["secrets_to_read"]),
        "System calls on the refused list that worked anyway": listed(refused),
    }


_VISIT = """
import html, http.client, re, sys
from urllib.parse import urljoin, urlsplit
address = sys.argv[1]
while address:
    parts = urlsplit(address)
    link = http.client.HTTPConnection("127.0.0.1", parts.port)
    headers = {"Host": parts.netloc, "Accept": "text/html", "Sec-Fetch-Dest": "document"}
    link.request("GET", f"{parts.path}?{parts.query}", headers=headers)
    reply = link.getresponse()
    page = reply.read().decode()
    if reply.getheader("Set-Cookie"):
        sys.exit("signed in")
    found = re.search('http-equiv="refresh" content="0;url=([^"]+)"', page)
    address = found and urljoin(address, html.unescape(found[1]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="visits as another user")
def test_the_browser_start_url_does_not_sign_in_other_users(
    tmp_path: Path, env: Mapping[str, str]
) -> None:
    """Every user of the machine can read the arguments of a process."""
    if not is_built():
        pytest.skip("the page is not built; scripts/web builds it")
    opened = tmp_path / "opened"
    os.mkfifo(opened)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >{opened}\n')
    browser.chmod(0o755)
    with up(tmp_path, {**env, "BROWSER": str(browser)}) as terminal:
        address = opened.read_text().strip()

        def visit(uid: int) -> str:
            words = ["/usr/bin/python3", "-c", _VISIT, address]
            done = subprocess.run(words, user=uid, cwd="/", capture_output=True, timeout=60)
            return done.stderr.decode().strip()

        assert visit(12345) == ""
        assert visit(os.geteuid()) == "signed in"  # the other visit did not use it up
        terminal.type("exit\r")
        assert terminal.status() == 0


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--shells", "a=tmux"), "all shells of a session are of one kind"),
        (("--egress", "some"), "--egress is 'some'"),
    ],
)
def test_up_rejects_flags_that_a_session_does_not_support(
    flags: tuple[str, ...], complaint: str, tmp_path: Path, env: Mapping[str, str]
) -> None:
    ran = bascule("up", "--editor", *flags, cwd=tmp_path, env=env, input="")
    assert (ran.returncode, complaint in ran.stderr) == (2, True)


# With VS Code -------------------------------------------------------------------------------


@pytest.mark.editor
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("vscode")
async def test_the_printed_url_opens_vs_code_on_the_folder(
    tmp_path: Path, env: Mapping[str, str], page: Page
) -> None:
    """No token is typed, and a demo plays in the window that is shown."""
    opened = tmp_path / "opened"
    os.mkfifo(opened)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >{opened}\n')
    browser.chmod(0o755)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/hello.txt").touch()
    patient = {**env, "BROWSER": str(browser), "BASCULE_PROBE_TIMEOUT": "60"}
    with up(tmp_path, patient, "--working-dir", "mine") as terminal:
        address = opened.read_text().strip()
        shown = fact(terminal, "open")
        assert address.partition("?")[0] == shown.partition("?")[0]
        assert address != shown  # others may see what a browser is started with
        assert "opened in your browser" in terminal.seen
        await page.goto(address)
        frame = page.frame_locator("iframe")
        await frame.get_by_role("treeitem", name="hello.txt").wait_for(timeout=90_000)
        assert "/watch/" in page.url
        await expect(page.get_by_role("link", name="Start a session")).to_be_visible()
        await expect(page.get_by_role("link", name="Watch a demo")).to_be_visible()
        with at_terminal("demo", "--fast", cwd=tmp_path, env=env) as demo:
            assert await asyncio.to_thread(demo.status) == 0, demo.seen
        assert "total        14.70" in demo.seen
        assert (tmp_path / "mine/bascule-demo/bill.py").exists()
        await expect(page.get_by_text("9 actions")).to_be_visible(timeout=60_000)
        terminal.type("exit\r")
        assert terminal.status() == 0
    assert not sandboxes(tmp_path)
