"""`bascule replay FILE`: run recorded actions again, and report which results differ."""

from __future__ import annotations

import asyncio
import json
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from bascule.core.errors import BasculeError, NoSuchPath, UsageError

from .failure import report
from .hub_target import HubUrl, use_hub
from .known_names import session_names, window_names
from .replay_view import as_json, lines_of
from .signatures import CommandArgument, CommandOption
from .stage_progress import show_stages
from .terminal import progress

if TYPE_CHECKING:
    from bascule.core.contracts import Runtime
    from bascule.runtime.replay import Script, StepOutcome

DIFFERS = 1
BROKE_OFF = 125


def replay(
    file: Annotated[
        Path, CommandArgument(metavar="FILE", help="Recorded events, as JSON lines or a JSON list.")
    ],
    session: Annotated[
        str,
        CommandOption(
            metavar="SESSION",
            help="Run in this session of the hub: its name or id.",
            autocompletion=session_names,
        ),
    ] = "",
    window: Annotated[
        str,
        CommandOption(
            metavar="WINDOW",
            help="Run in this VS Code window: its id, a path in its folder, or its name.",
            autocompletion=window_names,
        ),
    ] = "",
    folder: Annotated[
        Path | None, CommandOption(help="Run in this folder on this machine, as the current user.")
    ] = None,
    local: Annotated[
        bool,
        CommandOption("--local", help="Run on this machine in a new folder, removed afterwards."),
    ] = False,
    keep: Annotated[bool, CommandOption("--keep", help="Keep the new session or folder.")] = False,
    root: Annotated[
        str,
        CommandOption(
            metavar="PATH",
            help="Directory of the recorded workspace, if the file does not name it. Paths below "
            "it are changed to the new directory.",
        ),
    ] = "",
    exact: Annotated[
        bool,
        CommandOption(
            "--exact",
            help="Also report differences in times, process ids and other values that change from "
            "run to run.",
        ),
    ] = False,
    as_json_: Annotated[bool, CommandOption("--json", help="Print the result as JSON.")] = False,
    hub: HubUrl = None,
) -> int:
    """Run the actions in a file again, in order, and report which results differ.

    The file comes from `bascule session export` or `bascule windows export`, or is an OpenHands
    trajectory. By default the actions run in a new session of the hub, which is removed afterwards.
    With --folder or --local the actions run on this machine as the current user, without isolation:
    use these options only for files you trust.

    Exits with 0 if no result differs; 1 if a result differs, or if an action contains a masked
    secret and so cannot run; 2 for an invalid file or invalid arguments; 125 if the replay could
    not start or was aborted, for example because the connection was lost.
    """
    from bascule.runtime.replay import read_script

    target = _ReplayTarget(session, window, folder, local, keep, hub, file.name)
    target.ensure_one()
    script = read_script(file)
    try:
        outcomes = asyncio.run(_play(script, target, root=root, exact=exact))
    except UsageError:
        raise
    except BasculeError as error:
        report(error)
        return BROKE_OFF
    if as_json_:
        click.echo(json.dumps(as_json(script, outcomes), indent=2))
    else:
        for line in lines_of(script, outcomes):
            click.echo(line)
    from bascule.runtime.replay import Verdict

    wrong = (Verdict.DIFFERENT, Verdict.MASKED)
    return DIFFERS if any(each.verdict in wrong for each in outcomes) else 0


async def _play(
    script: Script, target: _ReplayTarget, *, root: str, exact: bool
) -> list[StepOutcome]:
    from bascule.runtime.replay import play

    async with target.runtime() as runtime:
        with _progress(len(script.steps)) as advance:
            return await play(
                script, runtime, root=root, exact=exact, on_outcome=lambda _: advance()
            )


@dataclass(frozen=True, slots=True)
class _ReplayTarget:
    """Where to run the actions: a named session, window or folder, or a new session."""

    session: str
    window: str
    folder: Path | None
    local: bool
    keep: bool
    hub: str | None
    name: str

    def ensure_one(self) -> None:
        named = [self.session, self.window, self.folder, self.local]
        if sum(map(bool, named)) > 1:
            raise UsageError("give only one of --session, --window, --folder and --local")
        if self.keep and (self.session or self.window or self.folder):
            raise UsageError(
                "--keep is for a new session or folder; a named session or folder is always kept"
            )
        if self.folder is not None and not self.folder.is_dir():
            raise NoSuchPath(f"--folder is not a directory: {self.folder}")

    @asynccontextmanager
    async def runtime(self) -> AsyncIterator[Runtime]:
        if self.folder is not None:
            async with self._local_runtime(self.folder) as runtime:
                yield runtime
        elif self.local:
            with self._new_folder() as folder:
                async with self._local_runtime(folder) as runtime:
                    yield runtime
        elif self.window:
            async with self._in_window() as runtime:
                yield runtime
        else:
            async with self._in_session() as runtime:
                yield runtime

    def _local_runtime(self, folder: Path) -> Runtime:
        from bascule.runtime import LocalRuntime

        return LocalRuntime(folder.resolve())

    @contextmanager
    def _new_folder(self) -> Iterator[Path]:
        if self.keep:
            folder = Path(tempfile.mkdtemp(prefix="bascule-replay-"))
            yield folder
            click.echo(f"kept the folder {folder}", err=True)
            return
        with tempfile.TemporaryDirectory(prefix="bascule-replay-") as name:
            yield Path(name)

    def _in_window(self) -> Runtime:
        from bascule.runtime import VSCodeRuntime

        hub = use_hub(self.hub)
        return VSCodeRuntime(hub.url, hub.token, window=self.window)

    @asynccontextmanager
    async def _in_session(self) -> AsyncIterator[Runtime]:
        from bascule.link.sessions import SessionCalls
        from bascule.runtime import CloudRuntime

        from .session_choice import choose_session

        hub = use_hub(self.hub)
        session_id = ""
        with hub.explaining_unreachable_hub(), show_stages(only_last=True) as show:
            if self.session:
                async with SessionCalls(hub.url, hub.token) as calls:
                    session_id = choose_session(await calls.sessions(), self.session).id
            runtime = CloudRuntime(
                hub.url,
                hub.token,
                session_id=session_id,
                session={"name": f"replay {self.name}"[:90] + f" {secrets.token_hex(3)}"},
                remove=not self.keep,
                on_stage=show,
            )
            await runtime.connect()
        try:
            yield runtime
        finally:
            await runtime.aclose()
            if self.keep:
                click.echo(f"kept the session {runtime.session_id}", err=True)


@contextmanager
def _progress(steps: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar at a terminal, and remove it at the end."""
    played = 0
    with progress("playing") as update:
        update(0, steps, "")

        def advance() -> None:
            nonlocal played
            played += 1
            update(played, steps, "")

        yield advance
