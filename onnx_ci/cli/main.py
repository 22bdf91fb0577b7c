"""The command line: finds the command, runs it, and turns whatever happens into an exit code."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence

from onnx_ci.errors import OnnxCiError, UsageError
from onnx_ci.version import __version__

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    Complain = Callable[[OnnxCiError], None]
    import argparse
    from typing import NoReturn


def _stopped_by_signals(work: Callable[[], int]) -> int:
    """Do some work, and let SIGTERM and SIGHUP end it as Ctrl-C does; where they are ignored, as under nohup,
    they stay so."""

    def stop(number: int, _: object) -> None:
        for each in ours:  # once is enough: cleaning up is not to be cut short
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    threading = sys.modules.get("threading")  # until somebody loads it, there is one thread
    if threading and threading.current_thread() is not threading.main_thread():
        numbers = []  # only the main thread may
    ours = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop)
    try:
        return work()
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def guarded(work: Callable[[], int], complain: Complain) -> int:
    """Run something; everything it raises ends here."""
    _open_closed_streams()
    try:
        return _stopped_by_signals(work)
    except OnnxCiError as error:
        complain(error)
        return error.exit_code
    except KeyboardInterrupt as stop:
        complain(OnnxCiError("interrupted; no model was left half written"))
        number = stop.args[0] if stop.args else signal.SIGINT
        return 128 + int(number)
    except BrokenPipeError:
        # Whoever read our output has seen enough; only commands that look and judge nothing end here.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        hint = "check the disk, the folder and its permissions"
        complain(OnnxCiError(f"{error.strerror or error}{where}", hint=hint))
        return 3
    except Exception as error:  # noqa: BLE001 - the one place: a bug of ours must not look like a verdict
        from onnx_ci.util.files import keep_traceback

        message, hint = keep_traceback(error)
        complain(OnnxCiError(f"{message}; the run ended there", hint=hint))
        return 4


def _open_closed_streams() -> None:
    """Whoever started us may have closed them (`2>&-`). Nothing else may get their numbers: what a process of
    ours prints would go there."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(nowhere, True)
            setattr(sys, name, os.fdopen(nowhere, "r" if name == "stdin" else "w", encoding="utf-8"))


# Each command with the module that has it, which is loaded when the command is called, and what it does.
COMMANDS = {
    "check": ("check", "look at changed models, change nothing; exit 1 if a rule is broken"),
    "fix": ("check", "shrink models in place, each only after its outputs were verified"),
    "shrink": ("shrink", "shrink one model to a new file, without a policy or by its rule"),
    "restore": ("convert", "external data back into one file; --original: the model before it was shrunk"),
    "embed": ("convert", "write a model as a C array"),
    "compare": ("compare", "run two models or more side by side: outputs, size, parameters, latency"),
    "record": ("record", "run a program and keep what it feeds to its models, as samples for their rules"),
    "samples": ("compare", "write inputs for a model: made up, or from pictures, sound or text"),
    "info": ("inspect", "what the bytes of a model are: tensors, types, duplicates"),
    "diff": ("inspect", "what changed between two models, without running them"),
    "log": ("inspect", "the sizes of a model, or of all, over the history in git"),
    "badge": ("inspect", "a badge with the size of a model, or of all"),
    "files": ("inspect", "list every file that belongs to models: themselves and all their data"),
    "init": ("policy", "write a policy from the models found"),
    "survey": ("inspect", "what could be saved of each model: exact, fp16, int8, smallest; changes nothing"),
    "ratchet": ("policy", "lower budgets to what the models weigh now; never raise one"),
    "plan": ("check", "spread a run over several CI jobs"),
    "merge": ("check", "make one report and one verdict of several JSON reports"),
    "explain": ("inspect", "which rule holds for a model, why, and what would be done"),
    "methods": ("policy", "list the methods and their options"),
    "schema": ("policy", "print the JSON schema of the policy file, or of a report"),
    "cmake-dir": ("convert", "print the folder of the CMake module"),
    "completion": ("completion", "print a script that completes commands and options in your shell"),
    "demo": ("demo", "see it work on a small bloated model in a scratch repository"),
}
PAGES = "https://github.com/onnx-ci/onnx-ci/blob/main/"
README = "README.md"
# Where more is said about commands, if not there.
SUBJECTS = {
    "docs/git.md": ("check", "fix", "ratchet"),
    "docs/git.md#originals": ("restore",),
    "docs/build.md": ("shrink", "embed", "cmake-dir"),
    "docs/verification.md": ("compare", "samples"),
    "docs/verification.md#record-real-inputs": ("record",),
    "docs/reports.md": ("info",),
    "docs/reports.md#what-changed-between-two-models": ("diff",),
    "docs/reports.md#history": ("log", "badge"),
    "docs/policy.md": ("init", "explain", "schema"),
    "docs/policy.md#methods-and-shrink": ("survey",),
    "docs/ci.md#several-jobs-one-verdict": ("plan", "merge"),
    "docs/methods.md": ("methods",),
}


def run() -> NoReturn:
    # Modules and models are many objects and few cycles: looking for those takes a tenth of a start.
    gc.set_threshold(50_000)
    if sys.argv[1:2] != ["record"]:  # which runs a program of the user's
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # models are judged side by side, not within one
    code = main(sys.argv[1:])
    # Nobody asked to be called at the end, and taking all modules apart is a sixth of an idle run.
    if "atexit" not in sys.modules:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        except OSError:
            pass
    sys.exit(code)


def main(arguments: Sequence[str]) -> int:
    """One call of the program. Everything it raises ends here."""
    return guarded(lambda: _dispatch(_file_names(arguments)), _complain)


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        sys.stdout.write(f"onnx-ci {__version__}\n")
        return 0
    name = arguments[0]
    if name not in COMMANDS:
        from onnx_ci.util.text import nearest

        likely = nearest(name, COMMANDS)
        guess = f"; did you mean {likely!r}?" if likely else ""
        raise UsageError(f"there is no command {name!r}{guess}\n  commands: {', '.join(COMMANDS)}")
    parser = command_parser(name)
    _check_options(parser, arguments[1:])
    try:
        options = parser.parse_args(arguments[1:])
    except SystemExit as done:
        return int(done.code or 0)
    module = importlib.import_module(f"onnx_ci.cli.{COMMANDS[name][0]}")
    run_command = getattr(module, f"run_{name.replace('-', '_')}")
    return int(run_command(options))


def command_parser(name: str) -> argparse.ArgumentParser:
    """Return what reads the arguments of a command, and tells of them."""
    import argparse

    from onnx_ci.cli.output import add_arguments

    module_name, summary = COMMANDS[name]
    module = importlib.import_module(f"onnx_ci.cli.{module_name}")
    examples = getattr(module, "EXAMPLES", {}).get(name, "")
    page = next((page for page, commands in SUBJECTS.items() if name in commands), README)
    lines = ["examples:", *(f"  {line}" for line in examples.splitlines())] if examples else []
    parser = argparse.ArgumentParser(
        prog=f"onnx-ci {name}",
        description=summary,
        epilog="\n".join([*lines, f"more: {PAGES}{page}"]),
        allow_abbrev=False,
        # A width of its own: asking for the terminal's loads shutil and five compressors.
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=100),
    )
    parser.set_defaults(command=name)
    add_arguments(parser, module.ARGUMENTS.get(name, ()))
    return parser


def _check_options(parser: argparse.ArgumentParser, arguments: list[str]) -> None:
    """Name the option that was likely meant; argparse only says that there is none such."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    known = parser._option_string_actions
    for argument in arguments[:end]:
        option = argument.partition("=")[0]
        if not option.startswith("--") or option in known or " " in option:
            continue
        from onnx_ci.util.text import nearest

        likely = nearest(option[2:], (name[2:] for name in known if name.startswith("--")))
        guess = f", did you mean '--{likely}'?" if likely else ""
        hint = f"run: {parser.prog} --help"
        if any(action.dest == "program" for action in parser._actions):
            hint = f"if it is an option of the program: {parser.prog} -- COMMAND {option}"
        raise UsageError(f"{parser.prog} has no option {option!r}{guess}", hint=hint)


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "".join(f"  {name:<{width}}  {summary}\n" for name, (_, summary) in COMMANDS.items())
    return f"""\
onnx-ci keeps the ONNX models in a repository small and correct.

usage: onnx-ci COMMAND [options]   (onnx-ci COMMAND --help tells more)

{commands}
examples:
  onnx-ci demo                             see it work, in a folder of its own
  onnx-ci init && onnx-ci check --all      a first policy, and where you stand
  onnx-ci fix --all                        shrink what can be shrunk, each model verified
  onnx-ci shrink in.onnx out.onnx          one model, without a policy

exit: 0 all well, 1 a rule is broken, 2 usage or policy, 3 environment, 4 a bug in onnx-ci;
130, 143, 129: stopped by Ctrl-C, SIGTERM, SIGHUP
more: {PAGES}{README}
"""


def _complain(error: OnnxCiError) -> None:
    from onnx_ci.util.text import Style, complaint

    mark = Style.of(sys.stderr).paint("onnx-ci:", "red")
    try:
        sys.stderr.write(f"{mark} {complaint(error.message, error.hint)}\n")
        sys.stderr.flush()
    except OSError:
        # Nobody reads it any more; the exit code says as much.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _file_names(arguments: Sequence[str]) -> list[str]:
    """Keep names of files from being taken for options: a hook is given its options, then names as they are,
    such as `-x.onnx` or `--policy=lax.bin`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    hook = "--hook" in arguments[:end]
    return [*(_file_name(each, hook) for each in arguments[:end]), *arguments[end:]]


def _file_name(argument: str, hook: bool) -> str:
    if not argument.startswith("-"):
        return argument
    from onnx_ci.model.locations import DATA_ENDINGS

    endings = (".onnx", *DATA_ENDINGS, ".dvc") if hook else (".onnx", "data")
    there = os.path.lexists(argument)
    if argument.lower().endswith(endings) and (hook or there):
        return f"./{argument}"
    if there and hook:  # of the two it may be, either could be meant to get round the other
        message = f"{argument!r} is a file here, and would be taken for an option of the hook"
        raise UsageError(message, hint="rename the file: its name must not begin with '-'")
    return argument
