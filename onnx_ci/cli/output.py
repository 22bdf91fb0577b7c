"""What commands share: options, the files they are given, and writing reports in the formats asked for."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from onnx_ci.errors import EnvironmentFault, UsageError
from onnx_ci.util.scalars import whole
from onnx_ci.util.text import Style, one_line

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from typing import Any

    from onnx_ci.results import Outcome, RunReport

    Argument = tuple[str, dict[str, Any]]  # of a command: its name, and how argparse reads it
    Arguments = Sequence[str | Argument | list[Argument]]


FORMATS = ("text", "json", "github", "markdown", "sarif", "junit", "gitlab", "html")


class FormatAction(argparse.Action):
    """`--format F --output P --format G`: each output belongs to the format before it."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        formats = list(namespace.formats)
        if option_string == "--format":
            formats.append((values, ""))
        elif formats:
            formats[-1] = (formats[-1][0], values)
        else:
            parser.error("--output belongs after the --format it is for")
        namespace.formats = formats


def flag(name: str, summary: str) -> Argument:
    return name, {"action": "store_true", "help": summary}


def value(name: str, metavar: str, summary: str, **settings: Any) -> Argument:
    return name, {"metavar": metavar, "help": summary, **settings}


def format_arguments(*names: str) -> tuple[Argument, Argument]:
    settings = {"action": FormatAction, "dest": "formats", "default": []}
    return (
        ("--format", {"choices": names, "help": "report format; may be given several times", **settings}),
        value("--output", "P", "file for the --format before it", **settings),
    )


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return what reads the value of an option that is a whole number within bounds."""
    number = whole(least, most)

    def read(text: str) -> int:
        if not text.isdecimal() or len(text) > 18 or not number.fits(int(text)):
            raise argparse.ArgumentTypeError(f"expected {number.expected}, found {text!r}")
        return int(text)

    return read


_MANY = {"action": "append", "default": []}
# Arguments that several commands take.
SHARED = dict(
    (
        value("paths", "PATH", "models, their data files, or folders", nargs="*"),
        value("--policy", "FILE", "policy file (default: .onnx-ci.yaml, found upward)"),
        value(
            "--runtime",
            "V",
            "verify in these versions of onnxruntime as well, each installed for itself: 1.20,1.23.2",
            **_MANY,
        ),
        value(
            "--library",
            "F",
            "a shared library with the custom operators of the model; it is loaded, so trust it",
            **_MANY,
        ),
        value("--samples", "F", "inputs: .npz, .npy, folders", **_MANY),
        value("--dims", "D", "sizes of symbolic dims: batch=1,sequence=64"),
        value("--tolerance", "T", "cosine=0.999,max_abs=1e-2 (default: cosine=0.999)"),
        *format_arguments(*FORMATS),
        value(
            "--markdown-limit",
            "N",
            "bytes of --format markdown at most: less important parts are left out"
            " (default: %(default)s, what a comment takes; a job summary takes 1048576)",
            type=whole_number(1_000),
            default=65_536,
        ),
        (
            "--no-cache",
            {
                "dest": "cache",
                "action": "store_false",
                "help": "work on every model, also on those whose outcome is known from an earlier run",
            },
        ),
    )
)
REPORT = ("--format", "--output", "--markdown-limit")


def add_arguments(parser: argparse._ActionsContainer, arguments: Arguments) -> None:
    """Those that several commands take are given by name; of those in a list one may be given."""
    for argument in arguments:
        if isinstance(argument, list):
            add_arguments(parser.add_mutually_exclusive_group(), argument)
            continue
        name, settings = (argument, SHARED[argument]) if isinstance(argument, str) else argument
        parser.add_argument(name, **settings)


def existing_path(name: str, usage: str, is_there: Callable[[Path], bool] = Path.exists) -> Path:
    """Return the path of a file that a command was given; `usage` is how the command is called."""
    path = Path(name)
    if not is_there(path):
        raise UsageError(f"there is no file {name!r}", hint=f"usage: onnx-ci {usage}")
    return path


def write_run(report: RunReport, options: argparse.Namespace) -> None:
    write_each(options.formats, lambda name, style: _rendered(report, name, style, options))


def write_outcome(outcome: Outcome, options: argparse.Namespace, *, title: str) -> None:
    """Write the report on one model without a policy; formats made for a run show it as a run of one."""
    from onnx_ci.results import RunReport

    def rendered(name: str, style: Style) -> str:
        if name == "text":
            from onnx_ci.report import text

            return text.render_outcome(outcome, style, title=title)
        if name == "json":
            from onnx_ci.report import json

            return json.render_outcome(outcome)
        if name == "html":
            from onnx_ci.report import html

            return html.render_outcome(outcome, title=title)
        return _rendered(RunReport(command="shrink", outcomes=(outcome,)), name, style, options)

    write_each(options.formats, rendered)


def _rendered(report: RunReport, name: str, style: Style, options: argparse.Namespace) -> str:
    """Load the module of a format when it is asked for."""
    import importlib

    if name in ("github", "gitlab", "junit"):
        render = getattr(importlib.import_module("onnx_ci.report.annotations"), f"render_{name}")
    else:
        render = importlib.import_module(f"onnx_ci.report.{name}").render_run
    more = {"text": (style,), "markdown": (options.markdown_limit,)}
    return str(render(report, *more.get(name, ())))


def write_each(formats: Sequence[Sequence[str]], rendered: Callable[[str, Style], str]) -> None:
    """Write every format that was asked for to where it was asked for; text where nothing was said."""
    for name, target in formats or [("text", "")]:
        style = Style() if target else Style.of(sys.stdout)
        content = rendered(name, style)
        write_to(_in_ascii(content) if name == "text" and not target else content, target)


def _in_ascii(content: str) -> str:
    """The same for a terminal that takes no Unicode; others get it as it is."""
    if "utf" in (getattr(sys.stdout, "encoding", None) or "utf-8").lower():
        return content
    plain = content.replace("…", "...").replace("×", "x")  # noqa: RUF001
    return plain.encode("ascii", "backslashreplace").decode()


def write_to(content: str, target: str) -> None:
    """To a file, or to standard output where none is named. Paths may hold bytes that are no text."""
    if not target:
        _print(content)
        return
    try:
        Path(target).write_text(content, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        message = f"the report could not be written to {target!r}: {error.strerror}"
        raise EnvironmentFault(message, hint="check the folder") from None


def _print(content: str) -> None:
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(content.encode(errors="backslashreplace"))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough; the verdict stands all the same.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


WIDTH = 20  # of the bar
QUIET_SECONDS = 0.5  # short work needs no bar


class ProgressLine:
    """Shows on standard error what is being done, while a person watches; leaves no trace."""

    def __init__(self) -> None:
        self.enabled = sys.stderr.isatty()
        self.began = time.monotonic()
        self.lock = threading.Lock()
        self.drawn = False

    def __call__(self, done: int, total: int, name: str, doing: str) -> None:
        if not self.enabled or time.monotonic() - self.began < QUIET_SECONDS:
            return
        filled = WIDTH * done // max(total, 1)
        bar = "#" * filled + "-" * (WIDTH - filled)
        with self.lock:
            sys.stderr.write(f"\r\x1b[K[{bar}] {done}/{total} {one_line(name)}: {one_line(doing)}"[:200])
            sys.stderr.flush()
            self.drawn = True

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self.drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
