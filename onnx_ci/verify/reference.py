"""The original as a reference: inputs that run it, the user's own or made up, the outputs they give, and
sessions in which models made of it are run with other weights."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np
import onnx

from onnx_ci.errors import ModelError
from onnx_ci.inputs.branches import Side, both_ways, not_taken
from onnx_ci.inputs.dims import STEPS
from onnx_ci.inputs.generate import (
    Attempt,
    Deriver,
    blank_and_noise,
    deriver_of,
    of_other_sizes,
    state_outputs,
)
from onnx_ci.inputs.graph import Shape, UseDef
from onnx_ci.inputs.normalization import ReadTensor
from onnx_ci.inputs.samples import described_inputs, load_samples, sample_names
from onnx_ci.inputs.size_search import SizeSearch
from onnx_ci.model.graph import keep_items
from onnx_ci.policy.schema import InputSpec, Limits
from onnx_ci.results import OutputDelta
from onnx_ci.sandbox.exchange import Array, is_float, read_samples
from onnx_ci.sandbox.runner import Feeds, RunFailed, Runner, Unrunnable, write_feeds
from onnx_ci.sandbox.versions import NAME_IT, REPLACE_IT, custom_operators, needs_library
from onnx_ci.util.advice import CHECK_SAMPLES, GIVE_SAMPLES, Hint, set_dims
from onnx_ci.verify.compare import batched, is_graded, same_outputs
from onnx_ci.verify.noise import (
    OTHER_DRAWS,
    Baked,
    Seeding,
    Unmatched,
    draws,
    gross_noise,
    noise_of,
    random_nodes,
)
from onnx_ci.verify.observation import observation_of

GIVE = "give inputs that run: " + GIVE_SAMPLES
_CRASHES = 2  # before the search for inputs is given up
_PATIENCE = 3  # one run may take such a part of the time that is left, as long as sizes can shrink
_LEAST_SECONDS = 1.0
_OTHERS = 7919  # what is added to a seed for inputs that no verdict is based on
_MANY = 8  # samples that are asked for where some are to be of other sizes, and how many of them
_SIZES = 2
_NUMBERS = 64  # of each output that tell one answer from another
_STILL = 0.05  # of the distance from blank to noise: what is nearer to one of them is no other answer
_ROUNDING = 1e-4  # of an answer, which is no other one either
_CALLS = 3  # after which a state is that of a model in use
_DULL = 0.05  # of an output: what differs less from input to input is no answer
_LARGER = 4  # times, which other sizes may be
_LIVELIER = 1.5  # times as much as other sizes have to tell
_LEFT = "a state, by its name: nothing at first, then what the model left"
_SCARCE = ("timeout", "memory")  # what one thread, or a second session, may lack

ArrayOutputs = list[dict[str, Array]]
FedOutputs = tuple[Sequence[Feeds], ArrayOutputs]  # inputs, and the outputs they give


@dataclass(eq=False, repr=False)
class Reference:
    """One original, the inputs that run it and the outputs they give; each is found once.

    A seeded copy of the original stands in where its nodes draw random numbers."""

    runner: Runner
    original: Path
    proto: onnx.ModelProto
    _: KW_ONLY
    spec: InputSpec
    limits: Limits
    root: Path
    spare: int = 0  # more inputs to make up, of which those that tell least are left out
    wide: bool = False  # whether numbers of which nothing is known may be far from zero
    read: ReadTensor | None = None  # the values of its weights
    graph: UseDef | None = None  # of the original, where that was read already
    observed: Path | None = None  # the original with what is behind its outputs as further outputs
    stored: Feeds = field(default_factory=dict)  # inputs that belong to the model itself, kept beside it
    like: Reference | None = None  # one for the same original, so that its noise is measured once
    given: Sequence[Feeds] | None = None  # inputs found elsewhere, so that none are searched for
    own: Sequence[Feeds] = ()  # the user's samples, where what is made up stands beside them

    def __post_init__(self) -> None:
        self.seeding = Seeding(self.proto, self.spec.seed)
        # A node that draws random numbers begins anew only in a session of its own; who knows what others do.
        self.steady = not draws(self.proto) and not self.runner.libraries.names
        self.reasons: Mapping[str, str] = {}  # why the inputs that were made up are what they are
        self.took = 0.0  # seconds to find inputs and run them
        self._found: tuple[Deriver, Attempt] | None = None  # how inputs were made up that run
        self._left: FedOutputs = (), []  # inputs that were run and not chosen
        self._feeds: Sequence[Feeds] = self.given or ()
        self._outputs: ArrayOutputs | None = None
        self._still: ArrayOutputs = []  # what blank and noise give
        self._states: list[Feeds] = []  # what the original left of itself for the next call
        self._made_for_one_size: bool = self.like is not None and self.like._made_for_one_size
        self._untaken: Sequence[Side] | None = None
        self._failure: ModelError | None = None

    def under(self, runner: Runner, *, samples: int | None = None) -> Reference:
        """Return the same original and inputs, or the first of them, in another runtime."""
        return replace(self, runner=runner, like=self, given=self.feeds()[:samples])

    def on(self, *, count: int, seed: int, wide: bool = False, chosen: bool = False) -> Reference:
        """Return the same original on other inputs, so many at least, made up from another seed: as they
        come, or chosen from more."""
        spec = replace(self.spec, samples=(), count=max(count, self.spec.count), seed=seed)
        own = self.own or (self.feeds() if self.spec.samples else ())
        spare = self.spare if chosen else 0
        return replace(self, spec=spec, like=self, given=None, own=own, wide=wide, spare=spare)

    def on_more(self, count: int) -> Reference:
        """Return the same original on more of the inputs that its own were chosen from: so many at least."""
        feeds, outputs = [*self.feeds()], [*self.outputs()]
        for sample, answer in zip(*self._left, strict=True):
            if len(feeds) < count:
                feeds, outputs = [*feeds, sample], [*outputs, answer]
        more = replace(self, like=self, given=feeds)
        more._outputs, more._found, more._states = outputs, self._found, self._states
        return more

    def after(self, feeds: Sequence[Feeds]) -> Reference:
        """Return the same original on these inputs first, which it has to run on, and then on its own."""
        more = replace(self, like=self, given=[*feeds, *self.feeds()])
        more._outputs, more._found = [*self._run(feeds), *self.outputs()], self._found
        return more

    def with_made_up(self, count: int) -> Reference:
        """Return the same original on the user's samples and on inputs that are made up, if it runs there."""
        try:
            made_up = self.on(count=count, seed=self.spec.seed, chosen=True)
            both = replace(self, like=self, own=self.feeds(), given=[*self.feeds(), *made_up.feeds()])
            both._outputs = [*self.outputs(), *made_up.outputs()]
            both._found, both._states = made_up._found, made_up._states
        except Unrunnable:
            return self
        return both

    def others(self, count: int) -> Sequence[Feeds]:
        """Return inputs made up like those that ran, from a seed of their own; nobody has run them yet."""
        if self._found is None:
            return []
        deriver, attempt = self._found
        spec = replace(deriver.spec, count=count, seed=self.spec.seed + _OTHERS)
        made = [{**sample, **self.stored} for sample in replace(deriver, spec=spec).feeds(attempt)]
        return self._with_states(made)

    def outputs(self) -> ArrayOutputs:
        """Return the original's outputs. The first failure is final: a second search would find the same."""
        if self._failure is not None:
            raise self._failure
        if self._outputs is None:
            began = time.monotonic()
            try:
                self._feeds, self._outputs = self._find()
                self.took = time.monotonic() - began
            except ModelError as error:
                self._failure = error
                raise
        return self._outputs

    def feeds(self) -> Sequence[Feeds]:
        """Return the inputs that run the original."""
        self.outputs()
        return self._feeds

    def feeds_for(
        self, extra: Feeds | None = None, feeds: Sequence[Feeds] | None = None
    ) -> tuple[Sequence[Feeds], set[str]]:
        """Return feeds for either model, and the names of those that only one of them may ask for."""
        feeds = self.feeds() if feeds is None else feeds
        if extra:
            feeds = [{**sample, **extra} for sample in feeds]
        return feeds, {*self.stored, *(extra or {})}

    @property
    def sample_count(self) -> int:
        """How many inputs were found; none before they are asked for."""
        return len(self._feeds)

    @property
    def own_samples(self) -> int:
        """How many inputs are the user's own."""
        return len(self.feeds()) if self.spec.samples else 0

    @property
    def is_made_up(self) -> bool:
        """Whether no input is the user's own: such inputs are judged together."""
        return not self.spec.samples

    @property
    def untaken(self) -> Sequence[Side]:
        """Branches of Ifs that none of the inputs takes: what is in there is not verified."""
        feeds = self.feeds()
        if self._untaken is None:
            graph = self.graph or UseDef(self.proto)
            self._untaken = not_taken(self.runner, self.original, graph, feeds, limits=self.limits)
        return self._untaken

    @property
    def asleep(self) -> tuple[str, ...]:
        """Outputs that none of the inputs made up so far moves away from what blank and noise give."""
        return asleep(self._outputs or [], self._still)

    @cached_property
    def batched(self) -> frozenset[str]:
        """Outputs with an answer for each member of a batch."""
        return batched(self.proto, self.feeds(), self.outputs())

    @property
    def is_graded(self) -> bool:
        """Whether any output has values in between: what has not is equal or wrong, however near."""
        return is_graded(self.outputs())

    @cached_property
    def random_shows(self) -> bool:
        """Whether random numbers reach an output: an input may scale them to nothing."""
        feeds, _ = self.feeds_for()
        try:
            runs = [self.runner.run(self.original, feeds, limits=self.limits, seed=seed) for seed in (0, 1)]
        except RunFailed:
            return True
        return not same_outputs(*runs)

    @cached_property
    def noise(self) -> tuple[OutputDelta, ...]:
        """How far each output of the original is from itself.

        One session more, with other draws and another number of threads, tells most models to be exact on
        the first sample. Only where it differs, all samples tell how far, and a third what is to blame."""
        if self.like is not None:
            return self.like.noise
        first = self.outputs()
        try:
            glance = self._again(1, other_threads=True)
            if same_outputs(first[:1], glance):
                return noise_of(first[:1], glance, glance)
            runs = self._again(len(first))
            return noise_of(first, self._again(len(first), other_threads=True), runs)
        except RunFailed as error:
            message = f"it ran once, and not a second time: {error.message}"
            raise ModelError(message, code=error.code) from None

    def _again(self, samples: int, *, other_threads: bool = False) -> ArrayOutputs:
        """Run the first samples once more, in a new session."""
        feeds = self.feeds()[:samples]
        try:
            return self.runner.run(
                self._runnable, feeds, limits=self.limits, seed=OTHER_DRAWS, other_threads=other_threads
            )
        except RunFailed as error:
            if not other_threads or error.kind not in _SCARCE:
                raise
        return self.runner.run(self._runnable, feeds, limits=self.limits, seed=OTHER_DRAWS)

    @cached_property
    def gross_noise(self) -> ModelError | None:
        """Why no single run of the original is a reference; None where one is."""
        return gross_noise(self.noise, random_nodes(self.proto))

    def refuse_empty(self) -> None:
        """Raise where there is nothing to compare with."""
        arrays = [array for sample in self.outputs() for array in sample.values() if array.size]
        if all(is_float(array.dtype) and np.isnan(array).all() for array in arrays):
            raise ModelError(
                "every output of the original is empty or NaN, so a comparison shows nothing",
                hint=_give(self._found[0]) if self._found else GIVE,
                code="OCI005",
            )

    def usable_outputs(self) -> ArrayOutputs:
        """Return the outputs, if a comparison with them, one by one, would mean anything."""
        self.refuse_empty()
        if self.gross_noise is not None:
            raise self.gross_noise
        return self.outputs()

    def session(
        self, model: Path, feeds: Sequence[Feeds] | None = None, extra: Feeds | None = None
    ) -> WeightSwapSession:
        """Open a session for trials of a model that was made of the original."""
        feeds, spare = self.feeds_for(extra, feeds)
        return WeightSwapSession(self, model, feeds, spare)

    def proto_to_feed(self) -> onnx.ModelProto:
        """Return the model without the inputs that come with it: no sample has to hold them."""
        if not self.stored:
            return self.proto
        copy = onnx.ModelProto()
        copy.CopyFrom(self.proto)
        keep_items(copy.graph, "input", lambda value: value.name not in self.stored)
        return copy

    @cached_property
    def _runnable(self) -> Path:
        """The file that is run for the original."""
        model = self.observed or self.original
        if not self.seeding:
            return model
        copy = self.runner.folder() / "original.onnx"
        self.seeding.write(model, copy, self.root)
        return copy

    def _run(
        self, feeds: Sequence[Feeds], limits: Limits | None = None, *, may_fail: int = 0
    ) -> ArrayOutputs:
        limits = limits or self.limits
        return self.runner.run(self._runnable, feeds, limits=limits, keep=self.steady, may_fail=may_fail)

    def _run_pool(self, feeds: Sequence[Feeds], limits: Limits) -> ArrayOutputs:
        """Run inputs of which some are to be chosen, and in the same session what tells a model nothing."""
        if len(feeds) <= self.spec.count:
            return self._run(feeds, limits)
        nothing = blank_and_noise(feeds, seed=self.spec.seed, keep=self.stored)
        try:
            outputs = self._run([*feeds, *nothing], limits, may_fail=len(nothing))
        except RunFailed as error:
            if not nothing or error.kind != "crash":
                raise
            outputs = self._run(feeds, limits)
        self._still = outputs[len(feeds) :]
        return outputs[: len(feeds)]

    def _find(self) -> FedOutputs:
        if self.given is None and not self.spec.samples:
            return self._search(wide=self.wide)
        if self.given is not None:
            try:
                return self.given, self._run(self.given)
            except RunFailed as error:
                raise self._unrunnable(error, "there", "") from None
        proto = self.proto_to_feed()
        samples = load_samples(self.spec.samples, self.root, proto)
        feeds = [{**sample, **self.stored} for sample in samples]
        try:
            return feeds, self._run(feeds)
        except RunFailed as error:
            hint = CHECK_SAMPLES + f"; the model takes {described_inputs(proto)}"
            raise self._unrunnable(error, f"on {self._wrong_sample(error, feeds)}", hint) from None

    def _wrong_sample(self, failure: RunFailed, feeds: Sequence[Feeds]) -> str:
        """Return what to call the first of the user's samples that fails alone."""
        for name, sample in zip(sample_names(self.spec.samples, self.root), feeds, strict=True):
            try:
                if failure.kind == "error" and failure.stage == "run":
                    self._run([sample])
            except RunFailed:
                return f"the sample {name}"
        return "the samples given"

    def _search(self, *, wide: bool) -> FedOutputs:
        """Try attempt after attempt until one runs and gives something, within one time limit for all."""
        # What random nodes draw depends on how many runs there were before: there none may be left out.
        pool = replace(self.spec, count=max(1, self.spec.count) + (0 if self.seeding else self.spare))
        known = self.like._found if self.like else None
        if known:
            deriver = replace(known[0], spec=pool)
        else:
            graph = None if self.stored else self.graph
            deriver = deriver_of(self.proto_to_feed(), pool, self.read, graph)
        deriver = replace(deriver, own=self.own)
        search = SizeSearch(deriver, wide=wide)
        first = [replace(known[1], wide=wide)] if known else []
        failures: list[RunFailed] = []
        empty: tuple[Attempt, FedOutputs] | None = None  # the first that ran, where it gave nothing
        began = time.monotonic()
        for attempt in chain(first, search):
            feeds: Sequence[Feeds] = [{**sample, **self.stored} for sample in deriver.feeds(attempt)]
            left = self.limits.seconds - (time.monotonic() - began)
            if failures and (left <= 0 or _is_hopeless(failures)):
                break
            seconds = left / _PATIENCE if search.can_shrink(attempt) else left
            try:
                limits = replace(self.limits, seconds=max(seconds, _LEAST_SECONDS))
                outputs = self._run_pool(feeds, limits)
            except RunFailed as error:
                failures.append(error)
                if error.kind == "error":
                    search.failed(attempt, error.message)
                else:
                    search.was_scarce(attempt)
                continue
            if all(array.size == 0 for sample in outputs for array in sample.values()):
                empty = empty or (attempt, (feeds, outputs))
                search.was_empty(attempt)
            elif wide and _is_lost(outputs):
                return self._search(wide=False)
            else:
                fed = self._carried(feeds, outputs, limits)
                if failures and not known:
                    usual, (attempt, fed) = attempt, self._liveliest(deriver, attempt, fed)
                    self._made_for_one_size = attempt != usual
                return self._settle(deriver, attempt, *fed)
        if empty is not None:
            return self._settle(deriver, empty[0], *empty[1])
        hard = [error for error in failures if error.kind != "error"]
        raise self._unrunnable((hard or failures)[0], "on inputs made up for it", _give(deriver))

    def _carried(self, feeds: Sequence[Feeds], outputs: ArrayOutputs, limits: Limits) -> FedOutputs:
        """Feed states that the model itself has left, where it hands states on to its next call. Half of the
        samples begin with nothing; others go on, a few calls later, where one of the same shapes has ended.

        Noise is no state that a model gets into, and its answers to that drown those to all else."""
        own = {name: value for name, value in outputs[0].items() if observation_of(name) is None}
        becomes = state_outputs(feeds[0], own)
        if self.seeding or not becomes:
            return feeds, outputs
        half = (len(feeds) + 1) // 2
        fed = [_with_state(sample, becomes, []) for sample in feeds[:half]]
        try:
            answers = self._run(fed, limits)
            left = [_left(becomes, answer) for answer in answers]
            for _ in range(_CALLS if len(feeds) > half else 0):
                further = [
                    _with_state(sample, becomes, left[at:] + left) for at, sample in enumerate(feeds[half:])
                ]
                outputs = self._run(further, limits)
                left = [_left(becomes, answer) for answer in outputs]
        except RunFailed:
            return feeds, outputs
        self._states = [{name: sample[name] for name in becomes} for sample in (*fed, *further)]
        return [*fed, *further], [*answers, *outputs]

    def _liveliest(self, deriver: Deriver, attempt: Attempt, fed: FedOutputs) -> tuple[Attempt, FedOutputs]:
        """Return the usual sizes on which answers differ most, for a model that does not take all of them and
        hardly tells one input from another: a size that runs need not be one that it was made for."""
        liveliness = _liveliness(fed[1], carried=bool(self._states))
        if min(liveliness, default=1.0) >= _DULL:
            return attempt, fed
        best, most, states = (attempt, fed), _LIVELIER * sum(liveliness), self._states
        sizes = deriver.sizes(attempt, 0)
        for step in range(attempt.step + 1, STEPS):
            other = replace(attempt, step=step)
            if not _is_near_in_size(deriver.sizes(other, 0), sizes):
                continue
            feeds = [{**sample, **self.stored} for sample in deriver.feeds(other)]
            limits = replace(self.limits, seconds=self.limits.seconds / STEPS)
            try:
                tried = self._carried(feeds, self._run(feeds, limits), limits)
            except RunFailed:
                continue
            total = sum(_liveliness(tried[1], carried=bool(self._states)))
            if total > most:
                best, most, states = (other, tried), total, self._states
        self._states = states
        return best

    def _with_states(self, feeds: Sequence[Feeds]) -> list[Feeds]:
        """Return samples with the states that others began with, where there are states: first with those of
        a model in use, since a recurrent weight shows nothing of itself in the first step from zero."""
        known = self._states[::-1]
        if not known:
            return [*feeds]
        turns = [known[number % len(known) :] + known for number in range(len(feeds))]
        return [_with_state(sample, known[0], turn) for sample, turn in zip(feeds, turns, strict=True)]

    def _settle(
        self, deriver: Deriver, attempt: Attempt, feeds: Sequence[Feeds], outputs: ArrayOutputs
    ) -> FedOutputs:
        """Take the inputs that tell most, and more of them where that shows more."""
        known = self.like is not None and self.like._found is not None
        self.reasons = self.like.reasons if self.like and known else deriver.reasons(attempt)
        self.reasons = {**self.reasons, **dict.fromkeys(self._states[0] if self._states else (), _LEFT)}
        self._found = deriver, attempt
        # Every other input has other sizes: both kinds stay.
        count = max(1, self.spec.count)
        even = most_telling(outputs[::2], (count + 1) // 2, self._still)
        odd = most_telling(outputs[1::2], count // 2, self._still)
        pairs = zip_longest([2 * number for number in even], [2 * number + 1 for number in odd])
        chosen = [number for pair in pairs for number in pair if number is not None]
        left = [number for number in range(len(feeds)) if number not in chosen]
        self._left = [feeds[number] for number in left], [outputs[number] for number in left]
        feeds, outputs = [feeds[number] for number in chosen], [outputs[number] for number in chosen]
        return self._varied(replace(deriver.settled(attempt), spec=self.spec), feeds, outputs)

    def _varied(self, deriver: Deriver, feeds: Sequence[Feeds], outputs: ArrayOutputs) -> FedOutputs:
        """Add samples: of other sizes, and such that take the branches which these do not."""
        limits = replace(self.limits, seconds=self.limits.seconds / 4)
        feeds, outputs = self._of_other_sizes(deriver, feeds, outputs, limits)
        branches = both_ways(self.runner, self.original, deriver, feeds, stored=self.stored, limits=limits)
        if not branches.more:
            self._untaken = branches.untaken if deriver.graph.branches else ()
            return feeds, outputs
        more = self._with_states(branches.more)
        try:
            further = self._run(more, limits)
        except RunFailed:
            return feeds, outputs
        # Which branches are taken may depend on states, too.
        self._untaken = None if self._states else branches.untaken
        return [*feeds, *more], [*outputs, *further]

    def _of_other_sizes(
        self, deriver: Deriver, feeds: Sequence[Feeds], outputs: ArrayOutputs, limits: Limits
    ) -> FedOutputs:
        """Add a few of other sizes that run, where many samples are asked for."""
        if self.spec.count < _MANY or self._made_for_one_size:
            return feeds, outputs
        wanted = len(feeds) + _SIZES
        for sizes in of_other_sizes(deriver, feeds):
            sample = self._with_states([{**sizes, **self.stored}])[0]
            try:
                more = self._run([sample], limits)
            except RunFailed as error:
                if error.kind != "error":
                    break
            else:
                feeds, outputs = [*feeds, sample], [*outputs, *more]
                if len(feeds) >= wanted:
                    break
        return feeds, outputs

    def _unrunnable(self, error: RunFailed, on: str, hint: str) -> Unrunnable:
        if error.stage == "library":
            return Unrunnable(error.message, hint=REPLACE_IT, failure=error)
        if error.stage == "load":
            custom = [] if self.runner.libraries.names else custom_operators(self.proto)
            if custom:
                return Unrunnable(needs_library(custom), hint=NAME_IT, failure=error)
            message, hint = f"onnxruntime can't load it: {error.message}", "check the model with onnx.checker"
        else:
            message = f"it could not be run {on}: {error.message}"
            if error.kind in _SCARCE:
                hint = "give it more room: limits: {seconds: ..., memory: ...}; or " + hint
        return Unrunnable(message, hint=hint, failure=error)


def _is_near_in_size(one: Mapping[str, Shape], other: Mapping[str, Shape]) -> bool:
    """Whether inputs of one size are others than those of the other size, and not many times as large."""
    count, usual = (sum(map(math.prod, shapes.values())) for shapes in (one, other))
    return one != other and count <= _LARGER * usual


def _liveliness(outputs: ArrayOutputs, *, carried: bool) -> list[float]:
    """Return how much each output differs from sample to sample, as a part of what it is. Where states are
    carried over, half of the samples begin without any, and only these tell."""
    outputs = outputs[: (len(outputs) + 1) // 2] if carried else outputs
    found = []
    for name in outputs[0]:
        by_shape: dict[Shape, list[Array]] = {}
        for sample in outputs:
            if name in sample and is_float(sample[name].dtype):
                by_shape.setdefault(sample[name].shape, []).append(
                    np.nan_to_num(sample[name].astype(np.float64))
                )
        alike = [np.stack(arrays) for arrays in by_shape.values() if len(arrays) > 1]
        sizes = [math.sqrt(float(np.square(arrays).mean())) for arrays in alike if arrays.size]
        apart = [float(arrays.std(axis=0).mean()) for arrays in alike if arrays.size]
        if any(sizes):
            found.append(sum(apart) / sum(sizes))
    return found


def _left(becomes: Mapping[str, str], answer: Mapping[str, Array]) -> Feeds:
    """Return the states for the next call."""
    return {name: answer[output] for name, output in becomes.items()}


def _with_state(sample: Feeds, names: Collection[str], states: Sequence[Feeds]) -> Feeds:
    """Return a sample with the first state that has its shapes, or with none: all zero."""
    zeros: Feeds = {name: np.zeros_like(sample[name]) for name in names}
    shapes = _shapes(zeros)
    return {**sample, **next((state for state in states if _shapes(state) == shapes), zeros)}


def _shapes(state: Feeds) -> dict[str, Shape]:
    return {name: np.asarray(value).shape for name, value in state.items()}


def _give(deriver: Deriver) -> Hint:
    """What to do where no input that was made up will do: open sizes are called as the model calls them."""
    sizes = deriver.usual_sizes
    return GIVE + ", or sizes: " + set_dims(sizes) if sizes else GIVE + ""


def most_telling(outputs: ArrayOutputs, count: int, still: ArrayOutputs | None = None) -> list[int]:
    """Return the numbers of the inputs that tell most: whose answers differ most from those to blank and
    noise, which `still` has, and from each other, and are least sure of themselves. All of them where there
    are no more than were asked for."""
    if len(outputs) <= count:
        return list(range(len(outputs)))
    nothing = still or []
    names = [name for name in outputs[0] if all(name in sample for sample in (*outputs, *nothing))]
    answers = np.stack([_answer(sample, names) for sample in outputs])
    spread = answers.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    answers = np.round(answers / scale, 1)  # the same on every machine
    doubt = np.array([1.0 - 0.5 * _sureness(sample) for sample in outputs])
    known = [np.round(_answer(sample, names) / scale, 1) for sample in nothing]
    first = [np.linalg.norm(answers - answer, axis=1) for answer in known or [np.median(answers, axis=0)]]
    far = np.min(first, axis=0)
    chosen: list[int] = []
    while len(chosen) < count:
        value = np.round(far * doubt, 2)
        value[chosen] = -1.0
        chosen.append(int(np.argmax(value)))
        near = np.linalg.norm(answers - answers[chosen[-1]], axis=1)
        far = near if not known and len(chosen) == 1 else np.minimum(far, near)
    return sorted(chosen)


def asleep(outputs: ArrayOutputs, still: ArrayOutputs) -> tuple[str, ...]:
    """Return the outputs that no input moves away from what blank and noise give: neither they nor what is
    behind them. An output that is the same for all of these depends on no input, which others tell."""
    if len(still) < 2:
        return ()
    views: dict[str, list[str]] = {}
    for name in still[0]:
        behind = observation_of(name)
        views.setdefault(behind.output if behind else name, []).append(name)
    return tuple(
        output
        for output, (itself, *behind) in views.items()
        if all(_is_still(name, outputs, still) for name in behind or [itself])
    )


def _is_still(name: str, outputs: ArrayOutputs, still: ArrayOutputs) -> bool:
    blank, noise = (sample.get(name) for sample in still)
    if blank is None or noise is None or blank.shape != noise.shape or not is_float(blank.dtype):
        return False
    known = [blank.astype(np.float64), noise.astype(np.float64)]
    answers = [sample[name].astype(np.float64) for sample in outputs if name in sample]
    answers = [answer for answer in answers if answer.shape == blank.shape]
    if not answers or not all(np.isfinite(array).all() for array in (*known, *answers)):
        return False
    apart = [min(float(np.linalg.norm(answer - one)) for one in known) for answer in answers]
    between = float(np.linalg.norm(known[0] - known[1]))
    scale = max(float(np.linalg.norm(one)) for one in known)
    return max(apart) <= max(_STILL * between, _ROUNDING * scale) and max(*apart, between) > 0.0


def _answer(sample: Mapping[str, Array], names: Sequence[str]) -> Array:
    """Return an answer as so many numbers for every sample: what is behind outputs, where that is known."""
    behind = {one.output for name in names if (one := observation_of(name))}
    parts = []
    for name in names:
        value = sample[name]
        if name in behind or not is_float(value.dtype):
            continue
        flat = np.nan_to_num(value.astype(np.float64).reshape(-1))
        flat = flat if flat.size else np.zeros(1)
        view = observation_of(name)
        flat = flat if view is None else view.telling(flat)
        parts.append(np.clip(flat[np.linspace(0, flat.size - 1, _NUMBERS).astype(np.int64)], -1e6, 1e6))
    return np.concatenate(parts) if parts else np.zeros(1)


def _sureness(sample: Mapping[str, Array]) -> float:
    """Return how sure the outputs that have a range are, from 0 to 1."""
    bounded = {one.output for name in sample if (one := observation_of(name)) and one.is_bounded}
    values = [np.abs(sample[name].astype(np.float64)) for name in bounded if sample[name].size]
    return max((float(np.nan_to_num(value).max()) for value in values), default=0.0)


def _is_lost(outputs: Sequence[Mapping[str, Array]]) -> bool:
    """Whether a sample gives an output without a single finite number, which others do not."""
    lost = [{name for name, value in sample.items() if has_no_number(value)} for sample in outputs]
    return any(names != lost[0] for names in lost)


def has_no_number(value: Array) -> bool:
    if not isinstance(value, np.ndarray) or not value.size or not is_float(value.dtype):
        return False
    return not np.isfinite(value.astype(np.float64)).any()


def _is_hopeless(failures: Sequence[RunFailed]) -> bool:
    """No inputs help a model that can't be loaded, and one that crashes is not tried for ever."""
    crashes = sum(error.kind == "crash" for error in failures)
    return failures[-1].stage == "load" or crashes >= _CRASHES


@dataclass(eq=False, repr=False)
class WeightSwapSession:
    """Write the inputs once, and let the worker keep the session. A context manager."""

    reference: Reference
    model: Path
    feeds: Sequence[Feeds]
    spare: Collection[str]

    def __post_init__(self) -> None:
        self.limits = self.reference.limits
        # Random nodes begin anew only in a session of their own.
        self.seeding = self.reference.seeding
        self.seeded: Path | None = None  # the model that there is a copy of
        self.folder = self.reference.runner.folder()
        write_feeds(self.folder / "feeds", self.feeds)

    def __enter__(self) -> WeightSwapSession:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, weights: Mapping[str, Path], model: Path | None = None) -> list[dict[str, Array]]:
        """Outputs with these weights, in files by the name of the input they are fed to; of another model
        on the same inputs, where one is named."""
        outputs, _ = self._run(weights, model)
        return outputs

    def glance(
        self, weights: Mapping[str, Path], whole_axes: Mapping[str, Sequence[int]]
    ) -> tuple[ArrayOutputs, list[int]]:
        """A part of large outputs, in which some axes stay whole; and a digest a sample of all outputs."""
        return self._run(weights, whole_axes=whole_axes)

    def _run(
        self, weights: Mapping[str, Path], model: Path | None = None, **more: object
    ) -> tuple[ArrayOutputs, list[int]]:
        outputs = self.folder / "outputs"
        shutil.rmtree(outputs, ignore_errors=True)
        answer = self.reference.runner.ask(
            "run",
            [self._ready(model or self.model)],
            self.limits,
            spare=sorted(self.spare),
            keep=self.reference.steady,
            feeds=str(self.folder / "feeds"),
            outputs=str(outputs),
            weights={name: str(file) for name, file in weights.items()},
            **more,
        )
        return read_samples(outputs), answer["digests"]

    def _ready(self, model: Path) -> Path:
        """The model as it is run: a copy with seeds where nodes draw random numbers."""
        if not self.seeding:
            return model
        copy = self.folder / "seeded.onnx"
        if model != self.seeded:
            try:
                self.seeding.write(model, copy)
            except (Unmatched, Baked) as error:
                reason = f"its random nodes are no longer the original's: {error}"
                raise RunFailed("error", reason, stage="load") from None
            self.seeded = model
        return copy
