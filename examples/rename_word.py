"""Rename a word in the active file: ask for it, show a diff, confirm, apply as one undo step.

Run it in a terminal of 'Bascule: Open Bridged Terminal'.
"""

import re

import vscode_bridge as vscode


def main() -> None:
    editor = vscode.active_editor()
    if editor is None or editor.path is None:
        vscode.show_message("Open a file first.", "warning")
        return
    old = vscode.input_box("Which word?", value=editor.selection.text, pattern=r"\w+")
    new = vscode.input_box(f"What instead of {old}?", pattern=r"\w+") if old else None
    if not old or not new:
        return
    changed = re.sub(rf"\b{old}\b", new, editor.text)
    vscode.diff(editor.text, changed, f"{old} becomes {new}")
    if vscode.confirm(f"Rename {editor.text.count(old)} times?"):
        last = vscode.Position(editor.text.count("\n") + 2)
        whole = vscode.Edit(editor.path, changed, vscode.Position(1), last)
        vscode.apply_edit(whole, label=f"rename {old}")


try:
    main()
except vscode.BridgeUnavailable as error:
    print(f"no window: {str(error).partition('.')[0]}")

# > no window: No VS Code window to talk to
