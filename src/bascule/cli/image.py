"""`bascule image`: build the image for sandboxes of the spawner `docker`."""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from bascule.core.errors import InvalidSetting

from .signatures import CommandOption
from .terminal import progress

if TYPE_CHECKING:
    from bascule.runtime.spawn.docker.images import Build

_STEP = re.compile(r"Step (\d+)/(\d+) : (.*)")
_LAST_LINES = 30


class ImageTarget(StrEnum):
    """The build target, which determines the contents of the image."""

    SANDBOX = "sandbox"
    FULL = "full"


def image(
    target: Annotated[
        ImageTarget,
        CommandOption(
            help="Contents. sandbox: shells, files, git. full: also Node, Poetry, a browser and "
            "VS Code."
        ),
    ] = ImageTarget.FULL,
    tag: Annotated[
        str,
        CommandOption(help="Name of the image. [default: the name that the docker spawner uses]"),
    ] = "",
    base: Annotated[
        str, CommandOption(help="Debian base image. [default: the base in images/Dockerfile]")
    ] = "",
    arg: Annotated[
        list[str] | None,
        CommandOption(help="Value for an ARG of images/Dockerfile, as NAME=VALUE; repeatable."),
    ] = None,
    certificate: Annotated[
        list[Path] | None,
        CommandOption(help="CA certificate file needed to download packages (PEM); repeatable."),
    ] = None,
    network: Annotated[str, CommandOption(help="Docker network to use during the build.")] = "",
    verbose: Annotated[
        bool, CommandOption("--verbose", help="Print the whole output of the build.")
    ] = False,
) -> int:
    """Build the container image from images/Dockerfile of this clone and print its name.

    Uses the Docker engine at DOCKER_HOST, which must be a unix socket, by default
    /var/run/docker.sock.
    """
    from bascule.runtime.spawn.docker.images import Build
    from bascule.runtime.spawn.docker.settings import ENGINE, IMAGE

    build = Build(
        project=Path(__file__).parents[3],
        tag=tag or IMAGE,
        target=target.value,
        base=base,
        arguments=_arguments(arg or ()),
        certificates=certificate or (),
        network=network,
    )
    with _line_printer(verbose) as on_line:
        asyncio.run(_build(os.environ.get("DOCKER_HOST") or ENGINE, build, on_line))
    click.echo(build.tag)
    return 0


async def _build(engine_address: str, build: Build, on_line: Callable[[str], None]) -> None:
    from bascule.runtime.spawn.docker.engine import Engine
    from bascule.runtime.spawn.docker.images import build_image

    async with Engine(engine_address) as engine:
        await engine.open()
        await build_image(engine, build, on_line)


def _arguments(texts: Sequence[str]) -> dict[str, str]:
    if wrong := [each for each in texts if "=" not in each]:
        raise InvalidSetting(f"--arg {wrong[0]!r} is not NAME=VALUE")
    return dict(each.split("=", 1) for each in texts)


@contextmanager
def _line_printer(verbose: bool) -> Iterator[Callable[[str], None]]:
    """Show the whole output of the build, or a progress bar and, if it fails, the last lines."""
    if verbose:
        yield lambda line: click.echo(line, err=True)
        return
    last: deque[str] = deque(maxlen=_LAST_LINES)
    with progress("steps") as update:

        def on_line(line: str) -> None:
            last.append(line)
            if found := _STEP.match(line):
                step, of, what = found.groups()
                update(int(step) - 1, int(of), what.split("&&")[0][:60])

        try:
            yield on_line
        except BaseException:
            click.echo("\n".join(last), err=True)
            raise
