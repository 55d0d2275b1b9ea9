"""A Docker engine of the tests' own, and the image its containers start from.

The engine lives in process, network and mount namespaces of its own: what it starts ends with it,
also when the tests are killed, and no bridge, rule or mount of this machine is touched. Its store
is in the user's cache, so that images are made once; one run of tests at a time has it.

`python -m tests.dockerd` makes what the image is built on, which needs the network. The layer with
our own code is built by the tests themselves, without.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bascule.cli.user_dirs import cache_dir
from bascule.runtime.spawn.docker import DockerSettings
from bascule.runtime.spawn.docker.engine import Engine
from bascule.runtime.spawn.docker.images import Build, build_image

PROJECT = Path(__file__).parent.parent
BASE = "bascule/base:bookworm"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
CGROUPS = Path("/sys/fs/cgroup")

NEEDED = ("dockerd", "unshare", "setpriv", "ip", "docker-init")


MakeSettings = Callable[..., DockerSettings]
"""Settings of a spawner on the tests' engine, for a directory to work in."""


class CannotRun(Exception):
    """Why there is no engine here."""


class Dockerd:
    """An engine that runs, from `running`."""

    def __init__(self, process: subprocess.Popen[bytes], place: Path) -> None:
        self.process = process
        self.place = place
        self.address = f"unix://{place}/docker.sock"

    @property
    def pid(self) -> int:
        """The host's number of the first process in its namespaces."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(children.read_text().split()[0])

    def admit(self, gid: int) -> None:
        """Let a group ask it, as `docker` may on other machines."""
        self.place.chmod(0o755)
        os.chown(self.place / "docker.sock", 0, gid)

    def inside(self, *command: str) -> list[str]:
        """A command as one of the engine's network, which is not this machine's."""
        return ["nsenter", "--net", "--target", str(self.pid), *command]


@contextmanager
def running(*, isolated: bool = True) -> Iterator[Dockerd]:
    """`isolated`: with a network of its own, which reaches nothing outside."""
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
            engine = Dockerd(process, place)
            _wait_until_it_answers(engine)
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


def _wait_until_it_answers(engine: Dockerd, within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not asyncio.run(_answers(engine.address)):
        if engine.process.poll() is not None or time.monotonic() > deadline:
            said = (engine.place / "log").read_text(errors="replace")[-3000:]
            raise CannotRun(f"dockerd does not run here:\n{said}")
        time.sleep(0.05)  # it tells nobody when it is ready


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
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)
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
    given = (AUTHORITIES,) if AUTHORITIES.exists() else ()
    tagged = Build(project=PROJECT, target="sandbox", base=BASE, certificates=given)
    with tagged.context() as context:
        digest = hashlib.sha256(context.read()).hexdigest()[:12]
    return Build(
        project=PROJECT,
        target="sandbox",
        base=BASE,
        certificates=given,
        tag=f"bascule/tests:{digest}",
        network="host",
    )


async def ensure_image(address: str, *, say: bool = False) -> str:
    """The name of an image with our present code; older ones are removed."""
    asked = await asyncio.to_thread(build)
    async with Engine(address) as engine:
        await engine.open()
        if await engine.image(asked.tag) is None:
            if await engine.image(BASE) is None:
                raise CannotRun(f"there is no {BASE}; `scripts/test-docker` makes it")
            await build_image(engine, asked, _say if say else lambda _line: None)
        for each in await engine.docker.images.list():
            for tag in each.get("RepoTags") or ():
                if tag.startswith("bascule/tests:") and tag != asked.tag:
                    await engine.docker.images.delete(tag, force=True)
    return asked.tag


async def _ensure_base(address: str) -> None:
    async with Engine(address) as engine:
        await engine.open()
        if await engine.image(BASE) is not None:
            return
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


def _say(line: str) -> None:
    sys.stderr.write(f"dockerd: {line}\n")


def main() -> None:
    with running(isolated=False) as engine:
        asyncio.run(_ensure_base(engine.address))
        tag = asyncio.run(ensure_image(engine.address, say=True))
    _say(f"{tag} is ready")


if __name__ == "__main__":
    try:
        main()
    except CannotRun as error:
        sys.exit(f"dockerd: {error}")
