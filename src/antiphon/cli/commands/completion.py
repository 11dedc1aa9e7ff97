"""`antiphon completion`: a shell's script, and the answers that it asks for."""

from collections.abc import Iterable, Sequence

from antiphon.cli.completing import offers
from antiphon.cli.context import Context
from antiphon.cli.exits import DONE
from antiphon.cli.grammar import Given
from antiphon.cli.output import in_a_row
from antiphon.client.errors import ClientError

LIMIT = 200

BASH = r"""
# bash completion for antiphon; put this into ~/.bashrc:  eval "$(antiphon completion bash)"
_antiphon() {
    local line="${COMP_LINE:0:COMP_POINT}" offer head words offers=()
    read -ra words <<<"$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    local cur="${words[${#words[@]} - 1]}"
    while IFS=$'\t' read -r offer _; do
        case "$offer" in
            :files) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames; return ;;
            :dirs) mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames; return ;;
            *) offers+=("$(printf '%q' "$offer")") ;;
        esac
    done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
    head="${cur%"${cur##*[:=]}"}"
    [[ "$COMP_WORDBREAKS" == *:* ]] && offers=("${offers[@]#"$head"}")
    COMPREPLY=("${offers[@]}")
}
complete -F _antiphon antiphon
"""

ZSH = r"""
#compdef antiphon
# zsh completion for antiphon; put this into a directory of $fpath as _antiphon
_antiphon() {
    local -a lines found
    local line
    lines=("${(@f)$(${words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    case "${lines[1]}" in
        :files) _files; return ;;
        :dirs) _files -/; return ;;
        '') return 1 ;;
    esac
    for line in "${lines[@]}"; do
        local word="${${line%%$'\t'*}//:/\\:}"
        [[ "$line" == *$'\t'* ]] && word+=":${line#*$'\t'}"
        found+=("$word")
    done
    _describe antiphon found
}
if [[ "${funcstack[1]}" == _antiphon ]]; then _antiphon "$@"; else compdef _antiphon antiphon; fi
"""

FISH = r"""
# fish completion for antiphon; put this into ~/.config/fish/completions/antiphon.fish
function __antiphon_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l lines ($words[1] __complete $words[2..-1] 2>/dev/null)
    switch "$lines[1]"
        case :files
            __fish_complete_path (commandline -ct)
        case :dirs
            __fish_complete_directories (commandline -ct)
        case '*'
            printf '%s\n' $lines
    end
end
complete -c antiphon -f -a '(__antiphon_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def completion(context: Context, given: Given) -> int:
    """Print a shell's script."""
    context.out.line(SCRIPTS[given.text("shell")].strip("\n"))
    return DONE


def complete(context: Context, words: Sequence[str]) -> int:
    """Print what fits as the last word, one offer a line."""

    def asked(kind: str) -> Iterable[str]:
        """Names that a running host knows. None is started for this, and its silence is nobody's error."""
        try:
            with context.client() as client:
                if kind == "agent":
                    return [agent.name for agent in client.agents()]
                if kind == "webhook":
                    return [webhook.id for webhook in client.webhooks()]
                if kind == "schedule":
                    return [schedule.id for schedule in client.schedules()]
                if kind == "host":
                    return [host.name for host in client.hosts()]
                return [session.ref for session in client.sessions(limit=LIMIT)]
        except ClientError:
            return []

    for word, meaning in offers(words, asked):
        context.out.finished("\t".join(in_a_row(part) for part in (word, meaning) if part))
    return DONE
