"""The planner for one model: sets up what trials need, and turns mixes into candidates and a report."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice

from onnx_ci.errors import ModelError
from onnx_ci.gate.candidates import Candidate, Draft
from onnx_ci.gate.planner_search import Search
from onnx_ci.gate.planner_trials import Form, Mix, OutOfTime, Shelf, Trials, Tried, forms_of
from onnx_ci.gate.subject import Ledger, Subject
from onnx_ci.methods.chain import RunPart
from onnx_ci.methods.edit import probe
from onnx_ci.model.model import Model
from onnx_ci.model.save import write_model
from onnx_ci.policy.schema import MethodChoice
from onnx_ci.results import Alternative, KeptTensor, Planned, Point
from onnx_ci.verify.metrics import least_sqnr

ROOM = 8 << 30  # bytes of scratch that the forms of all tensors may take
SHOWN = 20  # tensors that a report names
FEW = 6  # mixes that are written and proven, should what held in trials be refused


def start_planning(
    subject: Subject, draft: Draft, methods: Sequence[MethodChoice], stack: ExitStack, ledger: Ledger
) -> Planner | None:
    """A planner whose session stays open in `stack`; None where there is nothing to plan, or no way to find
    out how."""
    forms = forms_of(methods)
    if not forms:
        return None
    ledger.plan, began = None, time.monotonic()
    try:
        search = _search(subject, draft.start.model, forms, stack, began + subject.rule.plan_seconds)
    except ModelError:
        return None
    except OutOfTime:
        ledger.by_chance = True
        seconds = round(time.monotonic() - began, 3)
        why = "there was no time to plan"
        ledger.plan = Planned(tensors=0, forms=(), kept=(), trials=0, seconds=seconds, untried=why)
        return None
    return Planner(draft, forms, search, began) if search else None


def _search(
    subject: Subject, model: Model, forms: Sequence[Form], stack: ExitStack, until: float
) -> Search | None:
    """None where trials would tell nothing."""
    if subject.prover is None:
        return None
    rule, reference = subject.rule, subject.prover.planning
    reference.usable_outputs()
    if not reference.is_graded:
        return None  # no output has values in between, so there is no telling how near a limit is
    subject.say("planning: rounding samples of each tensor")
    folder = subject.scratch / "planning"
    folder.mkdir(exist_ok=True)
    least = 0.0 if rule.inputs.samples else least_sqnr(rule.tolerance)
    shelf = Shelf(model, forms, folder, compressed=bool(subject.task.compressed), least=least)
    room = 4 * len(forms) * sum(tensor.elements for tensor in shelf.tensors.values())
    if not shelf.tensors or room > ROOM or model.beside:
        return None
    made, inputs = probe(model, shelf.tensors)
    write_model(made, folder / "probe.onnx")
    session = stack.enter_context(reference.session(folder / "probe.onnx"))
    trials = Trials(
        shelf=shelf,
        reference=reference,
        session=session,
        inputs=inputs,
        rule=rule,
        until=until,
        say=subject.say,
    )
    if not trials.run({}).holds:
        return None  # not even before anything is rounded
    search = Search(trials)
    # Where nothing can be vouched for, it is verification that has to say so.
    return search if search.rounded else None


@dataclass(frozen=True)
class Planner:
    """What a search found for one model."""

    draft: Draft
    forms: Sequence[Form]
    search: Search
    began: float  # on the clock

    @property
    def hurried(self) -> bool:
        """Whether there was not enough time for all of it."""
        return bool(self.search.cut_short)

    def smallest(self) -> Iterator[Candidate]:
        """Candidates that held in trials, the smallest first."""
        return map(self._candidate, islice(self.search.smallest(), FEW))

    def mildest(self, needed: float) -> Iterator[Candidate]:
        """Candidates that held in trials and save as much as is needed, the least harmed first."""
        for tried in self.search.mildest(needed)[:FEW]:
            if tried.holds:
                yield self._candidate(tried.mix)

    def alternatives(self, needed: float = 0.0) -> list[Alternative]:
        """What came of whole methods, each by itself, and of the mildest mix that saves what is needed."""
        search = self.search
        mixes = list(search.uniform())
        mixes += [one.mix for one in search.mildest(needed)[:1] if needed]
        known = [one for one in map(search.trials.tried, mixes) if one is not None]
        unique = [one for number, one in enumerate(known) if one not in known[:number]]
        return [self._alternative(one) for one in unique]

    def _alternative(self, tried: Tried) -> Alternative:
        return Alternative(
            methods=self._names(tried.mix),
            size=self._size(tried.mix),
            verdict="within tolerance" if tried.holds else f"refused: {tried.problem}",
            state="within" if tried.holds else "refused",
            cosine=tried.cosine,
            sqnr=tried.sqnr,
        )

    def _names(self, mix: Mix) -> tuple[str, ...]:
        used = {self.forms[form].run.method.name for form in mix.values()}
        return tuple(run.method.name for run in self.draft.lossy if run.method.name in used)

    def _size(self, mix: Mix) -> int:
        return int(self.draft.start.size - self.search.saved(mix))

    def _candidate(self, mix: Mix) -> Candidate:
        parts: dict[str, list[RunPart]] = defaultdict(list)
        for index, form in enumerate(self.forms):
            names = tuple(name for name in mix if mix[name] == index)
            if names:
                parts[form.run.method.name].append(RunPart(form.label, form.run.options, names))
        runs = [
            replace(run, parts=tuple(parts[run.method.name]))
            for run in self.draft.lossy
            if run.method.name in parts
        ]
        made = self.draft.with_runs(runs)
        return replace(made, planned=self.report(mix))

    def report(self, mix: Mix | None = None) -> Planned:
        """How a mix was found, or what was tried where none was taken."""
        search = self.search
        taken = mix or {}
        counts = Counter(self.forms[form].label for form in taken.values())
        return Planned(
            tensors=len(search.tensors),
            forms=tuple((form.label, counts[form.label]) for form in self.forms if counts[form.label]),
            kept=tuple(self._kept(taken)) if mix else (),
            trials=len(search.trials.made),
            seconds=round(time.monotonic() - self.began, 3),
            untried=search.cut_short,
            unseen=tuple(search.unseen),
            curve=tuple(self._curve(taken)),
        )

    def _kept(self, mix: Mix) -> Iterator[KeptTensor]:
        """Tensors that are not in the smallest form there is, the most sensitive first; those that no output
        tells anything of come last."""
        search = self.search
        larger = [name for name in search.alone if name not in search.unseen and not search.least(name, mix)]
        larger.sort(key=lambda name: search.alone[name].sqnr)
        for name in larger[:SHOWN]:
            form = self.forms[mix[name]].label if name in mix else "as it was"
            tried = search.alone[name]
            probed = self.forms[tried.mix[name]].label
            company = "alone" if len(tried.mix) == 1 else f"with {len(tried.mix) - 1} others"
            why = f"{company} in {probed} it leaves {tried.sqnr:.1f} dB, cosine {tried.cosine:.5f}"
            yield KeptTensor(name=name, form=form, size=int(search.tensors[name].nbytes), why=why)
        for name in search.unseen:
            why = "no output moves, whatever is done to it"
            yield KeptTensor(name=name, form="as it was", size=int(search.tensors[name].nbytes), why=why)

    def _curve(self, mix: Mix) -> Iterator[Point]:
        """Size against error of every mix that was tried, smallest first; the chosen one is marked."""
        tried = [one for one in self.search.trials.made.values() if len(one.mix) > 1 or one.mix == mix]
        for one in sorted(tried, key=lambda one: self._size(one.mix)):
            yield Point(
                size=self._size(one.mix),
                cosine=one.cosine,
                sqnr=one.sqnr,
                holds=one.holds,
                chosen=one.mix == mix,
            )
