"""What the README tells people to type."""

from __future__ import annotations

import re
from typing import Final

ADDRESS: Final = "ADDRESS_OF_THIS_REPOSITORY"
"""What stands in the README for what every reader has in the address bar."""
_BLOCK: Final = re.compile(r"^## Start\n.*?^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def first_commands(readme: str) -> list[str]:
    """The lines of the first block below "Start", in order, without their comments."""
    block = _BLOCK.search(readme)
    assert block is not None, "the README has no block of commands below `## Start`"
    lines = (line.partition("  #")[0].strip() for line in block[1].splitlines())
    return [line for line in lines if line]
