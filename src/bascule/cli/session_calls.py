"""Options of the commands about sessions, and functions with which these commands call the hub."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from .hub_target import HubTarget
from .known_names import session_names
from .session_choice import choose_session
from .signatures import CommandArgument, CommandOption

if TYPE_CHECKING:
    from bascule.link.sessions import HubSession, SessionCalls

Which = Annotated[
    str,
    CommandArgument(
        metavar="SESSION",
        help="Name or id of the session, or the first characters of its id.",
        autocompletion=session_names,
    ),
]
AsJson = Annotated[bool, CommandOption("--json", help="Print the result as JSON.")]

_T = TypeVar("_T")


def call_hub(target: HubTarget, work: Callable[[SessionCalls], Coroutine[Any, Any, _T]]) -> _T:
    """Connect to the hub and wait for `work`."""
    import asyncio

    async def connect_and_work() -> _T:
        from bascule.link.sessions import SessionCalls

        with target.explaining_unreachable_hub():
            async with SessionCalls(target.url, target.token) as calls:
                return await work(calls)

    return asyncio.run(connect_and_work())


async def find(calls: SessionCalls, which: str) -> HubSession:
    return choose_session(await calls.sessions(), which)


async def wait_until_started(
    calls: SessionCalls, session_id: str, show: Callable[[str], None]
) -> HubSession:
    """Wait until the session is ready. If its start fails, the error message says that the session
    still exists."""
    from bascule.core.errors import SandboxStartFailed

    try:
        return await calls.until_ready(session_id, on_stage=show)
    except SandboxStartFailed as error:
        raise SandboxStartFailed(
            f"{error.message}\nThe session still exists: `bascule session resume {session_id}` "
            f"tries again, `bascule session rm {session_id}` removes it",
            session_id=session_id,
        ) from error
