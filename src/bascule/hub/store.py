"""What a hub must remember across restarts, behind a contract so that it may be kept anywhere."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from bascule.core.contracts import Closable
from bascule.core.windows import WindowId

from .identity import TokenRow


class Store(Closable):
    """Tokens, and which key a window id is bound to."""

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def add_token(self, row: TokenRow) -> None:
        """Keep `row`. Raises `InvalidRequest` when a token has its name already."""

    @abstractmethod
    async def find_token(self, token_hash: str) -> TokenRow | None:
        """The row, expired or not."""

    @abstractmethod
    async def list_tokens(self) -> Sequence[TokenRow]: ...

    @abstractmethod
    async def remove_token(self, name: str) -> bool:
        """Whether there was one."""

    @abstractmethod
    async def bind_window(self, window_id: WindowId, key_hash: str, owner: str) -> bool:
        """Bind the id to a key and an owner, once and for good. False: it is bound to others."""
