"""The `message` of an event: one short line for people, made from its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MAX_LENGTH = 80
"""Maximum characters of a value in a message."""

_ACTIONS: Mapping[str, tuple[str, str]] = {
    "run_ipython": ("Run Python:", "code"),
    "read": ("Read", "path"),
    "write": ("Write", "path"),
    "edit": ("Edit", "path"),
    "browse": ("Open", "url"),
    "browse_interactive": ("In the browser:", "browser_actions"),
    "call_tool_mcp": ("Call the tool", "name"),
    "null": ("", ""),
    "message": ("", "content"),
    "system": ("Set the system message", ""),
    "think": ("Think:", "thought"),
    "finish": ("Finish", "final_thought"),
    "reject": ("Reject the task", ""),
    "delegate": ("Delegate to", "agent"),
    "recall": ("Recall", "query"),
    "change_agent_state": ("Change the agent's state to", "agent_state"),
    "condensation": ("Forget earlier events", ""),
    "condensation_request": ("Ask to forget earlier events", ""),
    "task_tracking": ("Tasks:", "command"),
    "loop_recovery": ("Leave the loop", ""),
    "mkdir": ("Make the directory", "path"),
    "rmdir": ("Remove the directory", "path"),
    "rm": ("Remove", "path"),
    "list": ("List", "path"),
    "glob": ("Find files named", "pattern"),
    "grep": ("Search for", "pattern"),
    "interrupt": ("Interrupt the shell", "shell"),
    "checkpoints": ("List checkpoints", ""),
    "checkpoint": ("Show checkpoint", "checkpoint"),
    "restore": ("Restore checkpoint", "checkpoint"),
    "diagnostics": ("List problems", "path"),
    "symbols": ("List symbols", "query"),
    "language": ("Look up", "what"),
    "rename_symbol": ("Rename", "symbol"),
    "apply_code_action": ("Apply", "title"),
    "format": ("Format", "path"),
    "organize_imports": ("Organize the imports of", "path"),
    "debug_configurations": ("List launch configurations", ""),
    "set_breakpoints": ("Set breakpoints", "path"),
    "debug_start": ("Debug", "name"),
    "debug_continue": ("Continue the program in the debugger", ""),
    "debug_step": ("In the debugger, step", "step"),
    "debug_pause": ("Pause the program in the debugger", ""),
    "debug_state": ("Look at the program in the debugger", ""),
    "debug_evaluate": ("In the debugger, evaluate", "expression"),
    "debug_set_variable": ("In the debugger, set", "name"),
    "debug_stop": ("End the program in the debugger", ""),
    "list_tests": ("List tests", "path"),
    "run_tests": ("Run tests", "path"),
    "test_results": ("Look at the results of tests", "query"),
    "selection": ("Read the selection", ""),
    "open_file": ("Show", "path"),
    "show_diff": ("Show a change of", "path"),
    "ask_user": ("Ask:", "question"),
    "vscode_command": ("Run the VS Code command", "command"),
    "bridge": ("Ask the window for", "request"),
    "read_cells": ("Read the cells of", "path"),
    "edit_cells": ("Edit the cells of", "path"),
    "run_cells": ("Run cells of", "path"),
    "list_tasks": ("List tasks", "query"),
    "run_task": ("Run the task", "name"),
    "stop_task": ("Stop the task", "name"),
    "list_running": ("List what runs", ""),
    "read_terminal": ("Read the terminal", "terminal"),
    "git_status": ("Read the git status", "repository"),
    "git_diff": ("Read the git diff", "path"),
    "git_stage": ("Stage", "paths"),
    "git_unstage": ("Unstage", "paths"),
    "git_commit": ("Commit:", "commit_message"),
    "open_editors": ("List open editors", ""),
    "list_ports": ("List ports", ""),
    "screenshot": ("Take a picture of the window", ""),
}

_OBSERVATIONS: Mapping[str, tuple[str, str]] = {
    "run_ipython": ("Ran Python:", "code"),
    "read": ("Read", "path"),
    "write": ("Wrote", "path"),
    "edit": ("Edited", "path"),
    "browse": ("Opened", "url"),
    "download": ("Downloaded", "file_path"),
    "mcp": ("Called the tool", "name"),
    "null": ("", ""),
    "user_rejected": ("The user refused", ""),
    "condense": ("Forgot earlier events", ""),
    "think": ("Thought noted", ""),
    "delegate": ("The delegate answered", ""),
    "agent_state_changed": ("The agent's state is", "agent_state"),
    "recall": ("Recalled", "recall_type"),
    "task_tracking": ("Tasks:", "command"),
    "mkdir": ("Made the directory", "path"),
    "rmdir": ("Removed the directory", "path"),
    "rm": ("Removed", "path"),
    "list": ("Listed", "path"),
    "glob": ("Found files named", "pattern"),
    "grep": ("Searched for", "pattern"),
    "interrupt": ("Interrupted the shell", "shell"),
    "checkpoints": ("Listed checkpoints", ""),
    "checkpoint": ("Showed a checkpoint", ""),
    "restore": ("Restored a checkpoint", ""),
    "diagnostics": ("Listed problems", ""),
    "symbols": ("Listed symbols", ""),
    "language": ("Looked up", "what"),
    "code_changed": ("Changed code", ""),
    "debug_configurations": ("Listed launch configurations", ""),
    "breakpoints": ("Breakpoints", ""),
    "debug_state": ("The program in the debugger:", "state"),
    "debug_evaluate": ("Evaluated", "expression"),
    "list_tests": ("Listed the tests of", "name"),
    "test_results": ("Results of the tests", "name"),
    "selection": ("The selection", "path"),
    "open_file": ("Showed", "path"),
    "show_diff": ("Showed a change of", "path"),
    "ask_user": ("Asked:", "question"),
    "vscode_command": ("Ran the VS Code command", "command"),
    "bridge": ("The window answered", "request"),
    "cells": ("Cells of", "path"),
    "list_tasks": ("Listed tasks", ""),
    "task": ("The task", "name"),
    "list_running": ("Listed what runs", ""),
    "read_terminal": ("The terminal", "terminal"),
    "git_status": ("Git status on", "branch"),
    "git_diff": ("Git diff of", "repository"),
    "open_editors": ("Listed open editors", ""),
    "list_ports": ("Listed ports", ""),
    "screenshot": ("Took a picture of the window", ""),
}
"""Text and name of the field that follows it, by kind. `run` has its own messages (`_run`). For
kinds that are not listed, the message is `content`."""


def action_message(kind: str, args: Mapping[str, Any]) -> str:
    if kind != "run":
        return _line(_ACTIONS[kind], args)
    command = _short(args["command"])
    if args["is_input"]:
        return f"Type `{command}`"
    return f"Run `{command}`" if command else "Read more output"


def observation_message(kind: str, content: str, extras: Mapping[str, Any]) -> str:
    if kind == "run":
        return _run(extras)
    if kind in _OBSERVATIONS:
        return _line(_OBSERVATIONS[kind], extras)
    return _short(content)


def _run(extras: Mapping[str, Any]) -> str:
    command, metadata = _short(extras["command"]), extras["metadata"]
    match metadata["state"]:
        case "running":
            return f"`{command}` is still running"
        case "refused":
            return f"`{command}` was not run: the shell is busy"
        case "idle":
            return "Nothing is running"
        case _:
            return f"`{command}` ended with status {metadata['exit_code']}"


def _line(text_and_field: tuple[str, str], fields: Mapping[str, Any]) -> str:
    text, name = text_and_field
    value = _short(str(fields[name] or "")) if name else ""
    return f"{text} {value}" if text and value else text or value


def _short(text: str) -> str:
    """The first line, shortened."""
    line = text[: _MAX_LENGTH + 1].partition("\n")[0]
    return line if len(line) == len(text) else line[: _MAX_LENGTH - 1] + "…"
