"""The tools as data: the description that a model sees, and the action that each tool runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from bascule.adapters.agent_test_tools import AGENT_TEST_TOOLS
from bascule.adapters.debug_tools import DEBUG_TOOLS
from bascule.adapters.editor_tool import EditorTool
from bascule.adapters.git_tools import GIT_TOOLS
from bascule.adapters.language_tools import LANGUAGE_TOOLS
from bascule.adapters.notebook_tools import NOTEBOOK_TOOLS
from bascule.adapters.task_tools import TASK_TOOLS
from bascule.adapters.view_tools import VIEW_TOOLS
from bascule.core.actions import (
    Action,
    Browse,
    BrowseInteractive,
    CmdRun,
    FileEdit,
    FileRead,
    FileWrite,
    Glob,
    Grep,
    Interrupt,
    IPythonRun,
    ListCheckpoints,
    ListDir,
    RestoreCheckpoint,
    ShowCheckpoint,
)
from bascule.core.editor_actions import AskUser, Diagnostics, OpenFile, Selection, ShowDiff, Symbols

from ._tool import Arguments, Tool

MAX_OUTPUT_CHARACTERS: Final = 16 << 20
"""Maximum characters of a command's or cell's output. `read_more` gives access to all these
characters."""


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def _count(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "description": description, **more}


def _wait(default: float, meaning: str) -> dict[str, Any]:
    return {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 3600,
        "default": default,
        "description": meaning,
    }


_PATH: Final = _text("Absolute, or relative to the workspace folder")
_SHELL: Final = _text(
    "Name of the shell; omit it for the default shell. Each shell runs one program at a time"
)
_CHECKPOINT: Final = _count("Number of the checkpoint, from list_checkpoints")
_PATHS: Final = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Only these files and directories, relative to the workspace",
}
_RUN_WAIT_SECONDS: Final = 30.0
_READ_WAIT_SECONDS: Final = 10.0
_TYPE_WAIT_SECONDS: Final = 2.0
_CELL_WAIT_SECONDS: Final = 120.0


def _run(arguments: Arguments) -> Action:
    return CmdRun(
        arguments["command"],
        shell=arguments.get("shell", ""),
        cwd=arguments.get("directory"),
        timeout=arguments.get("wait", _RUN_WAIT_SECONDS),
        blocking=True,
        output_limit=MAX_OUTPUT_CHARACTERS,
    )


def _read_output(arguments: Arguments) -> Action:
    return CmdRun(
        "",
        shell=arguments.get("shell", ""),
        timeout=arguments.get("wait", _READ_WAIT_SECONDS),
        blocking=True,
        output_limit=MAX_OUTPUT_CHARACTERS,
    )


def _type(arguments: Arguments) -> Action:
    return CmdRun(
        arguments["text"] or "\n",  # an empty command would only read output; here it means Enter
        is_input=True,
        shell=arguments.get("shell", ""),
        timeout=arguments.get("wait", _TYPE_WAIT_SECONDS),
        blocking=True,
        output_limit=MAX_OUTPUT_CHARACTERS,
    )


def _read_file(arguments: Arguments) -> Action:
    start, end = arguments.get("first_line", 1), arguments.get("last_line")
    return FileRead(arguments["path"], start=start - 1, end=-1 if end is None else end)


def _edit(arguments: Arguments) -> Action:
    return FileEdit(
        arguments["path"], "str_replace", old_str=arguments["old"], new_str=arguments["new"]
    )


_EDIT_NAMES: Final = re.compile(r"^([^`]*)\bold_str\b|^([^`]*)`new_str` and `old_str`")


def _reword_edit_error(message: str) -> str:
    """Replace `old_str` and `new_str` in an editor's error message with this tool's argument
    names. Quoted text in the message comes from the caller and stays unchanged."""

    def renamed(match: re.Match[str]) -> str:
        return f"{match[2]}`new` and `old`" if match[1] is None else f"{match[1]}`old`"

    return _EDIT_NAMES.sub(renamed, message)


def _editor_tool(tool: EditorTool) -> Tool:
    return Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        properties=tool.properties,
        required=tool.required,
        effect="changes" if tool.changes_files else "reads",
        kind=tool.kind,
        action=tool.action,
    )


TOOLS: Final[Sequence[Tool]] = (
    Tool(
        name="run_command",
        title="Run a command",
        description="Run a command line in bash. The shell remembers its directory, variables and "
        "jobs from one call to the next. The answer has the output and the exit status. A program "
        "that takes longer than `wait` keeps running: use read_output to read more output, "
        "type_input to answer it, interrupt to stop it. Start servers with a trailing &.",
        properties={
            "command": _text("Bash code; may have several lines"),
            "directory": _text("Directory to change to first; the shell stays there"),
            "shell": _SHELL,
            "wait": _wait(
                _RUN_WAIT_SECONDS, "Seconds after which to return, even if the program still runs"
            ),
        },
        required=("command",),
        effect="changes",
        kind=CmdRun,
        action=_run,
        is_open_world=True,
    ),
    Tool(
        name="read_output",
        title="Read more",
        description="Read more output of the program that still runs in a shell. Returns when the "
        "program ends, or after `wait` seconds with the output so far.",
        properties={
            "shell": _SHELL,
            "wait": _wait(_READ_WAIT_SECONDS, "Seconds to wait for the end"),
        },
        effect="reads",
        kind=CmdRun,
        action=_read_output,
    ),
    Tool(
        name="type_input",
        title="Type into a program",
        description="Type a line into the program that a shell runs: an answer to a prompt, a "
        "statement for a REPL. Enter is pressed after it. A key instead of text: C-c, C-d, C-z.",
        properties={
            "text": _text("Text or key to type"),
            "shell": _SHELL,
            "wait": _wait(_TYPE_WAIT_SECONDS, "Seconds to wait for the program's answer"),
        },
        required=("text",),
        effect="changes",
        kind=CmdRun,
        action=_type,
        is_open_world=True,
    ),
    Tool(
        name="interrupt",
        title="Interrupt a program",
        description="Press Ctrl-C in a shell to stop its program; with `kill`, kill the program. "
        "The shell itself stays usable. `shell` may be 'ipython' for run_python.",
        properties={
            "shell": _SHELL,
            "kill": {"type": "boolean", "default": False, "description": "Kill the program"},
        },
        effect="changes",
        kind=Interrupt,
        action=lambda arguments: Interrupt(
            arguments.get("shell", ""), kill=arguments.get("kill", False)
        ),
    ),
    Tool(
        name="read_file",
        title="Read a file",
        description="Read a file, or some of its lines. In VS Code the text includes the user's "
        "unsaved changes.",
        properties={
            "path": _PATH,
            "first_line": _count("First line to read, from 1"),
            "last_line": _count("Last line to read"),
        },
        required=("path",),
        effect="reads",
        kind=FileRead,
        action=_read_file,
    ),
    Tool(
        name="write_file",
        title="Write a file",
        description="Write a whole file and replace its contents. Missing directories are created. "
        "To change a part of a file use edit_file, which cannot lose the rest.",
        properties={"path": _PATH, "content": _text("The complete new contents")},
        required=("path", "content"),
        effect="changes",
        kind=FileWrite,
        action=lambda arguments: FileWrite(arguments["path"], arguments["content"]),
    ),
    Tool(
        name="edit_file",
        title="Edit a file",
        description="Replace a piece of text that occurs exactly once in a file. Give enough of "
        "the lines around it in `old` to make it unique, with their exact indentation. The answer "
        "shows the lines as they are now.",
        properties={
            "path": _PATH,
            "old": _text("The present text, exactly", minLength=1),
            "new": _text("The new text; empty removes the old text"),
        },
        required=("path", "old", "new"),
        effect="changes",
        kind=FileEdit,
        action=_edit,
        reword_error=_reword_edit_error,
    ),
    Tool(
        name="list_directory",
        title="List a directory",
        description="Files and directories in a directory, directories first, with a slash.",
        properties={
            "path": {**_PATH, "default": "."},
            "depth": _count("How many levels down", maximum=10, default=1),
        },
        effect="reads",
        kind=ListDir,
        action=lambda arguments: ListDir(
            arguments.get("path", "."), depth=arguments.get("depth", 1)
        ),
    ),
    Tool(
        name="find_files",
        title="Find files",
        description="Paths that match a pattern such as **/*.py, newest first. Files that git "
        "ignores are left out.",
        properties={
            "pattern": _text("With *, ?, ** and {a,b}"),
            "path": {**_PATH, "default": "."},
            "limit": _count("Maximum number of paths", maximum=10_000, default=200),
        },
        required=("pattern",),
        effect="reads",
        kind=Glob,
        action=lambda arguments: Glob(
            arguments["pattern"], arguments.get("path", "."), limit=arguments.get("limit", 200)
        ),
    ),
    Tool(
        name="search_text",
        title="Search in files",
        description="Lines that match a regular expression, with file and line number. Binary "
        "files and files that git ignores are left out.",
        properties={
            "pattern": _text("A regular expression"),
            "path": {**_PATH, "default": "."},
            "include": _text("Only files whose name matches this, such as *.py"),
            "ignore_case": {"type": "boolean", "default": False},
            "literal": {
                "type": "boolean",
                "default": False,
                "description": "The pattern is plain text",
            },
            "limit": _count("Maximum number of lines", maximum=10_000, default=200),
        },
        required=("pattern",),
        effect="reads",
        kind=Grep,
        action=lambda arguments: Grep(
            arguments["pattern"],
            arguments.get("path", "."),
            include=arguments.get("include", ""),
            ignore_case=arguments.get("ignore_case", False),
            literal=arguments.get("literal", False),
            limit=arguments.get("limit", 200),
        ),
    ),
    Tool(
        name="run_python",
        title="Run Python",
        description="Run a cell of Python in IPython, which remembers variables and imports from "
        "one call to the next. The answer has the output, the last value and the pictures.",
        properties={
            "code": _text("The cell"),
            "wait": _wait(_CELL_WAIT_SECONDS, "Seconds after which the cell is interrupted"),
        },
        required=("code",),
        effect="changes",
        kind=IPythonRun,
        action=lambda arguments: IPythonRun(
            arguments["code"],
            include_extra=False,
            timeout=arguments.get("wait", _CELL_WAIT_SECONDS),
            output_limit=MAX_OUTPUT_CHARACTERS,
        ),
        is_open_world=True,
    ),
    Tool(
        name="list_checkpoints",
        title="List checkpoints",
        description="What earlier actions changed in the workspace: one line for each, with the "
        "number that show_checkpoint and restore_checkpoint take.",
        properties={},
        effect="reads",
        kind=ListCheckpoints,
        action=lambda _: ListCheckpoints(),
    ),
    Tool(
        name="show_checkpoint",
        title="Show a checkpoint",
        description="What one action changed, as a diff.",
        properties={"checkpoint": _CHECKPOINT, "paths": _PATHS},
        required=("checkpoint",),
        effect="reads",
        kind=ShowCheckpoint,
        action=lambda arguments: ShowCheckpoint(
            arguments["checkpoint"], tuple(arguments.get("paths", ()))
        ),
    ),
    Tool(
        name="restore_checkpoint",
        title="Restore a checkpoint",
        description="Undo what one action changed, also by commands such as rm or sed -i. Files "
        "that somebody changed since are left alone and named. The answer has the number of the "
        "restore's own checkpoint; restoring that one undoes the restore.",
        properties={
            "checkpoint": _CHECKPOINT,
            "paths": _PATHS,
            "since": {
                "type": "boolean",
                "default": False,
                "description": "Also undo all later checkpoints",
            },
            "dry_run": {
                "type": "boolean",
                "default": False,
                "description": "Only report what would be restored",
            },
        },
        required=("checkpoint",),
        effect="changes",
        kind=RestoreCheckpoint,
        action=lambda arguments: RestoreCheckpoint(
            arguments["checkpoint"],
            tuple(arguments.get("paths", ())),
            since=arguments.get("since", False),
            dry_run=arguments.get("dry_run", False),
        ),
    ),
    Tool(
        name="browse",
        title="Open a web page",
        description="Open a page in a browser and read it: its text, and how it looks.",
        properties={"url": _text("http, https, or the absolute path of a file")},
        required=("url",),
        effect="adds",
        kind=Browse,
        action=lambda arguments: Browse(arguments["url"]),
        is_open_world=True,
    ),
    Tool(
        name="browse_interact",
        title="Act in a web page",
        description="Act in the page that browse opened, with calls such as click('12'), "
        "fill('7', 'text'), scroll(0, 400), go_back(). The numbers are those in the page's tree, "
        "which the answer shows as it is afterwards; noop() just shows it.",
        properties={"calls": _text("One call, or several on lines of their own")},
        required=("calls",),
        effect="changes",
        kind=BrowseInteractive,
        action=lambda arguments: BrowseInteractive(arguments["calls"]),
        is_open_world=True,
    ),
    Tool(
        name="diagnostics",
        title="Problems in the code",
        description="Errors and warnings from the language servers of the user's VS Code or the "
        "sandbox, such as type errors. Call this after an edit, before running anything.",
        properties={
            "path": {**_PATH, "description": "One file; without it, all files that are checked"},
            "severity": _text(
                "Return problems of this severity and above",
                enum=["error", "warning", "information", "hint"],
                default="hint",
            ),
            "settle": {
                "type": "boolean",
                "default": True,
                "description": "Wait until the text after the last edit is checked",
            },
        },
        effect="reads",
        kind=Diagnostics,
        action=lambda arguments: Diagnostics(
            arguments.get("path"),
            severity=arguments.get("severity", "hint"),
            settle=arguments.get("settle", True),
        ),
    ),
    Tool(
        name="symbols",
        title="Symbols",
        description="Functions, classes and variables: those of a file, or those of the whole "
        "workspace whose name matches `query`.",
        properties={"path": _PATH, "query": _text("A part of the name")},
        effect="reads",
        kind=Symbols,
        action=lambda arguments: Symbols(arguments.get("path"), query=arguments.get("query", "")),
    ),
    *map(_editor_tool, (*LANGUAGE_TOOLS, *DEBUG_TOOLS, *AGENT_TEST_TOOLS, *NOTEBOOK_TOOLS)),
    *map(_editor_tool, (*TASK_TOOLS, *GIT_TOOLS, *VIEW_TOOLS)),
    Tool(
        name="selection",
        title="What the user selected",
        description="The file in the user's active editor, and the text selected in it.",
        properties={},
        effect="reads",
        kind=Selection,
        action=lambda _: Selection(),
    ),
    Tool(
        name="open_file",
        title="Show a file",
        description="Show the user a file in their VS Code, at a line.",
        properties={"path": _PATH, "line": _count("Counted from 1")},
        required=("path",),
        effect="adds",
        kind=OpenFile,
        action=lambda arguments: OpenFile(arguments["path"], line=arguments.get("line")),
    ),
    Tool(
        name="show_diff",
        title="Show a diff",
        description="Show the user a proposed content of a file beside the present one. Nothing "
        "is written.",
        properties={
            "path": _PATH,
            "content": _text("The whole file as proposed"),
            "title": _text("Title of the diff"),
        },
        required=("path", "content"),
        effect="adds",
        kind=ShowDiff,
        action=lambda arguments: ShowDiff(
            arguments["path"], arguments["content"], title=arguments.get("title", "")
        ),
    ),
    Tool(
        name="ask_user",
        title="Ask the user",
        description="Ask the user a question in their VS Code and wait for the answer. Use it for "
        "decisions that only the user can make.",
        properties={
            "question": _text("One question"),
            "options": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Answers to choose from; without them the user writes freely",
            },
        },
        required=("question",),
        effect="adds",
        kind=AskUser,
        action=lambda arguments: AskUser(
            arguments["question"], options=tuple(arguments.get("options", ()))
        ),
    ),
)
