"""The planner for one model: sets up what trials need, and turns mixes into candidates and a report."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.gate.candidates import Candidate, Draft
from onnx_ci.gate.planner_search import Search
from onnx_ci.gate.planner_trials import Mix, OutOfTime, Shelf, Trials, Tried, forms_of
from onnx_ci.methods.chain import RunPart
from onnx_ci.methods.edit import probe
from onnx_ci.model.save import write_model
from onnx_ci.policy.schema import MethodChoice, Rule
from onnx_ci.results import Alternative, KeptTensor, Planned, Point
from onnx_ci.verify.compare import least_sqnr, with_margin
from onnx_ci.verify.prove import Prover

ROOM = 8 << 30  # bytes of scratch that the forms of all tensors may take
SHOWN = 20  # tensors that a report names
FEW = 6  # mixes that are written and proven, should what held in trials be refused


class Planner:
    """A context manager. `search` is None where the model can't be planned for, and `reason` says why."""

    def __init__(
        self,
        draft: Draft,
        choices: Sequence[MethodChoice],
        *,
        rule: Rule,
        prover: Prover,
        scratch: Path,
        compressed: bool,
        say: Callable[[str], None],
    ) -> None:
        self.draft = draft
        self.rule = rule
        self.forms = forms_of(choices)
        self.began = time.monotonic()
        self.reason = ""
        self._out_of_time = False
        self.search: Search | None = None
        self._stack = ExitStack()
        try:
            self._set_up(prover, scratch, compressed=compressed, say=say)
        except ModelError as error:
            self.reason = error.message
        except OutOfTime:
            self.reason, self._out_of_time = "there was no time to plan", True
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Planner:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _set_up(self, prover: Prover, scratch: Path, *, compressed: bool, say: Callable[[str], None]) -> None:
        model, reference = self.draft.start.model, prover.planning
        outputs = reference.usable_outputs()
        if not reference.is_graded:
            self.reason = "no output has values in between, so there is no telling how near a limit is"
            return
        say("planning: rounding samples of each tensor")
        folder = scratch / "planning"
        folder.mkdir(exist_ok=True)
        least = 0.0 if self.rule.inputs.samples else least_sqnr(self.rule.tolerance)
        shelf = Shelf(model, self.forms, folder, compressed=compressed, least=least)
        room = 4 * len(self.forms) * sum(tensor.elements for tensor in shelf.tensors.values())
        if not shelf.tensors or room > ROOM or model.beside:
            self.reason = "too large to be planned tensor by tensor" if room > ROOM else "nothing to plan"
            return
        made, inputs = probe(model, shelf.tensors)
        write_model(made, folder / "probe.onnx")
        session = self._stack.enter_context(reference.session(folder / "probe.onnx"))
        seconds = self.rule.plan_seconds - (time.monotonic() - self.began)
        tolerance, own = self.rule.tolerance, bool(self.rule.inputs.samples)
        margin = with_margin(tolerance, samples=own)
        batched = reference.batched
        trials = Trials(
            *(session, shelf, inputs, outputs, tolerance, margin), batched=batched, seconds=seconds, say=say
        )
        if trials.run({}).holds:
            search = Search(shelf, trials)
            # Where nothing can be vouched for, it is verification that has to say so.
            self.search = search if search.may_round else None
            self.reason = "" if search.may_round else "no output depends on any weight"
        else:
            self.reason = "the model does not hold the tolerance before anything is rounded"

    @property
    def hurried(self) -> bool:
        """Whether there was not enough time for all of it."""
        return self._out_of_time or bool(self.search and self.search.known.cut_short)

    @property
    def nothing(self) -> Planned:
        """What there is to report where it came to no search."""
        seconds = round(time.monotonic() - self.began, 3)
        return Planned(tensors=0, forms=(), kept=(), trials=0, seconds=seconds, untried=self.reason)

    def smallest(self) -> Iterator[Candidate]:
        """Candidates that held in trials, the smallest first."""
        for _, mix in zip(range(FEW), self._search.smallest(), strict=False):
            yield self._candidate(mix)

    def mildest(self, needed: float) -> Iterator[Candidate]:
        """Candidates that held in trials and save as much as is needed, the least harmed first."""
        for tried in self._search.mildest(needed)[:FEW]:
            if tried.holds:
                yield self._candidate(tried.mix)

    def alternatives(self, needed: float = 0.0) -> list[Alternative]:
        """What came of whole methods, each by itself, and of the mildest mix that saves what is needed."""
        search = self._search
        mixes: list[Mix] = [mix for _, mix in search.uniform()]
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

    @property
    def _search(self) -> Search:
        if self.search is None:
            raise ModelError(self.reason)
        return self.search

    def _size(self, mix: Mix) -> int:
        return int(self.draft.start.size - self._search.saved(mix))

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
        search = self._search
        taken = mix or {}
        counts = Counter(self.forms[form].label for form in taken.values())
        return Planned(
            tensors=len(search.tensors),
            forms=tuple((form.label, counts[form.label]) for form in self.forms if counts[form.label]),
            kept=tuple(self._kept(taken)) if mix else (),
            trials=len(search.trials.made),
            seconds=round(time.monotonic() - self.began, 3),
            untried=search.known.cut_short,
            unseen=tuple(search.known.unseen),
            curve=tuple(self._curve(taken)),
        )

    def _kept(self, mix: Mix) -> Iterator[KeptTensor]:
        """Tensors that are not in the smallest form there is, the most sensitive first; those that no output
        tells anything of come last."""
        search = self._search
        larger = [
            name
            for name in search.known.alone
            if name not in search.known.unseen and not search.least(name, mix)
        ]
        larger.sort(key=lambda name: search.known.alone[name].sqnr)
        for name in larger[:SHOWN]:
            form = self.forms[mix[name]].label if name in mix else "as it was"
            tried = search.known.alone[name]
            probed = self.forms[tried.mix[name]].label
            company = "alone" if len(tried.mix) == 1 else f"with {len(tried.mix) - 1} others"
            why = f"{company} in {probed} it leaves {tried.sqnr:.1f} dB, cosine {tried.cosine:.5f}"
            yield KeptTensor(name=name, form=form, size=int(search.tensors[name].nbytes), why=why)
        for name in search.known.unseen:
            why = "no output moves, whatever is done to it"
            yield KeptTensor(name=name, form="as it was", size=int(search.tensors[name].nbytes), why=why)

    def _curve(self, mix: Mix) -> Iterator[Point]:
        """Size against error of every mix that was tried, smallest first; the chosen one is marked."""
        tried = [one for one in self._search.trials.made.values() if len(one.mix) > 1 or one.mix == mix]
        for one in sorted(tried, key=lambda one: self._size(one.mix)):
            yield Point(
                size=self._size(one.mix),
                cosine=one.cosine,
                sqnr=one.sqnr,
                holds=one.holds,
                chosen=one.mix == mix,
            )
