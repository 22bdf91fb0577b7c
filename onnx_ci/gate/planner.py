"""The planner for one model: finds the mix of forms, by sensitivities first and then along the path they
give as far as outputs hold, and turns mixes into candidates and a report."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby, islice
from statistics import geometric_mean

import numpy as np

from onnx_ci.errors import ModelError
from onnx_ci.gate.candidates import Candidate, Draft
from onnx_ci.gate.planner_trials import (
    Ended,
    Form,
    Mix,
    Shelf,
    Tensor,
    Trials,
    Tried,
    forms_of,
    second_moments,
)
from onnx_ci.gate.subject import Ledger, Subject
from onnx_ci.methods.chain import RunPart
from onnx_ci.methods.compensation import Moments
from onnx_ci.methods.edit import probe
from onnx_ci.methods.rounding import Array
from onnx_ci.model.model import Model
from onnx_ci.model.save import write_model
from onnx_ci.policy.schema import MethodChoice
from onnx_ci.results import Alternative, KeptTensor, Planned, Point, noise_share, trust
from onnx_ci.sandbox.runner import Feeds
from onnx_ci.verify.compare import least_sqnr
from onnx_ci.verify.observation import observed
from onnx_ci.verify.reference import Reference
from onnx_ci.verify.verifier import Refuting

ROOM = 8 << 30  # bytes of scratch that the forms of all tensors may take
SHOWN = 20  # tensors that a report names
FEW = 6  # mixes that are written and proven, should what held in trials be refused
MOST = 14  # trials to find out what single tensors do, of which so many measure
ALONE = 10  # one by itself, the largest first; the others are measured with their neighbours
SPLITS = 3  # groups that are looked at more closely, each in two trials,
WORST = 0.05  # where they do so much of all harm
LUCK = 0.2  # of what the less harmful quarter of tensors does at most: less is not believed
PROBED = 12.0  # dB that single tensors are rounded more finely than outputs may be
SMALL = 1e-30  # the error of what is rounded to itself
PARTS = 1024  # of a budget of harm, in which mixes are counted
WALK = 6  # mixes on the way to the most harm that outputs hold,
TOGETHER = 18  # and more where few tensors are measured: so many trials for both
LATELY = 3  # of these, that tell how much noise the next will make
# Times the harm with which noise is expected to be as much as allowed; little, where nothing else is left.
AROUND = (1.0, 1.2, 0.85, 1.5, 0.7, 0.4, 0.15, 0.05, 0.01)
MILDER = 1.5  # times less harm with each mix after the second that does not hold, where none did
AIM = 0.9  # of the noise there is room for: what is beyond that is near enough
AFTER = 4  # more of these, where what held on the first input does not hold on all
STEPS_UP = 12  # by 4 times each, where nothing seems to be within what is allowed
HALVINGS = 24  # of what is known of the least harm
FINE = 0.01  # of the bytes that are left: what is not worth another trial
FAR_OFF = 10.0  # times the noise that the tolerance allows: what damage does has to be beyond doubt
DAMAGE = 2  # the error of values in another order, over their power
MODEST = 1e9  # numbers that a run multiplies: of a model that multiplies more, fewer runs are made,
LEAST_RUNS = 72  # but so many
CALIBRATION = 8  # inputs on which is found out what tensors are multiplied with
STEPS_BACK = (0.6, 0.3, 0.1, 0.03)  # of the harm, where what held in trials is refused in earnest


@dataclass(frozen=True)
class Option:
    """One form of one tensor: what it takes, and the harm it is expected to do."""

    form: int
    nbytes: float
    harm: float


Choices = Mapping[str, tuple[float, Sequence[Option]]]  # of each tensor its bytes now, and what it may become


def fewest_bytes(tensors: Choices, budget: float) -> dict[str, int]:
    """The mix with the fewest bytes whose harm adds up to no more than a budget; tensors that stay as they
    are are not in it. Harm is counted in whole parts of the budget, so it is kept but for rounding."""
    least = np.zeros(PARTS + 1)  # bytes of all tensors so far, for each number of parts
    taken: list[tuple[str, list[Option], Array]] = []
    for name, (nbytes, options) in tensors.items():
        useful = _worthwhile(nbytes, [one for one in options if one.harm <= budget])
        sums = np.full((len(useful) + 1, PARTS + 1), np.inf)
        sums[0] = least + nbytes
        for row, option in enumerate(useful, 1):
            parts = _parts(option, budget)
            sums[row, parts:] = least[: PARTS + 1 - parts] + option.nbytes
        best = sums.argmin(axis=0)
        taken.append((name, useful, best))
        least = sums[best, np.arange(PARTS + 1)]
    mix: dict[str, int] = {}
    left = PARTS
    for name, useful, best in reversed(taken):
        if best[left]:
            option = useful[best[left] - 1]
            mix[name] = option.form
            left -= _parts(option, budget)
    return {name: mix[name] for name in tensors if name in mix}


def _worthwhile(nbytes: float, options: Sequence[Option]) -> list[Option]:
    """The options that save bytes, without those that another one beats in bytes and in harm."""
    kept: list[Option] = []
    for option in sorted(options, key=lambda one: (one.harm, one.nbytes)):
        if option.nbytes < min(nbytes, kept[-1].nbytes if kept else nbytes):
            kept.append(option)
    return kept


def _parts(option: Option, budget: float) -> int:
    return round(option.harm / budget * PARTS) if option.harm else 0


class Search:
    """One model's tensors in all their forms, and trials to find out what they do; where time runs out, what
    is known so far stays."""

    def __init__(self, trials: Trials, refuting: Callable[[], Refuting | None] = lambda: None) -> None:
        self.trials = trials
        self.refuting = refuting  # where the last mix that was taken for good failed
        self.shelf = trials.shelf
        self.tensors = trials.shelf.tensors
        self.alone: dict[str, Tried] = {}  # a tensor, or its group, plainly rounded in the form to measure
        self.unseen: list[str] = []  # no output moves, whatever is done to these
        self._budget = trials.room  # of harm, in what the tolerance allows: where the last walk ended
        self.cut_short = ""  # what was left out
        self.sound = True  # False: outputs are others even before anything is rounded
        try:
            self._explore()
        except Ended:
            self._note(f"{len(self.alone)} of {len(self.tensors)} tensors were measured")

    def _note(self, what: str) -> None:
        end = "when time was up" if self.trials.late else "in the runs that a plan may take"
        self.cut_short = self.cut_short or f"{what} {end}"

    def saved(self, mix: Mix) -> float:
        """The bytes that a mix saves, about: what surrounds a tensor in a file is not counted exactly."""
        tables = sum(self.shelf.tables.get(form, 0.0) for form in set(mix.values()))
        return -tables + sum(
            self.tensors[name].nbytes - self.tensors[name].forms[form].nbytes for name, form in mix.items()
        )

    def uniform(self) -> Iterator[Mix]:
        """Every tensor in the same form, or as near to it as it has one: what methods do by themselves."""
        for form, meant in enumerate(self.shelf.forms):
            if meant.variant:
                continue
            mix = {name: form for name in self.rounded if form in self.tensors[name].forms}
            if mix:
                yield mix

    def smallest(self) -> Iterator[Mix]:
        """The mixes that held in trials with room to spare, the smallest first. The next is asked for when
        one was refused: then on the inputs that refuted it too, or much milder, or a method as a whole."""
        last, search, whole = math.inf, self._along, list(self.uniform())
        taken: list[Mix] = []
        while True:
            try:
                search()
            except Ended:
                self._note("the search had not ended")
            held = [one for one in self._held() if one.mix not in taken]
            held = [one for one in held if one.noise <= last or one.mix in whole]
            if not held:
                return
            smallest = self._smallest_of(held)
            last, search = smallest.noise / 2, self._back
            taken.append(smallest.mix)
            yield smallest.mix
            try:
                if self.trials.learn(self.refuting()):
                    last, search = math.inf, self._along
                    self._measure_again()
            except Ended:
                self._note("the search had not ended")

    def _smallest_of(self, held: Sequence[Tried]) -> Tried:
        """The one that saves most; of those that save about as much, the one with the least noise."""
        most = max(self.saved(one.mix) for one in held)
        enough = most - FINE * (self.shelf.nbytes - most)
        return min((one for one in held if self.saved(one.mix) >= enough), key=lambda one: one.noise)

    def _held(self) -> list[Tried]:
        # Not what was tried only to find out that nobody would notice.
        noticed = [one for one in self.trials.made.values() if not one.mix.keys() & self.unseen]
        held = [one for one in noticed if one.safe and one.mix]
        # Nobody searched for a method as a whole: it needs no distance from the limit.
        return held + [one for one in self.trials.known(self.uniform()) if one.holds]

    def mildest(self, needed: float) -> list[Tried]:
        """Mixes that save as much as is needed, the one with the least error first."""
        mixes = [mix for mix in self.uniform() if self.saved(mix) >= needed]
        best = self._least_harm(needed)
        mixes += [best] if best else []
        tried: list[Tried] = []
        try:
            tried += [self.trials.run(mix) for mix in mixes]
        except Ended:
            self._note("not all mixes were compared")
        return sorted(tried, key=lambda one: one.noise)

    def noticed(self) -> dict[str, bool]:
        """The tensors whose damage would be far beyond the tolerance, and whether that was measured alone:
        rounding is a small damage, and harm is in proportion. With neighbours it has to be further, by as
        many as they are, since one of them may do what all do together."""
        found: dict[str, bool] = {}
        for name, tried in self.alone.items():
            error, count = self._error(tried), len(tried.mix)
            if tried.moved and error:
                damage = DAMAGE * self.tensors[name].power * self.shelf.gain.get(name, 1.0)
                if tried.noise * damage / error > FAR_OFF * count:
                    found[name] = count == 1
        return found

    def least(self, name: str, mix: Mix) -> bool:
        """Whether a tensor is as small as it could be."""
        forms = self.tensors[name].forms
        return name in mix and forms[mix[name]].nbytes <= min(form.nbytes for form in forms.values())

    @property
    def rounded(self) -> list[str]:
        """The tensors that an output tells of."""
        return [name for name in self.tensors if name not in self.unseen]

    def _explore(self) -> None:
        probed = {name: self._probed_form(name) for name in self.tensors}
        self.trials.begin(min(self.uniform(), key=self._expected, default=probed))
        self.sound = self.trials.unharmed_holds()
        if not self.sound:
            return
        groups = {tuple(group): self._measure(group) for group in _groups(self.tensors, MOST)}
        for _ in range(SPLITS):
            worst = max((group for group in groups if len(group) > 1), key=groups.__getitem__, default=())
            if not worst or groups[worst] < WORST * sum(groups.values()):
                break
            del groups[worst]
            middle = len(worst) // 2
            groups.update({half: self._measure(half) for half in (worst[:middle], worst[middle:])})

    def _rate(self, name: str) -> float:
        """What a tensor does to outputs, over what it does to what is computed with it: as measured alone or
        with its neighbours, and not next to nothing, which happens by chance."""
        together = self._error(self.alone[name])
        return max(self.alone[name].noise / together, self._least_rate) if together else 0.0

    @cached_property
    def _least_rate(self) -> float:
        known = [(tried.noise, self._error(tried)) for tried in self.alone.values()]
        rates = [noise / error for noise, error in known if noise and error]
        return LUCK * sorted(rates)[len(rates) // 4] if rates else 0.0

    def _measure(self, group: Sequence[str]) -> float:
        """Try tensors in the forms that they are measured in, and return the noise that makes."""
        mix = {name: self._probed_form(name) for name in group}
        tried = self.trials.glance(mix)
        self.alone.update(dict.fromkeys(group, tried))
        if not tried.moved and self._error(tried):
            self.unseen += [name for name in group if not self.trials.shows(name)]
        return tried.noise

    def _measure_again(self) -> None:
        """Look at what tensors do on the inputs that refuted a mix: where that is more, it counts. All of
        them, since harm is divided by how they compare."""
        for known in {id(tried): tried for tried in self.alone.values()}.values():
            tried = self.trials.glance(known.mix)
            if tried.noise > known.noise:
                self.alone.update(dict.fromkeys(known.mix, tried))
        self.__dict__.pop("_least_rate", None)

    @property
    def _choices(self) -> dict[str, tuple[float, list[Option]]]:
        """What is measured may be rounded: its bytes now, and what it may become."""
        known = [name for name in self.rounded if name in self.alone]
        return {name: (self.tensors[name].nbytes, self._options(name)) for name in known}

    def _expected(self, mix: Mix, *, plain: bool = False) -> float:
        """What a mix does to what is computed with its tensors; plainly rounded, if asked for."""
        return sum(self.shelf.harm(name, form, plain=plain) for name, form in mix.items())

    def _error(self, tried: Tried) -> float:
        """What plain rounding does to what is computed with the tensors of a mix."""
        return self._expected(tried.mix, plain=True)

    def _probed_form(self, name: str) -> int:
        """One that plans take, as they do: where its error lies about as far below what outputs may have as
        in a mix that holds. What other forms do follows from that best."""
        tensor = self.tensors[name]
        wanted = max(SMALL, tensor.power * 10 ** (-(least_sqnr(self.trials.tolerance) + PROBED) / 10))
        forms = [form for form in tensor.forms if self.shelf.forms[form].variant] or list(tensor.forms)
        return min(forms, key=lambda form: abs(math.log((tensor.forms[form].error or SMALL) / wanted)))

    def _options(self, name: str) -> list[Option]:
        """The harm of each form: what was measured for one, in proportion to what it does to the tensor."""
        forms, rate = self.tensors[name].forms, self._rate(name)
        return [
            Option(form, stored.nbytes, rate * self.shelf.harm(name, form)) for form, stored in forms.items()
        ]

    def _along(self) -> None:
        """Walk to the most harm that outputs hold: what is expected of a mix is corrected by what the one
        before it did."""
        for mix in sorted(self.uniform(), key=self.saved, reverse=True):
            if self.trials.run(mix).safe:
                break  # what is milder holds too, and is larger
        best: Mix = {}
        guesses = [self.trials.room * 4.0**step for step in range(STEPS_UP)]
        left, look = max(WALK, TOGETHER - len(self.trials.alone)), self.trials.on_first
        tried: list[Mix] = []
        refused: list[Mix] = []
        off: list[float] = []  # times the noise that was expected of each
        missed = 0  # in a row, as long as none holds
        while True:
            mix = self._worth(guesses, best, tried) if left else {}
            if left and not mix and not best:  # nothing new, but some held on the first input
                mix = self._worth(guesses, best, refused)
            if mix:
                left -= 1
                tried.append(mix)
                found = look(mix)
                if found.safe:
                    best = mix
                else:
                    refused.append(mix)
            else:
                found = self.trials.run(best)
                if found.safe or not best:
                    break
                # Other inputs do not bear it: from now on all are looked at where the first does.
                refused.append(best)
                best, off, missed = {}, [], 0
                left, look = AFTER, partial(self.trials.run, spare=True)
            off.append(max(found.noise, SMALL) / max(self._harm(found.mix), SMALL))
            aim = AIM * self.trials.room
            left = 0 if found.safe and found.noise > aim else left
            missed = 0 if best or found.safe else missed + 1
            wanted = aim / geometric_mean(off[-LATELY:]) / MILDER ** max(0, missed - 1)
            guesses = [wanted * share for share in AROUND]
        self._budget = self._harm(best) or self.trials.room

    def _harm(self, mix: Mix) -> float:
        """What is expected of a mix."""
        return sum(self._rate(name) * self.shelf.harm(name, form) for name, form in mix.items())

    def _worth(self, guesses: Sequence[float], best: Mix, known: Sequence[Mix]) -> Mix:
        """The smallest mix within the first of some budgets for which it is worth a trial; nothing where none
        is."""
        saved, choices = self.saved(best), self._choices
        enough = saved + FINE * (self.shelf.nbytes - saved)
        for budget in guesses:
            mix = fewest_bytes(choices, budget)
            if self.saved(mix) >= enough and mix not in known:
                return mix
        return {}

    def _back(self) -> None:
        """Some of the way that held, should the end of it be refused in earnest."""
        for share in STEPS_BACK:
            back = fewest_bytes(self._choices, self._budget * share)
            if back:
                self.trials.run(back, spare=True)

    def _least_harm(self, needed: float) -> Mix | None:
        """The mix with the least harm of those that save as much as is needed; None where none does."""
        choices = self._choices
        most = sum(max((one.harm for one in options), default=0.0) for _, options in choices.values())
        low, high = math.log(max(most, SMALL)) - 30, math.log(max(most, SMALL)) + 1
        best = None
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            mix = fewest_bytes(choices, math.exp(middle))
            if self.saved(mix) >= needed:
                best, high = mix, middle
            else:
                low = middle
        return best


def _groups(tensors: Mapping[str, Tensor], most: int) -> Iterator[list[str]]:
    """So many groups at most, but for one in each branch: the largest tensors alone, the others with their
    neighbours in the same graph, so that a branch which no input takes is not hidden by what is around it."""
    alone = min(ALONE, most * ALONE // MOST)
    by_size = sorted(tensors, key=lambda name: -tensors[name].nbytes)
    yield from ([name] for name in by_size[:alone])
    others = [name for name in tensors if name not in by_size[:alone]]
    width = -(-len(others) // max(1, most - alone))
    for _, found in groupby(others, key=lambda name: id(tensors[name].places[0].scope)):
        together = list(found)
        yield from (together[start : start + width] for start in range(0, len(together), width))


def start_planning(
    subject: Subject, draft: Draft, methods: Sequence[MethodChoice], stack: ExitStack, ledger: Ledger
) -> Planner | None:
    """A planner whose session stays open in `stack`; None where there is nothing to plan, or no way to find
    out how."""
    forms = forms_of(methods, compressible=subject.task.only_compressed)
    if not forms:
        return None
    ledger.plan, began = None, time.monotonic()
    try:
        with subject.prover.runner.meter.timing("planning"):
            search = _search(subject, draft.start.model, forms, stack)
    except (ModelError, Ended) as problem:
        late = time.monotonic() > subject.until
        if isinstance(problem, ModelError) and not late:
            return None
        ledger.by_chance |= late
        seconds = round(time.monotonic() - began, 3)
        why = "there was no time to plan" if late else "plan_runs is too small for a plan"
        ledger.plan = Planned(tensors=0, forms=(), kept=(), trials=0, seconds=seconds, untried=why)
        return None
    return Planner(draft, forms, search, began) if search else None


def _search(subject: Subject, model: Model, forms: Sequence[Form], stack: ExitStack) -> Search | None:
    """None where trials would tell nothing."""
    rule, reference = subject.rule, subject.prover.planning
    reference.usable_outputs()
    if not reference.is_graded:
        return None  # no output has values in between, so there is no telling how near a limit is
    subject.say("planning: rounding samples of each tensor")
    folder = subject.scratch / "planning"
    folder.mkdir(exist_ok=True)
    samples = subject.prover.reference.own_samples
    least = least_sqnr(rule.tolerance) * (1.0 - trust(samples))
    shelf = Shelf(model, forms, folder, compressed=bool(subject.task.compressed), least=least)
    room = 4 * len(forms) * sum(tensor.elements for tensor in shelf.tensors.values())
    if not shelf.tensors or room > ROOM or model.beside:
        return None
    others = reference.others(CALIBRATION)
    moments, products = _moments(subject, shelf, others)
    shelf.take_moments(moments)
    made, inputs = probe(model, shelf.tensors)
    write_model(observed(made), folder / "probe.onnx")

    def trials_on(reference: Reference) -> Trials:
        return Trials(
            shelf=shelf,
            reference=reference,
            open_session=lambda feeds: stack.enter_context(reference.session(folder / "probe.onnx", feeds)),
            own=Refuting(subject.prover.reference, tuple(range(len(subject.prover.reference.feeds())))),
            inputs=inputs,
            tolerance=rule.tolerance,
            room=noise_share(samples),
            most=affordable(rule.runs_to_plan, products),
            until=subject.until,
            say=subject.say,
        )

    search = Search(trials_on(reference), lambda: subject.prover.verifier.refuting)
    if not search.sound:
        return None
    more = search.trials.reaching(search.unseen, others) if search.unseen and others else []
    if more:
        search = Search(trials_on(reference.after(more)), search.refuting)
    noticed = search.noticed()
    ready = folder / "probe.onnx", inputs
    subject.prover.sensitivity.note(model, noticed, alone=all(noticed.values()), ready=ready)
    # Where nothing can be vouched for, it is verification that has to say so.
    return search if search.rounded else None


def affordable(runs: int, products: float) -> int:
    """How many runs a plan may take of a model that multiplies so many numbers in one: as many as a rule has,
    fewer where each takes long. It is counted, not timed, so that every machine finds the same."""
    share = min(1.0, MODEST / products) if products else 1.0
    return max(min(runs, LEAST_RUNS), round(runs * share))


def _moments(subject: Subject, shelf: Shelf, feeds: Sequence[Feeds]) -> tuple[dict[str, Moments], float]:
    """What the tensors are multiplied with, on inputs that no trial and no proof has."""
    alone = {name: tensor.places[0] for name, tensor in shelf.tensors.items() if len(tensor.places) == 1}
    shapes = {name: tuple(site.tensor.dims) for name, site in alone.items()}
    runner, spare, limits = subject.prover.runner, subject.prover.planning.stored, subject.rule.limits
    return second_moments(runner, shelf.model, shapes, feeds, shelf.folder, limits=limits, spare=spare)


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
        return self.search.trials.late

    def smallest(self) -> Iterator[Candidate]:
        """Candidates that held in trials, the smallest first."""
        return map(self._candidate, islice(self.search.smallest(), FEW))

    def mildest(self, needed: float) -> Iterator[Candidate]:
        """Candidates that held in trials and save as much as is needed, the least harmed first."""
        for tried in self.search.mildest(needed)[:FEW]:
            if tried.holds:
                yield self._candidate(tried.mix)

    def alternatives(self, needed: float = 0.0) -> Iterator[Alternative]:
        """What came of whole methods, each by itself, and of the mildest mix that saves what is needed."""
        search = self.search
        mildest = [one.mix for one in search.mildest(needed)[:1]] if needed else []
        known = search.trials.known([*search.uniform(), *mildest])
        for number, tried in enumerate(known):
            if tried in known[:number]:
                continue
            used = {self.forms[form].run.method.name for form in tried.mix.values()}
            yield Alternative(
                methods=tuple(run.method.name for run in self.draft.lossy if run.method.name in used),
                size=self._size(tried.mix),
                verdict="within tolerance in trials" if tried.holds else f"refused: {tried.problem}",
                state="within" if tried.holds else "refused",
                cosine=tried.cosine,
                sqnr=tried.sqnr,
                estimated=True,
            )

    def _size(self, mix: Mix) -> int:
        return int(self.draft.start.size - self.search.saved(mix))

    def _candidate(self, mix: Mix) -> Candidate:
        parts: dict[str, list[RunPart]] = defaultdict(list)
        for index, form in enumerate(self.forms):
            names = tuple(name for name in mix if mix[name] == index)
            if names:
                moments = self.search.shelf.moments if form.variant else None
                parts[form.run.method.name].append(RunPart(form.label, form.run.options, names, moments))
        lossy = [run for run in self.draft.lossy if run.method.name in parts]
        runs = [replace(run, parts=tuple(parts[run.method.name])) for run in lossy]
        return replace(self.draft.with_runs(runs), planned=self.report(mix))

    def report(self, mix: Mix | None = None) -> Planned:
        """How a mix was found, or what was tried where none was taken."""
        search = self.search
        taken = mix or {}
        counts = Counter(self.forms[form].label for form in taken.values())
        return Planned(
            tensors=len(search.tensors),
            forms=tuple((form.label, counts[form.label]) for form in self.forms if counts[form.label]),
            kept=tuple(self._kept(taken)) if mix else (),
            trials=search.trials.count,
            seconds=round(time.monotonic() - self.began, 3),
            untried=search.cut_short,
            unseen=tuple(search.unseen),
            curve=tuple(self._curve(taken)),
            larger=sum(not search.least(name, taken) for name in search.tensors) if mix else 0,
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
            size, chosen = self._size(one.mix), one.mix == mix
            yield Point(size=size, cosine=one.cosine, sqnr=one.sqnr, holds=one.holds, chosen=chosen)
