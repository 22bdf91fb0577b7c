"""`onnx-ci compare`: run models side by side; `onnx-ci samples`: write inputs for a model."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from onnx_ci.cli import output
from onnx_ci.cli.arguments import read_dims, read_proof_options
from onnx_ci.cli.output import REPORT, existing_path, flag, value, whole_number
from onnx_ci.errors import ModelError, UsageError
from onnx_ci.gate import single
from onnx_ci.gate.project import open_context, ruling_context
from onnx_ci.inputs.from_files import FileOptions, named_files
from onnx_ci.inputs.samples import entries, numbered_samples, sample_paths_for, write_npz
from onnx_ci.model.model import called
from onnx_ci.policy.schema import Evaluate, InputSpec
from onnx_ci.report.json import dumps
from onnx_ci.report.sheet import render, variants_sheet
from onnx_ci.results import RunReport, asleep_words
from onnx_ci.sandbox.exchange import type_name
from onnx_ci.util.text import Style, one_line
from onnx_ci.verify.score import arguments

NUMBER = whole_number(0, 999_999_999)
_SIDE = whole_number(1, 16_384)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) not in (1, 3, 4) or not all(map(math.isfinite, numbers)):
        raise argparse.ArgumentTypeError(f"expected a number, or one for each channel, found {text!r}")
    return numbers


def _size(text: str) -> tuple[int, int]:
    height, _, width = text.lower().partition("x")
    return _SIDE(height), _SIDE(width or height)


ARGUMENTS = {
    "compare": (
        value("first A", "the model to compare with"),
        value("others B", "the models that are compared with it; of several, a table", nargs="+"),
        flag("--table", "a row for each model, also of two"),
        flag("--layers", "name the inner tensors where they part, and the weights to skip"),
        value("--evaluate COMMAND", "your own score for the table: 'python eval.py {model}'; trust it"),
        value("--metric NAME", "what COMMAND prints: NAME: 12.3, or JSON"),
        *("--samples", "--dims", "--tolerance", "--library", "--runtime", *REPORT),
    ),
    "samples": (
        value("model MODEL", "the model to make inputs for"),
        value(
            "--output F.npz",
            "the first sample; further ones go to F-1.npz, F-2.npz, … beside it",
            required=True,
        ),
        value("--count N", "how many (default: the rule's, or 2; with --from all, up to 64)", type=NUMBER),
        value("--seed S", "for other values (default: the rule's, or 0)", type=NUMBER),
        "--dims",
        value("--policy FILE", "use the inputs of its rule (default: .onnx-ci.yaml, found upward)"),
        flag("--force", "write over files that are there"),
        value(
            "--from FILE",
            "make them from pictures, sounds or lines of text: files and patterns, 'photos/*.jpg'",
            nargs="+",
            dest="files",
            default=[],
        ),
        value("--mean M", "of pictures from 0 to 1, for each channel: 0.485,0.456,0.406", type=_numbers),
        value("--std S", "what they are divided by then: 0.229,0.224,0.225", type=_numbers),
        value("--layout L", "of pictures: NCHW or NHWC", choices=("NCHW", "NHWC")),
        value("--size HxW", "of pictures: 224x224", type=_size),
        value("--rate HZ", "of sound (default: 16000)", type=whole_number(1, 1_000_000)),
        value("--tokenizer FILE", "for text: the model's tokenizer.json"),
    ),
}
EXAMPLES = {
    "compare": """\
onnx-ci compare before.onnx after.onnx
onnx-ci compare before.onnx after.onnx --samples inputs.npz --tolerance max_abs=1e-3
onnx-ci compare fp32.onnx fp16.onnx int8.onnx --format markdown""",
    "samples": """\
onnx-ci samples model.onnx --output sample.npz --dims batch=1,sequence=64
onnx-ci samples model.onnx --output sample.npz --from 'photos/*.jpg' --size 224x224""",
}
_SHOWN = 3  # branches not taken that are named


def run_compare(options: argparse.Namespace) -> int:
    names = (options.first, *options.others)
    first, *others = (existing_path(name, "compare A B [C …]") for name in names)
    rule = single.rule_without_policy(**read_proof_options(options))
    score = _score(options)
    samples = {Path(name).absolute(): name for name in options.samples}
    with called(samples), output.ProgressLine(options.verbosity) as progress:
        if len(others) == 1 and not (options.table or options.layers or score):
            say = progress.of_one(options.others[0])
            outcome = single.compare_files(first, others[0], rule, say).told_to("flags")
            output.write_outcome(outcome, options, title=f"{options.first} against {options.others[0]}")
            return int(outcome.verdict != "ok")
        say = progress.of_one(options.first)
        variants, outcomes = single.compare_variants(
            first, others, rule, say, score=score, layers=options.layers
        )
    told = tuple(outcome.told_to("flags") for outcome in outcomes)

    def rendered(name: str, style: Style) -> str:
        if name == "json":
            return dumps({"version": 1, "metric": options.metric, "variants": list(map(asdict, variants))})
        if name in ("text", "markdown", "html"):
            inputs = next(filter(None, (outcome.verification.samples for outcome in told)), 0)
            sheet = variants_sheet(variants, inputs, options.metric or "")
            return render(sheet, name, style, options.markdown_limit)
        return output.rendered_run(RunReport(command="shrink", outcomes=told), name, style, options)

    well = not any(variant.problem or variant.verdict not in ("ok", None) for variant in variants)
    if formats := output.shown_formats(options, well=well):
        output.write_each(formats, rendered)
    return int(not well)


def _score(options: argparse.Namespace) -> Evaluate | None:
    if bool(options.evaluate) != bool(options.metric):
        example = "--evaluate 'python eval.py {model}' --metric accuracy"
        raise UsageError("--evaluate and --metric go together", hint=f"for example: {example}")
    if not options.evaluate:
        return None
    try:
        arguments(options.evaluate, Path("model.onnx"))
    except ModelError as error:
        raise UsageError(error.message, hint=error.hint) from None
    return Evaluate(command=options.evaluate, metric=options.metric)


def run_samples(options: argparse.Namespace) -> int:
    model = existing_path(options.model, "samples MODEL --output F.npz", Path.is_file)
    target = Path(options.output)
    if target.suffix != ".npz":
        raise UsageError(f"{options.output!r} is no .npz file", hint=f"for example: {target}.npz")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {str(target.parent)!r}", hint="make it first")
    spec = _spec(options, model)
    single.check_dims(model, read_dims(options.dims or ""))
    how = _file_options(options)
    if options.files:
        files = named_files(options.files)
        inputs = single.samples_from_files(model, replace(spec, count=1), files, how)
    else:
        how.refuse_without_files()
        inputs = single.make_samples(model, spec)
    paths = sample_paths_for(target, len(inputs.samples))
    stale = [path for path in numbered_samples(target) if path not in paths]
    existing = [str(path) for path in (*paths, *stale) if path.exists()]
    if existing and not options.force:
        raise UsageError(f"{', '.join(existing)}: there already", hint="name another file, or add --force")
    for path, sample, reasons in zip(paths, inputs.samples, inputs.reasons, strict=True):
        write_npz(path, sample)
        sys.stdout.write(f"{path}\n" + "".join(f"  {line}\n" for line in _described(sample, reasons)))
    for line in _unseen(inputs.untaken, inputs.asleep):
        sys.stdout.write(one_line(line) + "\n")
    if stale:
        names, pattern = ", ".join(map(str, stale)), f"{target.stem}*.npz"
        why = f"from before, and not of these samples: {pattern!r} would name them too"
        sys.stderr.write(one_line(f"onnx-ci: {names}: {why}") + "\n")
    return 0


def _file_options(options: argparse.Namespace) -> FileOptions:
    if options.std and 0.0 in options.std:
        raise UsageError("--std: nothing can be divided by 0", hint="for example: --std 0.229,0.224,0.225")
    how = FileOptions(
        mean=options.mean or (),
        std=options.std or (),
        layout=options.layout,
        size=options.size,
        rate=options.rate,
        tokenizer=Path(options.tokenizer) if options.tokenizer else None,
    )
    return how if options.count is None else replace(how, count=max(1, options.count))


def _unseen(untaken: Sequence[str], asleep: Sequence[str]) -> Iterator[str]:
    """What samples leave in the dark: branches not taken, outputs that do not answer."""
    yield from (f"no sample takes {side}" for side in untaken[:_SHOWN])
    if len(untaken) > _SHOWN:
        yield f"nor {len(untaken) - _SHOWN} other branches"
    if asleep:
        yield f"{asleep_words(asleep)}: real inputs would tell more (onnx-ci record -- PROGRAM)"


def _spec(options: argparse.Namespace, model: Path) -> InputSpec:
    path = model.parent.resolve() / model.name
    rule = ruling_context(open_context(options.policy), path).rule_of(path)
    spec = replace(rule.inputs if rule is not None else InputSpec(), samples=())
    if options.count is not None:
        spec = replace(spec, count=max(1, options.count))
    if options.seed is not None:
        spec = replace(spec, seed=options.seed)
    return replace(spec, dims={**spec.dims, **read_dims(options.dims or "")})


def _described(sample: dict[str, Any], reasons: Mapping[str, str]) -> Iterator[str]:
    for name, data in sample.items():
        for label, array in entries({name: data}):
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
