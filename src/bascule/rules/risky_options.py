"""Options with which allowed programs run other programs or write files. No I/O.

A rule that allows a command does not allow these options, unless the rule itself contains the
option. Each word is checked by itself, even if it may be the value of the option before it, because
only the program knows which of its options take a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .sed_scripts import is_harmless_script, sed_scripts
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


@dataclass(frozen=True)
class _Options:
    """The risky options of a program.

    `short` are letters. `long` are full names; their abbreviations are risky too. `valued` are
    letters of harmless options that take a value: the rest of a word after such a letter is the
    value.
    """

    short: str
    long: Sequence[str]
    valued: str = ""


_GIT_GLOBAL = _Options(
    "cCp",
    [
        "--paginate",
        "--config-env",
        "--exec-path",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--super-prefix",
    ],
)
_GIT_GLOBAL_VALUE = re.compile(
    r"-[cC]|--(?:config-env|git-dir|work-tree|namespace|super-prefix)", re.ASCII
)
_GIT_LATER = ["--output", "--ext-diff", "--textconv", "--exec", "--upload-pack", "--receive-pack"]
_GIT_SUBCOMMANDS = {
    "grep": _Options("O", [*_GIT_LATER, "--open-files-in-pager"], "ABCefm"),
    "rebase": _Options("x", _GIT_LATER, "CSXs"),
}
_GIT_MESSAGES = frozenset({"commit", "merge", "tag", "stash", "notes", "cherry-pick", "revert"})
_SED = _Options("if", ["--in-place", "--file"], "el")
_FIND_WRITES = frozenset({"-delete", "-fls", "-fprint", "-fprint0", "-fprintf"})
_UNIQ_VALUED = ("--skip-fields", "--skip-chars", "--check-chars")


def _options_finder(short: str, long: str, *, valued: str, unknown_words: bool = False) -> _Finder:
    """A finder for a program whose risky options have these letters and names."""
    options = _Options(short, long.split(), valued)

    def find(words: Sequence[Word]) -> Iterator[Risk]:
        if unknown_words:
            yield from _unknown_words(words)
        yield from _find_options(words, options)

    return find


def _always_risky(words: Sequence[Word]) -> Iterator[Risk]:
    yield Risk(f"`{words[0].text}` can run programs or write files in too many ways", None)


def _unknown_words(words: Sequence[Word]) -> Iterator[Risk]:
    for index, word in enumerate(words[1:], start=1):
        if word.text is None:
            yield Risk("a word is unknown and may be an option that runs or writes", index)


def _find_options(words: Sequence[Word], options: _Options, *, start: int = 1) -> Iterator[Risk]:
    for index in range(start, len(words)):
        word = words[index]
        if word.text == "--" and (index == start or _takes_no_value(words[index - 1], options)):
            return
        if _is_risky(word, options):
            yield Risk(f"`{words[0].text} {word.text or word.prefix}` runs or writes", index)


def _takes_no_value(word: Word, options: _Options) -> bool:
    """Whether `--` after this word ends the options, and is not the value of an option."""
    if word.text is None:
        return False
    if not word.text.startswith("-"):
        return True
    if word.text.startswith("--"):
        return "=" in word.text
    return bool(options.valued) and not any(letter in options.valued for letter in word.text)


def _is_risky(word: Word, options: _Options) -> bool:
    if word.may_become_option:
        return True
    if word.prefix.startswith("--"):
        return _is_risky_long(word, options)
    if not word.prefix.startswith("-"):
        return False
    for letter in word.prefix[1:]:
        if letter in options.short:
            return True
        if letter in options.valued:
            return False
    return word.text is None


def _is_risky_long(word: Word, options: _Options) -> bool:
    name, equals, _ = word.prefix.partition("=")
    is_cut_off = word.text is None and not equals
    if name == "--":
        return word.text is None
    return any(
        option.startswith(name) or (is_cut_off and name.startswith(option))
        for option in options.long
    )


def _git(words: Sequence[Word]) -> Iterator[Risk]:
    at = _git_subcommand(words)
    yield from _find_options(words[:at], _GIT_GLOBAL)
    subcommand = (words[at].text or "") if at < len(words) else ""
    messages = set(_git_messages(words, at)) if subcommand in _GIT_MESSAGES else set[int]()
    others = [_MESSAGE if index in messages else word for index, word in enumerate(words)]
    yield from _unknown_words(others)
    yield from _find_options(
        others, _GIT_SUBCOMMANDS.get(subcommand, _Options("", _GIT_LATER)), start=at + 1
    )
    for index, word in enumerate(others):
        if re.search(r"(?:^|=)ext::", word.prefix):
            yield Risk("an `ext::` address runs a program", index)


_MESSAGE = Word("message", 0, 0, "message")
"""Stands for a commit message, which is never an option."""


def _git_subcommand(words: Sequence[Word]) -> int:
    index = 1
    while index < len(words) and words[index].prefix.startswith("-"):
        index += 2 if _GIT_GLOBAL_VALUE.fullmatch(words[index].text or "") else 1
    return min(index, len(words))


def _git_messages(words: Sequence[Word], subcommand: int) -> Iterator[int]:
    """The positions of words that are the value of `-m` or contain this value. A word that may
    become several words is no message."""
    index = subcommand + 1
    while index < len(words) and words[index].text != "--":
        word = words[index]
        following = words[index + 1] if index + 1 < len(words) else None
        if re.fullmatch("-[aenqv]*m", word.text or "") and following and not following.is_many:
            index += 1
            yield index
        elif word.prefix.startswith("-m") and word.text != "-m" and not word.is_many:
            yield index
        index += 1


def _find(words: Sequence[Word]) -> Iterator[Risk]:
    yield from _unknown_words(words)
    for index, word in enumerate(words):
        if word.text in _FIND_WRITES:
            yield Risk(f"`find {word.text}` removes or writes files", index)


def _sed(words: Sequence[Word]) -> Iterator[Risk]:
    yield from _unknown_words(words)
    yield from _find_options(words, _SED)
    scripts = sed_scripts(words)
    for index, script in scripts:
        if len(scripts) > 1 or not is_harmless_script(script):
            yield Risk("this sed script may run programs or write files", index)


def _uniq(words: Sequence[Word]) -> Iterator[Risk]:
    files, index = 0, 1
    while index < len(words):
        word = words[index]
        if word.text == "--":
            files += len(words) - index - 1
            index = len(words) - 1
        elif not word.prefix.startswith("-") or word.text == "-":
            # A word that may become several words may be the second file as well.
            files += 2 if word.is_many else 1
        elif _takes_next_in_uniq(word.text or ""):
            index += 1
        if files > 1:
            yield Risk("the second file of `uniq` is written", index)
            return
        index += 1


def _takes_next_in_uniq(text: str) -> bool:
    if text.startswith("--"):
        return any(option.startswith(text) for option in _UNIQ_VALUED)
    return re.fullmatch("-[^fsw]*[fsw]", text) is not None


_PROGRAMS: Mapping[str, _Finder] = {
    "git": _git,
    "find": _find,
    "sed": _sed,
    "uniq": _uniq,
    "rg": _options_finder(
        "z",
        "--pre --hostname-bin --search-zip",
        valued="ABCEMTdefgjmrt",
        unknown_words=True,
    ),
    "sort": _options_finder(
        "oT",
        "--output --compress-program --temporary-directory --files0-from",
        valued="kSt",
    ),
    "man": _options_finder("PH", "--html --pager", valued="CELMRSemprs"),
    **dict.fromkeys(
        ("fd", "fdfind"), _options_finder("xX", "--exec --exec-batch", valued="CESTcdejot")
    ),
    "tree": _options_finder("o", "--output", valued="HILPT"),
    "jq": _options_finder("f", "--from-file", valued="L"),
    "file": _options_finder("Cmf", "--compile --magic-file --files-from", valued="eFP"),
    "curl": _options_finder(
        "oOK",
        "--output --remote-name --remote-name-all --config",
        valued="ACDEFHPQTUXYbcdehmrtuwxyz",
    ),
    **dict.fromkeys(ALWAYS_ASKING, _always_risky),
}
