"""Gets an image: from the engine's store, from a registry, or from our Dockerfile."""

from __future__ import annotations

import asyncio
import json
import tarfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, Literal

import aiodocker

from bascule.core.contracts import OnStage
from bascule.core.errors import MissingTool, SandboxStartFailed

from .engine import Engine, engine_errors
from .settings import IMAGE

Target = Literal["sandbox", "full"]

_DOCKERFILE: Final = "images/Dockerfile"
_BUILD_FILES: Final = (_DOCKERFILE, "images/certificates", "pyproject.toml", "constraints.txt")
_SOURCES: Final = ("README.md", "LICENSE", "src")
_EXTENSION: Final = "src/bascule/sandbox/vscode/dist/bascule.vsix"


async def ensure_image(engine: Engine, name: str, on_stage: OnStage) -> Mapping[str, Any]:
    """The engine's description of the image, which is pulled if missing."""
    image = await engine.image(name)
    if image is None:
        on_stage(f"pulling the image {name}")
        await _pull(engine, name, on_stage)
        image = await engine.image(name)
    if image is None:
        raise SandboxStartFailed(f"The image {name} was pulled, but the engine does not have it")
    return image


async def _pull(engine: Engine, name: str, on_stage: OnStage) -> None:
    layers: dict[str, bool] = {}
    try:
        with engine_errors():
            async with aclosing(_generator(engine.pull(name))) as messages:
                async for message in messages:
                    before = sum(layers.values())
                    _update_layers(layers, message)
                    if (done := sum(layers.values())) != before:
                        on_stage(f"pulling the image {name}: {done} of {len(layers)} layers")
    except aiodocker.DockerError as error:
        advice = "; `make image`, in a clone, builds it" if name == IMAGE else ""
        raise SandboxStartFailed(
            f"The image {name} cannot be pulled: {error.message}{advice}"
        ) from error


def _update_layers(layers: dict[str, bool], message: Mapping[str, Any]) -> None:
    layer, status = message.get("id"), message.get("status", "")
    if layer and status in ("Pulling fs layer", "Waiting", "Already exists", "Pull complete"):
        layers[layer] = status in ("Already exists", "Pull complete")


async def _generator(messages: AsyncIterator[Any]) -> Any:
    async for each in messages:
        yield each


# Building ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Options for building our Dockerfile."""

    project: Path
    """A clone of this repository."""
    tag: str = IMAGE
    target: Target = "full"
    base: str = ""
    """A Debian image to build on; empty: the default of the Dockerfile."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    certificates: Iterable[Path] = ()
    """CA certificates that this network needs, besides those in `images/certificates`."""
    network: str = ""
    """The engine's network for the steps of the build; empty: the engine's default."""

    def build_options(self) -> dict[str, str]:
        arguments = {**self.arguments, **({"BASE": self.base} if self.base else {})}
        build_options = {
            "t": self.tag,
            "dockerfile": _DOCKERFILE,
            "target": self.target,
            "buildargs": json.dumps(arguments),
            "rm": "1",
            "forcerm": "1",
        }
        return {**build_options, **({"networkmode": self.network} if self.network else {})}

    def context(self) -> IO[bytes]:
        """The build context as a tar. The same files always give the same layers."""
        if not (self.project / _DOCKERFILE).is_file():
            raise MissingTool(
                f"The image is built in a clone of the project, and {self.project} is not one"
            )
        if self.target == "full" and not (self.project / _EXTENSION).is_file():
            raise MissingTool("The extension is not built; in a clone, `make image` does it")
        tar_file = TemporaryFile()  # noqa: SIM115 - the caller closes it
        with tarfile.open(fileobj=tar_file, mode="w") as tar:
            for part in (*_BUILD_FILES, *_SOURCES):
                tar.add(self.project / part, part, filter=_reproducible)
            for number, path in enumerate(self.certificates):
                tar.add(path, f"images/certificates/given-{number}.crt", filter=_reproducible)
        tar_file.seek(0)
        return tar_file


async def build_image(engine: Engine, build: Build, on_line: OnStage) -> None:
    """Build the image.

    Raises `SandboxStartFailed` with the failed step; `on_line` gets the output.
    """
    context = await asyncio.to_thread(build.context)
    with context:
        try:
            async for message in engine.build(context, build.build_options()):
                if line := str(message.get("stream", "")).rstrip():
                    on_line(line)
        except aiodocker.DockerError as error:
            raise SandboxStartFailed(f"The image could not be built: {error.message}") from error


def _reproducible(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if entry.name.endswith((".pyc", "__pycache__")):
        return None
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry
