"""A Docker engine of the tests' own, and the image its containers start from.

The engine lives in process, network and mount namespaces of its own: what it starts ends with it,
also when the tests are killed, and no bridge, rule or mount of this machine is touched. Its store
is in the user's cache, so that images are made once; one run of tests at a time has it.

`python -m tests.dockerd COMMAND...` makes the image, which needs the network unless nothing
changed, and runs the command with an engine that all its processes share. Without a command the
image is made for later.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from bascule.cli.user_dirs import cache_dir
from bascule.core.errors import BasculeError, MissingTool
from bascule.runtime.spawn.docker import DockerSettings
from bascule.runtime.spawn.docker.engine import Engine
from bascule.runtime.spawn.docker.images import Build, build_image

PROJECT = Path(__file__).parent.parent
BASE = "bascule/base:bookworm"
IMAGES = "bascule/tests-full"
SMALL_IMAGES = "bascule/tests-sandbox"
SHARED = "BASCULE_TESTS_ENGINE"
"""The variable that names the engine of a run of tests: its directory and first process."""
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
CGROUPS = Path("/sys/fs/cgroup")

NEEDED = ("dockerd", "unshare", "setpriv", "ip", "docker-init")


MakeSettings = Callable[..., DockerSettings]
"""Settings of a spawner on the tests' engine, for a directory to work in."""


class CannotRun(Exception):
    """Why there is no engine here."""


@dataclass(frozen=True, slots=True)
class Dockerd:
    """An engine that runs, from `running`."""

    place: Path
    pid: int
    """The host's number of the first process in its namespaces."""

    @property
    def address(self) -> str:
        return f"unix://{self.place}/docker.sock"

    def admit(self, gid: int) -> None:
        """Let a group ask it, as `docker` may on other machines."""
        self.place.chmod(0o755)
        os.chown(self.place / "docker.sock", 0, gid)

    def inside(self, *command: str) -> list[str]:
        """A command as one of the engine's network, which is not this machine's."""
        return ["nsenter", "--net", "--target", str(self.pid), *command]


@contextmanager
def running(*, isolated: bool = True) -> Iterator[Dockerd]:
    """The engine that this run of tests shares, or else a new one.

    `isolated`: with a network of its own, which reaches nothing outside.
    """
    if SHARED in os.environ:
        shared, pid = os.environ[SHARED].split(":")
        yield Dockerd(Path(shared), int(pid))
        return
    _ensure_possible()
    with _store() as store, tempfile.TemporaryDirectory(prefix="bsc-engine-") as directory:
        place = Path(directory)
        group = f"bascule-tests-{os.getpid()}"
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(
                _command(store, place, group, isolated=isolated),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            engine = Dockerd(place, _wait_until_it_answers(process, place))
            asyncio.run(_remove_containers(engine.address))
            yield engine
            asyncio.run(_remove_containers(engine.address))
        finally:
            _end(process)
            _remove_cgroups(group)


def _ensure_possible() -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        raise CannotRun("an engine of the tests' own needs Linux and root")
    if missing := [each for each in NEEDED if shutil.which(each) is None]:
        raise CannotRun(f"missing: {', '.join(missing)} (scripts/docker installs them)")


@contextmanager
def _store() -> Iterator[Path]:
    path = _cache() / "test-engine"
    path.mkdir(parents=True, exist_ok=True)
    with (path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path / "data"


def _cache() -> Path:
    """The user's, also for a worker of a benchmark, which is given a home of its own."""
    if "XDG_CACHE_HOME" in os.environ:
        return cache_dir()
    return Path(pwd.getpwuid(os.getuid()).pw_dir, ".cache/bascule")


def _command(store: Path, place: Path, group: str, *, isolated: bool) -> list[str]:
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    dockerd = [
        "dockerd",
        *(f"--data-root={store}", f"--exec-root={place}/exec", f"--pidfile={place}/pid"),
        *(f"--host=unix://{place}/docker.sock", f"--cgroup-parent=/{group}"),
    ]
    if isolated:
        unshare.append("--net")
    else:
        dockerd += ["--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"]
    first = 'if [ "$1" = own ]; then ip link set lo up; fi; shift; exec docker-init -s -- "$@"'
    network = "own" if isolated else "shared"
    ended_with_us = ["setpriv", "--pdeathsig", "KILL"]
    return [*ended_with_us, *unshare, "sh", "-c", first, "sh", network, *dockerd]


def _wait_until_it_answers(
    process: subprocess.Popen[bytes], place: Path, within: float = 60.0
) -> int:
    deadline = time.monotonic() + within
    while not asyncio.run(_answers(f"unix://{place}/docker.sock")):
        if process.poll() is not None or time.monotonic() > deadline:
            said = (place / "log").read_text(errors="replace")[-3000:]
            raise CannotRun(f"dockerd does not run here:\n{said}")
        time.sleep(0.05)  # it tells nobody when it is ready
    return _first_inside(process)


def _first_inside(process: subprocess.Popen[bytes]) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return int(children.read_text().split()[0])


async def _answers(address: str) -> bool:
    try:
        async with Engine(address) as engine:
            await engine.open()
    except Exception:
        return False
    return True


async def _remove_containers(address: str) -> None:
    """What a run that was killed has left in the store, or a test that failed."""
    async with Engine(address) as engine:
        await engine.open()
        for each in await engine.docker.containers.list(all="true"):
            await each.delete(force=True, v=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(FileNotFoundError, IndexError, ProcessLookupError):
        os.kill(_first_inside(process), signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _remove_cgroups(group: str) -> None:
    for top in {*CGROUPS.glob(f"*/{group}"), *CGROUPS.glob(group)}:
        for directory, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):
                os.rmdir(directory)


# The image --------------------------------------------------------------------------------


def build() -> Build:
    """Ours, whole, on what debootstrap makes; named by all that goes into it."""
    given = (AUTHORITIES,) if AUTHORITIES.exists() else ()
    build = Build(project=PROJECT, base=BASE, certificates=given, network="host")
    with build.context() as context:
        digest = hashlib.sha256(context.read()).hexdigest()[:12]
    return replace(build, tag=f"{IMAGES}:{digest}")


async def ensure_image(address: str) -> str:
    """The name of the image with our present code. Raises `CannotRun` when it was not made."""
    try:
        name = (await asyncio.to_thread(build)).tag
    except MissingTool as error:
        raise CannotRun(error.message) from error
    async with Engine(address) as engine:
        await engine.open()
        if await engine.image(name) is None:
            raise CannotRun(f"there is no image {name}; `scripts/test-docker` makes it")
    return name


def prepare() -> None:
    """Make the image, unless it was made already."""
    asked = build()
    with _store() as store:
        made = store.with_name("image")
        if made.is_file() and made.read_text() == asked.tag:
            return
    with running(isolated=False) as engine:
        asyncio.run(_make(engine.address, asked))
    made.write_text(asked.tag)


async def _make(address: str, asked: Build) -> None:
    """Both targets: what is only on the way to the smaller one would be removed as of no use."""
    small = replace(asked, target="sandbox", tag=asked.tag.replace(IMAGES, SMALL_IMAGES))
    async with Engine(address) as engine:
        await engine.open()
        if await engine.image(BASE) is None:
            await asyncio.to_thread(_make_base, address)
        for each in (small, asked):
            await build_image(engine, each, _say_steps)
        await _remove_older(engine, {small.tag, asked.tag})


async def _remove_older(engine: Engine, kept: Collection[str]) -> None:
    for each in await engine.docker.images.list():
        for tag in each.get("RepoTags") or ():
            if tag.partition(":")[0] in (IMAGES, SMALL_IMAGES) and tag not in kept:
                await engine.docker.images.delete(tag, force=True)
    await engine.docker.images.prune()


def _make_base(address: str) -> None:
    with tempfile.TemporaryDirectory(prefix="bsc-base-") as directory:
        _say(f"making {BASE} with debootstrap, once")
        root = Path(directory, "root")  # made by debootstrap: users inside have to get through it
        wanted = ["--variant=minbase", "--include=ca-certificates", "bookworm", str(root)]
        made = subprocess.run(["debootstrap", *wanted], capture_output=True, text=True)
        if made.returncode != 0:
            raise CannotRun(f"no base image: debootstrap said {made.stdout[-1000:]}{made.stderr}")
        packing = subprocess.Popen(
            ["tar", "-C", str(root), "--numeric-owner", "-c", "."], stdout=subprocess.PIPE
        )
        host = {**os.environ, "DOCKER_HOST": address}
        subprocess.run(["docker", "import", "-", BASE], check=True, stdin=packing.stdout, env=host)
        if packing.wait() != 0:
            raise CannotRun("the base image could not be packed")


# As a program -----------------------------------------------------------------------------


def _say(line: str) -> None:
    sys.stderr.write(f"dockerd: {line}\n")


def _say_steps(line: str) -> None:
    if line.startswith("Step "):
        _say(line.partition("&&")[0].rstrip(" \\"))


def main(command: Sequence[str]) -> int:
    """The command's exit status. Where no engine can run it runs without, having said why."""
    try:
        prepare()
        if not command:
            return 0
        with running() as engine:
            shared = {**os.environ, SHARED: f"{engine.place}:{engine.pid}"}
            return subprocess.run(command, env=shared).returncode
    except (CannotRun, BasculeError) as error:
        _say(f"NO DOCKER ENGINE: {error}")
    return subprocess.run(command).returncode if command else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
