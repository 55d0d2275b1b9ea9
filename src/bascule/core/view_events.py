"""Actions on what an editor window shows, and their observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .actions import Action
from .event_class import event_class
from .observations import Observation


@event_class()
class ListOpenEditors(Action):
    """List the open editors: what is visible, selected and unsaved."""

    kind: ClassVar[str] = "open_editors"

    thought: str = ""


@event_class()
class ListPorts(Action):
    """List the ports on which programs listen where the window's extensions run."""

    kind: ClassVar[str] = "list_ports"

    thought: str = ""


@event_class()
class TakeScreenshot(Action):
    """Take a picture of a session's window. The windows of users have no API for this."""

    kind: ClassVar[str] = "screenshot"

    thought: str = ""


@event_class(kw_only=True)
class OpenEditors(Observation):
    """The open editors. `content` has one line for each."""

    kind: ClassVar[str] = "open_editors"

    items: Sequence[Mapping[str, Any]] = ()
    """Each: label, type (`text`, `diff`, `notebook`, `terminal` or `other`), path (or None), group
    (from 1), is_active, is_visible, is_dirty, is_preview, is_pinned, and for visible texts
    visible_lines and selections. Both are lists of: start_line, end_line; selections also have
    start_column, end_column."""
    truncated: bool = False


@event_class(kw_only=True)
class OpenPorts(Observation):
    """Ports on which programs listen. `content` has one line for each."""

    kind: ClassVar[str] = "list_ports"

    items: Sequence[Mapping[str, Any]] = ()
    """Each: port, address (or None), pid (or None), command, url_path (of a session's app below the
    hub, otherwise empty)."""
    truncated: bool = False


@event_class(kw_only=True)
class Screenshot(Observation):
    """A picture of the window."""

    kind: ClassVar[str] = "screenshot"

    image_url: str
    """PNG, as data URL."""


VIEW_ACTIONS: Sequence[type[Action]] = (ListOpenEditors, ListPorts, TakeScreenshot)
VIEW_OBSERVATIONS: Sequence[type[Observation]] = (OpenEditors, OpenPorts, Screenshot)
