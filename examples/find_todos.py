"""Show every TODO below this directory in the Problems view, with progress and Cancel.

Run it in a terminal of 'Bascule: Open Bridged Terminal'; elsewhere it prints its results.
"""

from pathlib import Path

import vscode_bridge as vscode


def todos(file: Path) -> list[vscode.Diagnostic]:
    lines = file.read_text(errors="replace").splitlines()
    return [
        vscode.Diagnostic(text.strip(), number, text.index("TODO") + 1, severity="information")
        for number, text in enumerate(lines, 1)
        if "TODO" in text
    ]


def main() -> None:
    files = sorted(Path().rglob("*.py"))
    found = 0
    if vscode.is_available():
        with vscode.progress("Looking for TODOs") as bar:
            for file in bar.track(files):
                if problems := todos(file):
                    vscode.diagnostics.set(file, problems)
                    found += len(problems)
        vscode.show_message(f"{found} TODOs")
    else:
        found = sum(len(todos(file)) for file in files)
    print(f"{found} TODOs in {len(files)} files")


main()

# > 0 TODOs in 0 files
