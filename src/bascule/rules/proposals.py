"""Proposes rules to the user for a text that needs approval. No I/O.

Each proposal is for one command that no rule allows. The rule has only the words that name the
command: `git commit` for `git commit -m x`. There is no proposal if such a rule would allow
everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .risky_options import ALWAYS_ASKING
from .rule import Rule, last_part
from .shell_builtins import SHELL_CHANGING
from .shells import SHELLS
from .verdict import CommandVerdict, Decision, Part
from .wrappers import WRAPPERS


@dataclass(frozen=True)
class Proposal:
    """A rule that would allow one part of a text."""

    rule: Rule
    part: Part


def proposals(decision: Decision) -> Sequence[Proposal]:
    """Allow rules for the commands of a text that needs approval, without duplicates."""
    found: dict[tuple[str, ...], Proposal] = {}
    if decision.verdict is not CommandVerdict.ASK:
        return []
    for part in decision.parts:
        words = _naming_words(part.words or ())
        if words:
            found.setdefault(words, Proposal(Rule(words), part))
    return list(found.values())


def _naming_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words that name a command; empty if no rule should be proposed for it."""
    if not words or _runs_anything(words):
        return ()
    length = 1
    while length <= 3:
        wanted = _NAMING_WORD_COUNTS.get(" ".join(words[:length]))
        if wanted is None:
            break
        length = wanted
        if length > len(words):
            return ()
    if words[0] in SHELL_CHANGING:
        length = 2
    named = words[:length]
    is_plain = len(named) == length and not any(word.startswith("-") for word in named)
    return named if is_plain else ()


def _runs_anything(words: tuple[str, ...]) -> bool:
    program = last_part(words[0])
    runs_others = program in SHELLS or program in WRAPPERS or program in ALWAYS_ASKING
    version = program.rstrip("0123456789.")
    return (
        runs_others
        or program in _NEVER_PROPOSED
        or version in _NEVER_PROPOSED
        or any(" ".join(words[:length]) in _NEVER_PROPOSED for length in (2, 3))
    )


_NEVER_PROPOSED = frozenset(
    {
        # Interpreters, and programs that can start one.
        *("python", "ipython", "pypy", "node", "nodejs", "deno", "bun", "perl", "ruby", "irb"),
        *("php", "lua", "luajit", "Rscript", "R", "julia", "tclsh", "expect", "osascript", "pwsh"),
        *("gdb", "sqlite3", "psql", "mysql", "vi", "vim", "nvim", "emacs", "ed", "ex"),
        # Programs that run others.
        *("busybox", "ssh", "su", "chroot", "nsenter", "unshare", "bwrap", "watch", "parallel"),
        *("entr", "npx", "pnpx", "bunx", "uvx", "script", "strace", "ltrace", "eval"),
        *("docker run", "docker exec", "docker compose run", "docker compose exec"),
        *("kubectl exec", "podman run", "podman exec", "uv run", "poetry run", "pipx run"),
        *("npm exec", "npm x", "pnpm exec", "pnpm dlx", "yarn dlx", "yarn exec", "bundle exec"),
        *("go run", "cargo run"),
        # Programs that destroy data.
        *("rm", "dd", "mkfs", "shred"),
    }
)
"""Commands for which no rule is proposed. Users can still write such a rule."""

_NAMING_WORD_COUNTS: Mapping[str, int] = {
    **dict.fromkeys(("git", "npm", "pnpm", "yarn", "cargo", "go", "pip", "pip3", "uv"), 2),
    **dict.fromkeys(("poetry", "pipx", "bundle", "gem", "rustup", "docker", "podman"), 2),
    **dict.fromkeys(("kubectl", "helm", "terraform", "systemctl", "journalctl", "apt"), 2),
    **dict.fromkeys(("apt-get", "brew", "make", "just", "dotnet", "mvn", "gradle", "conda"), 2),
    **dict.fromkeys(("gh", "glab", "aws", "gcloud", "az"), 3),
    **dict.fromkeys(("npm run", "npm run-script", "pnpm run", "yarn run", "docker compose"), 3),
    **dict.fromkeys(("git stash", "git remote", "git worktree", "git submodule"), 3),
    **dict.fromkeys(("git config", "git notes", "git bisect", "uv pip", "go mod"), 3),
}
"""The number of words that name a command with this beginning. The default is one."""
