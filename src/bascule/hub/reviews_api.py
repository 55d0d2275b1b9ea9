"""The REST calls about the review of agents' changes, for admins: no agent may review its
own changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request

from bascule.core.windows import WindowId

from .api import identity_of
from .review_messages import Digest, ReviewAnswerBody, ReviewDone, ReviewHunks, ReviewList
from .window_reviews import WindowReviews


class ReviewsApi:
    def __init__(self, reviews: WindowReviews) -> None:
        self._reviews = reviews

    def add_routes(self, app: FastAPI, require_scope: Callable[..., Any]) -> None:
        admin = [require_scope("admin")]
        add = app.add_api_route
        review_path = "/api/windows/{window_id}/review"
        add(review_path, self.list_files, dependencies=admin)
        add(review_path, self.answer, methods=["POST"], dependencies=admin)
        add(review_path + "/{file}", self.show, dependencies=admin)

    async def list_files(self, window_id: str) -> ReviewList:
        """The files of a window with changes of agents that nobody has reviewed yet."""
        return self._reviews.of(WindowId(window_id))

    async def show(
        self,
        window_id: str,
        file: Annotated[Digest, Path()],
        version: Annotated[Digest, Query()],
    ) -> ReviewHunks:
        """The changed lines of a file, if it still has this version."""
        return await self._reviews.show(WindowId(window_id), file, version)

    async def answer(self, window_id: str, body: ReviewAnswerBody, request: Request) -> ReviewDone:
        """Keep or undo changes, if all files still have the versions that the person saw."""
        by = identity_of(request).name
        return await self._reviews.answer(WindowId(window_id), body, by=by)
