"""Whether a pass means anything: it stands only if the same check refuses the candidate with its weights
damaged, as a whole and tensor by tensor."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Literal

import numpy as np

from onnx_ci.methods.drop_unused import strip_docs
from onnx_ci.methods.edit import probe
from onnx_ci.methods.options import NoOptions
from onnx_ci.model.dtypes import NUMPY_TYPES
from onnx_ci.model.graph import Scope, fixed_names, sites
from onnx_ci.model.model import Model, values_beside
from onnx_ci.model.receipt import model_digest
from onnx_ci.model.save import lay_out, write_runnable
from onnx_ci.policy.schema import Tolerance
from onnx_ci.results import KINDS, Coverage, OutputDelta, Verification
from onnx_ci.sandbox.exchange import Array, is_float
from onnx_ci.sandbox.runner import Feeds, RunFailed
from onnx_ci.util.advice import GIVE_SAMPLES, RECORD, Hint, set_tolerance
from onnx_ci.util.text import first_of
from onnx_ci.verify.compare import kind_of, least_sqnr, leaves, same_outputs
from onnx_ci.verify.damage import (
    DAMAGES,
    Damage,
    Rebuilt,
    StoredTensor,
    TensorKey,
    blur,
    changed_tensors,
    damaged,
    multiplications,
    plain_copy,
    put,
    randomize,
    rebuilt_tensors,
    reverse_order,
    scramble,
    stored_tensors,
)
from onnx_ci.verify.observation import observed
from onnx_ci.verify.reference import ArrayOutputs, Reference, WeightSwapSession
from onnx_ci.verify.verifier import LONG, Claim, Reaction, Verifier

SHOWN = 3  # names in a reason
SPARE = 6.0  # dB by which a weight that no output notices has to be nearer to what it was than outputs
MOST = 32  # runs with a single sample; where there are more tensors, some are damaged with their neighbours
LEAST = 12  # such runs, however large the model is
WORK = 2 * 10**9  # bytes that all such runs together may read of the model: a number, not a clock, decides,
PRODUCTS = 20 * 10**9  # and numbers that they may multiply
DEATHS = 3  # damaged models that hang or crash, before it is given up
_STRICTER = (
    "add a limit in the output's own units, " + set_tolerance("max_abs", "...") + ", or give other inputs"
)
# What damage to a tensor does: "faint" moves outputs, but not beyond the tolerance.
TensorState = Literal["noticed", "faint", "unseen"]
TensorStates = dict[TensorKey, TensorState]
Reactions = Mapping[str, Reaction]
# A model that takes tensors as inputs, and what these are called, by the tensor's name.
Probe = tuple[Path, Mapping[str, Sequence[str]]]


@dataclass(eq=False, repr=False)
class Sensitivity:
    """For candidates of one original, which is what the verifier checks against."""

    verifier: Verifier
    original: Model
    scratch: Path

    def __post_init__(self) -> None:
        self._known: list[tuple[Model, TensorCoverage]] = []
        self._reacted: list[tuple[Model, Tolerance, Reactions]] = []

    def note(self, model: Model, noticed: Collection[str], *, alone: bool, ready: Probe) -> None:
        """Take over what trials of a model have shown: tensors by whose damage an output would leave the
        tolerance, so that they need not be damaged to find that out; whether each was tried `alone`; and
        the model that they were tried in."""
        coverage = self._coverage(model)
        coverage.note(noticed, alone=alone)
        coverage.ready = ready

    def check(
        self,
        passed: Verification,
        candidate: Model,
        tolerance: Tolerance,
        rounded: tuple[Model, Model] | None,
    ) -> Verification:
        """Return the pass if damage to the candidate is noticed, and damage to every tensor that changed
        between the models of `rounded`, before and after what is not exact by construction. All candidates
        that are rounded from one model have its weights, so that one is damaged for all of them."""
        whole = self._as_a_whole(passed, rounded[0] if rounded else candidate, tolerance)
        if whole.status != "passed" or rounded is None:
            return whole
        verification, _ = self._tensor_by_tensor(whole, *rounded, tolerance)
        return verification

    def check_pair(self, passed: Verification, other: Model, tolerance: Tolerance) -> Verification:
        """Return the pass of a model that was not made from the original, if they are the same, or if inputs
        reach all that differs. A tensor that only one of the two stores is damaged in that one."""
        if _content(self.original) == _content(other):
            return passed
        whole = self._as_a_whole(passed, other, tolerance)
        if whole.status != "passed":
            return whole
        there, parts = self._tensor_by_tensor(whole, self.original, other, tolerance)
        if there.status != "passed":
            return there
        back, _ = self._tensor_by_tensor(there, other, self.original, tolerance, settled=parts)
        return replace(back, coverage=_both(there.coverage, back.coverage))

    def _as_a_whole(self, passed: Verification, candidate: Model, tolerance: Tolerance) -> Verification:
        """Run the check on the candidate with all its weights damaged: where that passes too, or can't be
        run in any way, the pass means nothing."""
        known = (seen for model, asked, seen in self._reacted if model is candidate and asked == tolerance)
        try:
            reactions = next(known, None)
            if reactions is None:
                reactions = self._reactions(candidate, tolerance)
                self._reacted.append((candidate, tolerance, reactions))
        except RunFailed as error:
            problem = "no damaged form of the candidate runs, so nothing shows that the check would notice"
            return _unsure(
                passed, f"{problem}: {error.message}", _other_inputs(passed, "that outputs depend on")
            )
        if not reactions:
            return passed  # it has no weights
        outputs = tuple(self._described(output, reactions) for output in passed.outputs)
        passed = replace(passed, outputs=outputs)
        missed = [name for name, reaction in reactions.items() if reaction == "missed"]
        if missed or "noticed" not in reactions.values():
            return _unsure(passed, *_blindness(missed, passed))
        if self._tells(outputs, reactions) or self._sees_a_blur(candidate, tolerance):
            return passed
        return _unsure(passed, *_coarseness(passed))

    def _tensor_by_tensor(
        self,
        passed: Verification,
        before: Model,
        after: Model,
        tolerance: Tolerance,
        *,
        settled: Collection[str] | None = None,
    ) -> tuple[Verification, Collection[str]]:
        """Every tensor of `before` that `after` does not hold any more has to be one that outputs tell of,
        or one that `after` computes bit for bit from what it stores. Return what is left of the pass, and
        the names of what `after` computes such tensors from.

        `settled` is given for what only a second model has: the names that are known to be right. The others
        were no part of what has to be kept, so the tolerance may be blind to them."""
        if passed.method == "distribution":
            return passed, ()  # single runs tell nothing; that damage to all of it shows was seen
        tensor_coverage, other = self._coverage(before), plain_copy(after)
        changed = changed_tensors(tensor_coverage.model, other)
        items = [item for item in changed if item.name not in (settled or ())]
        if not items:
            return replace(passed, coverage=Coverage(changed=0)), ()
        find_rebuilt = partial(
            rebuilt_tensors,
            tensor_coverage.model,
            after=other,
            reference=self.verifier.reference,
            folder=self.scratch / "decoded",
            least_sqnr=least_sqnr(tolerance) + SPARE,
        )
        try:
            states, rebuilt = tensor_coverage.ask(items, tolerance, find_rebuilt)
        except RunFailed as error:
            reason = f"whether it shows anything could not be found out: {error.message}"
            return _unsure(passed, reason, ""), ()
        items = [item for item in items if item.key not in rebuilt.keys]
        coverage = tensor_coverage.described(items, states, rebuilt.far)
        passed = replace(passed, coverage=coverage)
        if coverage.unseen:
            passed = _unsure(passed, *_unseen(coverage))
        elif coverage.blind and settled is None:
            passed = _unsure(passed, *_blind(coverage))
        return passed, rebuilt.parts

    def _coverage(self, model: Model) -> TensorCoverage:
        for asked, coverage in self._known:
            if asked is model:
                return coverage
        folder = self.scratch / f"coverage-{len(self._known)}"
        coverage = TensorCoverage(plain_copy(model), self.verifier, folder)
        self._known.append((model, coverage))
        return coverage

    def _reactions(self, candidate: Model, tolerance: Tolerance) -> Reactions:
        """Return what each output showed of the first damage that runs and shows; nothing where there is no
        weight. Raises RunFailed where no damage runs."""
        failure: RunFailed | None = None
        unmoved: Reactions = {}
        for how in DAMAGES:
            try:
                reactions = self._reactions_to(how, candidate, tolerance)
            except RunFailed as error:
                failure = failure or error
                if error.kind == "timeout":
                    break
                continue
            if set(reactions.values()) - {"unmoved"}:
                # Damage may undo what was done to the candidate: then the original is damaged as well.
                return {**reactions, **self._missed(tolerance)} if unmoved else reactions
            unmoved = unmoved or reactions
        if unmoved:
            return {**unmoved, **self._missed(tolerance)}
        if failure:
            raise failure
        return {}

    def _missed(self, tolerance: Tolerance) -> Reactions:
        """The outputs that move with the weights of the original in reverse order, unnoticed."""
        try:
            reactions = self._reactions_to(reverse_order, self.original, tolerance)
        except RunFailed:
            return {}
        return {name: reaction for name, reaction in reactions.items() if reaction == "missed"}

    def _reactions_to(
        self, how: Damage, model: Model, tolerance: Tolerance, verifier: Verifier | None = None
    ) -> Reactions:
        """Return what each output shows of one damage; nothing where there is nothing to damage."""
        broken = damaged(model, how)
        if broken is None:
            return {}
        path = self.scratch / "damaged" / "model.onnx"
        path.parent.mkdir(exist_ok=True)
        claim = Claim(path=path, proto=broken.proto, tolerance=tolerance, extra=values_beside(broken))
        try:
            write_runnable(observed(broken), path)
            return (verifier or self.verifier).sensitivity(claim)
        finally:
            shutil.rmtree(path.parent)

    def _described(self, output: OutputDelta, reactions: Reactions) -> OutputDelta:
        moved = reactions.get(output.name) != "unmoved"
        reference = self.verifier.reference
        kind = kind_of(output.name, reference.outputs(), reference.feeds(), moved=moved)
        if kind == "saturated" and output.behind:
            kind = ""  # what is behind it is not
        return replace(output, sensitive=moved, kind=kind)

    def _tells(self, outputs: Sequence[OutputDelta], reactions: Reactions) -> bool:
        """Whether any output that noticed has values in between, which small errors move a little."""
        floats = set()
        for sample in self.verifier.reference.outputs():
            floats |= {name for name, array in sample.items() if is_float(array.dtype)}
        noticed = [output for output in outputs if reactions.get(output.name) == "noticed"]
        return any(output.name in floats and not output.kind for output in noticed)

    def _sees_a_blur(self, candidate: Model, tolerance: Tolerance) -> bool:
        """Whether weights that are off by a third are noticed, on any of the inputs there are."""
        verifiers = [self.verifier, self.verifier.some] if self.verifier.further_feeds else [self.verifier]
        try:
            return any(
                "noticed" in self._reactions_to(blur, candidate, tolerance, verifier).values()
                for verifier in verifiers
            )
        except RunFailed:
            return False


@dataclass(eq=False, repr=False)
class TensorCoverage:
    """What is known of the tensors of one model: asked for once, good for all its candidates."""

    model: Model
    verifier: Verifier
    folder: Path
    states: TensorStates = field(default_factory=dict)
    open: set[TensorKey] = field(default_factory=set)  # not noticed with one sample, and asked no further
    moved: set[TensorKey] = field(default_factory=set)  # of these, what moved an output by itself
    runs: int = 0
    alone: bool = True
    ready: Probe | None = None

    def note(self, noticed: Collection[str], *, alone: bool) -> None:
        """Remember tensors that are known to be noticed; not names that stand for several."""
        keys = [item.key for item in stored_tensors(self.model)]
        counts = Counter(name for _, name in keys)
        found = [key for key in keys if key[1] in noticed and counts[key[1]] == 1]
        self.states.update(dict.fromkeys(found, "noticed"))
        self.alone = self.alone and alone

    def ask(
        self,
        items: Sequence[StoredTensor],
        tolerance: Tolerance,
        find_rebuilt: Callable[[Sequence[StoredTensor]], Rebuilt],
    ) -> tuple[TensorStates, Rebuilt]:
        """Return the state of each tensor, or of the part of it that changed, which is not kept; and which
        of those that were not noticed are there in another form."""
        new = [item for item in items if item.part is not None or item.key not in self.states]
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            reference = self.verifier.reference
            runs = DamagedRuns(self.model, items, reference, self.folder, tolerance, stack, self.ready)
            if new:
                self._look(runs, new)
            left = [item for item in items if self.states[item.key] != "noticed"]
            rebuilt = find_rebuilt(left)
            asked = [item for item in left if item.key in self.open - rebuilt.keys]
            self._look_closer(runs, asked, rebuilt.far)
            self.runs += runs.count
        states = {item.key: self.states[item.key] for item in items}
        for item in items:
            if item.part is not None:
                self.states.pop(item.key, None)
                self.open.discard(item.key)
                self.moved.discard(item.key)
        return states, rebuilt

    def described(
        self, items: Sequence[StoredTensor], states: TensorStates, far: Collection[TensorKey]
    ) -> Coverage:
        """Return what these states come to; `far` are tensors that are not near what they were."""
        names: dict[str, list[str]] = {"noticed": [], "faint": [], "blind": [], "unseen": []}
        for item in items:
            state = states[item.key]
            names["blind" if state == "faint" and item.key in far else state].append(item.name)
        return Coverage(
            changed=len(items),
            noticed=len(names["noticed"]),
            faint=tuple(dict.fromkeys(names["faint"])),
            blind=tuple(dict.fromkeys(names["blind"])),
            unseen=tuple(dict.fromkeys(names["unseen"])),
            runs=self.runs,
            alone=self.alone,
        )

    def _look(self, runs: DamagedRuns, items: Sequence[StoredTensor]) -> None:
        """Damage all of them once, with one sample."""
        runs.begin(self.verifier.reference.feeds()[:1])
        # The same for a model wherever it is asked, so that a slow machine finds what a fast one does.
        affordable = max(LEAST, min(MOST, WORK // lay_out(self.model).size, PRODUCTS // self._products))
        for group in grouped(items, affordable):
            self._note(group, runs.state(group, scramble))
            self.alone = self.alone and len(group) == 1
        self.open |= {item.key for item in items if self.states[item.key] != "noticed"}

    @cached_property
    def _products(self) -> int:
        first = self.verifier.reference.feeds()[0]
        shapes = {name: value.shape for name, value in first.items() if isinstance(value, np.ndarray)}
        return max(1, multiplications(self.model.proto, shapes))

    def _look_closer(
        self, runs: DamagedRuns, items: Sequence[StoredTensor], far: Collection[TensorKey]
    ) -> None:
        """What is near what it was has to move an output, and no more: one sample may tell. All there are,
        and other damage, are for what is far from it, and for what that one does not reach."""
        feeds = self.verifier.reference.feeds()
        near = [item for item in items if item.key not in far and item.key not in self.moved]
        if near:
            if not runs.has_begun:
                runs.begin(feeds[:1])
            self._note(near, "unseen")
            for group in grouped(near, 1):
                self._settle(runs, group, scramble)
            self.moved |= {item.key for item in near if self.states[item.key] != "unseen"}
        left = [item for item in items if item.key in far or item.key not in self.moved]
        if not left:
            return
        self.open -= {item.key for item in left}
        runs.begin([*feeds, *self.verifier.further_feeds])
        for how in (scramble, randomize):
            for group in grouped(left, 1):
                self._settle(runs, group, how)
            left = [item for item in left if self.states[item.key] != "noticed"]

    def _settle(self, runs: DamagedRuns, items: Sequence[StoredTensor], how: Damage) -> None:
        """Halved as long as something shows; what does not show together does not show alone."""
        state = runs.state(items, how)
        if state == "unseen":
            return
        if len(items) > 1 and runs.count < 2 * MOST:
            middle = len(items) // 2
            self._settle(runs, items[:middle], how)
            self._settle(runs, items[middle:], how)
        else:
            self._note(items, state)

    def _note(self, items: Sequence[StoredTensor], state: TensorState) -> None:
        self.states.update((item.key, state) for item in items)


@dataclass(eq=False, repr=False)
class DamagedRuns:
    """Run one model with some of its tensors damaged: in one session where that works, else each time anew.

    The model is one that the reference has inputs for."""

    model: Model
    items: Collection[StoredTensor]
    reference: Reference
    folder: Path  # for what is written
    tolerance: Tolerance
    stack: ExitStack  # closes sessions
    ready: Probe | None = None  # that is there already
    session: WeightSwapSession = field(init=False)  # of the inputs that are run now

    def __post_init__(self) -> None:
        self.count = self.deaths = 0
        self.cost = 0.0
        self.has_begun = False  # then it is known how the model takes weights, and what a run costs
        self.path = self.folder / "probe.onnx"
        self.inputs: Mapping[TensorKey, str] = {}

    def begin(self, feeds: Sequence[Feeds]) -> None:
        """Run the model unharmed on these inputs: all that follow are compared with that."""
        if not self.has_begun:
            self.folder.mkdir(parents=True)
            self.inputs = self._exchangeable()
        session = self.reference.session(self.path, feeds, extra=values_beside(self.model))
        self.session = self.stack.enter_context(session)
        if not self.has_begun and not self._takes_weights():
            # Some operators want their weights to be constants: then each trial is a model of its own.
            self.inputs, self.path = {}, self.folder / "plain.onnx"
            write_runnable(observed(self.model), self.path)
        began = time.monotonic()
        self.before = session.run({}, self.path)
        if not self.has_begun:
            self.cost = (time.monotonic() - began) / len(feeds)
            exact = all(delta.exact for delta in self.reference.noise)
            self.steady = exact or same_outputs(self.before, session.run({}, self.path))
            self.has_begun = True
        # A damaged model that does not come to an end is not waited for.
        limits = session.limits
        session.limits = replace(limits, seconds=min(limits.seconds, LONG + 10 * self.cost * len(feeds)))

    def state(self, items: Sequence[StoredTensor], how: Damage) -> TensorState:
        """Tell what damage to these tensors does. A model that no longer runs is noticed: it would be
        refused."""
        self.count += 1
        try:
            if all(item.key in self.inputs for item in items):
                outputs = self.session.run(self._files(items, how), self.path)
            else:
                outputs = self._anew(items, how)
        except RunFailed as error:
            self.deaths += error.kind != "error"
            if self.deaths > DEATHS:
                raise
            return "noticed"
        if leaves(self.before, outputs, self.tolerance, together=self.reference.is_made_up):
            return "noticed"
        return "faint" if self.steady and not same_outputs(self.before, outputs) else "unseen"

    def _takes_weights(self) -> bool:
        """Whether the model runs when it is given the weights that it has: if not, that a damaged one does
        not run would say nothing of the damage. One that is there already was given others before."""
        if self.ready and self.path == self.ready[0]:
            return True
        items = [item for item in stored_tensors(self.model) if item.key in self.inputs]
        try:
            if items:
                self.session.run(self._files(items, np.asarray), self.path)
        except RunFailed:
            return False
        return True

    def _exchangeable(self) -> Mapping[TensorKey, str]:
        """The tensors that can be given as inputs, and what these are called; writes the model that takes
        them. Of a name that several graphs use, each has an input of its own."""
        graph, fixed = self.model.proto.graph, fixed_names(self.model.proto)
        wanted = {item.key for item in self.items if item.tensor.data_type in NUMPY_TYPES}
        keys: list[TensorKey] = []
        for number, scope in enumerate(Scope(graph).nested()):
            keys += [(number, site.name) for site in sites(scope, fixed)]
        names = {key[1] for key in keys if key in wanted}
        inputs = self._inputs(Counter(key[1] for key in keys if key[1] in names))
        waiting = {name: iter(given) for name, given in inputs.items()}
        input_of = {key: next(waiting[key[1]]) for key in keys if key[1] in names}
        given = {value.name for value in graph.input}  # these a caller may override anyway
        input_of.update(((0, one.name), one.name) for one in graph.initializer if one.name in given)
        return {key: name for key, name in input_of.items() if key in wanted}

    def _inputs(self, places: Mapping[str, int]) -> Mapping[str, Sequence[str]]:
        """What tensors are called as inputs, of a model that is there or is written now."""
        if self.ready:
            path, known = self.ready
            if all(len(known.get(name, ())) == count for name, count in places.items()):
                self.path = path
                return known
        probe_model, inputs = probe(self.model, places)
        write_runnable(observed(probe_model), self.path)
        return inputs

    def _files(self, items: Sequence[StoredTensor], how: Damage) -> dict[str, Path]:
        files: dict[str, Path] = {}
        for number, item in enumerate(items):
            file = self.folder / f"{number}.npy"
            np.save(file, self._damaged(item, how), allow_pickle=False)
            files[self.inputs[item.key]] = file
        return files

    def _damaged(self, item: StoredTensor, how: Damage) -> Array:
        values = self.model.array(item.tensor)
        return how(values) if item.part is None else np.where(item.part, how(values), values)

    def _anew(self, items: Sequence[StoredTensor], how: Damage) -> ArrayOutputs:
        copy = self.model.copy()
        chosen = {item.key: item for item in items}
        for stored in stored_tensors(copy):
            if stored.key in chosen:
                put(copy, stored.tensor, self._damaged(chosen[stored.key], how))
        folder = self.folder / f"anew-{self.count}"  # a session is known by the path of its model
        folder.mkdir()
        try:
            write_runnable(observed(copy), folder / "model.onnx")
            return self.session.run({}, folder / "model.onnx")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def grouped(items: Sequence[StoredTensor], most: int) -> Iterator[list[StoredTensor]]:
    """So many groups at most, but for one in each graph, so that a branch which no input takes is not hidden
    by what is around it: neighbours are together, the largest groups are halved first."""
    reader = attrgetter("read_in")
    groups = [list(tensors) for _, tensors in groupby(sorted(items, key=reader), key=reader)]
    while groups and len(groups) < most:
        widest = max(range(len(groups)), key=lambda number: len(groups[number]))
        group = groups[widest]
        if len(group) == 1:
            break
        middle = len(group) // 2
        groups[widest : widest + 1] = [group[:middle], group[middle:]]
    yield from groups


def _content(model: Model) -> str:
    """Return a digest of all that has a part in what a model computes."""
    copy = model.copy()
    strip_docs(copy, NoOptions())
    proto = copy.proto
    for name in ("producer_name", "producer_version", "model_version", "domain", "metadata_props"):
        proto.ClearField(name)
    return model_digest(copy)


def _both(first: Coverage | None, second: Coverage | None) -> Coverage | None:
    if first is None or second is None:
        return second
    return Coverage(
        changed=first.changed + second.changed,
        noticed=first.noticed + second.noticed,
        faint=tuple(dict.fromkeys((*first.faint, *second.faint))),
        blind=first.blind,
        unseen=tuple(dict.fromkeys((*first.unseen, *second.unseen))),
        runs=first.runs + second.runs,
        alone=first.alone and second.alone,
    )


def _unsure(passed: Verification, reason: str, hint: str) -> Verification:
    return replace(passed, status="not_run", code="OCI005", reason=reason, hint=hint)


def _listed(names: Sequence[str]) -> str:
    return first_of([repr(name) for name in names], SHOWN)


def _other_inputs(passed: Verification, which: str) -> Hint:
    """Ask for inputs that tell more than these: real ones first; where these are the user's own, others."""
    if passed.inputs == "samples":
        return "add samples " + which + ", to " + GIVE_SAMPLES
    return RECORD + "; best are inputs " + which


def _blindness(missed: Sequence[str], passed: Verification) -> tuple[str, str]:
    """Why a pass means nothing, and what to do: the tolerance does not see damage, or no output shows any."""
    if missed:
        reason = (
            f"the tolerance is blind to output {_listed(missed)}:"
            " it moved when the weights were damaged on purpose, and still passed"
        )
        return reason, _STRICTER
    outputs = [output for output in passed.outputs[:SHOWN] if output.kind]
    kinds = "; ".join(f"{output.name!r} {KINDS[output.kind]}" for output in outputs)
    reason = (
        "the check would pass whatever is done to the weights:"
        " no output moved when they were damaged on purpose"
    )
    hint = _other_inputs(passed, "that outputs depend on")
    return f"{reason} ({kinds})" if kinds else reason, hint


def _coarseness(passed: Verification) -> tuple[str, str]:
    saturated = [output.name for output in passed.outputs if output.kind == "saturated"]
    what = f"output {_listed(saturated)} is saturated" if saturated else "no output has values in between"
    reason = f"{what}: weights that are off by 30% give the same, so a pass shows little"
    return reason, _other_inputs(passed, "on which the model is undecided: it is sure of all of these")


def _unseen(coverage: Coverage) -> tuple[str, str]:
    reason = (
        f"{len(coverage.unseen)} of {coverage.changed} changed tensors are not covered:"
        f" no output moves, whatever is done to {_listed(coverage.unseen)}"
    )
    names = ", ".join(f'"{name}"' for name in coverage.unseen[:SHOWN])
    return reason, (
        "give inputs that reach them: " + GIVE_SAMPLES + "; or leave them as they are:"
        f" skip: [{names}] where the method has it, or the method left out for this model"
    )


def _blind(coverage: Coverage) -> tuple[str, str]:
    reason = (
        f"{len(coverage.blind)} of {coverage.changed} changed tensors can be anything as far as the tolerance"
        " goes:"
        f" whatever is done to {_listed(coverage.blind)}, outputs stay within it,"
        " and they are not near what they were"
    )
    return reason, _STRICTER
