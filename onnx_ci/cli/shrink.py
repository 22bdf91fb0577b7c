"""`onnx-ci shrink`: one model to a new file, without a policy, or by the rule that one has for it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from onnx_ci.cli import output
from onnx_ci.cli.arguments import read_budget, read_methods, read_proof_options
from onnx_ci.cli.output import REPORT, existing_path, flag, value, whole_number
from onnx_ci.errors import EnvironmentFault, OnnxCiError, UsageError
from onnx_ci.gate.single import data_paths, home_of, rule_without_policy, shrink_file
from onnx_ci.inputs.sample_paths import sample_files
from onnx_ci.model.load import own_data
from onnx_ci.model.model import called
from onnx_ci.model.replace import data_of
from onnx_ci.policy.schema import PLAN_RUNS
from onnx_ci.util.files import atomic_write

ARGUMENTS = {
    "shrink": (
        value("source IN", "the model to shrink; it is left as it is"),
        value("target OUT", "the file to write"),
        value("--policy FILE", "do what its rule for IN says, as a build does, and copy IN if it is right"),
        value("--depfile FILE", "write which files OUT was made from, for Make, Ninja and CMake"),
        value(
            "--methods a,b",
            "methods, mildest first, options after colons: dedupe,int8-weights:min_elements=4096"
            " (default: the exact ones; with --budget those that encode weights too)",
            default="",
        ),
        value("--budget SIZE", "no more loss than this size needs: 25MB"),
        *("--tolerance", "--samples", "--dims"),
        value(
            "--plan-runs N",
            "runs to search for the best mix, tensor by tensor (default: %(default)d; 0: not at all)",
            type=whole_number(0),
            default=PLAN_RUNS,
        ),
        value("--plan-seconds S", argparse.SUPPRESS, type=float),  # of older scripts; 0 does not plan
        *("--library", "--runtime"),
        flag("--no-verify", "write without running the models"),
        *("--no-cache", *REPORT),
    )
}
EXAMPLES = {
    "shrink": """\
onnx-ci shrink in.onnx out.onnx                     what changes no output by a bit
onnx-ci shrink in.onnx out.onnx --budget 25MB       as small as that, with as little loss as it takes
onnx-ci shrink in.onnx out.onnx --methods dedupe,int8-weights --tolerance cosine=0.9999"""
}


def run_shrink(options: argparse.Namespace) -> int:
    source, target = existing_path(options.source, "shrink IN OUT"), Path(options.target)
    _check_other_files(options, source, target)
    return _by_rule(options, source, target) if options.policy else _as_asked(options, source, target)


def _check_other_files(options: argparse.Namespace, source: Path, target: Path) -> None:
    """Before any work is done, and before OUT is there: a build takes an OUT without depfile for current."""
    written = [(f"--format {name} --output", Path(file)) for name, file in options.formats if file]
    if options.depfile:
        written.append(("--depfile", Path(options.depfile)))
        check_depfile(Path(options.depfile), options.target, source)
    if not written and not options.policy:
        return
    policy = [("the policy", Path(options.policy))] if options.policy else []
    _refuse("OUT", target, policy)
    others = [
        ("the model", source),
        *((f"data of {source}", file) for file in data_paths(source)),
        *policy,
        ("OUT", target),
        ("the data of OUT", target.with_name(own_data(target))),
    ]
    for option, path in written:
        _refuse(option, path, others)
        others.append((f"the file of {option}", path))


def _refuse(option: str, path: Path, others: Iterable[tuple[str, Path]]) -> None:
    for what, other in others:
        linked = path.exists() and other.exists() and path.samefile(other)
        if linked or path.resolve() == other.resolve():
            raise UsageError(f"{option} {path} is {what}, which it would replace", hint="name another file")


def _as_asked(options: argparse.Namespace, source: Path, target: Path) -> int:
    if options.no_verify and options.runtime:
        message = "--no-verify and --runtime can't be given together: nothing would be run in them"
        raise UsageError(message, hint="leave one of them out")
    if options.plan_seconds:
        hint = "--plan-runs bounds the search"
        sys.stderr.write(f"onnx-ci: --plan-seconds has no meaning but for 0; {hint}\n")
    rule = rule_without_policy(
        methods=read_methods(options.methods),
        budget=read_budget(options.budget) if options.budget else None,
        plan_runs=options.plan_runs,
        plan_seconds=options.plan_seconds,
        **read_proof_options(options),
    )
    names = {Path(name).absolute(): name for name in options.samples}
    with called(names), output.ProgressLine(options.verbosity) as progress:
        outcome = shrink_file(
            source,
            target,
            rule,
            verify=not options.no_verify,
            cache=options.cache,
            say=progress.of_one(str(source)),
        ).told_to("flags")
    output.write_outcome(outcome, options, title=f"{options.source} -> {options.target}")
    if outcome.errors:
        return 1
    if options.depfile:
        samples = sample_files(rule.inputs.samples, home_of(source))
        _write_depfile(options, [*samples, *map(Path, options.library)])
    return 0


def _by_rule(options: argparse.Namespace, source: Path, target: Path) -> int:
    for name in ("methods", "budget", "tolerance", "samples", "dims", "no_verify", "runtime", "library"):
        if getattr(options, name):
            message = f"--{name.replace('_', '-')} and --policy can't be given together"
            raise UsageError(message, hint="say it in the rule, or leave --policy out")
    from onnx_ci.build.package import ByRule

    work = ByRule(source, target, options.policy)
    with output.ProgressLine(options.verbosity) as progress:
        report = work.run(cache=options.cache, progress=progress)
    if any(name == "json" for name, _ in options.formats):
        output.write_outcome(report.outcomes[0], options, title=f"{options.source} -> {options.target}")
    else:
        output.write_run(report, options)
    if options.depfile and not report.exit_code:
        _write_depfile(options, [work.policy, *work.samples()])
    return report.exit_code


def _write_depfile(options: argparse.Namespace, more: Sequence[Path]) -> None:
    """Names as they were given: relative ones are relative to here, where the build runs."""
    source = Path(options.source)
    data = [source.parent / name for name in data_of(source)]
    try:
        write_depfile(Path(options.depfile), options.target, [source, *data, *more])
    except OnnxCiError:
        Path(options.target).unlink()  # with it and no depfile the next build would have nothing to do
        raise


UNWRITABLE_NAMES = {"\n": "a line break", "\r": "a line break", "\t": "a tab"}
# They make a rule, a command, a variable or a pattern of a line; no way to write them is read by all.
UNWRITABLE = {*UNWRITABLE_NAMES, *":;=%|"}


def write_depfile(depfile: Path, target: str, needed: Iterable[Path | str]) -> None:
    """Every needed file gets an empty rule as well: one that is gone tomorrow then means "build again"."""
    names = [_escaped(os.fspath(path)) for path in dict.fromkeys(needed)]
    lines = [f"{_escaped(target)}: \\\n  " + " \\\n  ".join(names), *(f"{name}:" for name in names), ""]
    with atomic_write(depfile) as temporary:
        temporary.write_bytes(os.fsencode("\n".join(lines)))


def check_depfile(depfile: Path, *named: str | Path) -> None:
    """Whether it can be written, as far as that can be told before."""
    for name in named:
        _escaped(os.fspath(name))
    if depfile.is_dir() or not depfile.parent.is_dir():
        what = "it is a folder" if depfile.is_dir() else "its folder does not exist"
        raise EnvironmentFault(f"the depfile {str(depfile)!r} can't be written: {what}")


def _escaped(path: str) -> str:
    _, rest = os.path.splitdrive(path)
    if odd := sorted(set(rest) & UNWRITABLE):
        names = " and ".join(UNWRITABLE_NAMES.get(character, repr(character)) for character in odd)
        message = f"{path!r} has {names} in it, which Make would read otherwise in a dependency file"
        raise UsageError(message, hint="give the file or its folder another name, or leave --depfile out")
    return path.replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ")
