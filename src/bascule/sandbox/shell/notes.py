"""Notes added before and after a command's output, for people and models.

The bracketed openings come from OpenHands: its agents are trained on them and its tests check them.
"""

from __future__ import annotations

_NEXT = (
    "It is still running. Send an empty command to read on, send its input or a key (C-c, C-z, "
    "C-d) with is_input, or give the next command a longer timeout."
)

PREVIOUS = "[Below is the output of the previous command.]\n"
NOTHING_TO_READ = "ERROR: No previous running command to retrieve logs from."
NOTHING_TO_TYPE_INTO = "ERROR: No previous running command to interact with."
NEW_SHELL = (
    "\n[This is a new shell: variables, functions, options and jobs of the one before are gone.]"
)
OTHER_READER = "\n[Another call is waiting for this command and gets its output.]"


def completed(status: int, key: str = "") -> str:
    sent = f" CTRL+{key[-1].upper()} was sent." if key else ""
    return f"\n[The command completed with exit code {status}.{sent}]"


def no_new_output(seconds: float) -> str:
    shown = str(float(seconds)).removesuffix(".0")
    return f"\n[The command has no new output after {shown} seconds. {_NEXT}]"


def timed_out(seconds: float) -> str:
    return f"\n[The command timed out after {float(seconds)} seconds. {_NEXT}]"


def left_by_previous(status: int, head: str, tail: str) -> str:
    rest = f" It printed:]\n{head}{tail and ' … ' + tail}\n[" if head.strip() else " "
    return (
        f"[The previous command ended meanwhile with exit code {status}.{rest}"
        "Below is the output of your command.]\n"
    )


def refused(command: str) -> str:
    shown = command if len(command) <= 200 else command[:200] + "…"
    return (
        f'\n[Your command "{shown}" is NOT executed. The previous command is still running. Send '
        "an empty command to wait for it, use is_input to type into it or to interrupt it with "
        "C-c, name another shell, or set queue to have commands wait their turn.]"
    )


def shell_ended(status: int, cwd: str) -> str:
    return (
        f"\n[The shell itself ended with exit code {status}. The next command gets a new one, "
        f"starting in {cwd}.]"
    )


def shell_replaced(cwd: str) -> str:
    return (
        "\n[exec replaced the shell by another one. The next command gets a new bash with its "
        f"environment, starting in {cwd}.]"
    )


def status_unknown() -> str:
    return "\n[The command ended, but the shell could not report its status, so it is -1.]"


def left_out(size: int, *, path: str | None, start: int, end: int) -> str:
    where = f"; bytes {start} to {end} of {path} have it all" if path else ""
    return f"\n[… {size:,} bytes left out{where} …]\n"
