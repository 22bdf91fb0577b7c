"""The command line: finds the command, runs it, and turns whatever happens into an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from onnx_ci.entry.guard import guarded
from onnx_ci.errors import OnnxCiError, UsageError
from onnx_ci.version import __version__

TYPE_CHECKING = False  # `typing` takes longer to load than this package; checkers see it all the same
if TYPE_CHECKING:
    from typing import NoReturn

# Each command is a module of entry.commands, loaded only when it is called.
COMMANDS = {
    "check": "look at changed models, change nothing; exit 1 if a rule is broken",
    "fix": "shrink models in place, each only after its outputs were verified",
    "shrink": "shrink one model to a new file, without a policy or by its rule",
    "restore": "external data back into one file; --original: the model before it was shrunk",
    "embed": "write a model as a C array",
    "compare": "run two models side by side: outputs, size, parameters, latency",
    "samples": "write the inputs that would be made up for a model, to start from",
    "info": "what the bytes of a model are: tensors, types, duplicates",
    "files": "list every file that belongs to models: themselves and all their data",
    "init": "write a policy from the models found",
    "ratchet": "lower budgets to what the models weigh now; never raise one",
    "plan": "spread a run over several CI jobs",
    "merge": "make one report and one verdict of several JSON reports",
    "explain": "which rule holds for a model, why, and what would be done",
    "methods": "list the methods and their options",
    "schema": "print the JSON schema of the policy file",
    "cmake-dir": "print the folder of the CMake module",
    "demo": "see it work on a small bloated model in a scratch repository",
}


def run() -> NoReturn:
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """One call of the program. Everything it raises ends here."""
    return guarded(lambda: _dispatch(list(map(_named_like_an_option, arguments))), _complain)


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        sys.stdout.write(f"onnx-ci {__version__}\n")
        return 0
    name = arguments[0]
    if name not in COMMANDS:
        raise UsageError(*_unknown(name))
    import argparse

    module = importlib.import_module(f"onnx_ci.entry.commands.{name.replace('-', '_')}")
    parser = argparse.ArgumentParser(
        prog=f"onnx-ci {name}",
        description=COMMANDS[name],
        allow_abbrev=False,
        # A width of its own: asking for the terminal's loads shutil and five compressors.
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100),
    )
    module.add_arguments(parser)
    try:
        options = parser.parse_args(arguments[1:])
    except SystemExit as done:
        return int(done.code or 0)
    return int(module.run(options))


def _unknown(name: str) -> tuple[str]:
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, 1)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return (f"there is no command {name!r}{guess}\n  commands: {', '.join(COMMANDS)}",)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "onnx-ci keeps the ONNX models in a repository small and correct.",
            "",
            "usage: onnx-ci COMMAND [options]   (onnx-ci COMMAND --help tells more)",
            "",
            *lines,
            "",
            "exit: 0 all well, 1 a rule is broken, 2 usage or policy, 3 environment, 4 a bug in onnx-ci;",
            "130, 143, 129: stopped by Ctrl-C, SIGTERM, SIGHUP",
            "",
        ]
    )


def _complain(error: OnnxCiError) -> None:
    from onnx_ci.report.style import Style, complaint

    mark = Style.of(sys.stderr).paint("onnx-ci:", "red")
    try:
        sys.stderr.write(f"{mark} {complaint(error.message, error.hint)}\n")
        sys.stderr.flush()
    except OSError:
        # Nobody reads it any more; the exit code says as much.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _named_like_an_option(argument: str) -> str:
    """A hook passes file names as they are, `-x.onnx` too."""
    is_file = (
        argument.startswith("-") and argument.lower().endswith((".onnx", "data")) and Path(argument).exists()
    )
    return f"./{argument}" if is_file else argument
