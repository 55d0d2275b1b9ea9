"""`bascule shell`: open a prompt in a sandbox's shell."""

from __future__ import annotations

from pathlib import Path

from .clean_exit import stops_cleanly
from .sandbox_target import Key, SandboxTarget, Shell, Url, WorkingDir


def shell(url: Url = None, key: Key = "", working_dir: WorkingDir = None, shell: Shell = "") -> int:
    """Open a prompt in a shell of a new sandbox, or of the running sandbox at --url.

    Output is shown as it arrives. While a command runs, typed lines and Ctrl-C, Ctrl-Z, Ctrl-\\ and
    Ctrl-D go to the command. At the prompt, Ctrl-D or `exit` closes the prompt; a shell at --url
    keeps running. The prompt has line editing and history, but no Tab completion. Full-screen
    programs do not work.
    """
    from .loop import LoopThread
    from .prompt import Prompt

    target = SandboxTarget(url=url, key=key, working_dir=working_dir or Path.cwd())
    with stops_cleanly(), LoopThread() as loop, loop.hold(target.runtime()) as runtime:
        return Prompt(runtime, loop, shell=shell).run_until_exit()
