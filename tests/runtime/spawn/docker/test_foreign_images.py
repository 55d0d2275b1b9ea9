"""Sessions in images that do not contain Bascule."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bascule.cli.user_dirs import cache_dir
from bascule.core.errors import SandboxStartFailed
from bascule.core.sessions import SandboxPlan
from bascule.runtime import RemoteRuntime
from bascule.runtime.program_run import run_program
from bascule.runtime.spawn.docker import DockerSettings, DockerSpawner
from bascule.runtime.spawn.docker.foreign_image import ForeignImage, ensure_can_run
from bascule.runtime.spawn.session_paths import account_files
from tests.dockerd import CannotRun, Dockerd

from . import foreign_images
from .plans import new_plan

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def settings(engine: Dockerd) -> Iterator[DockerSettings]:
    place = Path(tempfile.mkdtemp(prefix="bsc-"))
    yield DockerSettings(
        sessions_dir=place / "sessions",
        run_dir=place / "run",
        engine=engine.address,
        portable_dir=cache_dir() / "portable",
        start_timeout=300,
    )
    shutil.rmtree(place)


@asynccontextmanager
async def running(settings: DockerSettings, plan: SandboxPlan) -> AsyncIterator[RemoteRuntime]:
    async with DockerSpawner(settings) as spawner:
        await spawner.open()
        await spawner.start(plan)
        try:
            socket = plan.run_dir / "sandbox.sock"
            async with RemoteRuntime("http://localhost", plan.key, socket_path=socket) as runtime:
                yield runtime
        finally:
            await spawner.stop(plan.session_id, grace=0)


@pytest.mark.parametrize("make", [foreign_images.ensure_musl, foreign_images.ensure_debian])
async def test_a_session_runs_in_an_image_without_bascule(
    settings: DockerSettings, engine: Dockerd, make: Callable[[str], str]
) -> None:
    try:
        image = make(engine.address)
    except CannotRun as error:
        pytest.skip(f"NO IMAGE: {error}")
    is_musl = make is foreign_images.ensure_musl
    async with running(settings, new_plan(settings, image=image)) as runtime:
        shown = await runtime.run("echo $KIND; id -un; pwd; word=kept; echo $LD_LIBRARY_PATH")
        assert shown.content == "foreign\nbascule\n/workspace\n\n"
        assert (await runtime.run("echo $word; ls -d /opt/*")).content == (
            "kept\n/opt/bascule-portable\n"
        )
        system = "/etc/alpine-like" if is_musl else "/etc/debian_version"
        found = await run_program(runtime, ["cat", system])
        assert (found.stdout[:1], found.stderr) == (b"3" if is_musl else b"1", b"")
        script = "command -v python3; command -v bash; id postgres"
        missing = await run_program(runtime, ["sh", "-c", script])
        assert missing.stdout.decode().splitlines() == (
            ["uid=70(postgres) gid=70(postgres) groups=70(postgres)"]
            if is_musl
            else ["/usr/bin/bash"]
        )
        await runtime.write("made.txt", "one\ntwo\n")
        assert [match.line for match in (await runtime.grep("tw")).matches] == [2]
        assert (await run_program(runtime, ["cat"], stdin=b"x" * 300_000)).stdout == b"x" * 300_000
        refused = await run_program(runtime, ["touch", "/opt/bascule-portable/x"])
        assert refused.exit_code != 0
        late = await run_program(runtime, ["sleep", "1000"], timeout=0.5)
        assert late.timed_out


async def test_an_image_that_cannot_be_used_is_named_with_the_reason(
    settings: DockerSettings, engine: Dockerd
) -> None:
    image = foreign_images.ensure_empty(engine.address)
    with pytest.raises(SandboxStartFailed, match=f"{image} has no /bin/sh"):
        async with running(settings, new_plan(settings, image=image)):
            pass
    with pytest.raises(SandboxStartFailed, match=r"is for linux/mips, .* linux/(amd|arm)64"):
        ensure_can_run("x", {"Os": "linux", "Architecture": "mips"})
    with pytest.raises(SandboxStartFailed, match="windows"):
        ensure_can_run("x", {"Os": "windows", "Architecture": "amd64"})


def test_accounts_of_the_image_stay_beside_the_sessions_own() -> None:
    theirs = {
        "passwd": "root:x:0:0:root:/root:/bin/ash\nbascule:x:1000:1000::/home:/bin/sh\nbad line\n"
        "other:x:70001:5::/:/bin/sh\nkept:x:5:5::/:/bin/sh\n",
        "group": "root:x:0:\n",
    }
    merged = ForeignImage(Path("/"), accounts=theirs).with_accounts(account_files(70001, 70001))
    assert merged["passwd"].splitlines() == [
        "root:x:0:0:root:/root:/bin/ash",
        "kept:x:5:5::/:/bin/sh",
        "bascule:x:70001:70001:bascule:/home/bascule:/bin/bash",
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
    ]
    assert merged["group"].splitlines() == ["root:x:0:", "bascule:x:70001:", "nogroup:x:65534:"]
