"""`bascule completion`: what makes Tab complete our commands in bash, zsh and fish.

The scripts ask `bascule complete`, which is not for people: it prints a line for each word that
fits, the word and after a tab what it is, or exits with 3 where a path is meant, which shells
complete better by themselves.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

import typer

IS_PATH: Final = 3
"""The status that says so."""
_LINE: Final = "--line"


class ShellName(StrEnum):
    """Those that we know."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


# bash gives words cut at `:` and `=`, and takes an answer for the last piece alone; so it is asked
# about the line as it was typed. Names with spaces are quoted unless a quote is open.
_BASH: Final = r"""_bascule() {
    local program=${COMP_WORDS[0]/#\~\//$HOME/} line=${COMP_LINE:0:COMP_POINT}
    local piece=${COMP_WORDS[COMP_CWORD]} answer word status whole cut=
    COMPREPLY=()
    answer=$("$program" complete --line "$line" 2>/dev/null)
    status=$?
    if [ "$status" = 3 ]; then
        compopt -o default
        return
    fi
    whole=${line##*[[:space:]]}
    if [[ $piece == [:=] ]]; then piece=; fi
    if [[ ${#whole} -gt ${#piece} && $whole == *"$piece" ]]; then cut=${whole%"$piece"}; fi
    while IFS=$'\t' read -r word _; do
        [ -n "$word" ] || continue
        [[ $piece == [\"\']* ]] || printf -v word %q "$word"
        COMPREPLY+=("${word#"$cut"}")
    done <<<"$answer"
}
complete -F _bascule bascule
"""

_ZSH: Final = r"""#compdef bascule
_bascule() {
    local answer line program=${(Q)words[1]/#\~\//$HOME/}
    local -a values lines
    answer=$("$program" complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
    if (( $? == 3 )); then
        _files
        return
    fi
    for line in "${(@f)answer}"; do
        [[ -n $line ]] || continue
        values+=("${line%%$'\t'*}")
        lines+=("${line/$'\t'/  -- }")
    done
    (( $#values )) && compadd -l -d lines -a values
}
if [[ ${funcstack[1]} == _bascule ]]; then
    _bascule "$@"
else
    compdef _bascule bascule
fi
"""

_FISH: Final = r"""function __bascule_complete
    set -l words (commandline -opc)
    set -l answer ($words[1] complete $words[2..] (commandline -ct) 2>/dev/null)
    if test $status = 3
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $answer
    end
end
complete --command bascule --no-files --arguments '(__bascule_complete)'
"""

SCRIPTS: Final[Mapping[ShellName, str]] = {
    ShellName.BASH: _BASH,
    ShellName.ZSH: _ZSH,
    ShellName.FISH: _FISH,
}


def completion(
    shell: Annotated[ShellName, typer.Argument(help="Shell to print the script for.")],
) -> None:
    """Print a script that makes Tab complete commands, options and names.

    Names of sessions, windows and tokens come from the hub that the command would use, if it
    answers within 0.3 seconds; BASCULE_COMPLETION_TIMEOUT sets another number of seconds.
    """
    typer.echo(SCRIPTS[shell], nl=False)


def complete(arguments: Sequence[str]) -> int:
    """Answer a shell. `--line` and a line as it was typed, or words; what comes last is completed.

    Whatever goes wrong there is then nothing to complete: no shell shows what we would say.
    """
    try:
        return _complete(_words(arguments))
    except Exception:  # noqa: BLE001 - a person who pressed Tab asked for no explanation
        if os.environ.get("BASCULE_DEBUG"):
            traceback.print_exc()
        return 0


def _complete(words: Sequence[str]) -> int:
    from . import completion_candidates
    from .app import tree

    named = next((word for word in words[:-1] if not word.startswith("-")), "")
    if named == "sandbox":  # its flags are argparse's; what they take is mostly a directory
        return IS_PATH
    answer = completion_candidates.complete(tree(named), words)
    for each in answer.candidates:
        about = " ".join(each.about.split())
        typer.echo(f"{each.value}\t{about}" if about else each.value)
    return IS_PATH if answer.is_path else 0


def _words(arguments: Sequence[str]) -> Sequence[str]:
    if arguments[:1] != [_LINE]:
        return arguments or [""]
    return split_line(arguments[1])[1:] or [""]


def split_line(line: str) -> list[str]:
    """As a shell would; a quote that is open ends with the line. The last word may be empty."""
    words: list[str] = []
    word: str | None = None
    quote = ""
    is_escaped = False
    for each in line:
        if is_escaped:
            word, is_escaped = (word or "") + each, False
        elif each == "\\" and quote != "'":
            word, is_escaped = word or "", True
        elif each == quote:
            quote = ""
        elif each in "'\"" and not quote:
            word, quote = word or "", each
        elif each.isspace() and not quote:
            words += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + each
    return [*words, word or ""]
