"""OpenHands V1's terminal tool (tmux, its default, or its subprocess kind) and file editor."""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import version
from typing import Any

from benchmarks.peers.serve import serve
from benchmarks.peers.subject import Answer, BlockingSubject, Files, Refused

PASTE_MODE = re.compile("\x1b\\[\\?2004[hl]\r?")
"""Left in every output by the subprocess kind; not counted as a wrong answer here."""


class OpenHandsTerminal(BlockingSubject[Any], Files):
    def __init__(self, terminal_type: str | None) -> None:
        from openhands.tools.file_editor.definition import (
            FileEditorAction,
        )
        from openhands.tools.file_editor.impl import (
            FileEditorExecutor,
        )
        from openhands.tools.terminal.definition import (
            TerminalAction,
        )
        from openhands.tools.terminal.impl import (
            TerminalExecutor,
        )

        self.name = f"openhands-v1-{'pty' if terminal_type else 'tmux'}"
        self._terminal_type = terminal_type
        self._executor = TerminalExecutor
        self._command = TerminalAction
        self._editing = FileEditorAction
        self._editor = FileEditorExecutor(workspace_root=os.getcwd())

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("openhands-tools", "openhands-sdk")}

    def open_now(self) -> Any:
        return self._executor(working_dir=os.getcwd(), terminal_type=self._terminal_type)

    def run_now(self, shell: Any, command: str, timeout: float) -> Answer:
        seen = shell(self._command(command=command, timeout=timeout))
        if seen.exit_code == -1:
            raise Refused(f"no end after {timeout:.0f} s; {len(seen.text)} characters seen")
        return Answer(PASTE_MODE.sub("", seen.text), seen.exit_code)

    def close_now(self, shell: Any) -> None:
        shell.close()

    async def read(self, path: str) -> str:
        """What the editor shows, without the heading and the line numbers it adds."""
        lines = self._edit(command="view", path=path).splitlines()[1:]
        return "\n".join(line.split("\t", 1)[-1] for line in lines)

    async def write(self, path: str, text: str) -> None:
        self._edit(command="create", path=path, file_text=text)

    async def edit(self, path: str, old: str, new: str) -> None:
        self._edit(command="str_replace", path=path, old_str=old, new_str=new)

    def _edit(self, **arguments: str) -> str:
        seen = self._editor(self._editing(**arguments))
        if seen.is_error:
            raise Refused(seen.text.strip().splitlines()[0][:120])
        text: str = seen.text
        return text


if __name__ == "__main__":
    serve(OpenHandsTerminal("subprocess" if "subprocess" in sys.argv[1:] else None))
