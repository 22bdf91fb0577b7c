"""A pass is doubted: it stands only if the same check refuses the candidate with its weights damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path

from onnx_ci.doubt.changed import changed, partly
from onnx_ci.doubt.coverage import FAINT, LONG, NOTICED, UNSEEN, Coverage, States
from onnx_ci.doubt.decoded import Rebuilt, rebuilt
from onnx_ci.doubt.stored import Stored, plainly
from onnx_ci.model.container import Model, values_beside
from onnx_ci.model.save import write_model
from onnx_ci.policy.schema import Tolerance
from onnx_ci.shown import KINDS, OutputDelta, Verification
from onnx_ci.shown import Coverage as Covered
from onnx_ci.verify.client import RunFailed
from onnx_ci.verify.damage import DAMAGES, blurred, damaged
from onnx_ci.verify.dtypes import is_float
from onnx_ci.verify.evidence import kind_of
from onnx_ci.verify.margin import least_sqnr
from onnx_ci.verify.verifier import Verifier

SHOWN = 3  # names in a reason
SPARE = 6.0  # dB by which a weight that no output notices has to be nearer to what it was than outputs
_SAMPLES = "give inputs that matter: inputs: {samples: [...]}"
_STRICTER = "add a limit in the output's own units, tolerance: {max_abs: ...}, or give other inputs"
Shown = Mapping[str, str]


class Doubt:
    """For candidates of one original. `further` makes other inputs than the verifier does, if it can."""

    def __init__(
        self, verifier: Verifier, scratch: Path, further: Callable[[], Verifier | None] = lambda: None
    ) -> None:
        self.verifier = verifier
        self.scratch = scratch
        self.further = further
        self._known: list[tuple[Model, Coverage]] = []
        self._undone = False  # the first damage moved nothing
        self.parts: frozenset[str] = frozenset()  # what the last model rebuilds unseen tensors from

    def as_a_whole(
        self, passed: Verification, candidate: Model, tolerance: Tolerance, original: Model
    ) -> Verification:
        """Run the check on the candidate with all its weights damaged: where that passes too, or can't be
        run in any way, the pass means nothing. Damage may undo what was done to the candidate: then the
        original is damaged instead."""
        shown, problem = self._damaged(candidate, tolerance)
        if shown is not None and not problem and self._undone:
            shown = {**shown, **self._missed(original, tolerance)}
        if problem:
            return _unsure(passed, problem, _SAMPLES)
        if shown is None:
            return passed  # it has no weights
        outputs = tuple(self._described(output, shown) for output in passed.outputs)
        passed = replace(passed, outputs=outputs)
        missed = [name for name, state in shown.items() if state == "missed"]
        if missed or "noticed" not in shown.values():
            return _unsure(passed, *_blindness(missed, outputs))
        if self._tells(outputs, shown) or self._sees_a_blur(candidate, tolerance):
            return passed
        return _unsure(passed, *_coarseness(outputs))

    def tensor_by_tensor(
        self,
        passed: Verification,
        before: Model,
        after: Model,
        tolerance: Tolerance,
        *,
        known: Collection[str] = (),
        added: bool = False,
    ) -> Verification:
        """Every tensor of `before` that `after` does not hold any more has to be one that outputs tell of,
        or one that `after` computes bit for bit from what it stores, or that is `known` to be right.
        `added` is for what only a second model has: it was no part of what has to be kept."""
        self.parts = frozenset()
        if passed.method == "distribution":
            return passed  # single runs tell nothing there; that damage to all of it shows was seen
        whole, other = self._coverage(before), plainly(after)
        items = [item for item in changed(whole.model, other) if item.name not in known]
        if not items:
            return replace(passed, coverage=Covered(changed=0))
        try:
            states = whole.ask(items, tolerance, partly(whole.model, items, other))
        except RunFailed as error:
            return _unsure(passed, f"whether it shows anything could not be found out: {error.message}", "")
        hidden = [item for item in items if states[item.key] != NOTICED]
        same = Rebuilt()
        if hidden:
            share = 10 ** (-(least_sqnr(tolerance) + SPARE) / 20)
            same = rebuilt(whole.model, hidden, other, self.verifier, self.scratch / "decoded", share)
            self.parts = same.parts
            items = [item for item in items if item.key not in same.keys]
        found = _covered(items, states, whole, same.far)
        passed = replace(passed, coverage=found)
        if found.unseen:
            return _unsure(passed, *_unseen(found))
        return _unsure(passed, *_blind(found)) if found.blind and not added else passed

    def _coverage(self, model: Model) -> Coverage:
        for known, coverage in self._known:
            if known is model:
                return coverage
        folder = self.scratch / f"doubt-{len(self._known)}"
        made = Coverage(plainly(model), self.verifier, self.further, folder)
        self._known.append((model, made))
        return made

    def _damaged(self, candidate: Model, tolerance: Tolerance) -> tuple[Shown | None, str]:
        """What each output showed with the first damage that runs and shows, or why there is none."""
        said, shown, self._undone = "", None, False
        for how in DAMAGES:
            broken = damaged(candidate, how)
            if broken is None:
                continue
            try:
                shown = self._sensitivity(self.verifier, broken, tolerance)
            except RunFailed as error:
                said = said or error.message
                if error.kind == "timeout":
                    break
                continue
            if set(shown.values()) - {"unmoved"}:
                return shown, ""
            self._undone = True
        problem = "no damaged form of the candidate runs, so nothing shows that the check would notice"
        return shown, f"{problem}: {said}" if said and shown is None else ""

    def _missed(self, original: Model, tolerance: Tolerance) -> Shown:
        """The outputs that move with the weights of the original in reverse order, unnoticed."""
        broken = damaged(original)
        try:
            shown = self._sensitivity(self.verifier, broken, tolerance) if broken is not None else {}
        except RunFailed:
            return {}
        return {name: state for name, state in shown.items() if state == "missed"}

    def _sensitivity(self, verifier: Verifier, broken: Model, tolerance: Tolerance) -> dict[str, str]:
        path = self.scratch / "damaged" / "model.onnx"
        path.parent.mkdir(exist_ok=True)
        try:
            write_model(broken, path)
            return self._patient(verifier).sensitivity(path, tolerance, extra=values_beside(broken))
        finally:
            shutil.rmtree(path.parent)

    def _patient(self, verifier: Verifier) -> Verifier:
        """The same, but it does not wait for a damaged model that never comes to an end."""
        verifier.reference()
        other = copy(verifier)
        seconds = min(verifier.limits.seconds, LONG + 10 * verifier.took)
        other.limits = replace(verifier.limits, seconds=seconds)
        return other

    def _described(self, output: OutputDelta, shown: Shown) -> OutputDelta:
        moved = shown.get(output.name) != "unmoved"
        kind = kind_of(output.name, self.verifier.reference(), self.verifier.feeds(), moved=moved)
        return replace(output, sensitive=moved, kind=kind)

    def _tells(self, outputs: Sequence[OutputDelta], shown: Shown) -> bool:
        """Whether any output that noticed has values in between, which small errors move a little."""
        floats = {
            name
            for sample in self.verifier.reference()
            for name, array in sample.items()
            if is_float(array.dtype)
        }
        return any(o.name in floats and not o.kind and shown[o.name] == "noticed" for o in outputs)

    def _sees_a_blur(self, candidate: Model, tolerance: Tolerance) -> bool:
        """Whether weights that are off by a third are noticed, on any of the inputs there are."""
        broken = damaged(candidate, blurred)
        for verifier in (self.verifier, self.further()):
            if broken is None or verifier is None:
                continue
            try:
                if "noticed" in self._sensitivity(verifier, broken, tolerance).values():
                    return True
            except RunFailed:
                return False
        return False


def _covered(
    items: Sequence[Stored], states: States, whole: Coverage, far: Collection[tuple[int, str]]
) -> Covered:
    def named(*wanted: tuple[str, bool]) -> tuple[str, ...]:
        kept = (item.name for item in items if (states[item.key], item.key in far) in wanted)
        return tuple(dict.fromkeys(kept))

    return Covered(
        changed=len(items),
        noticed=sum(states[item.key] == NOTICED for item in items),
        faint=named((FAINT, False)),
        blind=named((FAINT, True)),
        unseen=named((UNSEEN, True), (UNSEEN, False)),
        runs=whole.runs,
        alone=whole.alone,
        hurried=whole.hurried,
    )


def _unsure(passed: Verification, reason: str, hint: str) -> Verification:
    return replace(passed, status="not_run", code="OCI005", reason=reason, hint=hint)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(map(repr, names[:SHOWN])) + (f" and {more} more" if more > 0 else "")


def _blindness(missed: Sequence[str], outputs: Sequence[OutputDelta]) -> tuple[str, str]:
    """Why a pass means nothing, and what to do: the tolerance does not see damage, or no output shows any."""
    if missed:
        reason = (
            f"the tolerance is blind to output {_listed(missed)}:"
            " it moved when the weights were damaged on purpose, and still passed"
        )
        return reason, _STRICTER
    told = "; ".join(f"{output.name!r} {KINDS[output.kind]}" for output in outputs[:SHOWN] if output.kind)
    reason = (
        "the check would pass whatever is done to the weights:"
        f" no output moved when they were damaged on purpose{told and f' ({told})'}"
    )
    return reason, _SAMPLES


def _coarseness(outputs: Sequence[OutputDelta]) -> tuple[str, str]:
    saturated = [output.name for output in outputs if output.kind == "saturated"]
    what = f"output {_listed(saturated)} is saturated" if saturated else "no output has values in between"
    return f"{what}: weights that are off by 30% give the same, so a pass shows little", _SAMPLES


def _unseen(found: Covered) -> tuple[str, str]:
    reason = (
        f"{len(found.unseen)} of {found.changed} changed tensors are not covered: no output moves, whatever"
        f" is done to {_listed(found.unseen)}"
    )
    names = ", ".join(f'"{name}"' for name in found.unseen[:SHOWN])
    return reason, (
        "give inputs that reach them: inputs: {samples: [...]}; or leave them as they are:"
        f" skip: [{names}] where the method has it, or the method left out for this model"
    )


def _blind(found: Covered) -> tuple[str, str]:
    reason = (
        f"{len(found.blind)} of {found.changed} changed tensors can be anything as far as the tolerance goes:"
        f" whatever is done to {_listed(found.blind)}, outputs stay within it,"
        " and they are not near what they were"
    )
    return reason, _STRICTER
