"""`bascule image`: build the image that sandboxes of kind `docker` start from."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bascule.core.errors import InvalidSetting

if TYPE_CHECKING:
    from bascule.runtime.spawn.docker.images import Build

_STEP = re.compile(r"Step (\d+)/(\d+) : (.*)")
_LAST_WORDS = 30


class ImageTarget(StrEnum):
    """What is in the image."""

    SANDBOX = "sandbox"
    FULL = "full"


def image(
    target: Annotated[
        ImageTarget,
        typer.Option(
            help="Contents. sandbox: shells, files, git. full: also Node, Poetry, a browser and "
            "VS Code."
        ),
    ] = ImageTarget.FULL,
    tag: Annotated[
        str,
        typer.Option(help="Name of the image. [default: the name that the docker spawner uses]"),
    ] = "",
    base: Annotated[
        str, typer.Option(help="Debian base image. [default: the one in images/Dockerfile]")
    ] = "",
    arg: Annotated[
        list[str] | None,
        typer.Option(help="Value for an ARG of images/Dockerfile, as NAME=VALUE; repeatable."),
    ] = None,
    certificate: Annotated[
        list[Path] | None,
        typer.Option(help="CA certificate file needed to download packages (PEM); repeatable."),
    ] = None,
    network: Annotated[str, typer.Option(help="Docker network to use during the build.")] = "",
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print the whole output of the build.")
    ] = False,
) -> int:
    """Build the container image from images/Dockerfile of this clone and print its name.

    Uses the Docker engine at DOCKER_HOST, which must be a unix socket. [default:
    /var/run/docker.sock]
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
    with _telling(verbose) as tell:
        asyncio.run(_build(os.environ.get("DOCKER_HOST") or ENGINE, build, tell))
    typer.echo(build.tag)
    return 0


async def _build(engine_address: str, build: Build, tell: Callable[[str], None]) -> None:
    from bascule.runtime.spawn.docker.engine import Engine
    from bascule.runtime.spawn.docker.images import build_image

    async with Engine(engine_address) as engine:
        await engine.open()
        await build_image(engine, build, tell)


def _arguments(given: Sequence[str]) -> dict[str, str]:
    if wrong := [each for each in given if "=" not in each]:
        raise InvalidSetting(f"--arg {wrong[0]!r} is not NAME=VALUE")
    return dict(each.split("=", 1) for each in given)


@contextmanager
def _telling(verbose: bool) -> Iterator[Callable[[str], None]]:
    """All that is printed, or a bar of steps and, when one fails, what it said last."""
    if verbose:
        yield lambda line: typer.echo(line, err=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    last: deque[str] = deque(maxlen=_LAST_WORDS)
    bar = Progress(
        TextColumn("steps"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True, highlight=False),
        disable=not sys.stderr.isatty(),
    )

    def tell(line: str) -> None:
        last.append(line)
        if found := _STEP.match(line):
            step, of, what = found.groups()
            shown = what.split("&&")[0][:60].replace("[", r"\[")
            bar.update(task, completed=int(step) - 1, total=int(of), description=shown)

    with bar:
        task = bar.add_task("", total=None)
        try:
            yield tell
        except BaseException:
            typer.echo("\n".join(last), err=True)
            raise
