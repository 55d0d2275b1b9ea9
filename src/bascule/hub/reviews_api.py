"""The REST calls about the review of agents' changes, for persons: no agent may review its
own changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request

from bascule.core.windows import WindowId

from .api import identity_of
from .review_messages import Digest, ReviewAnswerBody, ReviewDone, ReviewHunks, ReviewList
from .sockets import Sockets
from .window_reviews import WindowReviews


class ReviewsApi:
    def __init__(self, reviews: WindowReviews, sockets: Sockets) -> None:
        self._reviews = reviews
        self._sockets = sockets

    def add_routes(self, app: FastAPI, require_scope: Callable[..., Any]) -> None:
        person = [require_scope("admin", "member")]
        add = app.add_api_route
        review_path = "/api/windows/{window_id}/review"
        add(review_path, self.list_files, dependencies=person)
        add(review_path, self.answer, methods=["POST"], dependencies=person)
        add(review_path + "/{file}", self.show, dependencies=person)

    async def list_files(self, window_id: str, request: Request) -> ReviewList:
        """The files of a window with changes of agents that nobody has reviewed yet."""
        self._sockets.ensure_visible(identity_of(request), WindowId(window_id))
        return self._reviews.of(WindowId(window_id))

    async def show(
        self,
        window_id: str,
        file: Annotated[Digest, Path()],
        version: Annotated[Digest, Query()],
        request: Request,
    ) -> ReviewHunks:
        """The changed lines of a file, if it still has this version."""
        self._sockets.ensure_visible(identity_of(request), WindowId(window_id))
        return await self._reviews.show(WindowId(window_id), file, version)

    async def answer(self, window_id: str, body: ReviewAnswerBody, request: Request) -> ReviewDone:
        """Keep or undo changes, if all files still have the versions that the person saw."""
        by = identity_of(request).name
        self._sockets.ensure_visible(identity_of(request), WindowId(window_id))
        return await self._reviews.answer(WindowId(window_id), body, by=by)
