"""The scripted person of the demo, who answers the agent's questions and reviews its changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, TypeVar

from bascule.core.actions import Action, ListCheckpoints, RestoreCheckpoint
from bascule.core.errors import AlreadyAnswered, EditConflict, NoSuchCheckpoint
from bascule.core.identity import EventId
from bascule.core.observations import CheckpointList, CheckpointRestored, Observation
from bascule.core.sessions import SessionId
from bascule.core.windows import WindowId
from bascule.hub.approvals import Question
from bascule.hub.changes import HubChanges, Topic
from bascule.hub.identity import Identity
from bascule.hub.review_messages import ReviewAnswerBody, ReviewFile, ReviewTarget
from bascule.hub.sessions.service import Sessions
from bascule.hub.sockets import Sockets
from bascule.runtime.verbs import expect

PERSON: Final = "Demo person"
"""The name under which answers are recorded."""
_REVIEW_TIMEOUT: Final = 120.0
"""Maximum seconds until a change is listed and reviewed."""

_ObservationT = TypeVar("_ObservationT", bound=Observation)


class DemoPerson:
    """Does in one session what a person does on the hub's page, by the same methods of the hub."""

    def __init__(
        self,
        session_id: SessionId,
        window_id: WindowId,
        *,
        owner: str,
        sessions: Sessions,
        sockets: Sockets,
        changes: HubChanges,
    ) -> None:
        self._session_id = session_id
        self._window_id = window_id
        self._identity = Identity(name=PERSON, owner=owner, scope="agent")
        self._sessions = sessions
        self._sockets = sockets
        self._changes = changes

    async def question(self, action_id: EventId) -> Question:
        """The window's question about this action, as soon as it is asked."""
        with self._change_event("approvals") as changed:
            while True:
                changed.clear()
                for each in self._sockets.approvals.pending():
                    if (each.get("window_id"), each.get("cause")) == (self._window_id, action_id):
                        return each
                await changed.wait()

    async def answer(self, question: Question, answer: str) -> bool:
        """Answer a question. False if somebody else has answered it."""
        try:
            await self._sockets.answer(self._window_id, question["id"], answer, by=PERSON)
        except AlreadyAnswered:  # a viewer was faster, and the first answer counts
            return False
        return True

    async def review(
        self, name: str, answer: Literal["keep", "undo"], *, line: str | None = None
    ) -> None:
        """Keep or undo the change that added `line` to a file. Without `line`: all its changes.

        Waits until the window lists the change. Each try reads the file's version and answers about
        that version. If the file has changed meanwhile, the window does nothing, and the next try
        begins when the window has sent its list again. Raises `EditConflict` after a timeout.
        """
        try:
            async with asyncio.timeout(_REVIEW_TIMEOUT):
                with self._change_event("review") as changed:
                    while True:
                        # Clear before reading: a list that arrives later must start a new try.
                        changed.clear()
                        if await self._try_review(name, answer, line):
                            return
                        await changed.wait()
        except TimeoutError:
            raise EditConflict(
                f"The change of {name} was not listed for review within {_REVIEW_TIMEOUT:g} "
                "seconds; perhaps somebody has reviewed it already"
            ) from None

    async def restore(self, title: str) -> Sequence[str]:
        """Restore the newest checkpoint whose title contains `title`; returns the paths.

        Raises `NoSuchCheckpoint`.
        """
        listed = await self._act(ListCheckpoints(), CheckpointList)
        for each in reversed(listed.items):
            if title in each["title"]:
                observation = await self._act(RestoreCheckpoint(each["id"]), CheckpointRestored)
                return observation.restored
        raise NoSuchCheckpoint(f"There is no checkpoint of {title!r}")

    # ----------------------------------------------------------------------------------------

    async def _try_review(
        self, name: str, answer: Literal["keep", "undo"], line: str | None
    ) -> bool:
        """Try once. False if the hub's list does not have the change, or is out of date."""
        reviews = self._sockets.reviews
        file = self._find_file(name)
        if file is None:
            return False
        try:
            hunk = None
            if line is not None:
                diff = await reviews.show(self._window_id, file.id, file.version)
                found = [n for n, each in enumerate(diff.hunks) if line in each.added]
                if not found:
                    return False
                hunk = found[0]
            target = ReviewTarget(file=file.id, version=file.version, hunk=hunk)
            body = ReviewAnswerBody(answer=answer, files=[target])
            await reviews.answer(self._window_id, body, by=PERSON)
        except EditConflict:  # the window changed nothing, and sends another list
            return False
        return True

    def _find_file(self, name: str) -> ReviewFile | None:
        files = self._sockets.reviews.of(self._window_id).files
        return next((each for each in files if each.name == name), None)

    async def _act(self, action: Action, kind: type[_ObservationT]) -> _ObservationT:
        return expect(await self._sessions.act(self._identity, self._session_id, action), kind)

    @contextmanager
    def _change_event(self, topic: Topic) -> Iterator[asyncio.Event]:
        """An event that is set whenever something about `topic` changes in the hub."""
        event = asyncio.Event()

        def on_change(changed_topic: Topic, _subject: str) -> None:
            if changed_topic == topic:
                event.set()

        unsubscribe = self._changes.subscribe(on_change)
        try:
            yield event
        finally:
            unsubscribe()
