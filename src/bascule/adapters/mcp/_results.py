"""Turns observations into results of tool calls, for a model to read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bascule.adapters.terminal_text import readable
from bascule.core.agent_test_observations import FinishedTests, FoundTests
from bascule.core.editor_observations import (
    BreakpointList,
    CodeChanged,
    DebugSnapshot,
    DebugValue,
    DiffShown,
    FileOpened,
    LanguageFound,
    Selected,
    UserAnswered,
    VscodeCommandDone,
)
from bascule.core.errors import BasculeError
from bascule.core.git_events import GitDiff, GitStatus
from bascule.core.notebook_events import NotebookCells
from bascule.core.observations import (
    BrowserOutput,
    CellMetadata,
    CheckpointList,
    CheckpointRestored,
    CmdOutput,
    Error,
    FileDownloaded,
    FileWritten,
    GlobResult,
    Interrupted,
    IPythonOutput,
    Observation,
)
from bascule.core.task_events import RunningList, TaskList, TaskReport, TerminalText
from bascule.core.view_events import OpenEditors, OpenPorts, Screenshot
from bascule.wire import to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a tool call before it is cut to length."""

    text: str
    note: str = ""
    """Text added after `text`, even if `text` is shortened."""
    pictures: tuple[str, ...] = ()
    """Pictures as data URLs."""
    facts: dict[str, Any] | None = None
    """Structured content: the same facts as the text, for programs."""
    is_error: bool = False
    with_tail: bool = False


def result_of(seen: Observation) -> ToolResult:
    result = _result_of(seen)
    if not seen.note:
        return result
    return replace(result, note="\n".join(filter(None, (result.note, f"[{seen.note}]"))))


def _result_of(seen: Observation) -> ToolResult:
    if code := getattr(seen, "error_id", ""):
        return _failed(code, seen.content.removeprefix("ERROR:").strip())
    match seen:
        case Error():
            return _failed("error", seen.content)
        case CmdOutput():
            return _command(seen)
        case IPythonOutput():
            return _cell(seen)
        case CheckpointList() | CheckpointRestored():
            return ToolResult(text=seen.content or "No checkpoints yet", facts=_facts(seen))
        case LanguageFound():
            # The note says whether there are more results.
            return ToolResult(text=seen.content, facts=_language_facts(seen))
        case CodeChanged():
            facts = {"files": list(seen.files), "diff": seen.diff}
            return ToolResult(text=seen.content, facts=facts)
        case DebugSnapshot() | DebugValue():
            return ToolResult(text=seen.content, facts=_debug_facts(seen))
        case FoundTests() | FinishedTests():
            # The note says whether there are more of them.
            return ToolResult(text=seen.content, facts=_tests_facts(seen))
        case BreakpointList():
            facts = {"items": list(seen.items), "exceptions": list(seen.exceptions)}
            return ToolResult(text=seen.content, facts=facts)
        case NotebookCells():
            return _cells(seen)
        case OpenEditors() | OpenPorts():
            return ToolResult(text=seen.content, facts={"items": list(seen.items)})
        case Screenshot():
            return ToolResult(text=seen.content, pictures=(seen.image_url,))
        case GitStatus() | GitDiff():
            return ToolResult(text=seen.content, facts=_git_facts(seen))
        case TaskList() | TaskReport() | RunningList() | TerminalText():
            return ToolResult(text=seen.content, facts=_task_facts(seen))
        case VscodeCommandDone():
            return ToolResult(text=to_json(seen.result).decode())
        case BrowserOutput():
            pictures = (seen.screenshot,) if seen.screenshot else ()
            return ToolResult(text=seen.content, pictures=pictures, is_error=seen.error)
        case UserAnswered(answered=False):
            return ToolResult(text="The user closed the question without an answer")
        case _:
            return _other(seen)


def _facts(seen: CheckpointList | CheckpointRestored) -> dict[str, Any]:
    if isinstance(seen, CheckpointList):
        return {"checkpoints": list(seen.items), "not_kept": list(seen.not_kept)}
    return {
        "checkpoint": seen.checkpoint,
        "restored": list(seen.restored),
        "removed": list(seen.removed),
        "conflicts": list(seen.conflicts),
    }


def _language_facts(seen: LanguageFound) -> dict[str, Any]:
    return {"items": list(seen.items), "total": seen.total, "waited": seen.waited}


def _debug_facts(seen: DebugSnapshot | DebugValue) -> dict[str, Any]:
    if isinstance(seen, DebugValue):
        return {"value": seen.value, "type": seen.type, "children": list(seen.children)}
    return {
        "state": seen.state,
        "reason": seen.reason,
        "exit_code": seen.exit_code,
        "path": seen.path,
        "line": seen.line,
        "threads": list(seen.threads),
        "frames": list(seen.frames),
        "variables": list(seen.variables),
        "taken_over": seen.taken_over,
    }


def _tests_facts(seen: FoundTests | FinishedTests) -> dict[str, Any]:
    facts = {"command": seen.command, "items": list(seen.items), "total": seen.total}
    if isinstance(seen, FoundTests):
        return facts
    return {**facts, "counts": dict(seen.counts), "exit_code": seen.exit_code}


def _task_facts(seen: TaskList | TaskReport | RunningList | TerminalText) -> dict[str, Any]:
    match seen:
        case TaskReport():
            facts = {"state": seen.state, "exit_code": seen.exit_code}
            return {**facts, "problems": list(seen.problems), "duration": seen.duration}
        case TerminalText():
            return {"terminal": seen.terminal, "commands": list(seen.commands)}
        case TaskList():
            return {"items": list(seen.items), "total": seen.total}
        case RunningList():
            return {"items": list(seen.items)}


def _git_facts(seen: GitStatus | GitDiff) -> dict[str, Any]:
    if isinstance(seen, GitDiff):
        return {"files": list(seen.files), "total": seen.total}
    head = {"branch": seen.branch, "commit": seen.commit, "upstream": seen.upstream}
    counts = {"ahead": seen.ahead, "behind": seen.behind, "total": seen.total}
    return {**head, **counts, "items": list(seen.items)}


def error_result(error: BasculeError) -> ToolResult:
    return _failed(error.code, error.message, dict(error.detail))


def reword(answer: ToolResult, change: Callable[[str], str]) -> ToolResult:
    """The result `answer`. If it is a failure, the function `change` rewords its message."""
    facts = answer.facts and {**answer.facts}
    if facts and "message" in facts:
        facts["message"] = change(facts["message"])
    return replace(answer, text=change(answer.text), facts=facts)


def _failed(code: str, message: str, detail: dict[str, Any] | None = None) -> ToolResult:
    facts: dict[str, Any] = {"code": code, "message": message}
    if detail:
        facts["detail"] = detail
    return ToolResult(text=message, note=f"[{code}]", facts=facts, is_error=True)


def _command(seen: CmdOutput) -> ToolResult:
    about = seen.metadata
    facts = {
        "exit_code": about.exit_code,
        "state": about.state,
        "working_dir": about.working_dir,
        "output_bytes": about.output_bytes,
    }
    text = readable(about.prefix + seen.content)
    return ToolResult(
        text=text,
        note=_command_note(seen),
        facts=facts,
        is_error=about.state == "refused",
        with_tail=True,
    )


def _command_note(seen: CmdOutput) -> str:
    about = seen.metadata
    lost = ""
    if about.left_out_bytes:
        log_hint = f"; all of it is in {about.log_path}" if about.log_path else ""
        lost = f"[{about.left_out_bytes} bytes of output are not included{log_hint}]\n"
    match about.state:
        case "done":
            ended = " The shell ended with it; the next command gets a new one." * about.shell_ended
            directory = f", in {about.working_dir}" if about.working_dir else ""
            return f"{lost}[exit status {about.exit_code}{directory}]{ended}"
        case "running":
            return (
                f"{lost}[The program still runs: read_output waits for more, type_input answers "
                "it, interrupt stops it]"
            )
        case "refused":
            return (
                "[NOT run: the shell is busy with another program. read_output, interrupt, or "
                "name another shell]"
            )
        case "idle":
            return "[No program runs in this shell]"


def _cell(seen: IPythonOutput) -> ToolResult:
    about = seen.metadata
    return ToolResult(
        text=readable(seen.content),
        note=_cell_note(about),
        pictures=tuple(seen.image_urls or ()),
        facts={"state": about.state, "error": about.error_name},
        is_error=about.state in ("died", "refused"),
        with_tail=True,
    )


def _cell_note(about: CellMetadata) -> str:
    late = "[The cell reached its timeout and was interrupted]" if about.timed_out else ""
    match about.state:
        case "input":
            return "[The cell waits for input, which is not possible here: interrupt it]"
        case "died":
            return "[The kernel died: variables and imports are gone]"
        case "running":
            return "[The cell cannot be interrupted: interrupt with kill and shell 'ipython']"
        case _:
            return late


def _cells(seen: NotebookCells) -> ToolResult:
    facts = {"items": list(seen.items), "total": seen.total, "unsaved": seen.unsaved}
    return ToolResult(text=seen.content, pictures=tuple(seen.image_urls or ()), facts=facts)


def _other(seen: Observation) -> ToolResult:
    if seen.content.startswith("data:image/"):
        return ToolResult(text=f"A picture: {getattr(seen, 'path', '')}", pictures=(seen.content,))
    more = "[There are more; ask for a larger `limit`, or for less]"
    return ToolResult(
        text=seen.content or _done(seen), note=more if getattr(seen, "truncated", False) else ""
    )


def _done(seen: Observation) -> str:
    """A sentence for the result of an action whose content may be empty."""
    match seen:
        case FileWritten():
            return f"{seen.path} is written"
        case FileOpened():
            return f"{seen.path} is shown"
        case DiffShown():
            return f"The diff of {seen.path} is {seen.outcome}"
        case FileDownloaded():
            return f"This is not a web page; it was downloaded to {seen.file_path}"
        case Interrupted():
            return "Interrupted" if seen.was_running else "Nothing was running"
        case Selected():
            return f"Nothing is selected in {seen.path}" if seen.path else "No file is open"
        case GlobResult():
            return "No matches"
        case _:
            return "Nothing"
