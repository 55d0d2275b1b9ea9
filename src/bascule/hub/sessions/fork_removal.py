"""Refuses to remove a fork whose changes or commits were not merged."""

from __future__ import annotations

import asyncio

from bascule.checkpoints.versions import shown_path
from bascule.core.errors import BasculeError, ForkNotMerged

from .fork_files import ForkFiles
from .rows import SessionRow


async def ensure_merged(forks: ForkFiles, row: SessionRow) -> None:
    """Raise `ForkNotMerged` if removing this fork would lose changes, or if they cannot be read."""
    try:
        changes = await asyncio.to_thread(forks.changed_in_fork, row)
        lost = await asyncio.to_thread(forks.unmerged_branches, row)
    except (BasculeError, OSError) as error:
        raise ForkNotMerged(
            f"The changes of the fork {row.id} cannot be read ({error}), so they may not be "
            "merged; remove it with force to discard them",
            session_id=row.id,
        ) from error
    if lost:
        raise ForkNotMerged(
            f"The fork {row.spec.name or row.id} has commits that are not merged: "
            f"{', '.join(map(shown_path, lost[:3]))}. Check each out and transfer it with "
            "`session merge --branch`, or remove the fork with force to discard them",
            session_id=row.id,
            count=len(lost),
        )
    if changes:
        shown = ", ".join(shown_path(each.path) for each in changes[:3])
        more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
        raise ForkNotMerged(
            f"The fork {row.spec.name or row.id} has changes that are not merged: {shown}"
            f"{more}. Merge them, or remove it with force to discard them",
            session_id=row.id,
            count=len(changes),
        )
