"""Options with which allowed programs run other programs or write files. Pure.

A rule that allows a command does not allow these, unless the rule spells the option out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .options import Reading, is_short_for, read_options
from .syntax import Word


@dataclass(frozen=True)
class Risk:
    """Why a command needs approval, and the position of the risky word. Without a position, no
    rule can allow the word explicitly."""

    reason: str
    index: int | None


def risks(program: str, words: Sequence[Word]) -> Sequence[Risk]:
    """The parts of a command that need approval even if a rule allows the command. `words` begins
    with the name of the program."""
    find = _PROGRAMS.get(program)
    return list(find(words)) if find is not None else []


ALWAYS_ASKING = frozenset({"awk", "gawk", "mawk", "nawk", "tar", "tee"})
"""Programs that always need approval, even if a rule allows them."""

_Finder = Callable[[Sequence[Word]], Iterator[Risk]]

_GIT_GLOBAL = [
    "--paginate",
    "--config-env",
    "--exec-path",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
]
_GIT_LATER = ["--output", "--ext-diff", "--textconv", "--exec", "--upload-pack", "--receive-pack"]
_GIT_MESSAGES = frozenset({"commit", "merge", "tag", "stash", "notes", "cherry-pick", "revert"})
_FIND_WRITES = frozenset({"-delete", "-fls", "-fprint", "-fprint0", "-fprintf"})
_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])+/)"
_SED_ADDRESS = re.compile(rf"{_ADDRESS}(?:,{_ADDRESS}|,[+~]\d+)?[ \t]*[pdq]", re.ASCII)
_SED_FLAGS = re.compile(r"[giIp0-9]*", re.ASCII)


def _always_risky(words: Sequence[Word]) -> Iterator[Risk]:
    yield Risk(f"`{words[0].text}` can run programs or write files in too many ways", None)


def _unknown_words(words: Sequence[Word]) -> Iterator[Risk]:
    for index, word in enumerate(words[1:], start=1):
        if word.text is None:
            yield _unknown(index)


def _unknown(index: int) -> Risk:
    return Risk("a word is unknown and may be an option that runs or writes", index)


def _listed(
    program: str, reading: Reading, short: str, long: Sequence[str], *, shift: int = 0
) -> Iterator[Risk]:
    for option in reading.options:
        is_short = len(option.name) == 2 and option.name[1] in short
        if is_short or _is_any(option.name, *long):
            yield Risk(f"`{program} {option.name}` runs or writes", option.index + shift)


def _table(program: str, short: str, long: str, *, valued: str, attached: str = "") -> _Finder:
    """A finder for a program whose risky options have these letters and names."""

    def find(words: Sequence[Word]) -> Iterator[Risk]:
        reading = read_options(words, valued, attached=attached)
        yield from _listed(program, reading, short, long.split())

    return find


def _git(words: Sequence[Word]) -> Iterator[Risk]:
    before = read_options(words, "cC", long_valued=_GIT_GLOBAL[1:], stops_at_operand=True)
    yield from _listed("git", before, "cCp", _GIT_GLOBAL)
    if not before.operands:
        return
    start = before.operands[0]
    after, subcommand = words[start:], words[start].text or ""
    short, long = "", _GIT_LATER
    if subcommand == "grep":
        reading = read_options(after, "efmABC", attached="O")
        short, long = "O", [*_GIT_LATER, "--open-files-in-pager"]
    elif subcommand == "rebase":
        reading, short = read_options(after, "xsXC", attached="S"), "x"
    else:
        reading = read_options(after, "")
    yield from _listed(f"git {subcommand}", reading, short, long, shift=start)
    yield from _git_words(words, set(_git_messages(words, start)))


def _git_words(words: Sequence[Word], messages: Container[int]) -> Iterator[Risk]:
    for index, word in enumerate(words[1:], start=1):
        if index in messages:
            continue
        if word.text is None:
            yield _unknown(index)
        elif re.search(r"(?:^|=)ext::", word.text):
            yield Risk("an `ext::` address runs a program", index)


def _git_messages(words: Sequence[Word], subcommand: int) -> Iterator[int]:
    """The positions of commit messages, which cannot be options. A message is always one word."""
    if words[subcommand].text not in _GIT_MESSAGES:
        return
    for index in range(subcommand + 1, len(words)):
        word = words[index]
        if word.text == "--":
            return
        is_attached = word.text is None and word.prefix.startswith("-m")
        follows = re.fullmatch("-[aqvn]*m", words[index - 1].text or "")
        if (is_attached or follows) and not word.is_many:
            yield index


def _find(words: Sequence[Word]) -> Iterator[Risk]:
    for index, word in enumerate(words):
        if word.text in _FIND_WRITES:
            yield Risk(f"`find {word.text}` removes or writes files", index)
    yield from _unknown_words(words)


def _rg(words: Sequence[Word]) -> Iterator[Risk]:
    reading = read_options(words, "ABCEMTdefgjmrt")
    yield from _listed("rg", reading, "z", ["--pre", "--hostname-bin", "--search-zip"])
    yield from _unknown_words(words)


def _sed(words: Sequence[Word]) -> Iterator[Risk]:
    long_valued = ["--expression", "--file", "--line-length"]
    reading = read_options(words, "efl", attached="i", long_valued=long_valued)
    yield from _listed("sed", reading, "if", ["--in-place", "--file"])
    yield from _unknown_words(words)
    scripts = [
        (option.value, option.index)
        for option in reading.options
        if option.value and (option.name == "-e" or _is_any(option.name, "--expression"))
    ]
    has_file = any(o.name == "-f" or _is_any(o.name, "--file") for o in reading.options)
    if not scripts and not has_file and reading.operands:
        scripts = [(words[reading.operands[0]], reading.operands[0])]
    for script, index in scripts:
        if len(scripts) > 1 or (script.text is not None and not _is_harmless_sed(script.text)):
            # The risk is at the word of the script, not of its option: a rule that allows the
            # script must contain the script itself.
            is_next = index + 1 < len(words) and words[index + 1] is script
            yield Risk("this sed script may run programs or write files", index + is_next)


def _is_any(name: str, *options: str) -> bool:
    return any(is_short_for(name, each) for each in options)


def _is_harmless_sed(script: str) -> bool:
    """Whether a script is one address with `p`, `d` or `q`, or one `s` with harmless flags."""
    if _SED_ADDRESS.fullmatch(script):
        return True
    if len(script) < 2 or script[0] != "s" or script[1] in "\\\n":
        return False
    delimiter = re.escape(script[1])
    part = rf"(?:[^{delimiter}\\\n]|\\[^\n])*"
    substitution = re.match(f"s{delimiter}{part}{delimiter}{part}{delimiter}", script)
    return substitution is not None and bool(_SED_FLAGS.fullmatch(script, substitution.end()))


def _uniq(words: Sequence[Word]) -> Iterator[Risk]:
    long_valued = ["--skip-fields", "--skip-chars", "--check-chars"]
    files = read_options(words, "fsw", long_valued=long_valued).operands
    if len(files) > 1 or (files and words[files[0]].is_many):
        yield Risk("the second file of `uniq` is written", files[-1])


_PROGRAMS: Mapping[str, _Finder] = {
    "git": _git,
    "find": _find,
    "rg": _rg,
    "sed": _sed,
    "uniq": _uniq,
    "sort": _table(
        "sort",
        "oT",
        "--output --compress-program --temporary-directory --files0-from",
        valued="kotST",
    ),
    "man": _table("man", "PH", "--html --pager", valued="CRLmMSserEpP", attached="H"),
    "fd": _table("fd", "xX", "--exec --exec-batch", valued="edEtSjcoxX"),
    "fdfind": _table("fdfind", "xX", "--exec --exec-batch", valued="edEtSjcoxX"),
    "tree": _table("tree", "o", "--output", valued="LPIHTo"),
    "jq": _table("jq", "f", "--from-file", valued="fL"),
    "file": _table("file", "Cmf", "--compile --magic-file --files-from", valued="eFPmf"),
    "curl": _table(
        "curl",
        "oOK",
        "--output --remote-name --remote-name-all --config",
        valued="AbcCdDeEFhHKmoPQrtTuUwxXyYz",
    ),
    **dict.fromkeys(ALWAYS_ASKING, _always_risky),
}
