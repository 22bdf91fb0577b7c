"""Finds the mix of forms: sensitivities first, then along the path they give, as far as outputs hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product

from onnx_ci.gate.planner_trials import Mix, OutOfTime, Tensor, Trials, Tried


@dataclass(frozen=True)
class Option:
    """One form of one tensor: what it takes, and the harm it is expected to do."""

    form: int
    nbytes: float
    harm: float


@dataclass(frozen=True)
class Move:
    """A tensor takes a smaller form than it had."""

    tensor: str
    form: int
    saves: float
    harm: float

    @property
    def price(self) -> float:
        return self.harm / self.saves


def moves(tensors: Mapping[str, tuple[float, Sequence[Option]]]) -> list[Move]:
    """All moves worth making, the cheapest first. Of each tensor (its bytes now, its options) they come in
    the order of its sizes, since each costs more per byte than the one before it."""
    found = [move for name, (nbytes, options) in tensors.items() for move in _ladder(name, nbytes, options)]
    # The sort keeps equal prices in the order of the model, and each tensor's moves in theirs.
    return sorted(found, key=lambda move: move.price)


def _ladder(name: str, nbytes: float, options: Sequence[Option]) -> list[Move]:
    """The options on the lower hull of harm over bytes saved: all others are beaten by a mixture."""
    made: list[Move] = []
    at, harm = nbytes, 0.0
    left = [option for option in options if option.nbytes < at]
    while left:
        best = min(
            left, key=lambda option: (max(0.0, option.harm - harm) / (at - option.nbytes), option.nbytes)
        )
        made.append(Move(name, best.form, at - best.nbytes, max(0.0, best.harm - harm)))
        at, harm = best.nbytes, max(harm, best.harm)
        left = [option for option in left if option.nbytes < at]
    return made


def least_harm(
    tensors: Mapping[str, tuple[float, Sequence[Option]]], needed: float, most: int = 20000
) -> dict[str, int] | None:
    """The mix with the least harm of all that save as much as is needed; None where there are too many to
    go through, or none does. Of few tensors the path has few points, and most mixes lie between them."""
    ways = [[None, *options] for _, options in tensors.values()]
    if math.prod(map(len, ways)) > most:
        return None
    best, least = None, math.inf
    for chosen in product(*ways):
        pairs = [(size, one) for (size, _), one in zip(tensors.values(), chosen, strict=True) if one]
        harm = sum(one.harm for _, one in pairs)
        if harm < least and sum(size - one.nbytes for size, one in pairs) >= needed:
            best, least = chosen, harm
    return None if best is None else {n: one.form for n, one in zip(tensors, best, strict=True) if one}


def mixed(path: Sequence[Move]) -> dict[str, int]:
    """The form of each tensor after some moves; tensors that did not move are not in it."""
    return {move.tensor: move.form for move in path}


ALONE = 48  # tensors measured one by one, the largest first
MOST = 64  # trials to find out what single tensors do; what is not measured alone is measured with others
LEAST = 8  # such trials, however slow the model is
REFINEMENTS = 24  # trials beyond the first that did not hold
STEPS_BACK = (0.85, 0.7, 0.5, 0.3)  # of the way, where what held in trials is refused in earnest


class Search:
    """One model's tensors in all their forms, and trials to find out what they do; where time runs out, what
    is known so far stays."""

    def __init__(self, trials: Trials) -> None:
        self.trials = trials
        self.shelf = trials.shelf
        self.tensors = trials.shelf.tensors
        self.alone: dict[str, Tried] = {}  # a tensor, or its group, in its smallest form
        self.unseen: list[str] = []  # no output moves, whatever is done to these
        self.path: list[Move] = []
        self.cut_short = ""  # what there was no time for
        try:
            self._explore()
        except OutOfTime:
            self.cut_short = (
                f"{len(self.alone)} of {len(self.tensors)} tensors were measured when time was up"
            )

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
        """The mixes that held in trials with room to spare, the smallest first."""
        found: list[Mix] = []
        try:
            found += self._along()
        except OutOfTime:
            self.cut_short = self.cut_short or "time was up before the search had ended"
        held = [one.mix for one in self.trials.made.values() if one.safe and self._may_be_had(one.mix)]
        # Nobody searched for a method as a whole: it needs no distance from the limit.
        whole = map(self.trials.tried, self.uniform())
        held += [one.mix for one in whole if one is not None and one.holds]
        last = math.inf
        for mix in sorted([*found, *held], key=self.saved, reverse=True):
            tried = self.trials.tried(mix)
            # What comes next is asked for when this one was refused: it has to be much milder.
            if tried is not None and tried.noise <= last:
                last = tried.noise / 2
                yield mix

    def mildest(self, needed: float) -> list[Tried]:
        """Mixes that save as much as is needed, the one with the least error first."""
        mixes = [mix for mix in self.uniform() if self.saved(mix) >= needed]
        best = least_harm(self._choices, needed)
        mixes += [best] if best else []
        total, path = 0.0, []
        for move in self.path:
            path.append(move)
            total += move.saves
            if total >= needed and self.saved(mixed(path)) >= needed:
                mixes.append(mixed(path))
                break
        tried: list[Tried] = []
        try:
            tried += [self.trials.run(mix) for mix in mixes]
        except OutOfTime:
            self.cut_short = self.cut_short or "time was up before all mixes were compared"
        return sorted(tried, key=lambda one: one.noise)

    def _may_be_had(self, mix: Mix) -> bool:
        """Not what was tried only to find out that nobody would notice."""
        return bool(mix) and not any(name in mix for name in self.unseen)

    def least(self, name: str, mix: Mix) -> bool:
        """Whether a tensor is as small as it could be."""
        forms = self.tensors[name].forms
        return name in mix and forms[mix[name]].nbytes <= min(form.nbytes for form in forms.values())

    @property
    def rounded(self) -> list[str]:
        """The tensors that an output tells of."""
        return [name for name in self.tensors if name not in self.unseen]

    def _explore(self) -> None:
        affordable = max(LEAST, int(self.trials.affordable / 2))
        groups = list(_groups(self.tensors, min(MOST, affordable)))
        if affordable < min(MOST, len(self.tensors)):
            told = f"{len(self.tensors)} tensors were measured in {len(groups)} groups"
            self.cut_short = f"{told}, for the model is slow"
        for group in groups:
            tried = self.trials.run({name: self._probed_form(name) for name in group})
            self.alone.update(dict.fromkeys(group, tried))
            loses = any(self.tensors[name].forms[form].error for name, form in tried.mix.items())
            if not tried.moved and loses:
                self.unseen += [name for name in group if not self.trials.shows(name)]
        self.path = moves(self._choices)

    @property
    def _choices(self) -> dict[str, tuple[float, list[Option]]]:
        """What is measured may be rounded: its bytes now, and what it may become."""
        known = [name for name in self.rounded if name in self.alone]
        return {name: (self.tensors[name].nbytes, self._options(name)) for name in known}

    def _probed_form(self, name: str) -> int:
        """The smallest that a method has by itself: it is tried on all tensors anyway."""
        forms = self.tensors[name].forms
        return min(forms, key=lambda form: (self.shelf.forms[form].variant, forms[form].nbytes, form))

    def _options(self, name: str) -> list[Option]:
        """The harm of each form: what was measured for the smallest, in proportion to its error."""
        forms, tried = self.tensors[name].forms, self.alone[name]
        together = sum(self.tensors[other].forms[form].error for other, form in tried.mix.items())
        rate = tried.noise / together if together else 0.0
        return [Option(form, stored.nbytes, rate * stored.error) for form, stored in forms.items()]

    def _along(self) -> Iterator[Mix]:
        """As far as the path holds; then once more without the move that broke it, and so on."""
        for mix in self.uniform():
            self.trials.run(mix)
        path, taken = list(self.path), 0
        until = len(self.trials.made) + REFINEMENTS
        while True:
            taken = self._furthest(path, taken)
            if taken:
                yield mixed(path[:taken])
            if taken >= len(path) or len(self.trials.made) >= until:
                break
            del path[taken]
        for share in STEPS_BACK:
            back = mixed(path[: int(taken * share)])
            if back:
                self.trials.run(back)

    def _furthest(self, path: Sequence[Move], holds: int) -> int:
        """The most moves that hold, between a number that does and all of them: halved again and again."""
        if self.trials.run(mixed(path)).safe:
            return len(path)
        breaks = len(path)
        while breaks - holds > 1:
            middle = (holds + breaks) // 2
            if self.trials.run(mixed(path[:middle])).safe:
                holds = middle
            else:
                breaks = middle
        return holds


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
