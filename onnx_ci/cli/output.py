"""What commands share: options, the files they are given, and writing reports in the formats asked for."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from onnx_ci.errors import EnvironmentFault, UsageError
from onnx_ci.util.scalars import whole
from onnx_ci.util.text import Style, one_line

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from typing import Any, Literal

    from onnx_ci.results import Outcome, RunReport

    Argument = tuple[str, dict[str, Any]]  # of a command: its name, and how argparse reads it
    Arguments = Sequence[str | Argument | list[Argument]]
    Verbosity = Literal["quiet", "usual", "verbose"]


FORMATS = ("text", "json", "github", "markdown", "sarif", "junit", "gitlab", "html")


ENDINGS = {
    ".txt": "text",
    ".json": "json",
    ".md": "markdown",
    ".sarif": "sarif",
    ".xml": "junit",
    ".html": "html",
    ".htm": "html",
    ".svg": "svg",
}
_SHOWN = ("text", "")  # beside files whose format follows from their name


class FormatAction(argparse.Action):
    """`--format F --output P --format G`: each output belongs to the format before it. One that has none
    before it gets that of its ending, and what is shown otherwise is shown all the same."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        formats = list(namespace.formats)
        if option_string == "--format":
            formats = [*(each for each in formats if each is not _SHOWN), (values, "")]
        elif formats and formats[-1] is not _SHOWN and not formats[-1][1]:
            formats[-1] = (formats[-1][0], values)
        else:
            name = ENDINGS.get(Path(values).suffix.lower(), "")
            if name not in (parser._option_string_actions["--format"].choices or ()):
                parser.error(f"--output {values}: its ending is that of no report; give --format before it")
            formats += [(name, values)] if formats else [_SHOWN, (name, values)]
        namespace.formats = formats


def flag(name: str, summary: str, **settings: Any) -> Argument:
    return name, {"action": "store_true", "help": summary, **settings}


def value(usage: str, summary: str, **settings: Any) -> Argument:
    """`usage` is its name and what its value is called: "--policy FILE"."""
    name, _, metavar = usage.partition(" ")
    return name, {"metavar": metavar, "help": summary, **settings}


def format_arguments(*names: str) -> tuple[Argument, Argument]:
    settings = {"action": FormatAction, "dest": "formats", "default": []}
    return (
        ("--format", {"choices": names, "help": "report format; may be given several times", **settings}),
        value(
            "--output P", "file for the --format before it; without one, by its ending: r.html", **settings
        ),
    )


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return what reads the value of an option that is a whole number within bounds."""
    number = whole(least, most)

    def read(text: str) -> int:
        if not text.isdecimal() or len(text) > 18 or not number.fits(int(text)):
            raise argparse.ArgumentTypeError(f"expected {number.expected}, found {text!r}")
        return int(text)

    return read


def _verbosity(what: Verbosity) -> dict[str, Any]:
    return {"dest": "verbosity", "action": "store_const", "const": what, "default": "usual"}


_MANY = {"action": "append", "default": []}
# Arguments that several commands take.
SHARED = dict(
    (
        value("paths PATH", "models, their data files, or folders", nargs="*"),
        value("--policy FILE", "policy file (default: .onnx-ci.yaml, found upward)"),
        value(
            "--runtime V",
            "verify in these versions of onnxruntime as well, each installed for itself: 1.20,1.23.2",
            **_MANY,
        ),
        value(
            "--library F",
            "a shared library with the custom operators of the model; it is loaded, so trust it",
            **_MANY,
        ),
        value("--samples F", "inputs: .npz, .npy, folders", **_MANY),
        value("--dims D", "sizes of symbolic dims: batch=1,sequence=64"),
        value("--tolerance T", "cosine=0.999,max_abs=1e-2 (default: cosine=0.999)"),
        *format_arguments(*FORMATS),
        flag("-q/--quiet", "print nothing where all is well, and no progress", **_verbosity("quiet")),
        flag(
            "-v/--verbose",
            "print what is being done, a line each, on standard error",
            **_verbosity("verbose"),
        ),
        value(
            "--markdown-limit N",
            "bytes of --format markdown at most: less important parts are left out"
            " (default: %(default)s, what a comment takes; a job summary takes 1048576)",
            type=whole_number(1_000),
            default=65_536,
        ),
        flag(
            "--no-cache",
            "work on every model, also on those whose outcome is known from an earlier run",
            dest="cache",
            action="store_false",
        ),
    )
)
REPORT = ("--format", "--output", "--markdown-limit", "-q/--quiet", "-v/--verbose")


def add_arguments(parser: argparse._ActionsContainer, arguments: Arguments) -> None:
    """Those that several commands take are given by name; of those in a list one may be given."""
    for argument in arguments:
        if isinstance(argument, list):
            add_arguments(parser.add_mutually_exclusive_group(), argument)
            continue
        name, settings = (argument, SHARED[argument]) if isinstance(argument, str) else argument
        parser.add_argument(*name.split("/"), **settings)


def existing_path(name: str, usage: str, is_there: Callable[[Path], bool] = Path.exists) -> Path:
    """Return the path of a file that a command was given; `usage` is how the command is called."""
    path = Path(name)
    if not is_there(path):
        raise UsageError(f"there is no file {name!r}", hint=f"usage: onnx-ci {usage}")
    return path


def shown_formats(options: argparse.Namespace, *, well: bool) -> Sequence[Sequence[str]]:
    """What to write: text where nothing was said, unless all is well and nobody wants to hear that."""
    formats = options.formats or [_SHOWN]
    if well and options.verbosity == "quiet":
        return [each for each in formats if each is not _SHOWN]
    return formats


def write_run(report: RunReport, options: argparse.Namespace) -> None:
    warned = any(finding.severity != "note" for finding in report.all_findings)
    if formats := shown_formats(options, well=not report.exit_code and not warned):
        write_each(formats, lambda name, style: rendered_run(report, name, style, options))


def write_outcome(outcome: Outcome, options: argparse.Namespace, *, title: str) -> None:
    """Write the report on one model without a policy; formats made for a run show it as a run of one."""
    import importlib

    from onnx_ci.results import RunReport

    def rendered(name: str, style: Style) -> str:
        if name not in ("text", "json", "html"):
            return rendered_run(RunReport(command="shrink", outcomes=(outcome,)), name, style, options)
        render = importlib.import_module(f"onnx_ci.report.{name}").render_outcome
        more: dict[str, dict[str, Any]] = {"text": {"style": style, "title": title}, "html": {"title": title}}
        return str(render(outcome, **more.get(name, {})))

    if formats := shown_formats(options, well=not outcome.errors):
        write_each(formats, rendered)


def rendered_run(report: RunReport, name: str, style: Style, options: argparse.Namespace) -> str:
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
    for name, target in formats or [_SHOWN]:
        style = Style() if target else Style.of(sys.stdout)
        content = rendered(name, style)
        write_to(_in_ascii(content) if name == "text" and not target else content, target)


def _in_ascii(content: str) -> str:
    """The same for a terminal that takes no Unicode; others get it as it is."""
    if "utf" in (getattr(sys.stdout, "encoding", None) or "utf-8").lower():
        return content
    plain = content.replace("…", "...").replace("×", "x")  # noqa: RUF001
    return plain.encode("ascii", "backslashreplace").decode()


def dumps(document: dict[str, Any]) -> str:
    """What a command puts out as JSON. Commands that put out none need not load what reports are made of."""
    from onnx_ci.report import json

    return json.dumps(document)


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


BAR = 12  # letters
QUIET_SECONDS = 0.5  # short work needs no bar
LINE_SECONDS = 15.0  # in a log, a line as often
DRAWN_SECONDS = 0.1
# Below the line of the hook, which its runner is still to end: scroll if need be, remember where we are, and
# go back there.
_BELOW = "\x1bD\x1b[A\x1b7\r\n\x1b[K%s\x1b8"


class ProgressLine:
    """Says on standard error what is being done: on a terminal in a line that leaves no trace, in a log in
    lines, few of them unless it is to be `verbose`."""

    def __init__(self, verbosity: Verbosity = "usual", *, hook: bool = False) -> None:
        import threading

        self.verbosity = verbosity
        self.began = self.last = time.monotonic()
        self.lock = threading.Lock()
        self.drawn = False
        self.ended = threading.Event()
        self.told = ("", "")
        self.stream = sys.stderr
        self.drawing = "\r\x1b[K%s"
        self.is_terminal = self.stream.isatty() and verbosity != "verbose"
        if hook and verbosity == "usual":
            self._find_terminal()

    def _find_terminal(self) -> None:
        """Runners of hooks show what a hook says when it has ended, and may pose as a terminal until then;
        whoever waits is at the real one."""
        try:
            self.stream = open("/dev/tty", "w", encoding="utf-8")  # noqa: SIM115, PTH123 - until the end
        except OSError:  # none, as in CI
            return
        self.is_terminal, self.drawing = True, _BELOW

    def of_one(self, name: str) -> Callable[[str], None]:
        """Return what tells of the work on a single model, which may say nothing for long: time goes on."""

        def tick() -> None:
            while not self.ended.wait(1.0):
                if self.told[1]:
                    self(0, 1, *self.told)

        if self.verbosity != "quiet":
            import threading

            threading.Thread(target=tick, daemon=True).start()
        return lambda doing: self(0, 1, name, doing)

    def __call__(self, done: int, total: int, name: str, doing: str) -> None:
        with self.lock:
            if self.verbosity == "quiet" or self.ended.is_set():
                return
            now = time.monotonic()
            elapsed, since = now - self.began, now - self.last
            news = (name, doing) != self.told
            self.told = name, doing
            if self.is_terminal:
                if elapsed > QUIET_SECONDS and since > DRAWN_SECONDS:
                    self._draw(done, total, elapsed, one_line(name), one_line(doing))
                    self.last = now
            elif (self.verbosity == "verbose" and news) or since > LINE_SECONDS:
                count = f"{done}/{total}, " if total > 1 else ""
                said = f"{one_line(name)}: {one_line(doing)} ({count}{_times(done, total, elapsed)})"
                self.stream.write(f"onnx-ci: {said}\n")
                self.stream.flush()
                self.last = now

    def _draw(self, done: int, total: int, elapsed: float, name: str, doing: str) -> None:
        """Of a name the end tells most."""
        filled = BAR * done // max(total, 1)
        bar = f"[{'#' * filled}{'-' * (BAR - filled)}] {done}/{total} " if total > 1 else ""
        columns = _columns(self.stream) - 1
        line = f"{bar}{_times(done, total, elapsed)}  "
        room = max(16, columns - len(f"{line}: {doing}"))
        line += f"{name if len(name) <= room else f'…{name[1 - room :]}'}: {doing}"
        self._write(line if len(line) <= columns else f"{line[: columns - 1]}…")
        self.drawn = True

    def _write(self, line: str) -> None:
        try:
            self.stream.write(self.drawing % line)
            self.stream.flush()
        except (OSError, ValueError):  # the terminal has gone: nobody watches any more
            self.verbosity = "quiet"

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.ended.set()
        if self.drawn:
            self._write("")
        if self.stream is not sys.stderr:
            self.stream.close()


def _columns(stream: Any) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _times(done: int, total: int, elapsed: float) -> str:
    """How long it took so far; how long it may take, once that can be guessed."""
    if not 0 < done < total:
        return _clock(elapsed)
    return f"{_clock(elapsed)}, about {_clock(elapsed / done * (total - done))} left"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
