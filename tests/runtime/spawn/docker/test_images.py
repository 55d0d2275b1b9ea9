"""Where images come from: a registry, and our own Dockerfile."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import aiodocker
import pytest

from bascule.core.errors import MissingTool, SandboxStartFailed
from bascule.runtime.spawn.docker import DockerSpawner
from bascule.runtime.spawn.docker.engine import Engine
from bascule.runtime.spawn.docker.images import Build, build_image
from tests.dockerd import BASE, Dockerd, MakeSettings
from tests.runtime.spawn.docker.plans import new_plan

REGISTRY = "127.0.0.1:5000"
"""In the engine's own network, where nobody else listens."""

CONFIGURATION = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: "{directory}"}}}}
http: {{addr: "{address}"}}
"""


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bsc-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def registry(engine: Dockerd, place: Path) -> Iterator[str]:
    if shutil.which("docker-registry") is None:
        pytest.skip("NO REGISTRY: scripts/docker installs one")
    written = CONFIGURATION.format(directory=place / "registry", address=REGISTRY)
    (place / "registry.yml").write_text(written)
    command = engine.inside("docker-registry", "serve", str(place / "registry.yml"))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        yield REGISTRY
        server.kill()


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.timeout(300)
class TestPulling:
    async def test_an_image_that_the_engine_lacks_is_pulled_in_stages(
        self, registry: str, place: Path, settings_in: MakeSettings, engine: Dockerd
    ) -> None:
        name = f"{registry}/small"
        async with Engine(engine.address) as asked:
            await asked.open()
            await self.push(asked, name, place)
            assert await asked.image(f"{name}:v1") is None
            async with DockerSpawner(settings_in(place, image=f"{name}:v1")) as spawner:
                await spawner.open()
                stages: list[str] = []
                # It has one file and no shell: a start gets as far as that.
                with pytest.raises(SandboxStartFailed, match="has no /bin/sh"):
                    await spawner.start(new_plan(spawner.settings), on_stage=stages.append)
            assert await asked.image(f"{name}:v1") is not None
            await asked.docker.images.delete(f"{name}:v1")
        assert f"pulling the image {name}:v1" in stages
        assert f"pulling the image {name}:v1: 1 of 1 layers" in stages

    async def push(self, asked: Engine, name: str, place: Path) -> None:
        """A new image into the registry, once that answers, and out of the engine's own store."""
        project = a_project(place / "project", "")
        (project / "images/Dockerfile").write_text("FROM scratch AS full\nCOPY README.md /\n")
        (project / "README.md").write_text(secrets.token_hex())
        await build_image(asked, Build(project=project, tag=f"{name}:v1"), lambda _line: None)
        while True:
            try:
                await asked.docker.images.push(name, tag="v1")
                break
            except aiodocker.DockerError as error:
                if "refused" not in error.message:
                    raise
        await asked.docker.images.delete(f"{name}:v1")

    async def test_a_missing_image_is_reported_with_the_registry_response(
        self, registry: str, place: Path, settings_in: MakeSettings
    ) -> None:
        async with DockerSpawner(settings_in(place)) as spawner:
            await spawner.open()
            plan = new_plan(spawner.settings, image=f"{registry}/nobodys:v9")
            with pytest.raises(SandboxStartFailed, match=r"nobodys:v9 cannot be pulled: .+"):
                await spawner.start(plan)
            assert await spawner.running() == []

    async def test_a_failed_image_build_names_its_step(
        self, engine: Dockerd, tmp_path: Path
    ) -> None:
        project = a_project(tmp_path / "project", "RUN echo about to fail && false")
        lines: list[str] = []
        async with Engine(engine.address) as asked:
            await asked.open()
            with pytest.raises(SandboxStartFailed, match="returned a non-zero code"):
                await build_image(asked, Build(project=project, base=BASE, tag="t"), lines.append)
        assert "about to fail" in lines


EXTENSION = "src/bascule/sandbox/vscode/dist/bascule.vsix"


def a_project(path: Path, step: str) -> Path:
    (path / "images/certificates").mkdir(parents=True)
    (path / "src/package/__pycache__").mkdir(parents=True)
    (path / "src/package/__pycache__/module.pyc").write_bytes(b"compiled")
    for name in ("pyproject.toml", "constraints.txt", "README.md", "LICENSE", "src/package/m.py"):
        (path / name).write_text(name)
    (path / EXTENSION).parent.mkdir(parents=True)
    (path / EXTENSION).write_bytes(b"packed")
    (path / "images/Dockerfile").write_text(f"ARG BASE\nFROM ${{BASE}} AS full\n{step}\n")
    return path


def test_the_same_files_give_the_same_context(tmp_path: Path) -> None:
    first, second = (a_project(tmp_path / name, "RUN true") for name in ("one", "two"))
    (first / "pyproject.toml").chmod(0o600)
    (second / "not part of it").touch()
    with Build(project=first).context() as one, Build(project=second).context() as two:
        packed = one.read()
        assert packed == two.read()
        two.seek(0)
        with tarfile.open(fileobj=two) as tar:
            names = tar.getnames()
    assert "src/package/m.py" in names
    assert not any("pyc" in name or "not part" in name for name in names)


def test_certificates_that_were_given_are_in_the_context(tmp_path: Path) -> None:
    project = a_project(tmp_path / "project", "RUN true")
    (tmp_path / "ours.pem").write_text("PEM")
    with (
        Build(project=project, certificates=[tmp_path / "ours.pem"]).context() as context,
        tarfile.open(fileobj=context) as tar,
    ):
        file = tar.extractfile("images/certificates/given-0.crt")
        assert file is not None
        assert file.read() == b"PEM"


def test_an_image_can_be_built_only_from_a_clone(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match="a clone of the project"):
        Build(project=tmp_path).context()


def test_the_extension_must_be_built_before_its_image(tmp_path: Path) -> None:
    project = a_project(tmp_path / "project", "RUN true")
    (project / EXTENSION).unlink()
    with pytest.raises(MissingTool, match="extension is not built"):
        Build(project=project).context()
    Build(project=project, target="sandbox").context().close()


def test_build_requests_name_target_and_arguments(tmp_path: Path) -> None:
    build = Build(project=tmp_path, base="b", arguments={"MICROMAMBA": "2"}, network="host")
    asked = build.build_options()
    assert asked["target"] == "full"
    assert asked["buildargs"] == '{"MICROMAMBA": "2", "BASE": "b"}'
    assert asked["networkmode"] == "host"
