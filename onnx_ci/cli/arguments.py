"""Small languages of the command line: methods, tolerances and budgets as text."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path

from onnx_ci.errors import EnvironmentFault, PolicyError, UsageError
from onnx_ci.methods.catalogue import METHODS, Catalogue, method
from onnx_ci.methods.options import kinds
from onnx_ci.policy.reader import is_release
from onnx_ci.policy.schema import MethodChoice, Scalar, Tolerance
from onnx_ci.util.scalars import FILE_NAME, NAMES, from_text
from onnx_ci.util.sizes import parse_size
from onnx_ci.util.text import did_you_mean

TYPE_CHECKING = False  # `typing` takes longer to load than this package; checkers see it all the same
if TYPE_CHECKING:
    from typing import Any

    from onnx_ci.results import Outcome, RunReport
    from onnx_ci.util.text import Style


EXAMPLE_TOLERANCE = "for example: --tolerance cosine=0.999,max_abs=1e-2"


def read_methods(text: str) -> tuple[MethodChoice, ...]:
    """`dedupe,int8-weights:min_elements=4096` as the policy would have it."""
    return tuple(_method(part.strip()) for part in text.split(",") if part.strip())


def _method(text: str) -> MethodChoice:
    name, *settings = text.split(":")
    names = [known.name for known in METHODS]
    if name not in names:
        raise UsageError(
            f"there is no method {name!r}, {did_you_mean(name, names)}", hint=f"methods: {', '.join(names)}"
        )
    options = _options(settings, name)
    try:
        method(name).read_options(options)
    except ValueError as error:
        raise UsageError(str(error), hint=f"for example: --methods {name}:min_elements=4096") from None
    return MethodChoice(name=name, options=options)


def _options(settings: list[str], name: str) -> dict[str, Scalar]:
    """Each option=value; one that takes a list is given several times, or its items are joined by `+`."""
    known = kinds(method(name).option_class)
    options: dict[str, Scalar] = {}
    for text in settings:
        key, separator, value = text.partition("=")
        if not separator:
            raise UsageError(f"{name}: expected option=value, found {text!r}")
        if known.get(key) is NAMES:
            earlier = options.get(key)
            options[key] = [*(earlier if isinstance(earlier, list) else []), *value.split("+")]
        else:
            options[key] = value if known.get(key) is FILE_NAME else from_text(value)
    return options


def read_tolerance(text: str) -> Tolerance:
    """`cosine=0.999,max_abs=1e-2,exact` as the policy would have it, checked by the policy's own rules."""
    known = [item.name for item in fields(Tolerance)]
    found: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, value = part.partition("=")
        if name not in known:
            raise UsageError(
                f"there is no tolerance {name!r}, {did_you_mean(name, known)}", hint=EXAMPLE_TOLERANCE
            )
        found[name] = value.strip() or "true"
    if not found:
        raise UsageError("the tolerance is empty", hint=EXAMPLE_TOLERANCE)
    return _by_the_policy(found)


def _by_the_policy(values: dict[str, str]) -> Tolerance:
    from onnx_ci.policy.load import parse_policy

    lines = "".join(f"      {name}: {value}\n" for name, value in values.items())
    policy = f"version: 1\nmodels:\n  - path: model.onnx\n    tolerance:\n{lines}"
    try:
        return parse_policy(policy, file="--tolerance", methods=Catalogue()).rules[0].tolerance
    except PolicyError as error:
        message = error.message.split(": ", 1)[1]
        raise UsageError(f"--tolerance: {message}", hint=EXAMPLE_TOLERANCE) from None


def read_runtimes(given: Iterable[str]) -> tuple[str, ...]:
    """Versions of onnxruntime, several joined by commas."""
    versions = [part.strip() for text in given for part in text.split(",") if part.strip()]
    for version in versions:
        if not is_release(version):
            raise UsageError(
                f"--runtime: {version!r} is not a version of onnxruntime",
                hint="for example: --runtime 1.20,1.23.2",
            )
    return tuple(dict.fromkeys(versions))


def read_libraries(given: Iterable[str]) -> tuple[str, ...]:
    """Shared libraries with custom operators, which have to be there."""
    files = tuple(map(str, given))
    for file in files:
        if not Path(file).is_file():
            raise UsageError(
                f"--library: there is no file {file!r}", hint="for example: --library ops/libmyops.so"
            )
    return files


def read_samples(given: Iterable[str]) -> tuple[str, ...]:
    """Files, folders and patterns, of which each has to be there or match."""
    samples = tuple(given)
    for sample in samples:
        path = Path(sample).absolute()
        top = Path(path.anchor)
        if not path.exists() and not any(top.glob(str(path.relative_to(top)))):
            raise UsageError(
                f"--samples: there is no file {sample!r}", hint="for example: --samples inputs/sample.npz"
            )
    return samples


def read_budget(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"--budget: {error}", hint="for example: --budget 25MB") from None


def read_dims(text: str) -> dict[str, int]:
    """`batch=1,sequence=64` as the policy would have it."""
    found = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, size = part.rpartition("=")
        if not name or not size.isdecimal() or len(size) > 9:
            raise UsageError(
                f"--dims: expected NAME=SIZE, found {part!r}", hint="for example: --dims batch=1"
            )
        found[name] = int(size)
    return found


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
