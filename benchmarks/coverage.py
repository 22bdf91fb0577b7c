"""How many models get a true verdict without any configuration: the standard's test models and real ones.

A verdict is true where a harmless rewrite of the model passes and a damaged one does not: its weights in
reverse order, or, where it has none, each output made wrong in turn."""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx
from conformance import KINDS, REAL, Case, cases
from disturb import disturbed

from onnx_ci.errors import ModelError
from onnx_ci.gate.single import COMPARED, OWN_AFFAIRS
from onnx_ci.inputs.graph import fed_inputs
from onnx_ci.inputs.samples import load_samples
from onnx_ci.model.load import open_model
from onnx_ci.model.model import Model
from onnx_ci.model.save import write_model
from onnx_ci.policy.schema import DEFAULT_TOLERANCE, InputSpec, Limits
from onnx_ci.results import Verification
from onnx_ci.sandbox.exchange import Value
from onnx_ci.sandbox.runner import RunFailed, Runner
from onnx_ci.verify.damage import damaged
from onnx_ci.verify.reference import Reference
from onnx_ci.verify.verifier import Claim, Verifier

LIMITS = Limits(seconds=120)
GOAL = 0.98


@dataclass(frozen=True, kw_only=True)
class Result:
    """`state` is true, false, unverified, or unrunnable: by onnxruntime, on the inputs it came with."""

    name: str
    kind: str
    state: str
    reason: str = ""


class Judge:
    """One worker for all models."""

    def __init__(self, runner: Runner, folder: Path) -> None:
        self.runner = runner
        self.folder = folder

    def judge(self, case: Case) -> Result:
        path = case.path or self.folder / "model.onnx"
        if case.proto is not None:
            path.write_bytes(case.proto.SerializeToString())
        try:
            with open_model(path) as model:
                state, reason = self._verdict(model)
                if state == "unverified" and (why := self._unrunnable(case, model)):
                    state, reason = "unrunnable", why
        except ModelError as error:
            state, reason = "unverified", error.message
        return Result(name=case.name, kind=case.kind, state=state, reason=reason)

    def _verdict(self, model: Model) -> tuple[str, str]:
        spec = InputSpec(count=COMPARED)
        reference = Reference(
            self.runner, model.path, model.proto, spec=spec, limits=LIMITS, root=self.folder
        )
        verifier = Verifier(reference)
        same = self._check(verifier, self._rewritten(model))
        if same.status != "passed":
            state = "unverified" if same.status == "not_run" else "false"
            return state, same.reason if state == "unverified" else f"a harmless rewrite fails: {same.reason}"
        for what, path in self._broken(model):
            if path is None:
                return "unverified", f"{what} can't be made wrong on purpose"
            if self._check(verifier, path).status == "passed":
                return "false", f"damage is not noticed: {what}"
        return "true", ""

    def _check(self, verifier: Verifier, path: Path) -> Verification:
        with open_model(path) as candidate:
            return verifier.check(
                Claim(path=path, proto=candidate.proto, tolerance=DEFAULT_TOLERANCE, allowed=OWN_AFFAIRS)
            )

    def _rewritten(self, model: Model) -> Path:
        copy = model.copy()
        for number, node in enumerate(copy.proto.graph.node):
            node.name = f"node {number}"
        return self._written(copy)

    def _broken(self, model: Model) -> Iterator[tuple[str, Path | None]]:
        broken = damaged(model)
        if broken is not None:
            yield "weights in reverse order", self._written(broken)
            return
        for value in model.proto.graph.output:
            wrong = disturbed(model.proto, value.name)
            if wrong is None:
                yield f"output {value.name!r}", None
            else:
                copy = model.copy()
                copy.proto.CopyFrom(wrong)
                yield f"output {value.name!r}", self._written(copy)

    def _written(self, model: Model) -> Path:
        path = self.folder / "candidate.onnx"
        write_model(model, path)
        return path

    def _unrunnable(self, case: Case, model: Model) -> str:
        """Why onnxruntime can't run it on the inputs it came with; empty where it can, or there are none."""
        try:
            feeds = self._own_inputs(case, model.proto)
            self.runner.run(model.path, feeds, limits=LIMITS)
        except RunFailed as error:
            return error.message if feeds or error.stage == "load" else ""
        except ModelError:
            return ""
        return ""

    def _own_inputs(self, case: Case, proto: onnx.ModelProto) -> Sequence[Mapping[str, Value]]:
        if case.folder is not None:
            return load_samples(["test_data_set_*"], case.folder, proto)[:1]
        if case.inputs is not None:
            return [dict(zip((v.name for v in fed_inputs(proto)), case.inputs, strict=False))]
        return []


def run(kinds: Sequence[str], pattern: str) -> list[Result]:
    wanted = re.compile(pattern)
    results = []
    with Runner() as runner, tempfile.TemporaryDirectory() as folder:
        judge = Judge(runner, Path(folder))
        for kind in kinds:
            for case in cases(kind):
                if wanted.search(case.name):
                    results.append(judge.judge(case))
                    _progress(results[-1])
    return results


def _progress(result: Result) -> None:
    if result.state != "true":
        print(f"{result.kind} {result.name}: {result.state}: {result.reason}", file=sys.stderr, flush=True)


def table(results: Sequence[Result]) -> str:
    """Shares by kind of model, then the reasons of the rest."""
    lines = ["| models | all | onnxruntime can't run | true verdict | of all | of those that run |"]
    lines.append("|---" * 6 + "|")
    kinds = (*dict.fromkeys(result.kind for result in results), "all")
    lines += [_row(kind, [r for r in results if kind in (r.kind, "all")]) for kind in kinds]
    reasons = Counter((r.state, _grouped(r.reason)) for r in results if r.state not in ("true", "unrunnable"))
    lines += ["", "| verdict | reason | models |", "|---|---|---|"]
    lines += [f"| {state} | {reason} | {count} |" for (state, reason), count in reasons.most_common()]
    return "\n".join(lines)


def _row(kind: str, results: Sequence[Result]) -> str:
    count = Counter(result.state for result in results)
    runnable = len(results) - count["unrunnable"]
    return (
        f"| {kind} | {len(results)} | {count['unrunnable']} | {count['true']}"
        f" | {count['true'] / max(1, len(results)):.1%} | {count['true'] / max(1, runnable):.1%} |"
    )


def _grouped(reason: str) -> str:
    """Reasons that differ in names and numbers alone are one."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|-?\d+(\.\d+)?", "…", reason).replace("|", "/")[:160]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", action="append", choices=[*KINDS, REAL], help="default: all of them")
    parser.add_argument("--only", default="", metavar="REGEX", help="models whose name matches")
    parser.add_argument("--json", metavar="FILE", help="store the results")
    options = parser.parse_args(argv)
    results = run(options.kind or [*KINDS, REAL], options.only)
    print(table(results))
    if options.json:
        text = json.dumps([asdict(result) for result in results], indent=1)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    runnable = [result for result in results if result.state != "unrunnable"]
    return int(sum(result.state == "true" for result in runnable) < GOAL * len(runnable))


if __name__ == "__main__":
    sys.exit(main())
