"""A streamed response that closes what its body reads, however the response ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class OwningStream(StreamingResponse):
    """Owns `body` and `owned`, and closes both.

    If the client has gone before the first piece is sent, the body is never iterated. A `finally`
    or `with` inside it would not run, and would leave open what was opened before the response.
    """

    def __init__(
        self,
        body: AsyncGenerator[bytes, None],
        owned: AsyncExitStack,
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(body, media_type=media_type, headers=headers)
        self._body = body
        self._owned = owned

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._owned:
            try:
                await super().__call__(scope, receive, send)
            finally:
                await self._body.aclose()
