"""`onnx-ci shrink`: one model to a new file, without a policy, or by the rule that one has for it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from onnx_ci.entry.arguments import (
    read_budget,
    read_dims,
    read_libraries,
    read_methods,
    read_runtimes,
    read_samples,
    read_tolerance,
)
from onnx_ci.entry.output import (
    add_cache_argument,
    add_format_arguments,
    add_library_argument,
    add_runtime_argument,
    write_outcome,
    write_run,
)
from onnx_ci.errors import OnnxCiError, UsageError
from onnx_ci.model.hashing import BackgroundHash
from onnx_ci.policy.schema import DEFAULT_TOLERANCE, PLAN_SECONDS
from onnx_ci.request import Request
from onnx_ci.results import Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="IN", help="the model to shrink; it is left as it is")
    parser.add_argument("target", metavar="OUT", help="the file to write")
    parser.add_argument(
        "--policy",
        metavar="FILE",
        help="do what its rule for IN says, as a build does, and copy IN if it is right",
    )
    parser.add_argument(
        "--depfile", metavar="FILE", help="write which files OUT was made from, for Make, Ninja and CMake"
    )
    parser.add_argument(
        "--methods",
        default="",
        metavar="a,b",
        help="methods, mildest first, options after colons: dedupe,int8-weights:min_elements=4096"
        " (default: the exact ones; with --budget those that encode weights too)",
    )
    parser.add_argument("--budget", metavar="SIZE", help="no more loss than this size needs: 25MB")
    parser.add_argument("--tolerance", metavar="T", help="cosine=0.999,max_abs=1e-2 (default: cosine=0.999)")
    parser.add_argument(
        "--samples", action="append", default=[], metavar="F", help="inputs: .npz, .npy, folders"
    )
    parser.add_argument("--dims", metavar="D", help="sizes of symbolic dims: batch=1,sequence=64")
    parser.add_argument(
        "--plan-seconds",
        type=_seconds,
        default=PLAN_SECONDS,
        metavar="S",
        help="how long to search for the best mix, tensor by tensor (default: %(default)g; 0: not at all)",
    )
    add_library_argument(parser)
    add_runtime_argument(parser)
    parser.add_argument("--no-verify", action="store_true", help="write without running the models")
    add_cache_argument(parser)
    add_format_arguments(parser)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds from 0, found {text!r}")
    return seconds


def run(options: argparse.Namespace) -> int:
    source, target = Path(options.source), Path(options.target)
    if not source.exists():
        raise UsageError(f"there is no file {options.source!r}", hint="usage: onnx-ci shrink IN OUT")
    _check_other_files(options, source, target)
    return _by_rule(options, source, target) if options.policy else _as_asked(options, source, target)


def _check_other_files(options: argparse.Namespace, source: Path, target: Path) -> None:
    """Before any work is done, and before OUT is there: a build takes an OUT without depfile for current."""
    written = {f"--format {name} --output": Path(output) for name, output in options.formats if output}
    if options.depfile:
        from onnx_ci.entry.depfile import check_depfile

        written["--depfile"] = Path(options.depfile)
        check_depfile(Path(options.depfile), options.target, source)
    if written or options.policy:
        from onnx_ci.entry.distinct import refuse_same

        refuse_same(written, source, target, Path(options.policy) if options.policy else None)


def _as_asked(options: argparse.Namespace, source: Path, target: Path) -> int:
    if options.no_verify and options.runtimes:
        told = "--no-verify and --runtime can't be given together: nothing would be run in them"
        raise UsageError(told, hint="leave one of them out")
    request = Request(
        source=source,
        target=target,
        methods=read_methods(options.methods),
        budget=read_budget(options.budget) if options.budget else None,
        tolerance=read_tolerance(options.tolerance) if options.tolerance else DEFAULT_TOLERANCE,
        samples=read_samples(options.samples),
        dims=read_dims(options.dims or ""),
        verify=not options.no_verify,
        plan_seconds=options.plan_seconds,
        cache=options.cache,
        runtimes=read_runtimes(options.runtimes),
        libraries=read_libraries(options.libraries),
    )
    # Hashing a large file takes as long as loading all the rest: let them run side by side.
    hashing = BackgroundHash(source) if request.identify else None
    from onnx_ci.entry.in_flags import in_flags

    outcome = in_flags(_shrink(request, hashing), options.samples)
    write_outcome(outcome, options, title=f"{options.source} -> {options.target}")
    if any(finding.severity == "error" for finding in outcome.findings):
        return 1
    if options.depfile:
        from onnx_ci.inputs.sample_paths import sample_files
        from onnx_ci.single import home_of, inputs_from

        samples = sample_files(inputs_from(options.samples).samples, home_of(source))
        _write_depfile(options, [*samples, *map(Path, options.libraries)])
    return 0


def _by_rule(options: argparse.Namespace, source: Path, target: Path) -> int:
    both = {"runtimes": "runtime", "libraries": "library"}
    for name in ("methods", "budget", "tolerance", "samples", "dims", "no_verify", *both):
        if getattr(options, name):
            told = f"--{both.get(name, name).replace('_', '-')} and --policy can't be given together"
            raise UsageError(told, hint="say it in the rule, or leave --policy out")
    from onnx_ci.entry.by_rule import ByRule

    work = ByRule(source, target, options.policy)
    report = work.run(cache=options.cache)
    if any(name == "json" for name, _ in options.formats):
        write_outcome(report.outcomes[0], options, title=f"{options.source} -> {options.target}")
    else:
        write_run(report, options)
    if options.depfile and not report.exit_code:
        _write_depfile(options, [work.policy, *work.samples()])
    return report.exit_code


def _write_depfile(options: argparse.Namespace, more: Sequence[Path]) -> None:
    """Names as they were given: relative ones are relative to here, where the build runs."""
    from onnx_ci.entry.depfile import write_depfile
    from onnx_ci.model.ownership import data_of

    source = Path(options.source)
    data = [source.parent / name for name in data_of(source)]
    try:
        write_depfile(Path(options.depfile), options.target, [source, *data, *more])
    except OnnxCiError:
        Path(options.target).unlink()  # with it and no depfile the next build would have nothing to do
        raise


def _shrink(request: Request, hashing: BackgroundHash | None) -> Outcome:
    from onnx_ci.entry.progress import ProgressLine
    from onnx_ci.single import shrink_file

    progress = ProgressLine()
    try:
        return shrink_file(request, lambda doing: progress(0, 1, str(request.source), doing), hashing)
    finally:
        progress.clear()
