"""Git changes and diffs of a session's repositories, in OpenHands' format."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

from bascule.core.errors import InvalidRequest

from ._programs import ProgramResult

Run = Callable[..., Awaitable[ProgramResult]]
"""Runs a command, given its `directory` and `timeout`."""

_TIMEOUT: Final = 60.0
_MAX_FILE_BYTES: Final = 1 << 20
"""Maximum bytes of a file to compare."""

_NO_REPOSITORY: Final = 3
_ERROR_MESSAGES: Final = {
    4: "There is no such file, now or before: {path}",
    5: "The file is too large to be compared: {path}",
    6: "There is no commit {ref!r}",
}

_BASE: Final = r"""
commit() { git rev-parse --quiet --verify --end-of-options "$1^{commit}"; }
nothing() { git hash-object -t tree /dev/null; }

# What to compare with: the commit that was asked for; else what is on the branch's own remote,
# unless all of it is there; else where the branch left the default one; else the last commit.
base() {
    local head branch remote default
    if [ -n "$ref" ]; then
        commit "$ref" || { [ "$ref" = HEAD ] && nothing; } || return 6
        return
    fi
    head=$(commit HEAD) || { nothing; return; }
    branch=$(git symbolic-ref --quiet --short HEAD)
    if [ -n "$branch" ] && remote=$(commit "refs/remotes/origin/$branch"); then
        if [ "$remote" != "$head" ] || ! git diff --quiet HEAD; then echo "$remote"; return; fi
    fi
    if default=$(git symbolic-ref --quiet refs/remotes/origin/HEAD); then
        git merge-base HEAD "$default" || commit "$default" || echo "$head"
        return
    fi
    for default in main master; do
        commit "refs/heads/$default" >/dev/null || continue
        if [ "$default" != "$branch" ] && git merge-base --is-ancestor "$default" HEAD; then
            commit "refs/heads/$default"
            return
        fi
        break
    done
    echo "$head"
}
"""

_CHANGES: Final = r"""
one() (
    cd -- "$1" && git rev-parse --git-dir >/dev/null 2>&1 || exit 3
    base=$(base) || exit 6
    printf '%s\0' "$1"
    git --no-pager diff --name-status --relative -z "$base" && printf '\0' || exit 7
    git ls-files --others --exclude-standard -z && printf '\0'
)
one .; status=$?
shopt -s nullglob
for inner in */.git; do one "${inner%/.git}" && [ "$status" = 3 ] && status=0; done
exit "$status"
"""

_DIFF: Final = r"""
file=$(realpath --canonicalize-missing -- "$path"); home=$file
until [ -d "$home" ]; do home=$(dirname -- "$home"); done
if ! cd -- "$home" || ! top=$(git rev-parse --show-toplevel 2>/dev/null); then
    [ -e "$file" ] && exit 3 || exit 4
fi
cd -- "$top" && base=$(base) || exit 6
before="$base:${file#"$top"/}"
size=$(git cat-file -s "$before" 2>/dev/null) || size=none
[ -f "$file" ] || [ "$size" != none ] || exit 4
[ ! -f "$file" ] || [ "$(stat --format=%s -- "$file")" -le MAX_FILE ] || exit 5
[ "$size" = none ] || [ "$size" -le MAX_FILE ] || exit 5
printf '%s\0' "$size"
[ "$size" = none ] || git show "$before"
[ ! -f "$file" ] || cat -- "$file"
"""


async def changes(run: Run, path: str, ref: str) -> Sequence[Mapping[str, str]]:
    """The changes of the repository at `path` and of the repositories directly below it. Empty if
    there is no repository."""
    printed = await _run(run, _CHANGES, path=path, ref=ref, directory=path)
    if printed is None:
        return []
    fields = iter(printed.split("\0"))
    repositories = {name: list(_changes_in(fields)) for name in iter(lambda: next(fields), "")}
    inner = repositories.keys() - {"."}
    found = [
        {"status": status, "path": path if name == "." else f"{name}/{path}"}
        for name, each in repositories.items()
        for status, path in each
        if name != "." or path.partition("/")[0] not in inner
    ]
    return sorted(found, key=lambda each: each["path"])


async def diff(run: Run, path: str, ref: str) -> Mapping[str, str | None]:
    """The contents of one file at `ref` and now."""
    script = _DIFF.replace("MAX_FILE", str(_MAX_FILE_BYTES))
    printed = await _run(run, script, path=path, ref=ref, directory=None)
    if printed is None:
        return {"modified": None, "original": None}
    size, _, texts = printed.partition("\0")
    before = 0 if size == "none" else int(size)
    raw = texts.encode(errors="surrogateescape")
    return {"modified": _text(raw[before:]), "original": _text(raw[:before])}


def _changes_in(fields: Iterator[str]) -> Iterator[tuple[str, str]]:
    """The changes of one repository: tracked files, an empty field, then untracked files."""
    while letter := next(fields):
        match letter[0]:
            case "R":
                yield "DELETED", next(fields)
                yield "ADDED", next(fields)
            case "C":
                next(fields)
                yield "ADDED", next(fields)
            case "A":
                yield "ADDED", next(fields)
            case "D":
                yield "DELETED", next(fields)
            case _:
                yield "UPDATED", next(fields)
    while path := next(fields):
        yield "ADDED", path


async def _run(run: Run, script: str, *, path: str, ref: str, directory: str | None) -> str | None:
    """The output of the script; None if there is no repository."""
    assignments = f"path={shlex.quote(path)}; ref={shlex.quote(ref)}\n"
    ended = await run(assignments + _BASE + script, directory=directory, timeout=_TIMEOUT)
    if ended.status == _NO_REPOSITORY or (directory and ended.status == 1 and not ended.out):
        return None
    if ended.status:
        message = _ERROR_MESSAGES.get(ended.status, "git failed: {error}")
        error = ended.err.decode(errors="replace").strip()
        raise InvalidRequest(message.format(path=path, ref=ref, error=error))
    return ended.out.decode(errors="surrogateescape")


def _text(content: bytes) -> str:
    """The text without the newline at its end, as OpenHands returns it. Empty if the content is not
    UTF-8."""
    try:
        return "\n".join(content.decode().splitlines())
    except UnicodeDecodeError:
        return ""
