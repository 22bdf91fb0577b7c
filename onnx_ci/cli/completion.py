"""`onnx-ci completion`: scripts for bash, zsh and fish, made from what argparse knows of every command."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

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
    """Print the script beside this file, with what is known of all commands in it."""
    lines = {"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell]()
    script = Path(__file__).with_name(f"completion.{options.shell}").read_text(encoding="utf-8")
    described = (shlex.quote(f"{name}:{summary}") for name, (_, summary) in COMMANDS.items())
    script = script.replace("@COMMANDS@", " ".join(COMMANDS))
    script = script.replace("@DESCRIBED@\n", "".join(f"            {each}\n" for each in described))
    write_to(script.replace("@OPTIONS@\n", "".join(f"{line}\n" for line in lines)), "")
    return 0


def _options(command: str) -> tuple[list[Flag], str]:
    """The options of a command, and the words it takes where they are not files."""
    actions = [each for each in command_parser(command)._actions if each.help != argparse.SUPPRESS]
    words = [str(word) for each in actions if not each.option_strings for word in each.choices or ()]
    return [Flag(action) for action in actions if action.option_strings], " ".join(words)


def _bash() -> Iterator[str]:
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


def _zsh() -> Iterator[str]:
    def escaped(text: str) -> str:
        return re.sub(r"([\[\]:\\])", r"\\\1", text)

    for command in COMMANDS:
        options, words = _options(command)
        yield f"    {command}) _arguments -s \\"
        for option in options:
            values = f"($({REFS}))" if option.is_ref else option.choices and f"({option.choices})"
            after = f":{escaped(option.metavar)}:{values or '_files'}" if option.takes_value else ""
            for name in option.names:
                yield f"        {shlex.quote(f'*{name}[{escaped(option.help)}]{after}')} \\"
        yield f"        '*:file:{f'({words})' if words else '_files'}' ;;"


def _fish() -> Iterator[str]:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

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
