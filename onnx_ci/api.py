"""The Python API: the same gate on paths and on models in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnx_ci.cli.arguments import read_budget, read_libraries, read_methods, read_runtimes
from onnx_ci.errors import UsageError
from onnx_ci.gate.project import Judging, judge_selection, open_context, select_models
from onnx_ci.gate.record import record
from onnx_ci.gate.single import compare_files, rule_without_policy, shrink_file
from onnx_ci.inputs.samples import write_npz
from onnx_ci.methods.catalogue import method
from onnx_ci.model.model import called
from onnx_ci.policy.schema import DEFAULT_TOLERANCE, PLAN_RUNS, MethodChoice, PolicyFrom, Tolerance
from onnx_ci.repo.select import Wanted
from onnx_ci.results import ModelDiff, Outcome, RunReport, Verdict, Verification
from onnx_ci.util.files import scratch_folder

__all__ = ["ShrinkResult", "check", "compare", "diff", "record", "shrink"]
MethodLike = str | Mapping[str, Mapping[str, Any]]
# A file or folder, or values by the names of inputs; an array by itself is for a model with one input.
SampleLike = str | Path | np.ndarray[Any, Any] | Mapping[str, Any]
Samples = SampleLike | Iterable[SampleLike]


@dataclass(frozen=True, kw_only=True)
class ShrinkResult:
    """`model` is the path that was written, where one was named; a ModelProto otherwise.

    It is None where nothing could be verified; `outcome` says why.
    """

    model: onnx.ModelProto | Path | None
    outcome: Outcome

    def __repr__(self) -> str:
        return f"<ShrinkResult {'with a model' if self.model else 'without a model'}, {self.outcome!r}>"

    @property
    def verdict(self) -> Verdict:
        return self.outcome.verdict

    @property
    def verification(self) -> Verification:
        return self.outcome.verification

    @property
    def size_before(self) -> int:
        return self.outcome.before.size if self.outcome.before else 0

    @property
    def size_after(self) -> int:
        measured = self.outcome.after or self.outcome.before
        return measured.size if measured else 0


def shrink(
    model: onnx.ModelProto | str | Path,
    output: str | Path | None = None,
    *,
    methods: Iterable[MethodLike] = (),
    budget: str | int | None = None,
    tolerance: Tolerance | Mapping[str, Any] = DEFAULT_TOLERANCE,
    samples: Samples = (),
    dims: Mapping[str, int] | None = None,
    verify: bool = True,
    plan_runs: int = PLAN_RUNS,
    cache: bool = True,
    runtimes: Iterable[str] = (),
    libraries: Iterable[str] = (),
) -> ShrinkResult:
    """Shrink a model, to `output` if that is named. Nothing unverified is returned or written."""
    if isinstance(methods, str):
        raise UsageError("methods is a list of names", hint=f"shrink(…, methods=[{methods!r}])")
    choices = tuple(map(_method, methods))
    if not isinstance(model, onnx.ModelProto) and output is None:
        raise UsageError("shrink of a path needs the path to write", hint='shrink("in.onnx", "out.onnx")')
    if isinstance(model, onnx.ModelProto) and any("inputs" in method(c.name).changes for c in choices):
        message = "extract-npy writes files beside the model, so it needs paths"
        raise UsageError(message, hint='shrink("in.onnx", "out.onnx")')
    with scratch_folder() as folder, _files_of(samples, folder) as files:
        rule = rule_without_policy(
            methods=choices,
            budget=read_budget(str(budget)) if budget is not None else None,
            plan_runs=plan_runs,
            tolerance=_tolerance(tolerance),
            samples=files,
            dims=dims,
            runtimes=read_runtimes(runtimes),
            libraries=read_libraries(libraries),
        )
        source = _on_disk(model, folder / "model.onnx")
        target = Path(output) if output is not None else folder / "shrunk.onnx"
        outcome = shrink_file(source, target, rule, verify=verify, cache=cache)
        if not outcome.written and outcome.verdict != "ok":
            return ShrinkResult(model=None, outcome=outcome)
        return ShrinkResult(model=onnx.load(target) if output is None else target, outcome=outcome)


def compare(
    first: onnx.ModelProto | str | Path,
    second: onnx.ModelProto | str | Path,
    *,
    tolerance: Tolerance | Mapping[str, Any] = DEFAULT_TOLERANCE,
    samples: Samples = (),
    dims: Mapping[str, int] | None = None,
    runtimes: Iterable[str] = (),
    libraries: Iterable[str] = (),
) -> Outcome:
    """Run both models; `verdict` is "ok" within the tolerance, the numbers are in `verification`."""
    with scratch_folder() as folder, _files_of(samples, folder) as files:
        rule = rule_without_policy(
            tolerance=_tolerance(tolerance),
            samples=files,
            dims=dims,
            runtimes=read_runtimes(runtimes),
            libraries=read_libraries(libraries),
        )
        return compare_files(_on_disk(first, folder / "a.onnx"), _on_disk(second, folder / "b.onnx"), rule)


def diff(
    first: onnx.ModelProto | str | Path, second: onnx.ModelProto | str | Path, *, exact: bool = False
) -> ModelDiff:
    """What changed from one model to the other, without running them. Values of large models are compared in
    samples, unless all are to be read."""
    from onnx_ci.model.diff import diff_models

    with scratch_folder() as folder:
        paths = _on_disk(first, folder / "a.onnx"), _on_disk(second, folder / "b.onnx")
        names = [str(each) if isinstance(each, str | Path) else "a model" for each in (first, second)]
        return diff_models(*paths, names=(names[0], names[1]), exact=exact)


def check(
    paths: str | Path | Iterable[str | Path] = (),
    *,
    policy: str | Path | None = None,
    since: str = "",
    everything: bool = False,
    cache: bool = True,
    runtimes: Iterable[str] = (),
    policy_from: PolicyFrom = "head",
) -> RunReport:
    """What `onnx-ci check` does, as a value; it changes nothing."""
    if isinstance(paths, (str, Path)):
        paths = [paths]
    context = open_context(str(policy) if policy is not None else None)
    wanted = Wanted(paths=tuple(map(str, paths)), since=since, everything=everything)
    judging = Judging(cache=cache, runtimes=read_runtimes(runtimes), policy_from=policy_from)
    return judge_selection("check", context, select_models(context, wanted), judging)


def _tolerance(given: Tolerance | Mapping[str, Any]) -> Tolerance:
    if isinstance(given, Tolerance):
        return given
    known = [item.name for item in fields(Tolerance)]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise UsageError(f"no tolerance is called {unknown[0]!r}", hint=f"there are {', '.join(known)}")
    return Tolerance(**given)


def _method(given: MethodLike) -> MethodChoice:
    if isinstance(given, str):
        return read_methods(given)[0]
    ((name, options),) = given.items()
    return MethodChoice(name=name, options=options)


@contextmanager
def _files_of(samples: Samples, folder: Path) -> Iterator[list[str]]:
    """Files for samples, of which those in memory are written; messages call these by their number."""
    given = [samples] if isinstance(samples, (str, Path, np.ndarray, Mapping)) else samples
    if not given and given != ():
        raise UsageError("samples: the list is empty", hint="give some, or leave it out: inputs are made up")
    files, names = [], {}
    for number, sample in enumerate(given):
        if isinstance(sample, (str, Path)):
            files.append(str(sample))
            continue
        path = folder / f"sample{number}.npz"
        if isinstance(sample, Mapping):
            write_npz(path, {name: _array(value) for name, value in sample.items()})
        else:
            path = path.with_suffix(".npy")
            np.save(path, _array(sample), allow_pickle=False)
        files.append(str(path))
        names[path] = f"samples[{number}]"
    with called(names):
        yield files


def _array(value: Any) -> Any:
    """Numbers in lists become what models take; arrays, and lists of them for a sequence, stay as is."""
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    if isinstance(first, np.ndarray):
        return value
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _on_disk(model: onnx.ModelProto | str | Path, path: Path) -> Path:
    if isinstance(model, onnx.ModelProto):
        onnx.save(model, path)
        return path
    return Path(model)
