"""`onnx-ci compare`: two models side by side."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_ci.cli.arguments import read_dims, read_libraries, read_runtimes, read_samples, read_tolerance
from onnx_ci.cli.output import add_format_arguments, add_library_argument, add_runtime_argument, write_outcome
from onnx_ci.errors import UsageError
from onnx_ci.policy.schema import DEFAULT_TOLERANCE, InputSpec


def add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", metavar="A", help="the model to compare with")
    parser.add_argument("second", metavar="B", help="the model that is compared")
    parser.add_argument(
        "--samples", action="append", default=[], metavar="F", help="inputs: .npz, .npy, folders"
    )
    parser.add_argument("--dims", metavar="D", help="sizes of symbolic dims: batch=1,sequence=64")
    parser.add_argument("--tolerance", metavar="T", help="cosine=0.999,max_abs=1e-2 (default: cosine=0.999)")
    add_library_argument(parser)
    add_runtime_argument(parser)
    add_format_arguments(parser)


def run_compare(options: argparse.Namespace) -> int:
    for name in (options.first, options.second):
        if not Path(name).exists():
            raise UsageError(f"there is no file {name!r}", hint="usage: onnx-ci compare A B")
    from onnx_ci.gate.single import compare_files
    from onnx_ci.model.model import called

    tolerance = read_tolerance(options.tolerance) if options.tolerance else DEFAULT_TOLERANCE
    samples = read_samples(options.samples)
    with called({Path(name).absolute(): name for name in samples}):
        outcome = compare_files(
            Path(options.first),
            Path(options.second),
            tolerance=tolerance,
            samples=samples,
            dims=read_dims(options.dims or ""),
            runtimes=read_runtimes(options.runtimes),
            libraries=read_libraries(options.libraries),
        ).told_to("flags")
    write_outcome(outcome, options, title=f"{options.first} against {options.second}")
    return int(outcome.verdict != "ok")


_SHOWN = 3  # branches not taken that are named
USAGE = "usage: onnx-ci samples MODEL --output F.npz"


def add_samples_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the model to make inputs for")
    parser.add_argument(
        "--output",
        required=True,
        metavar="F.npz",
        help="the first sample; further ones go to F-1.npz, F-2.npz, … beside it",
    )
    parser.add_argument("--count", type=_natural, metavar="N", help="how many (default: the rule's, or 2)")
    parser.add_argument(
        "--seed", type=_natural, metavar="S", help="for other values (default: the rule's, or 0)"
    )
    parser.add_argument("--dims", metavar="D", help="sizes of symbolic dims: batch=1,sequence=64")
    parser.add_argument(
        "--policy", metavar="FILE", help="use the inputs of its rule (default: .onnx-ci.yaml, found upward)"
    )
    parser.add_argument("--force", action="store_true", help="write over files that are there")


def _natural(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"expected a whole number from 0, found {text!r}")
    return int(text)


def run_samples(options: argparse.Namespace) -> int:
    model, target = Path(options.model), Path(options.output)
    if not model.is_file():
        raise UsageError(f"there is no file {options.model!r}", hint=USAGE)
    if target.suffix != ".npz":
        raise UsageError(f"{options.output!r} is no .npz file", hint=f"for example: {target}.npz")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {str(target.parent)!r}", hint="make it first")
    spec = _spec(options, model)
    from onnx_ci.gate.single import check_dims, make_samples

    check_dims(model, read_dims(options.dims or ""))
    made = make_samples(model, spec)
    from onnx_ci.inputs.samples import sample_paths_for, write_npz
    from onnx_ci.util.text import one_line

    paths = sample_paths_for(target, len(made.samples))
    _refuse(paths, force=options.force)
    for path, sample in zip(paths, made.samples, strict=True):
        write_npz(path, sample)
        sys.stdout.write(f"{path}\n" + "".join(f"  {line}\n" for line in _described(sample, made.reasons)))
    for line in _untaken(made.untaken):
        sys.stdout.write(one_line(line) + "\n")
    return 0


def _untaken(sides: Sequence[str]) -> Iterator[str]:
    yield from (f"no sample takes {side}" for side in sides[:_SHOWN])
    if len(sides) > _SHOWN:
        yield f"nor {len(sides) - _SHOWN} other branches"


def _spec(options: argparse.Namespace, model: Path) -> InputSpec:
    from onnx_ci.gate.project import context_for, open_context, policy_for
    from onnx_ci.policy.load import rule_for

    context = open_context(options.policy)
    near = model.parent.resolve() / model.name
    context = context_for(context, policy_for(context, near.parent))
    inside = near.is_relative_to(context.folder)
    rule = rule_for(context.policy, near.relative_to(context.folder).as_posix()) if inside else None
    spec = replace(rule.inputs if rule is not None else InputSpec(), samples=())
    if options.count is not None:
        spec = replace(spec, count=max(1, options.count))
    if options.seed is not None:
        spec = replace(spec, seed=options.seed)
    return replace(spec, dims={**spec.dims, **read_dims(options.dims or "")})


def _refuse(paths: Sequence[Path], *, force: bool) -> None:
    there = [str(path) for path in paths if path.exists()]
    if there and not force:
        raise UsageError(f"{', '.join(there)}: there already", hint="name another file, or add --force")


def _described(sample: dict[str, Any], reasons: dict[str, str]) -> Iterator[str]:
    from onnx_ci.inputs.samples import entries
    from onnx_ci.sandbox.exchange import type_name
    from onnx_ci.util.text import one_line

    for name, value in sample.items():
        for label, array in entries({name: value}):
            dims = "x".join(map(str, array.shape)) or "one number"
            kind = f"{type_name(array.dtype)} {dims}, {_range(array)}"
            yield one_line(f"{label}: {kind} ({reasons.get(name, 'given')})")


def _range(array: Any) -> str:
    if not array.size:
        return "empty"
    if array.dtype.kind in "UOc":
        return f"{array.reshape(-1)[0]} …" if array.size > 1 else f"{array.reshape(-1)[0]}"
    plain = array if array.dtype.kind in "iuf" else array.astype("float64")
    low, high = plain.min(), plain.max()
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
