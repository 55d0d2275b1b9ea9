"""Let a language model of the window review your changes, and stream its answer.

Run it in a terminal of 'Bascule: Open Bridged Terminal', in a git repository.
"""

import subprocess

import vscode_bridge as vscode


def main() -> None:
    if not vscode.is_available():
        print("no window: start me in VS Code, by 'Bascule: Open Bridged Terminal'")
        return
    git = ["git", "diff", "HEAD"]
    changes = subprocess.run(git, capture_output=True, text=True, check=True).stdout
    if not changes:
        vscode.show_message("Nothing has changed.")
        return
    review = vscode.output("Review")
    review.clear()
    review.show()
    question = f"Review this change in three sentences.\n\n{changes[:20_000]}"
    for words in vscode.chat(question, stream=True):
        print(words, end="", flush=True)
        review.append(words)
    print()


main()

# > no window: start me in VS Code, by 'Bascule: Open Bridged Terminal'
