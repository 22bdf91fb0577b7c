"""`onnx-ci completion`: scripts for bash, zsh and fish, made from what argparse knows of every command."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator

from onnx_ci.cli.main import COMMANDS, command_parser
from onnx_ci.cli.output import write_to

ARGUMENTS = {"completion": (("shell", {"choices": ("bash", "zsh", "fish")}),)}
EXAMPLES = {
    "completion": """\
onnx-ci completion bash > ~/.local/share/bash-completion/completions/onnx-ci
onnx-ci completion zsh > ~/.zfunc/_onnx-ci          # a folder of $fpath
onnx-ci completion fish > ~/.config/fish/completions/onnx-ci.fish"""
}
REFS = "git for-each-ref --format='%(refname:short)' 2>/dev/null"


class Flag:
    """One option of a command: how it is written, what it says, and what may follow."""

    def __init__(self, action: argparse.Action) -> None:
        self.names = list(action.option_strings)
        self.help = re.sub(r"%\((\w+)\)\w", lambda found: str(getattr(action, found[1])), action.help or "")
        self.takes_value = action.nargs != 0
        self.choices = " ".join(map(str, action.choices or ()))
        self.metavar = str(action.metavar or "value")
        self.is_ref = action.metavar == "REF"


def run_completion(options: argparse.Namespace) -> int:
    scripts = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    lines = scripts[options.shell]()
    write_to("".join(f"{line}\n" for line in lines), "")
    return 0


def _options(command: str) -> tuple[list[Flag], str]:
    """The options of a command, and the words it takes where they are not files."""
    actions = [each for each in command_parser(command)._actions if each.help != argparse.SUPPRESS]
    words = [str(word) for each in actions if not each.option_strings for word in each.choices or ()]
    return [Flag(action) for action in actions if action.option_strings], " ".join(words)


def _bash() -> Iterator[str]:
    yield "# bash completion of onnx-ci, made by: onnx-ci completion bash"
    yield "_onnx_ci() {"
    yield '    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=""'
    yield '    if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f'        words="{" ".join(COMMANDS)} --help --version"'
    yield "    else"
    yield '        case "${COMP_WORDS[1]} $before $word" in'
    for command in COMMANDS:
        options, words = _options(command)
        for option in (each for each in options if each.takes_value):
            values = f"$({REFS})" if option.is_ref else option.choices
            said = f'words="{values}"' if values else "return"  # `-o default`: names of files
            yield from (f'        "{command} {name} "*) {said} ;;' for name in option.names)
        names = " ".join(name for option in options for name in option.names)
        yield f'        "{command} "*" -"*) words="{names}" ;;'
        if words:
            yield f'        "{command} "*) words="{words}" ;;'
    yield "        esac"
    yield "    fi"
    yield '    if [ -n "$words" ]; then'
    yield "        local IFS=$' \\t\\n'"
    yield '        COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "    fi"
    yield "}"
    yield "complete -o bashdefault -o default -F _onnx_ci onnx-ci"


def _zsh() -> Iterator[str]:
    def escaped(text: str) -> str:
        return re.sub(r"([\[\]:\\])", r"\\\1", text)

    yield "#compdef onnx-ci"
    yield "# made by: onnx-ci completion zsh"
    yield "_onnx_ci() {"
    yield "    if (( CURRENT == 2 )); then"
    yield "        local -a commands=("
    for command, (_, summary) in COMMANDS.items():
        yield f"            {shlex.quote(f'{command}:{summary}')}"
    yield "        )"
    yield "        _describe command commands"
    yield "        return"
    yield "    fi"
    yield "    local command=$words[2]"
    yield "    shift words; (( CURRENT-- ))"
    yield "    case $command in"
    for command in COMMANDS:
        options, words = _options(command)
        yield f"    {command}) _arguments -s \\"
        for option in options:
            values = f"($({REFS}))" if option.is_ref else option.choices and f"({option.choices})"
            after = f":{escaped(option.metavar)}:{values or '_files'}" if option.takes_value else ""
            for name in option.names:
                yield f"        {shlex.quote(f'*{name}[{escaped(option.help)}]{after}')} \\"
        yield f"        '*:file:{f'({words})' if words else '_files'}' ;;"
    yield "    esac"
    yield "}"
    yield 'if [ "$funcstack[1]" = "_onnx_ci" ] || [ "$funcstack[1]" = "_onnx-ci" ]; then'
    yield '    _onnx_ci "$@"'
    yield "else"
    yield "    compdef _onnx_ci onnx-ci"
    yield "fi"


def _fish() -> Iterator[str]:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    yield "# fish completion of onnx-ci, made by: onnx-ci completion fish"
    yield "complete -c onnx-ci -n __fish_use_subcommand -l version -d 'print the version'"
    for command, (_, summary) in COMMANDS.items():
        yield f"complete -c onnx-ci -n __fish_use_subcommand -f -a {command} -d {quoted(summary)}"
        options, words = _options(command)
        seen = f"complete -c onnx-ci -n '__fish_seen_subcommand_from {command}'"
        if words:
            yield f"{seen} -f -a '{words}'"
        for option in options:
            names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
            values = f"({REFS})" if option.is_ref else option.choices
            after = (f"-x -a {quoted(values)}" if values else "-r") if option.takes_value else ""
            yield " ".join(filter(None, [seen, *names, after, "-d", quoted(option.help)]))
