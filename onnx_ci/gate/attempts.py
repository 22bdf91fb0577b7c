"""The candidates for one model, in the order the rule wants them tried."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_ci.gate.candidates import Candidate, Draft, Job, Say, Staged, candidates, drafted
from onnx_ci.gate.decide import limits_of, over_limits
from onnx_ci.methods.chain import Run, no_feeds
from onnx_ci.methods.selection import encoding_parts
from onnx_ci.model.measure import by_name, files_of, measure, parameters
from onnx_ci.model.model import Model
from onnx_ci.model.receipt import Receipt, attach_receipt, model_digest, read_receipt
from onnx_ci.model.save import lay_out, write_model
from onnx_ci.model.store import BackgroundHash, file_sha256
from onnx_ci.policy.schema import MethodChoice, Rule
from onnx_ci.results import Alternative, Finding, Measure, OriginalState, Planned, Step
from onnx_ci.version import __version__

if TYPE_CHECKING:
    from onnx_ci.gate.planner import Planner
    from onnx_ci.sandbox.runner import Runner
    from onnx_ci.verify.prove import Prover


@dataclass(frozen=True)
class Lineage:
    """`receipt` is the one the model carries, if it is valid; `files` are its own."""

    policy: str
    files: tuple[Path, ...]
    receipt: Receipt | None = None
    unpacked: tuple[str, ...] = ()  # methods whose encodings are no longer there
    edited: bool = False  # it has a receipt of ours, and was changed since
    foreign: bool = False  # it has a receipt that is not believed

    @cached_property
    def data(self) -> dict[str, str]:
        """The sha256 of each of its files, where it has more than one."""
        if len(self.files) == 1:
            return {}
        return {name: file_sha256(file) for name, file in by_name(self.files).items()}

    @property
    def disowned(self) -> Lineage:
        """The same model as if it had no receipt: a source of its own."""
        return Lineage(self.policy, self.files, foreign=True)

    @property
    def current(self) -> bool:
        """Shrunk under this very rule and not touched since: there is nothing left to do."""
        return self.receipt is not None and self.receipt.policy == self.policy

    @property
    def lossy(self) -> bool:
        """Values were rounded once: no approximate method may run on them again."""
        return self.receipt is not None and self.receipt.lossy

    @property
    def outdated(self) -> Receipt | None:
        """The receipt of a model that was rounded under another rule: what this one asks for, only the
        original can give."""
        return self.receipt if self.lossy and not self.current else None

    def findings(
        self, name: str, *, over: bool, missing: str = "", forbidden: str = ""
    ) -> tuple[Finding, ...]:
        """What to say where the rule asks for something that only the original can give; `missing` is
        why there is none, `forbidden` why it may not stay as it is."""
        if self.unpacked:
            return (_unpacked(name, self.unpacked),)
        if self.edited:
            return (_edited(name),)
        receipt = self.outdated
        if receipt is None:
            return ()
        finding = Finding(
            code="OCI011",
            severity="error" if forbidden else "warning" if over else "note",
            message=f"{name}: {forbidden and f'{forbidden}; '}it was shrunk with {', '.join(receipt.names)}"
            " under another rule;"
            f" what is rounded once is not rounded again{missing and f', and its original {missing}'}",
            hint=f"to apply this rule, restore the original (sha256 {receipt.source_sha256[:12]}…,"
            f" {receipt.source_size:,} bytes) and run: onnx-ci fix {name}",
        )
        return (finding,)


def fingerprint(rule: Rule) -> str:
    """The part of a rule that decides what a model becomes, as a short digest."""
    content = {
        "methods": [[choice.name, dict(choice.options)] for choice in rule.methods],
        "mode": rule.mode,
        "tolerance": asdict(rule.tolerance),
        "budget": asdict(rule.budget),
        "minimum_gain": rule.minimum_gain,
    }
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def lineage(model: Model, rule: Rule) -> Lineage:
    """Read the receipt, and believe it only if the model is still as it was when that was written."""
    receipt = read_receipt(model.proto)
    valid = receipt is not None and receipt.digest == model_digest(model)
    files = tuple(files_of(model.path, model.proto))
    unpacked = _lost_encodings(model, receipt) if receipt and not valid else ()
    edited = receipt is not None and not valid and not unpacked
    return Lineage(fingerprint(rule), files, receipt if valid else None, unpacked, edited)


def _lost_encodings(model: Model, receipt: Receipt) -> tuple[str, ...]:
    """The methods that stored weights small, if no weight is stored that way any more."""
    stored = tuple(name for name in receipt.names if name.endswith("-weights"))
    return stored if stored and not encoding_parts(model.proto) else ()


def _edited(name: str) -> Finding:
    return Finding(
        code="OCI019",
        severity="warning",
        message=f"{name}: was changed after onnx-ci shrank it; nothing vouches for what it computes now",
        hint="restore it (git restore), or run onnx-ci compare with its original and take the receipt out of"
        " its metadata",
    )


def _unpacked(name: str, methods: Sequence[str]) -> Finding:
    return Finding(
        code="OCI019",
        severity="warning",
        message=f"{name}: was shrunk with {', '.join(methods)}; another tool has unpacked its weights",
        hint="simplify a model before it is shrunk, not after: restore the original and run onnx-ci fix last",
    )


def _entry(run: Run) -> dict[str, Any]:
    """A method as the receipt tells of it; of a mix, how many tensors there are of each kind."""
    mix = {part.label: len(part.tensors) for part in run.parts}
    told = {"options": dict(run.options), "mix": mix}
    return {"name": run.method.name, **{key: value for key, value in told.items() if value}}


def stamp(model: Model, runs: Sequence[Run], line: Lineage, source: Measure, *, verified: bool) -> str:
    """Give a candidate its receipt, and return the digest in it. What an earlier one says of the original is
    carried on, unless this is where something is lost first: then the original is what is there now."""
    done = [_entry(run) for run in runs]
    bitwise = all(run.method.bitwise for run in runs)
    earlier = line.receipt if line.lossy or bitwise else None
    receipt = Receipt(
        tool=__version__,
        policy=line.policy,
        source_sha256=earlier.source_sha256 if earlier else source.sha256,
        source_size=earlier.source_size if earlier else source.size,
        source_data=earlier.source_data if earlier else line.data,
        methods=[*(earlier.methods if earlier else []), *done],
        lossy=line.lossy or any(not run.method.exact for run in runs),
        verified=verified,
        digest=model_digest(model),
    )
    attach_receipt(model.proto, receipt)
    return receipt.digest


class Workbench:
    """What is measured and made is measured and made once."""

    def __init__(
        self,
        job: Job,
        model: Model,
        hashing: BackgroundHash | None,
        scratch: Path,
        say: Say,
        runner: Runner | None,
    ) -> None:
        self.job = job
        self.model = model
        self.runner = runner
        self.hashing = hashing
        self.scratch = scratch
        self.say = say
        self.size = sum(file.stat().st_size for file in files_of(job.path, model.proto))
        self.limits = limits_of(job.rule, job.base_size)
        self.aims = {**self.limits, **({} if job.target is None else {"group": job.target})}
        self.lineage = lineage(model, job.rule)
        self.count = 0
        self.idle: dict[tuple[str, str], Step] = {}  # methods that gained nothing, and why
        self.plan: Planned | None = None  # what the planner found out, whether anything came of it or not
        self.original: OriginalState | None = None  # where it is, as far as that was asked
        self.by_chance = False  # whether another run may find otherwise: time or memory ran out

    @cached_property
    def before(self) -> Measure:
        """Asked for late: until then the file is hashed while other work goes on."""
        self.say("measuring")
        return measure(self.job.path, self.model.proto, hashing=self.hashing, compressed=self.job.compressed)

    @cached_property
    def prover(self) -> Prover | None:
        """Loaded with all it needs when it is first asked for; None where nothing is to be verified."""
        if self.runner is None:
            return None
        from onnx_ci.verify.prove import Prover

        return Prover(self.job.rule, self.model, self.runner, self.scratch, home=self.job.home)

    def feeds(self) -> Sequence[Mapping[str, Any]]:
        """Inputs for methods that calibrate; what makes them is loaded when one asks."""
        return self.prover.feeds() if self.prover else no_feeds()

    def compressed(self, found: Measure) -> int:
        return sum(getattr(found, name) for name in self.job.compressed)

    def stage(self, candidate: Candidate) -> Staged:
        """Write the candidate, receipt included, into the scratch folder and measure it there."""
        self.say(f"trying {', '.join(candidate.names)}")
        model = candidate.model.copy()
        digest = stamp(model, candidate.runs, self.lineage, self.before, verified=self.runner is not None)
        if self.runner is None and not self.job.compressed:
            # Nothing will be run or compressed, so no scratch copy is needed either.
            found = Measure(size=lay_out(model).size, params=parameters(model.proto))
            return Staged(candidate, model, digest, self.scratch, found)
        self.count += 1
        path = self.scratch / f"candidate-{self.count}" / "model.onnx"
        path.parent.mkdir()
        write_model(model, path)
        found = measure(path, model.proto, hashing=BackgroundHash(path), compressed=self.job.compressed)
        return Staged(candidate, model, digest, path, found)


STRIDES = 4  # times that a plan is asked for more, where what it gave is still too large


class Attempts:
    """to-budget: the mildest that fits, else the exact one. smallest: the smallest first."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench

    def in_order(self, methods: Sequence[MethodChoice], tried: list[Alternative]) -> Iterator[Staged]:
        bench = self.bench
        mode = bench.job.rule.mode
        draft = drafted(
            bench.model,
            methods,
            size=bench.size,
            exact_only=mode == "exact-only" or bench.lineage.lossy,
            compressed=bool(bench.job.compressed),
            feeds=bench.feeds,
        )
        with ExitStack() as stack:
            if mode == "smallest":
                yield from self._smallest(draft, self._planner(draft, methods, stack), tried)
            else:
                yield from self._to_budget(draft, methods, stack, tried)

    def _planned(self, planner: Planner, candidate: Candidate) -> Staged:
        """A plan that the clock cut short is a matter of chance: it must not be remembered."""
        self.bench.by_chance |= planner.hurried
        return self.bench.stage(candidate)

    def _smallest(self, draft: Draft, planner: Planner | None, tried: list[Alternative]) -> Iterator[Staged]:
        whole = self._ordered(list(self._gaining(draft, planner)))
        if planner is None:
            yield from whole
            return
        waiting, found = list(whole), False
        for candidate in self._noted(planner.smallest()):
            staged, found = self._planned(planner, candidate), True
            tried += [] if candidate.planned is None else _unless_there(planner.alternatives(), tried)
            while waiting and self._rank(waiting[0]) < self._rank(staged):
                yield waiting.pop(0)
            yield staged
        # Where no mix holds, methods as a whole are tried in earnest: it is told why they are refused.
        yield from waiting if found else self._ordered(list(self._gaining(draft, None)))

    def _to_budget(
        self, draft: Draft, methods: Sequence[MethodChoice], stack: ExitStack, tried: list[Alternative]
    ) -> Iterator[Staged]:
        """First for what a group leaves the model, if it is in one; where that can't be had, for itself."""
        bench = self.bench
        exact = self._exact(draft)
        now = exact.measure if exact else bench.before
        planner: Planner | None = None
        for goal in (bench.aims, bench.limits) if bench.aims != bench.limits else (bench.limits,):
            if not over_limits(bench.before, goal) or not over_limits(now, goal):
                break
            planner = planner or self._planner(draft, methods, stack)
            if planner is not None:
                yield from self._planned_to_fit(planner, now, goal, tried)
            yield from self._whole_to_fit(draft, planner, goal, tried)
        if exact is not None:
            yield exact

    def _whole_to_fit(
        self, draft: Draft, planner: Planner | None, goal: dict[str, int], tried: list[Alternative]
    ) -> Iterator[Staged]:
        for candidate in self._gaining(draft, planner):
            if candidate.exact:
                continue
            staged = self.bench.stage(candidate)
            if over_limits(staged.measure, goal):
                tried += _unless_there([alternative(staged, "too large")], tried)
            else:
                yield staged

    def _exact(self, draft: Draft) -> Staged | None:
        """The exact result, if there is one."""
        base = next(iter(self._noted(candidates(draft, planned=_all_names(draft)))), None)
        return None if base is None else self.bench.stage(base)

    def _planned_to_fit(
        self, planner: Planner, now: Measure, goal: dict[str, int], tried: list[Alternative]
    ) -> Iterator[Staged]:
        """The least harmed mix that fits. Sizes are estimates until a candidate is written: ask for more
        where it is still too large. At last what is smallest: exact methods may have shrunk it further."""
        needed = float(_excess(over_limits(now, goal), goal))
        for _ in range(STRIDES):
            short = 0
            for candidate in self._noted(planner.mildest(needed)):
                staged = self._planned(planner, candidate)
                short = _excess(over_limits(staged.measure, goal), goal)
                if short:
                    break
                yield staged
            if not short:
                break
            needed += 1.05 * short
        tried += _unless_there(planner.alternatives(needed), tried)
        self.bench.plan = planner.report()
        for candidate in planner.smallest():
            staged = self._planned(planner, candidate)
            if over_limits(staged.measure, goal):
                tried += _unless_there([alternative(staged, "within tolerance, but too large")], tried)
                break
            yield staged

    def _planner(self, draft: Draft, methods: Sequence[MethodChoice], stack: ExitStack) -> Planner | None:
        """Where there is something to plan, time for it, and a way to find out."""
        bench = self.bench
        if bench.runner is None or not bench.job.rule.plan_seconds or not draft.lossy:
            return None
        from onnx_ci.gate.planner import Planner
        from onnx_ci.gate.planner_trials import plannable

        if bench.prover is None or not any(map(plannable, methods)):
            return None
        planner = stack.enter_context(
            Planner(
                draft,
                methods,
                rule=bench.job.rule,
                prover=bench.prover,
                scratch=bench.scratch,
                compressed=bool(bench.job.compressed),
                say=bench.say,
            )
        )
        bench.by_chance |= planner.hurried
        bench.plan = planner.nothing if planner.search is None and planner.hurried else None
        return planner if planner.search is not None else None

    def _gaining(self, draft: Draft, planner: Planner | None) -> Iterator[Candidate]:
        # A plan that ran out of time may have found nothing: then methods as a whole are better than none.
        whole = planner is None or planner.hurried
        planned = set() if planner is None or whole else {form.run.method.name for form in planner.forms}
        return self._noted(candidates(draft, planned))

    def _noted(self, made: Iterable[Candidate]) -> Iterator[Candidate]:
        """Those that gained something; of the others what they say of it."""
        for candidate in made:
            steps = (
                step for step in candidate.steps if not step.tensors and step.size_after == step.size_before
            )
            self.bench.idle.update({(step.method, step.note): step for step in steps})
            if candidate.gained:
                yield candidate

    def _ordered(self, found: list[Candidate]) -> Iterable[Staged]:
        """By size on disk; by compressed size where a candidate was made for that."""
        if not any(candidate.for_compression for candidate in found):
            return map(self.bench.stage, sorted(found, key=lambda candidate: candidate.size))
        return sorted(map(self.bench.stage, found), key=self._rank)

    def _rank(self, staged: Staged) -> int:
        return self.bench.compressed(staged.measure) if self.bench.job.compressed else staged.measure.size


def alternative(staged: Staged, verdict: str) -> Alternative:
    return Alternative(methods=staged.candidate.names, size=staged.measure.size, verdict=verdict)


def _unless_there(found: Sequence[Alternative], tried: Sequence[Alternative]) -> list[Alternative]:
    known = [(other.methods, other.size) for other in tried]
    return [one for one in found if (one.methods, one.size) not in known]


def _all_names(draft: Draft) -> set[str]:
    return {run.method.name for run in draft.lossy}


def _excess(over: dict[str, int], limits: dict[str, int]) -> int:
    """The bytes that have to go for the limit that is broken most."""
    return max((value - limits[name] for name, value in over.items() if name != "params"), default=0)
