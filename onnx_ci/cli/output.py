"""Reports of a command: the formats that were asked for, each to where it was asked for."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from onnx_ci.errors import EnvironmentFault

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from typing import Any

    from onnx_ci.results import Outcome, RunReport
    from onnx_ci.util.text import Style


FORMATS = ("text", "json", "github", "markdown", "sarif", "junit", "gitlab", "html")
PLAIN = ("text", "json", "html")  # where there are no findings to show elsewhere


class FormatAction(argparse.Action):
    """`--format F --output P --format G`: each output belongs to the format before it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        chosen: list[list[str]] = list(getattr(namespace, "formats", None) or [])
        if option_string == "--format":
            chosen.append([str(values), ""])
        elif chosen:
            chosen[-1] = [chosen[-1][0], str(values)]
        else:
            parser.error("--output belongs after the --format it is for")
        namespace.formats = chosen


def add_format_arguments(parser: argparse.ArgumentParser, formats: Sequence[str] = FORMATS) -> None:
    parser.set_defaults(formats=[])
    parser.add_argument(
        "--format", action=FormatAction, choices=formats, help="report format; may be given several times"
    )
    parser.add_argument("--output", action=FormatAction, metavar="P", help="file for the --format before it")
    if "markdown" in formats:
        parser.add_argument(
            "--markdown-limit",
            type=_length,
            default=65_536,
            metavar="N",
            help="bytes of --format markdown at most: less important parts are left out"
            " (default: %(default)s, what a comment takes; a job summary takes 1048576)",
        )


def _length(text: str) -> int:
    if not text.isdigit() or int(text) < 1_000:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1000, found {text!r}")
    return int(text)


def add_cache_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-cache",
        dest="cache",
        action="store_false",
        help="work on every model, also on those whose outcome is known from an earlier run",
    )


def add_runtime_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runtime",
        dest="runtimes",
        action="append",
        default=[],
        metavar="V",
        help="verify in these versions of onnxruntime as well, each installed for itself: 1.20,1.23.2",
    )


def add_library_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--library",
        dest="libraries",
        action="append",
        default=[],
        metavar="F",
        help="a shared library with the custom operators of the model; it is loaded, so trust it",
    )


def write_run(report: RunReport, options: argparse.Namespace) -> None:
    def text(style: Style) -> str:
        from onnx_ci.report.text import render_run

        return render_run(report, style)

    write_each(options.formats, text, **_renderers(report, options))


def write_outcome(outcome: Outcome, options: argparse.Namespace, *, title: str) -> None:
    """One model without a policy: what is made for a run shows it as a run of one."""
    from onnx_ci.results import RunReport

    def json() -> str:
        from onnx_ci.report.json import render_outcome

        return render_outcome(outcome)

    def html() -> str:
        from onnx_ci.report.html import render_outcome

        return render_outcome(outcome, title=title)

    def text(style: Style) -> str:
        from onnx_ci.report.text import render_outcome

        return render_outcome(outcome, style, title=title)

    alone = RunReport(command="shrink", outcomes=(outcome,))
    write_each(options.formats, text, **{**_renderers(alone, options), "json": json, "html": html})


def _renderers(report: RunReport, options: argparse.Namespace) -> dict[str, Callable[[], str]]:
    """Each format is a module of report, loaded when it is asked for."""

    def rendered(name: str) -> str:
        import importlib

        if name in ("github", "gitlab", "junit"):
            render = getattr(importlib.import_module("onnx_ci.report.annotations"), f"render_{name}")
        else:
            render = importlib.import_module(f"onnx_ci.report.{name}").render_run
        return str(render(report, options.markdown_limit) if name == "markdown" else render(report))

    return {name: partial(rendered, name) for name in FORMATS if name != "text"}


def write_each(
    formats: Sequence[Sequence[str]], text: Callable[[Style], str], **others: Callable[[], str]
) -> None:
    """Every format that was asked for, to where it was asked for; text where nothing was said."""
    from onnx_ci.util.text import Style

    for name, target in formats or [("text", "")]:
        style = Style() if target else Style.of(sys.stdout)
        write_to(others[name]() if name in others else text(style), target)


def _print(content: str) -> None:
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(content.encode(errors="backslashreplace"))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough; the verdict stands all the same.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_to(content: str, target: str) -> None:
    """To a file, or to standard output where none is named. Paths may hold bytes that are no text."""
    if not target:
        _print(content)
        return
    try:
        Path(target).write_text(content, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise EnvironmentFault(
            f"the report could not be written to {target!r}: {error.strerror}", hint="check the folder"
        ) from None
