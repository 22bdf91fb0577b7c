"""The candidates for one model, in the order the rule wants them tried, until one is proven."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_ci.gate.cache import choice_memory
from onnx_ci.gate.candidates import Candidate, Choice, Draft, Staged, candidates, drafted
from onnx_ci.gate.decide import over_limits
from onnx_ci.gate.lineage import stamp
from onnx_ci.gate.subject import Ledger, Subject
from onnx_ci.methods.catalogue import method
from onnx_ci.model.measure import measure, parameters
from onnx_ci.model.save import lay_out, write_model
from onnx_ci.model.store import BackgroundHash
from onnx_ci.policy.schema import MethodChoice
from onnx_ci.results import NOT_RUN, Alternative, AlternativeState, Measure, Proof, Verification
from onnx_ci.util.sizes import format_percent

if TYPE_CHECKING:
    from onnx_ci.gate.planner import Planner

RAN_OUT = "OCI013"  # what a machine under load, or with less memory, may do otherwise
STRIDES = 4  # times that a plan is asked for more, where what it gave is still too large


def choose(subject: Subject, ledger: Ledger) -> Choice:
    """What an earlier run chose for the same content, or what comes of trying."""
    if subject.hands_off:
        return Choice(None, NOT_RUN, ())
    if not subject.remembers:
        return try_all(subject, ledger)
    content = subject.before.sha256 + (" without its receipt" if subject.lineage.foreign else "")
    kept = choice_memory(subject, content, subject.aims)
    known = kept.recall_choice()
    if known is not None:
        choice, done = known
        ledger.idle = done.idle
        return choice
    if subject.task.look and subject.task.share is not None:
        first = choice_memory(subject, content, subject.limits).recall_choice()
        if first is not None:
            ledger.by_rule, ledger.by_chance = first[0], first[1].by_chance
    choice = try_all(subject, ledger)
    kept.keep_choice(choice, ledger)
    return choice


def try_all(subject: Subject, ledger: Ledger) -> Choice:
    """The first that is proven; once more without other libraries, where one of them misled us."""
    choice = first_proven(subject, subject.methods, ledger)
    own = [one for one in subject.methods if method(one.name).fidelity != "exact*"]
    if choice.staged is None and choice.misled and len(own) < len(subject.methods):
        ledger.tried = []
        again = first_proven(subject, own, ledger)
        tried = (*choice.alternatives, *again.alternatives)
        choice = replace(again if again.staged else choice, alternatives=tried)
    return choice


def first_proven(subject: Subject, methods: Sequence[MethodChoice], ledger: Ledger) -> Choice:
    """Try candidates in the order the rule wants until one is proven."""
    failed: Verification | None = None
    failed_exact = misled = False
    idle = NOT_RUN
    for attempt in in_order(subject, methods, ledger):
        if not worth_it(subject, attempt):
            idle = _not_worth(subject, attempt)
            continue
        staged, proof = _proven(subject, attempt, ledger)
        if proof.accepted:
            plan = staged.candidate.planned or ledger.plan
            return Choice(staged, proof.verification, tuple(ledger.tried), latency=proof.latency, plan=plan)
        ledger.tried.append(_refused(staged, proof))
        failed = failed or proof.verification
        if proof.verification.status == "not_run" and not _unseen(proof):
            break  # no other candidate can be verified either
        failed_exact = failed_exact or staged.candidate.bitwise
        misled = misled or (staged.candidate.exact and not staged.candidate.bitwise)
    else:
        if ledger.by_rule is not None:
            return _by_rule(ledger.by_rule, failed, ledger)
    return Choice(None, failed or idle, tuple(ledger.tried), failed_exact, misled, plan=ledger.plan)


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
    saved = 1 - staged.measure.size / subject.size
    if staged.candidate.for_compression and staged.candidate.size <= subject.size:
        # The receipt alone may make such a file larger; what is worth it shows when it is compressed.
        saved = 1 - subject.compressed(staged.measure) / subject.compressed(subject.before)
    if saved <= 0:
        return False
    return bool(before and not after) or saved >= subject.rule.minimum_gain


def _not_worth(subject: Subject, staged: Staged) -> Verification:
    """Nothing was run, and why: a small model gains less than the receipt of it takes."""
    made, size = f"with {', '.join(staged.candidate.names)}", staged.measure.size
    told = f"{made} it would be {size:,} bytes, its receipt included, instead of {subject.size:,}"
    if 0 < subject.size - size < subject.size * subject.rule.minimum_gain:
        told += f"; savings under {format_percent(subject.rule.minimum_gain)} are left alone"
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
    if subject.prover is None:
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
    coverage = proof.verification.coverage
    ledger.by_chance |= proof.verification.code == RAN_OUT or bool(coverage and coverage.hurried)
    return proof


def _unseen(proof: Proof) -> tuple[str, ...]:
    """The changed tensors that a proof does not speak for."""
    coverage = proof.verification.coverage
    return (*coverage.unseen, *coverage.blind) if coverage else ()


def stage(subject: Subject, candidate: Candidate) -> Staged:
    """Write the candidate, receipt included, into the scratch folder and measure it there."""
    subject.say(f"trying {', '.join(candidate.names)}")
    model, compressed = candidate.model.copy(), subject.task.compressed
    verified = subject.runner is not None
    digest = stamp(model, candidate.runs, subject.lineage, subject.before, verified=verified)
    if not verified and not compressed:
        # Nothing will be run or compressed, so no scratch copy is needed either.
        found = Measure(size=lay_out(model).size, params=parameters(model.proto))
        return Staged(candidate, model, digest, subject.scratch, found)
    path = Path(tempfile.mkdtemp(prefix="candidate-", dir=subject.scratch)) / "model.onnx"
    write_model(model, path)
    found = measure(path, model.proto, hashing=BackgroundHash(path), compressed=compressed)
    return Staged(candidate, model, digest, path, found)


def in_order(subject: Subject, methods: Sequence[MethodChoice], ledger: Ledger) -> Iterator[Staged]:
    """to-budget: the mildest that fits, else the exact one. smallest: the smallest first."""
    mode = subject.rule.mode
    draft = drafted(
        subject.model,
        methods,
        size=subject.size,
        exact_only=mode == "exact-only" or subject.lineage.lossy,
        compressed=bool(subject.task.compressed),
        feeds=subject.feeds,
    )
    with ExitStack() as stack:
        if mode == "smallest":
            planner = _planner(subject, draft, methods, stack, ledger)
            yield from _smallest(subject, draft, planner, ledger)
        else:
            yield from _to_budget(subject, draft, methods, stack, ledger)


def _smallest(subject: Subject, draft: Draft, planner: Planner | None, ledger: Ledger) -> Iterator[Staged]:
    whole = _ordered(subject, list(_gaining(draft, planner, ledger)))
    if planner is None:
        yield from whole
        return
    waiting, found = list(whole), False
    for candidate in _noted(planner.smallest(), ledger):
        staged, found = _planned(subject, planner, candidate, ledger), True
        if candidate.planned is not None:
            _note(planner.alternatives(), ledger)
        while waiting and _rank(subject, waiting[0]) < _rank(subject, staged):
            yield waiting.pop(0)
        yield staged
    # Where no mix holds, methods as a whole are tried in earnest: it is told why they are refused.
    yield from waiting if found else _ordered(subject, list(_gaining(draft, None, ledger)))


def _to_budget(
    subject: Subject, draft: Draft, methods: Sequence[MethodChoice], stack: ExitStack, ledger: Ledger
) -> Iterator[Staged]:
    """First for what a group leaves the model, if it is in one; where that can't be had, for itself."""
    exact = _exact(subject, draft, ledger)
    now = exact.measure if exact else subject.before
    planner: Planner | None = None
    goals = [subject.aims, subject.limits] if subject.aims != subject.limits else [subject.limits]
    if ledger.by_rule is not None:
        goals, exact = [subject.aims], None
    for goal in goals:
        if not over_limits(subject.before, goal) or not over_limits(now, goal):
            break
        planner = planner or _planner(subject, draft, methods, stack, ledger)
        if planner is not None:
            yield from _planned_to_fit(subject, planner, now, goal, ledger)
        yield from _whole_to_fit(subject, draft, planner, goal, ledger)
    if exact is not None:
        yield exact


def _exact(subject: Subject, draft: Draft, ledger: Ledger) -> Staged | None:
    """The exact result, if there is one."""
    lossy = {run.method.name for run in draft.lossy}
    base = next(_noted(candidates(draft, planned=lossy), ledger), None)
    return None if base is None else stage(subject, base)


def _planned_to_fit(
    subject: Subject, planner: Planner, now: Measure, goal: Mapping[str, int], ledger: Ledger
) -> Iterator[Staged]:
    """The least harmed mix that fits. Sizes are estimates until a candidate is written: ask for more
    where it is still too large. At last what is smallest: exact methods may have shrunk it further."""
    needed = float(_excess(now, goal))
    for _ in range(STRIDES):
        short = 0
        for candidate in _noted(planner.mildest(needed), ledger):
            staged = _planned(subject, planner, candidate, ledger)
            short = _excess(staged.measure, goal)
            if short:
                break
            yield staged
        if not short:
            break
        needed += 1.05 * short
    _note(planner.alternatives(needed), ledger)
    ledger.plan = planner.report()
    for candidate in planner.smallest():
        staged = _planned(subject, planner, candidate, ledger)
        if over_limits(staged.measure, goal):
            _note([_alternative(staged, "within", "within tolerance, but too large")], ledger)
            break
        yield staged


def _whole_to_fit(
    subject: Subject, draft: Draft, planner: Planner | None, goal: Mapping[str, int], ledger: Ledger
) -> Iterator[Staged]:
    for candidate in _gaining(draft, planner, ledger):
        if candidate.exact:
            continue
        staged = stage(subject, candidate)
        if over_limits(staged.measure, goal):
            _note([_alternative(staged, "too_large", "too large")], ledger)
        else:
            yield staged


def _planned(subject: Subject, planner: Planner, candidate: Candidate, ledger: Ledger) -> Staged:
    """A plan that the clock cut short is a matter of chance: it must not be remembered."""
    ledger.by_chance |= planner.hurried
    return stage(subject, candidate)


def _planner(
    subject: Subject, draft: Draft, methods: Sequence[MethodChoice], stack: ExitStack, ledger: Ledger
) -> Planner | None:
    """Where there is something to plan, time for it, and a way to find out."""
    if subject.runner is None or not subject.rule.plan_seconds or not draft.lossy:
        return None
    from onnx_ci.gate.planner import start_planning

    planner = start_planning(subject, draft, methods, stack, ledger)
    ledger.by_chance |= planner is not None and planner.hurried
    return planner


def _gaining(draft: Draft, planner: Planner | None, ledger: Ledger) -> Iterator[Candidate]:
    # A plan that ran out of time may have found nothing: then methods as a whole are better than none.
    whole = planner is None or planner.hurried
    planned = set() if planner is None or whole else {form.run.method.name for form in planner.forms}
    return _noted(candidates(draft, planned), ledger)


def _noted(made: Iterable[Candidate], ledger: Ledger) -> Iterator[Candidate]:
    """Those that gained something; of the others what they say of it."""
    for candidate in made:
        for step in candidate.steps:
            if not step.tensors and step.size_after == step.size_before:
                ledger.idle[step.method, step.note] = step
        if candidate.gained:
            yield candidate


def _ordered(subject: Subject, found: list[Candidate]) -> Iterable[Staged]:
    """By size on disk; by compressed size where a candidate was made for that."""
    if not any(candidate.for_compression for candidate in found):
        return (stage(subject, one) for one in sorted(found, key=lambda candidate: candidate.size))
    return sorted((stage(subject, one) for one in found), key=lambda staged: _rank(subject, staged))


def _rank(subject: Subject, staged: Staged) -> int:
    return subject.compressed(staged.measure) if subject.task.compressed else staged.measure.size


def _refused(staged: Staged, proof: Proof) -> Alternative:
    return _alternative(staged, "refused", f"refused: {proof.verification.reason}")


def _alternative(staged: Staged, state: AlternativeState, words: str) -> Alternative:
    names, size = staged.candidate.names, staged.measure.size
    return Alternative(methods=names, size=size, state=state, verdict=words)


def _note(found: Sequence[Alternative], ledger: Ledger) -> None:
    """Put on the list what is not there already."""
    known = [(other.methods, other.size) for other in ledger.tried]
    ledger.tried += [one for one in found if (one.methods, one.size) not in known]


def _excess(found: Measure, goal: Mapping[str, int]) -> int:
    """The bytes that have to go for the limit that is broken most."""
    over = over_limits(found, goal)
    return max((value - goal[name] for name, value in over.items() if name != "params"), default=0)
