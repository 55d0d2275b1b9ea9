"""Chooses a window by a selector. Pure rules, no I/O."""

from __future__ import annotations

import os.path
from collections.abc import Sequence

from .errors import AmbiguousWindow, NoWindow
from .printable import one_line
from .windows import Window


def choose(windows: Sequence[Window], selector: str = "") -> Window:
    """The one window that matches `selector`: its id, a path in one of its folders, or its name.

    Without a selector, the only connected window. Windows that are gone do not count, and healthy
    windows are preferred to unhealthy ones. The window of a session never matches a path, and
    matches a name only if no user's window does: a session reports its own name and folders, so it
    could claim those of a user's window. Raises `NoWindow` if no window matches and
    `AmbiguousWindow` if several do.
    """
    connected = [each for each in windows if each.status != "gone"]
    matching = _matching(connected, selector) if selector else _user_windows(connected) or connected
    matching = [each for each in matching if each.status == "healthy"] or matching
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise AmbiguousWindow(
            f"{(repr(selector) if selector else 'No selector')} matches {len(matching)} "
            f"windows: {_names(matching)}. Name one by its id or folder",
            windows=[{"id": each.id, "name": each.name} for each in matching],
        )
    raise NoWindow(_no_window_message(windows, connected, selector), selector=selector)


def _matching(windows: Sequence[Window], selector: str) -> Sequence[Window]:
    if by_id := [each for each in windows if each.id == selector]:
        return by_id
    by_name = [each for each in windows if each.name == selector]
    return _by_folder(_user_windows(windows), selector) or _user_windows(by_name) or by_name


def _user_windows(windows: Sequence[Window]) -> Sequence[Window]:
    """Windows that belong to users, not to sessions."""
    return [each for each in windows if not each.session_id]


def _by_folder(windows: Sequence[Window], selector: str) -> Sequence[Window]:
    """Windows with a folder that contains the path; the closest folder wins."""
    if not selector.startswith(("/", "~", ".")) and ":" not in selector[:3]:
        return ()
    path = os.path.normpath(selector)
    best: list[Window] = []
    length = -1
    for window in windows:
        depths = [len(root) for root in _roots(window) if _contains(root, path)]
        if not depths or max(depths) < length:
            continue
        best = [*best, window] if max(depths) == length else [window]
        length = max(depths)
    return best


def _roots(window: Window) -> Sequence[str]:
    return [os.path.normpath(folder.path) for folder in window.folders if folder.path]


def _contains(root: str, path: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _names(windows: Sequence[Window]) -> str:
    return "; ".join(
        one_line(f"{each.name or 'unnamed'} ({each.id}, {', '.join(_roots(each)) or 'no folder'})")
        for each in windows
    )


def _no_window_message(
    windows: Sequence[Window], connected: Sequence[Window], selector: str
) -> str:
    gone = [each for each in windows if each.status == "gone"]
    if lost := _matching(gone, selector) if selector else gone if not connected else ():
        # VS Code restarts a crashed extension host only a few times. After that the window is open
        # but disconnected, until the user reloads it.
        return (
            f"No longer connected: {_names(lost)}. If the window is still open, reload "
            "the window; otherwise open it again"
        )
    if not connected:
        return (
            "No VS Code window is connected to the hub; in VS Code run the command "
            "'Bascule: Connect to a Hub'"
        )
    return f"No window matches {selector!r}; connected windows: {_names(connected)}"
