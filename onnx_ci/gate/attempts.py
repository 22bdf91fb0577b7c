"""The candidates for one model, in the order the rule wants them tried, until one is proven."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_ci.gate.cache import choice_memory
from onnx_ci.gate.candidates import Candidate, Choice, Draft, Staged, candidates, drafted
from onnx_ci.gate.decide import over_limits
from onnx_ci.gate.lineage import stamp
from onnx_ci.gate.requirements import unmet
from onnx_ci.gate.subject import Ledger, Subject
from onnx_ci.methods.catalogue import method
from onnx_ci.model.measure import measure, parameters
from onnx_ci.model.save import lay_out, write_model
from onnx_ci.model.store import BackgroundHash
from onnx_ci.policy.schema import MethodChoice, Tolerance
from onnx_ci.results import (
    NOT_RUN,
    Alternative,
    AlternativeState,
    Level,
    Measure,
    Planned,
    Proof,
    SurveyedForm,
    Verification,
)
from onnx_ci.sandbox.forks import OutOfTime, interrupted_at

if TYPE_CHECKING:
    from onnx_ci.gate.planner import Planner

RAN_OUT = "OCI013"  # what a machine under load, or with less memory, may do otherwise
NOT_SEARCHED = replace(NOT_RUN, reason="nothing was changed: no smaller form was looked for")
NOT_PROVEN = Verification(
    status="not_run", reason="not verified yet: `onnx-ci fix` does that before it writes anything"
)
# Parts of the user's limit of time: for making a plan, and for proving what it or methods as a whole gave.
PLANNING, PROVING = 0.55, 0.85
STRIDES = 4  # times that a plan is asked for more, where what it gave is still too large


def choose(subject: Subject, ledger: Ledger) -> Choice:
    """What an earlier run chose for the same content, or what comes of trying."""
    if subject.hands_off:
        return Choice(None, NOT_RUN, ())
    if not subject.remembers:
        return try_all(subject, ledger) if subject.task.search else at_once(subject, ledger)
    content = subject.before.sha256 + (" without its receipt" if subject.lineage.foreign else "")
    kept = choice_memory(subject, content, subject.aims)
    # Without a search, what an earlier one found may tell more of a failure, and must not make one.
    known = (
        kept.recall_choice() if subject.task.search or over_limits(subject.before, subject.limits) else None
    )
    if known is None and not subject.task.search:
        kept = choice_memory(subject, f"{content} at once", subject.aims)
        known = kept.recall_choice()
    if known is not None:
        choice, done = known
        ledger.idle = done.idle
        return choice
    if not subject.task.search:
        choice = at_once(subject, ledger)
        if choice.staged is None:
            kept.keep_choice(choice, ledger)
        return choice
    if subject.task.look and subject.task.share is not None:
        first = choice_memory(subject, content, subject.limits).recall_choice()
        if first is not None:
            ledger.by_rule, ledger.by_chance = first[0], first[1].by_chance
    choice = try_all(subject, ledger)
    kept.keep_choice(choice, ledger)
    return choice


def try_all(subject: Subject, ledger: Ledger) -> Choice:
    """The first that is proven; once more without other libraries, where one of them misled us, and with
    inputs as they were: onnxruntime folds what is constant, and rounds elsewhere then."""
    if subject.runner is not None:
        subject.runner.meter.spent.clear()
    choice = first_proven(subject, subject.methods, ledger)
    own = [one for one in subject.methods if not method(one.name).presumes]
    if choice.staged is None and choice.misled and len(own) < len(subject.methods):
        ledger.tried = []
        again = first_proven(subject, own, ledger)
        tried = (*choice.alternatives, *again.alternatives)
        choice = replace(again if again.staged else choice, alternatives=tried)
    meter = subject.runner.meter if subject.runner else None
    return replace(choice, work=meter.work) if meter and meter.spent else choice


def at_once(subject: Subject, ledger: Ledger, methods: Sequence[MethodChoice] | None = None) -> Choice:
    """What is certain without a search: a limit that is broken, and what our own exact methods save. Those
    keep every bit by construction; whatever a proof would say of them, the model could not stay as it is."""
    if over_limits(subject.before, subject.limits):
        return Choice(None, NOT_SEARCHED, (), searched=False)
    allowed = subject.methods if methods is None else methods
    own = [one for one in allowed if method(one.name).bitwise]
    draft = _draft(subject, own)
    with ExitStack() as stack:
        exact = Attempts(subject, own, draft, ledger, stack).exact()
        if exact is None:
            return Choice(None, NOT_SEARCHED, (), searched=False)
        frozen = "defaults" in exact.changes  # what onnxruntime makes of that is for a proof to say
        staged = stage(subject, exact, runs=frozen)
        if not worth_it(subject, staged):
            return Choice(None, _not_worth(subject, staged), (), searched=False)
        if not frozen:
            return Choice(staged, NOT_PROVEN, (), searched=False)
        staged, proof = _proven(subject, staged, ledger)
        return Choice(staged if proof.accepted else None, proof.verification, (), searched=False)


def first_proven(subject: Subject, methods: Sequence[MethodChoice], ledger: Ledger) -> Choice:
    """Try candidates in the order the rule wants until one is proven. Where the user's limit of time cuts
    in, the smallest of those that are proven by then."""
    proven: list[Choice] = []
    try:
        with interrupted_at(subject.after(PROVING)):
            return _first_proven(subject, methods, ledger, proven)
    except OutOfTime:
        if not proven:
            raise
    ledger.by_chance = True
    return replace(proven[-1], plan=_cut_short(proven[-1].plan, "not all forms were tried when time was up"))


def _cut_short(plan: Planned | None, untried: str) -> Planned:
    plan = plan or Planned(tensors=0, forms=(), kept=(), trials=0, seconds=0.0)
    return plan if plan.untried else replace(plan, untried=untried)


def _first_proven(
    subject: Subject, methods: Sequence[MethodChoice], ledger: Ledger, proven: list[Choice]
) -> Choice:
    failed: Verification | None = None
    failed_exact = misled = False
    idle = NOT_RUN
    for attempt in in_order(subject, methods, ledger):
        if not worth_it(subject, attempt):
            idle = _not_worth(subject, attempt)
            continue
        if any(one.staged and attempt.measure.size >= one.staged.measure.size for one in proven):
            continue
        staged, proof = _proven(subject, attempt, ledger)
        if proof.accepted:
            plan = staged.candidate.planned or ledger.plan
            choice = Choice(staged, proof.verification, tuple(ledger.tried), latency=proof.latency, plan=plan)
            if not subject.late or staged.candidate.planned or subject.rule.mode != "smallest":
                return choice
            proven.append(choice)  # another may be smaller
            continue
        stuck = proof.verification.status == "not_run" and not _unseen(proof)
        ledger.tried.append(_alternative(staged, "", "not verified") if stuck else _refused(staged, proof))
        failed = _nearer(failed, _said_of(staged, proof.verification), subject.rule.tolerance)
        if stuck:
            break  # no other candidate can be verified either
        presumes = any(run.method.presumes for run in staged.candidate.runs)
        frozen = "defaults" in staged.candidate.changes
        failed_exact = failed_exact or (staged.candidate.bitwise and not frozen)
        misled = misled or frozen or (staged.candidate.exact and presumes)
    else:
        if proven:
            return proven[-1]
        if ledger.by_rule is not None:
            return _by_rule(ledger.by_rule, failed, ledger)
    return Choice(None, failed or idle, tuple(ledger.tried), failed_exact, misled, plan=ledger.plan)


LEVELS: dict[Level, tuple[str, ...]] = {
    "exact": (),
    "fp16": ("fp16-weights",),
    "int8": ("int8-weights",),
    "smallest": ("fp16-weights", "int8-weights", "int4-weights"),
}
PLANS = 2  # mixes that are proven for a survey


def each_level(subject: Subject) -> Iterator[SurveyedForm]:
    """All that a survey shows, each with its proof, instead of the first that holds. The planner goes first:
    what it finds out about tensors need not be found out again."""
    ledger, own = Ledger(), [one for one in subject.methods if not method(one.name).presumes]
    for methods in (subject.methods, own):
        with ExitStack() as stack:
            attempts = Attempts(subject, methods, _draft(subject, methods), ledger, stack)
            forms = list(attempts.levels())
        if all(form.proven for form in forms if form.level == "exact"):
            break
    yield from forms


def _by_rule(known: Choice, failed: Verification | None, ledger: Ledger) -> Choice:
    """What its own rule makes of a model, where what its group leaves it can't be had."""
    _note(known.alternatives, ledger)
    verification = known.verification if known.staged else failed or known.verification
    alternatives, plan = tuple(ledger.tried), known.plan or ledger.plan
    return replace(known, verification=verification, alternatives=alternatives, plan=plan)


def worth_it(subject: Subject, staged: Staged) -> bool:
    if staged.candidate.moved and staged.candidate.exact:
        return True  # where bytes are kept is what was asked for
    before, after = over_limits(subject.before, subject.limits), over_limits(staged.measure, subject.limits)
    if after.keys() - before.keys():
        return False  # paid for with a limit that was kept until now
    if newly_unmet(subject, staged):
        return False
    old, new = subject.size, staged.measure.size
    if staged.candidate.for_compression and staged.candidate.size <= subject.size:
        # The receipt alone may make such a file larger; what is worth it shows when it is compressed.
        old, new = subject.compressed(subject.before), subject.compressed(staged.measure)
    if new >= old:
        return False
    least = subject.rule.minimum_gain
    return bool(before and not after) or (old - new >= least.size and 1 - new / old >= least.share)


def newly_unmet(subject: Subject, staged: Staged) -> list[str]:
    """What the rule requires that the model keeps and the candidate does not, such as an opset."""
    before, after = (
        unmet(subject.rule.require, proto) for proto in (subject.model.proto, staged.model.proto)
    )
    known = {requirement.key for requirement in before}
    return [requirement.said for requirement in after if requirement.key not in known]


def _said_of(staged: Staged, found: Verification) -> Verification:
    """The same, with the candidate that was refused named: the model itself was not."""
    if found.status != "failed":
        return found
    names = ", ".join(staged.candidate.names)
    return replace(found, reason=f"a smaller form with {names} was refused: {found.reason}")


def _nearer(first: Verification | None, second: Verification, tolerance: Tolerance) -> Verification:
    """The refusal that was nearer to a pass; the first where that can't be told."""
    if first is None or not first.status == second.status == "failed":
        return first or second
    from onnx_ci.verify.compare import use_of

    return min(
        (first, second),
        key=lambda found: max((use_of(output, tolerance) for output in found.outputs), default=math.inf),
    )


def _not_worth(subject: Subject, staged: Staged) -> Verification:
    """Nothing was run, and why: a small model gains less than the receipt of it takes."""
    made, size = f"with {', '.join(staged.candidate.names)}", staged.measure.size
    told = f"{made} it would be {size:,} bytes, its receipt included, instead of {subject.size:,}"
    unmet = newly_unmet(subject, staged)
    if unmet:
        told += f"; and {unmet[0]}"
    least = subject.rule.minimum_gain
    if 0 < subject.size - size < max(least.size, subject.size * least.share):
        told += f"; savings under {least.words} are left alone"
    return replace(NOT_RUN, reason=f"{NOT_RUN.reason}: {told}")


def _proven(subject: Subject, staged: Staged, ledger: Ledger) -> tuple[Staged, Proof]:
    """The proof of a candidate, or of the same without the tensors that nothing vouches for."""
    proof = _prove(subject, staged, ledger)
    unseen = _unseen(proof)
    candidate = staged.candidate.sparing(unseen) if unseen else None
    if candidate is None:
        return staged, proof
    spared = stage(subject, candidate)
    limits = subject.limits
    worse = over_limits(spared.measure, limits).keys() - over_limits(staged.measure, limits)
    if not spared.candidate.gained or worse or not worth_it(subject, spared):
        return staged, proof
    other = _prove(subject, spared, ledger)
    if not other.accepted:
        return staged, proof
    ledger.tried.append(_refused(staged, proof))
    return spared, other


def _prove(subject: Subject, staged: Staged, ledger: Ledger) -> Proof:
    if subject.runner is None:
        reason = "verification was turned off"
        return Proof(accepted=True, verification=Verification(status="not_run", reason=reason))
    subject.say(f"verifying {', '.join(staged.candidate.names)}")
    from onnx_ci.verify.prove import Submission

    made = staged.candidate
    proof = subject.prover.prove(
        Submission(
            path=staged.path,
            model=staged.model,
            changes=made.changes,
            bitwise=made.bitwise,
            rounded=made.rounded,
        )
    )
    float16 = proof.verification.float16
    ledger.by_chance |= proof.verification.code == RAN_OUT
    ledger.by_chance |= bool(float16 and float16.unseen)
    return proof


def _unseen(proof: Proof) -> tuple[str, ...]:
    """The changed tensors that a proof does not speak for."""
    coverage = proof.verification.coverage
    return (*coverage.unseen, *coverage.blind) if coverage else ()


def stage(subject: Subject, candidate: Candidate, *, runs: bool = True) -> Staged:
    """Write the candidate, receipt included, into the scratch folder and measure it there. One that never
    `runs` and is not compressed needs no copy."""
    subject.say(f"trying {', '.join(candidate.names)}")
    model, compressed = candidate.model.copy(), subject.task.compressed
    verified = subject.runner is not None
    digest = stamp(model, candidate.runs, subject.lineage, subject.before, verified=verified)
    if not (verified and runs) and not compressed:
        found = Measure(size=lay_out(model).size, params=parameters(model.proto))
        return Staged(candidate, model, digest, subject.scratch, found)
    path = Path(tempfile.mkdtemp(prefix="candidate-", dir=subject.scratch)) / "model.onnx"
    write_model(model, path)
    found = measure(path, model.proto, hashing=BackgroundHash(path), compressed=compressed)
    return Staged(candidate, model, digest, path, found)


def in_order(subject: Subject, methods: Sequence[MethodChoice], ledger: Ledger) -> Iterator[Staged]:
    """to-budget: the mildest that fits, else the exact one. smallest: the smallest first."""
    with ExitStack() as stack:
        attempts = Attempts(subject, methods, _draft(subject, methods), ledger, stack)
        yield from attempts.smallest() if subject.rule.mode == "smallest" else attempts.to_budget()


def _draft(subject: Subject, methods: Sequence[MethodChoice]) -> Draft:
    return drafted(
        subject.model,
        methods,
        size=subject.size,
        exact_only=subject.rule.mode == "exact-only" or subject.lineage.lossy,
        compressed=bool(subject.task.compressed),
        feeds=subject.feeds,
    )


@dataclass(eq=False, repr=False)
class Attempts:
    """The candidates that some methods make of one model."""

    subject: Subject
    methods: Sequence[MethodChoice]
    draft: Draft
    ledger: Ledger
    stack: ExitStack  # what the planner has open

    @cached_property
    def planner(self) -> Planner | None:
        """Where there is something to plan, time for it, and a way to find out."""
        subject, ledger = self.subject, self.ledger
        if subject.runner is None or not subject.rule.runs_to_plan or not self.draft.lossy:
            return None
        from onnx_ci.gate.planner import start_planning

        try:
            with interrupted_at(subject.after(PLANNING)):
                planner = start_planning(subject, self.draft, self.methods, self.stack, ledger)
        except OutOfTime:
            ledger.plan, ledger.by_chance = _cut_short(None, "there was no time to plan"), True
            return None
        ledger.by_chance |= planner is not None and planner.hurried
        return planner

    def smallest(self) -> Iterator[Staged]:
        planner = self.planner
        whole = self._in_turn(planner)
        if planner is None:
            yield from whole
            return
        waiting, found = list(whole), False
        for candidate in self._gaining(planner.smallest()):
            staged, found = self._planned(planner, candidate), True
            if candidate.planned is not None:
                _note(planner.alternatives(), self.ledger)
            if planner.search.cut_short:
                self.ledger.plan = planner.report()  # said of methods as a whole too
            while waiting and self._rank(waiting[0]) < self._rank(staged):
                yield waiting.pop(0)
            yield staged
        self.ledger.plan = planner.report()
        # Where no mix holds, methods as a whole are tried in earnest: it is told why they are refused.
        ended = found and not planner.search.cut_short
        yield from waiting if ended else self._in_turn(None)

    def exact(self) -> Candidate | None:
        """What exact methods make of the model, if they gain anything."""
        lossy = {run.method.name for run in self.draft.lossy}
        return next(self._gaining(candidates(self.draft, planned=lossy)), None)

    def levels(self) -> Iterator[SurveyedForm]:
        """Each method as a whole, then the smallest mix: those that are smaller than what held before."""
        runs, planner = {run.method.name: run for run in self.draft.lossy}, self.planner
        best: SurveyedForm | None = None
        stuck: Verification | None = None  # why nothing can be verified
        for level, names in LEVELS.items():
            made: Iterable[Candidate] = ()
            if planner and level == "smallest":
                made = islice(planner.smallest(), PLANS)
            elif all(name in runs for name in names):
                made = [self.draft.with_runs([runs[name] for name in names])]
            for staged in (stage(self.subject, candidate) for candidate in made if candidate.runs):
                if not worth_it(self.subject, staged) or (best and staged.measure.size >= best.size):
                    break
                found = stuck
                if found is None:
                    staged, proof = _proven(self.subject, staged, self.ledger)
                    found = proof.verification
                    stuck = found if found.status == "not_run" and not _unseen(proof) else None
                size, used = staged.measure.size, staged.candidate.names
                form = SurveyedForm(level=level, methods=used, size=size, verification=found)
                if form.proven or level != "smallest":
                    yield form
                if form.proven:
                    best = form
                    break
        if best is not None and best.level != "smallest":
            yield replace(best, level="smallest")

    def to_budget(self) -> Iterator[Staged]:
        """First for what a group leaves the model, if it is in one; where that can't be had, for itself."""
        subject = self.subject
        base = self.exact()
        exact = stage(subject, base) if base else None
        now = exact.measure if exact else subject.before
        goals = [subject.aims, subject.limits] if subject.aims != subject.limits else [subject.limits]
        if self.ledger.by_rule is not None:
            goals, exact = [subject.aims], None
        for goal in goals:
            if not over_limits(subject.before, goal) or not over_limits(now, goal):
                break
            if self.planner is not None:
                yield from self._planned_to_fit(self.planner, now, goal)
            yield from self._whole_to_fit(goal)
        if exact is not None:
            yield exact

    def _planned_to_fit(self, planner: Planner, now: Measure, goal: Mapping[str, int]) -> Iterator[Staged]:
        """The least harmed mix that fits. Sizes are estimates until a candidate is written: ask for more
        where it is still too large. At last what is smallest: exact methods may have shrunk it further."""
        needed = float(_excess(now, goal))
        for _ in range(STRIDES):
            short = 0
            for candidate in self._gaining(planner.mildest(needed)):
                staged = self._planned(planner, candidate)
                short = _excess(staged.measure, goal)
                if short:
                    break
                yield staged
            if not short:
                break
            needed += 1.05 * short
        _note(planner.alternatives(needed), self.ledger)
        self.ledger.plan = planner.report()
        for candidate in planner.smallest():
            staged = self._planned(planner, candidate)
            if over_limits(staged.measure, goal):
                _note(
                    [_alternative(staged, "within", "within tolerance in trials, but too large")], self.ledger
                )
                break
            yield staged

    def _whole_to_fit(self, goal: Mapping[str, int]) -> Iterator[Staged]:
        for candidate in self._whole(self.planner):
            if candidate.exact:
                continue
            staged = stage(self.subject, candidate)
            if over_limits(staged.measure, goal):
                _note([_alternative(staged, "too_large", "too large")], self.ledger)
            else:
                yield staged

    def _planned(self, planner: Planner, candidate: Candidate) -> Staged:
        """A plan that the clock cut short is a matter of chance: it must not be remembered."""
        self.ledger.by_chance |= planner.hurried
        return stage(self.subject, candidate)

    def _whole(self, planner: Planner | None) -> Iterator[Candidate]:
        """Methods as a whole, but for those that are planned. A plan that ran out of time may have found
        nothing: then they are better than none."""
        forms = planner.forms if planner and not planner.hurried else ()
        return self._gaining(candidates(self.draft, {form.run.method.name for form in forms}))

    def _gaining(self, made: Iterable[Candidate]) -> Iterator[Candidate]:
        """Those that gained something; of the others what they say of it."""
        for candidate in made:
            for step in candidate.steps:
                if not step.tensors and step.size_after == step.size_before:
                    self.ledger.idle[step.method, step.note] = step
            if candidate.gained:
                yield candidate

    def _in_turn(self, planner: Planner | None) -> Iterable[Staged]:
        """Methods as a whole by size on disk, or compressed where a candidate was made for that; where time
        is short, as they are made: the mildest first, which is likely to hold."""
        made = self._whole(planner)
        if self.subject.late:
            return (stage(self.subject, one) for one in made)
        found = list(made)
        if not any(candidate.for_compression for candidate in found):
            return (stage(self.subject, one) for one in sorted(found, key=lambda one: one.size))
        return sorted((stage(self.subject, one) for one in found), key=self._rank)

    def _rank(self, staged: Staged) -> int:
        subject = self.subject
        return subject.compressed(staged.measure) if subject.task.compressed else staged.measure.size


def _refused(staged: Staged, proof: Proof) -> Alternative:
    outputs = proof.verification.outputs
    return replace(
        _alternative(staged, "refused", f"refused: {proof.verification.reason}"),
        cosine=min((output.cosine for output in outputs), default=None),
        sqnr=min((output.sqnr for output in outputs), default=None),
    )


def _alternative(staged: Staged, state: AlternativeState, words: str) -> Alternative:
    names, size = staged.candidate.names, staged.measure.size
    return Alternative(methods=names, size=size, state=state, verdict=words)


def _note(found: Iterable[Alternative], ledger: Ledger) -> None:
    """Put on the list what is not there already."""
    known = [(other.methods, other.size) for other in ledger.tried]
    ledger.tried += [one for one in found if (one.methods, one.size) not in known]


def _excess(found: Measure, goal: Mapping[str, int]) -> int:
    """The bytes that have to go for the limit that is broken most."""
    over = over_limits(found, goal)
    return max((value - goal[name] for name, value in over.items() if name != "params"), default=0)
