"""`bascule shell`: a prompt in a sandbox's shell."""

from __future__ import annotations

from pathlib import Path

from .place import Key, Place, Shell, Url, WorkingDir
from .stopping import stops_cleanly


def shell(url: Url = None, key: Key = "", working_dir: WorkingDir = None, shell: Shell = "") -> int:
    """Type commands into a shell, of a new sandbox or of the one at --url.

    What a command prints is shown as it comes; lines typed meanwhile go to it, and so do Ctrl-C,
    Ctrl-Z, Ctrl-\\ and Ctrl-D. Ctrl-D or `exit` at the prompt leaves; a shell of a sandbox at
    --url goes on living there. Lines can be edited and called back, but Tab completes nothing.
    Programs that take over the whole screen are not for this prompt.
    """
    from .loop import LoopThread
    from .prompt import Prompt

    place = Place(url=url, key=key, working_dir=working_dir or Path.cwd())
    with stops_cleanly(), LoopThread() as loop, loop.hold(place.runtime()) as runtime:
        return Prompt(runtime, loop, shell=shell).converse()
