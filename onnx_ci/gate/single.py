"""One model without a policy: shrink it to a new file, or compare it with another."""

from __future__ import annotations

import filecmp
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_ci.errors import EnvironmentFault, ModelError, UsageError
from onnx_ci.gate.decide import refused_hint
from onnx_ci.gate.judge import about_fusions, judge
from onnx_ci.gate.subject import InPlace, Ledger, NewFile, Say, Task
from onnx_ci.methods.catalogue import METHODS, method
from onnx_ci.model.load import open_model, read_skeleton
from onnx_ci.model.measure import SAMPLED, compressed_size, estimated_size, files_of, measure
from onnx_ci.model.model import Model, called
from onnx_ci.model.replace import is_orphan, readable_data, replaceable_data
from onnx_ci.model.store import BackgroundHash
from onnx_ci.policy.schema import (
    DEFAULT_METHODS,
    Budget,
    Evaluate,
    Gain,
    InputSpec,
    MethodChoice,
    Rule,
    Tolerance,
)
from onnx_ci.results import Divergence, Finding, Measure, Outcome, Variant, Verdict, Verification
from onnx_ci.util.advice import to_run
from onnx_ci.util.files import atomic_write, scratch_folder

if TYPE_CHECKING:
    import onnx

    from onnx_ci.inputs.from_files import FileOptions
    from onnx_ci.sandbox.runner import Runner
    from onnx_ci.verify.prove import Prover, Submission
    from onnx_ci.verify.reference import Reference

# What makes inputs and runs models is loaded by the functions that do: to shrink without a proof takes
# neither, and loading it would take longer than the work.


@dataclass(frozen=True, kw_only=True)
class Made:
    """Samples that run; why the inputs of each are what they are; the branches that none takes, in words; the
    outputs that none moves."""

    samples: Sequence[dict[str, Any]]
    reasons: Sequence[Mapping[str, str]]
    untaken: Sequence[str] = ()
    asleep: Sequence[str] = ()


def make_samples(path: Path, spec: InputSpec) -> Made:
    from onnx_ci.sandbox.runner import Runner
    from onnx_ci.verify.prove import Prover

    rule = Rule(pattern=str(path), inputs=spec)
    with open_model(path) as model, Runner() as runner, scratch_folder() as scratch:
        reference = Prover(rule, model, runner, scratch, home=path.parent).reference
        own = reference.stored
        samples = [{k: v for k, v in sample.items() if k not in own} for sample in reference.feeds()]
        return Made(
            samples=samples,
            reasons=[reference.reasons] * len(samples),
            untaken=[side.words for side in reference.untaken],
            asleep=reference.asleep,
        )


def samples_from_files(path: Path, spec: InputSpec, files: Sequence[Path], options: FileOptions) -> Made:
    """Make samples from the user's files, on which the model has to run: in their own sizes, or else in those
    that inputs are made up in. What files say nothing about is made up."""
    from onnx_ci.inputs.from_files import read_files, with_sizes
    from onnx_ci.inputs.graph import fed_inputs
    from onnx_ci.inputs.samples import write_npz
    from onnx_ci.sandbox.runner import Runner, Unrunnable
    from onnx_ci.verify.prove import Prover

    with open_model(path) as model, Runner() as runner, scratch_folder() as scratch:

        def reference(inputs: InputSpec) -> Reference:
            return Prover(Rule(pattern="", inputs=inputs), model, runner, scratch, home=scratch).reference

        made_up = reference(spec)

        def made(proto: onnx.ModelProto, name: str) -> Made:
            found = list(read_files(files, proto, options, model.array))
            if not found:
                raise UsageError(
                    "--from: the files hold nothing to make a sample of", hint="name other files"
                )
            others = [value.name for value in fed_inputs(proto) if value.name not in found[0].inputs]
            rest = {n: v for n, v in made_up.feeds()[0].items() if n in others} if others else {}
            paths = {scratch / f"{name}-{number:06}.npz": sample for number, sample in enumerate(found)}
            for path, sample in paths.items():
                write_npz(path, {**sample.inputs, **rest})
            with called({path: sample.source for path, sample in paths.items()}):
                fed = reference(InputSpec(samples=(f"{name}-*.npz",))).feeds()
            names = (*found[0].inputs, *rest)
            reasons = [dict.fromkeys(names, "made up") | dict.fromkeys(s.inputs, s.reason) for s in found]
            return Made(samples=[{n: sample[n] for n in names} for sample in fed], reasons=reasons)

        proto = made_up.proto_to_feed()
        try:
            return made(proto, "own")
        except ModelError as error:
            if isinstance(error, Unrunnable):
                with suppress(ModelError):
                    return made(with_sizes(proto, made_up.feeds()[0]), "usual")
            error.hint = "say how they are prepared (--size, --rate, --dims, …), or record real inputs"
            raise


def rule_without_policy(
    *,
    methods: Sequence[MethodChoice] = (),
    budget: int | None = None,
    samples: Iterable[str] = (),
    dims: Mapping[str, int] | None = None,
    libraries: Iterable[str] = (),
    **settings: Any,
) -> Rule:
    """What is asked of one model by itself, as a rule. Without methods: the exact ones, and the encodings of
    weights if there is a budget; never those that only move bytes to other files or call other libraries,
    which are slow, and may not be installed."""
    if not methods:
        encodings = [known.name for known in METHODS if known.gains == "size" and known.encodes]
        methods = [*DEFAULT_METHODS, *(MethodChoice(name=name) for name in encodings if budget is not None)]
    return Rule(
        pattern="",
        budget=Budget(size=budget),
        methods=tuple(methods),
        inputs=InputSpec(samples=_as_named(samples), dims=dims or {}),
        libraries=_as_named(libraries),
        minimum_gain=Gain(),
        **settings,
    )


def _as_named(files: Iterable[str]) -> tuple[str, ...]:
    """Files as named on the command line, relative to here; no repository bounds them."""
    paths = (Path(file).absolute() for file in files)
    return tuple(path.relative_to(path.anchor).as_posix() for path in paths)


# Two exports of one network may differ in these and still be compared.
OWN_AFFAIRS = ("defaults", "dims", "opset", "ir", "metadata", "producer", "functions")
COMPARED = 8  # inputs made up for one pair: with 2, one in eight real damages of a small classifier passed


def shrink_file(
    source: Path,
    target: Path,
    rule: Rule,
    *,
    verify: bool = True,
    cache: bool = True,
    say: Say = lambda _: None,
) -> Outcome:
    """Write the target only if something proven can be written, or a copy if there is nothing to gain."""
    check_target(source, target)
    check_dims(source, rule.inputs.dims)
    root = source.resolve().parent
    in_place = target.exists() and target.samefile(source)
    # Hashed, so that it can be found again, if it was run, or is lost.
    identify = verify or not all(method(choice.name).exact for choice in rule.methods)
    task = Task(
        path=source,
        name=str(source),
        rule=replace(rule, pattern=str(source)),
        root=root,
        home=home_of(source),
        output=InPlace(root) if in_place else NewFile(target),
        insists=True,
        strict=True,
        # Hashing a large file takes as long as loading all the rest: let them run side by side.
        hashing=BackgroundHash(source) if identify else None,
        identify=identify,
        elsewhere=not in_place,
        keeps_originals=in_place and not all(method(choice.name).exact for choice in rule.methods),
        cache=cache,
    )
    with _runner() if verify else nullcontext() as runner:
        outcome = judge(task, runner, Ledger(), say)
    if outcome.verdict == "ok" and not in_place:
        copy_model(source, target)
    return outcome


def _runner() -> Runner:
    from onnx_ci.sandbox.runner import Runner

    return Runner()


def home_of(path: Path) -> Path:
    return Path(path.resolve().anchor)


def check_target(source: Path, target: Path) -> None:
    """Refuse what can't be written, or must not be, before any work is done."""
    if source.exists() and target.exists() and target.resolve() in map(Path.resolve, data_paths(source)):
        raise UsageError(f"{target} holds the weights of {source}", hint="name another file to write")
    if target.is_dir():
        raise UsageError(f"{target} is a folder", hint=f"name the file to write: {target / source.name}")
    if not target.parent.is_dir():
        message = f"the folder {str(target.parent)!r} does not exist"
        raise EnvironmentFault(message, hint=to_run(f"mkdir -p '{target.parent}'"))
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        message = f"nothing can be written in {str(target.parent)!r}: {error.strerror}"
        raise EnvironmentFault(
            message, hint="name OUT in another folder, or change who may write there"
        ) from None


def check_dims(model: Path, dims: Mapping[str, int]) -> None:
    """Refuse names of sizes that the model does not have; of a model that can't be read others tell."""
    if not dims:
        return
    from onnx_ci.inputs.graph import unknown_dims

    try:
        wrong = unknown_dims(read_skeleton(model), dims)
    except ModelError:
        return
    if wrong:
        raise UsageError(f"{model}: {wrong}", hint="for example: --dims batch=1")


def data_paths(model: Path) -> list[Path]:
    """The data files that a model names; none where it can't be read."""
    return [model.parent / name for name in readable_data(model)]


def copy_model(source: Path, target: Path, *, over_orphans: bool = False) -> None:
    """A copy byte for byte, external data included where it goes to another folder; if so asked, over data
    that no model there needs."""
    ours = replaceable_data(target)
    same_folder = source.resolve().parent == target.resolve().parent
    for file in [] if same_folder else files_of(source, read_skeleton(source))[1:]:
        other = target.parent / file.relative_to(source.parent)
        mine = other.relative_to(target.parent).as_posix() in ours
        mine = mine or (over_orphans and is_orphan(other, target.resolve()))
        if other.exists() and not mine and not filecmp.cmp(file, other, shallow=False):
            message = f"{other} is there already with other content"
            raise EnvironmentFault(message, hint="write to another folder, or remove it first")
        other.parent.mkdir(parents=True, exist_ok=True)
        copy_file(file, other)
    copy_file(source, target)


def copy_file(source: Path, target: Path) -> None:
    """A file that appears whole or not at all."""
    with atomic_write(target) as temporary:
        shutil.copyfile(source, temporary)
        shutil.copymode(source, temporary)


def compare_files(first: Path, second: Path, rule: Rule, say: Say = lambda _: None) -> Outcome:
    """The second model against the first: an outcome whose verdict is ok only within the tolerance."""
    outcome = Outcome(path=str(second), verdict="unreadable", rule_pattern=str(first))
    try:
        with _first_model(first, rule, say) as comparison:
            return comparison.with_model(outcome, second)
    except ModelError as error:
        return _unreadable(outcome, error)


def _unreadable(outcome: Outcome, error: ModelError) -> Outcome:
    finding = Finding(code=error.code, severity="error", message=error.message, hint=error.hint)
    return replace(outcome, findings=(finding,))


@contextmanager
def _first_model(first: Path, rule: Rule, say: Say) -> Iterator[_FirstModel]:
    from onnx_ci.sandbox.runner import Runner
    from onnx_ci.verify.prove import Prover

    check_dims(first, rule.inputs.dims)
    rule = replace(rule, pattern=str(first), inputs=replace(rule.inputs, count=COMPARED))
    with open_model(first) as before, Runner() as runner, scratch_folder() as scratch:
        prover = Prover(rule, before, runner, scratch, home=home_of(first), timed=True, say=say)
        say("measuring")
        yield _FirstModel(before, prover, measure(first, before.proto, hashing=BackgroundHash(first)))


@dataclass(frozen=True)
class _FirstModel:
    """One model that others are compared with; its inputs and outputs are found once."""

    before: Model
    prover: Prover
    measured: Measure

    def with_model(self, outcome: Outcome, second: Path, *, always_time: bool = False) -> Outcome:
        """Compare one; where it is outside the tolerance, it is timed only if that is asked for."""
        with open_model(second) as after:
            measured = measure(second, after.proto, hashing=BackgroundHash(second))
            outcome = replace(outcome, before=self.measured, after=measured)
            submission = second_model(self.before, after)
            try:
                proof = self.prover.prove(submission)
                outcome = replace(outcome, latency=proof.latency)
                if always_time and proof.latency is None:
                    outcome = replace(outcome, latency=self.prover.time(submission))
            except ModelError as error:
                return _unreadable(outcome, error)
        return _compared(outcome, proof.verification, self.prover.rule.tolerance)

    def divergence(self, second: Path) -> Divergence:
        from onnx_ci.verify.observation import divergence

        with open_model(second) as after:
            return divergence(self.prover.reference, self.before, after, self.prover.scratch)


def _compared(outcome: Outcome, found: Verification, tolerance: Tolerance) -> Outcome:
    if found.status == "passed":
        findings = (*about_fusions(outcome.path, found), *found.findings(outcome.path))
        return replace(outcome, verdict="ok", verification=found, findings=findings)
    verdict: Verdict = "unverified"
    code, hint = found.code or "OCI005", found.hint
    if found.status == "failed":
        verdict, code = "outputs_changed", found.code or "OCI004"
        if found.outputs:  # otherwise it did not come to that
            hint = hint or refused_hint(found, tolerance, methods=False)
    message = f"{outcome.path}: {found.reason}"
    finding = Finding(code=code, severity="error", message=message, hint=hint)
    return replace(outcome, verdict=verdict, verification=found, findings=(finding,))


def compare_variants(
    first: Path,
    others: Sequence[Path],
    rule: Rule,
    say: Say = lambda _: None,
    *,
    score: Evaluate | None = None,
    layers: bool = False,
) -> tuple[list[Variant], list[Outcome]]:
    """Hold any number of models against the first: a row for each, the first one's included."""
    variants, outcomes = [], []
    with _first_model(first, rule, say) as comparison:
        for other in others:
            outcome = Outcome(path=str(other), verdict="unreadable", rule_pattern=str(first))
            divergence = None
            try:
                outcome = comparison.with_model(outcome, other, always_time=True)
                divergence = comparison.divergence(other) if layers else None
            except ModelError as error:
                outcome = _unreadable(outcome, error)
            outcomes.append(outcome)
            variants.append(replace(_variant(outcome), divergence=divergence))
        own = Variant(path=str(first), size=comparison.measured.size, params=comparison.measured.params)
    times = [outcome.latency for outcome in outcomes if outcome.latency is not None]
    if times:
        from statistics import median

        loads = [time.load_before for time in times if time.load_before is not None]
        memories = [time.memory_before for time in times if time.memory_before is not None]
        own = replace(
            own,
            seconds=median(time.before for time in times),
            load=min(loads, default=None),
            memory=min(memories, default=None),
        )
    rows = []
    for path, variant in zip((first, *others), (own, *variants), strict=True):
        if variant.size is not None:
            files = files_of(path, read_skeleton(path))
            about = variant.size > SAMPLED
            gzip = (estimated_size if about else compressed_size)("gzip", files)
            variant = replace(variant, gzip=gzip, estimated=about)
        if score is not None and variant.size is not None:
            variant = _scored(variant, score, path, rule)
        rows.append(variant)
    return rows, outcomes


def _variant(outcome: Outcome) -> Variant:
    problem = next((f.message for f in outcome.findings if f.severity == "error"), "")
    variant = Variant(path=outcome.path, verdict=outcome.verdict, problem=problem)
    if outcome.after is not None:
        variant = replace(variant, size=outcome.after.size, params=outcome.after.params)
    if (time := outcome.latency) is not None:
        variant = replace(variant, seconds=time.after, ratio=time.ratio, low=time.low, high=time.high)
        variant = replace(variant, load=time.load_after, memory=time.memory_after)
    outputs = outcome.verification.outputs
    if not outputs:
        return variant
    return replace(
        variant,
        max_abs=max(output.max_abs for output in outputs),
        cosine=min(output.cosine for output in outputs),
        sqnr=min(output.sqnr for output in outputs),
        top1=min(output.top1 for output in outputs),
    )


def _scored(variant: Variant, score: Evaluate, path: Path, rule: Rule) -> Variant:
    from onnx_ci.verify.score import measure_score

    try:
        return replace(variant, score=measure_score(score, path, Path.cwd(), rule.limits))
    except ModelError as error:
        return replace(variant, problem=variant.problem or f"{path}: {error.message}")


def second_model(before: Model, after: Model) -> Submission:
    """Return a model to be proven that was not made from the first."""
    from onnx_ci.verify.prove import Submission

    changes = (*OWN_AFFAIRS, "inputs") if after.beside or before.beside else OWN_AFFAIRS
    return Submission(path=after.path, model=after, changes=changes, foreign=True)
