"""Builtins of bash with a special meaning for rules."""

from __future__ import annotations

HARMLESS = frozenset({":", "true", "false", "test", "[", "break", "continue"})
"""Builtins that are allowed without a rule."""

SHELL_CHANGING = frozenset(
    {
        "source",
        ".",
        "trap",
        "alias",
        "unalias",
        "enable",
        "hash",
        "set",
        "shopt",
        "export",
        "declare",
        "typeset",
        "readonly",
        "local",
        "unset",
        "bind",
        "complete",
        "mapfile",
        "read",
        "history",
        "umask",
        "ulimit",
        "pushd",
        "popd",
        # These assign variables or run text as well.
        "readarray",
        "compgen",
        "compopt",
        "getopts",
        "fc",
        "let",
    }
)
"""Builtins that change the meaning of later commands. A rule for such a builtin needs at least two
words."""
