"""`bascule completion`: scripts for Tab completion in bash, zsh and fish.

The scripts run the internal command `bascule complete`. It prints one line per candidate: the
word, a tab and a description. It exits with 3 for a path, which the shell then completes itself.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

import click

from .signatures import CommandArgument

IS_PATH: Final = 3
"""Exit code for: the shell should complete a path."""
_LINE: Final = "--line"


class ShellName(StrEnum):
    """The supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


# bash splits words at `:` and `=`, and expects completions for the last piece only. So the script
# passes the whole line as typed. It quotes names with spaces, unless a quote is already open.
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
    shell: Annotated[ShellName, CommandArgument(help="Shell to print the script for.")],
) -> None:
    """Print a script that makes Tab complete commands, options and names.

    Names of sessions, windows and tokens come from the hub that the completed command would use.
    If that hub does not answer within 0.3 seconds, no names are completed;
    BASCULE_COMPLETION_TIMEOUT sets another number of seconds.
    """
    click.echo(SCRIPTS[shell], nl=False)


def complete(arguments: Sequence[str]) -> int:
    """Print the completions of the last word. `arguments` are words, or `--line` and a line as
    typed.

    On any error there are no completions, because shells show no error messages here.
    """
    try:
        return _complete(_words(arguments))
    except Exception:  # noqa: BLE001 - an error message would disturb the command line
        if os.environ.get("BASCULE_DEBUG"):
            traceback.print_exc()
        return 0


def _complete(words: Sequence[str]) -> int:
    from . import completion_candidates
    from .app import tree

    named = next((word for word in words[:-1] if not word.startswith("-")), "")
    if named == "sandbox":  # parsed by argparse; most of its values are directories
        return IS_PATH
    answer = completion_candidates.complete(tree(named), words)
    for each in answer.candidates:
        about = " ".join(each.about.split())
        click.echo(f"{each.value}\t{about}" if about else each.value)
    return IS_PATH if answer.is_path else 0


def _words(arguments: Sequence[str]) -> Sequence[str]:
    if arguments[:1] != [_LINE]:
        return arguments or [""]
    return split_line(arguments[1])[1:] or [""]


def split_line(line: str) -> list[str]:
    """Split a line into words as a shell does. The end of the line closes an open quote. The last
    word may be empty."""
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
