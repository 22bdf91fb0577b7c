"""Mixes of forms tried out on the model: how far outputs move, how many trials there were, and the clock."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from statistics import median_low

import numpy as np

from onnx_ci.inputs.branches import Marker
from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Run
from onnx_ci.methods.compensation import Moments, Product, Products, gain, harm_left, harm_of
from onnx_ci.methods.compressible import compressed_share
from onnx_ci.methods.edit import make_node
from onnx_ci.methods.evaluator import evaluate
from onnx_ci.methods.options import Int4Weights, Int8Weights, WeightOptions
from onnx_ci.methods.rounding import Array, sum_of_products
from onnx_ci.methods.selection import encoding_parts
from onnx_ci.methods.weights import Encode, Encoder, in_bytes, is_chosen
from onnx_ci.model.graph import Scope, Site, fixed_names, opset, sites
from onnx_ci.model.model import Model
from onnx_ci.model.proto import NodeProto, TensorProto
from onnx_ci.model.save import write_model
from onnx_ci.policy.schema import Limits, MethodChoice, Tolerance
from onnx_ci.results import OutputDelta
from onnx_ci.sandbox.exchange import thinned
from onnx_ci.sandbox.runner import Feeds, RunFailed, Runner
from onnx_ci.verify.compare import (
    NOTHING_IN_COMMON,
    SQNR_CAP,
    ReferenceMemo,
    compare_outputs,
    use_of,
    whole_axes,
    worse_of,
)
from onnx_ci.verify.reference import ArrayOutputs, Reference, WeightSwapSession
from onnx_ci.verify.verifier import Refuting


@dataclass(frozen=True)
class Sketch:
    """A weight in a form, without a model that has it."""

    values: Array  # that the form stands for
    arrays: Sequence[Array]  # that would be stored
    shared: Sequence[Array]  # what all weights of this form use together
    overhead: int  # bytes of nodes and names


def sketched(
    model: Model,
    site: Site,
    encode: Encode,
    values: Array,
    moments: Moments | None = None,
    *,
    packs: bool = True,
) -> Sketch | None:
    """None where the form is not for such values. Unless it `packs`, it tells of the values only."""
    encoder = Encoder(model, site, set(), {})
    encoder.moments, encoder.packs = moments, packs
    nodes = encode(encoder, values)
    if nodes is None:
        return None
    arrays, tables, made = encoder.arrays, dict(encoder.tables.values()), encoder.decoded
    if made is None:
        made = evaluate(nodes, {**tables, **arrays}, opset=opset(model.proto))[encoder.output]
    return Sketch(
        values=np.ascontiguousarray(made, dtype=np.float32),
        arrays=list(arrays.values()),
        shared=list(tables.values()),
        overhead=sum(node.ByteSize() + 4 for node in nodes) + sum(len(name) + 12 for name in arrays),
    )


# Methods whose tensors can be chosen one by one: what their form is called, and options that the planner may
# choose itself where the policy names none of them, with what the form is called then.
_ALL = (16, 32, 64, 128)
_BLOCKS = {2: _ALL[:1], 3: _ALL[:2], 4: _ALL, 5: _ALL, 6: _ALL[1:], 7: _ALL[1:]}
_BY_BITS: dict[str, dict[str, object]] = {
    f"int{bits} by {block}": {"bits": bits, "block_size": block, "scales": "int8"}
    for bits, blocks in _BLOCKS.items()
    for block in blocks
}
# What errs so little that scales in 8 bits would show.
_FINE: dict[str, dict[str, object]] = {
    f"int{bits} by {block}": {"bits": bits, "block_size": block}
    for bits, block in ((8, 128), (9, 64), (10, 64), (12, 64))
}
FORMS: dict[str, tuple[str, dict[str, dict[str, object]]]] = {
    "fp16-weights": ("fp16", {}),
    "int8-weights": ("int8", {"int8 by channel": {}, "int8 by block": {"granularity": "block"}}),
    "int4-weights": ("int4", {"int4": {}, **_BY_BITS, **_FINE}),
}
# What else there is where compressed sizes count alone: the steps in the root mean square of a tensor, about
# 6 dB apart. More of them make a longer path: a search that has to go back leaves more tensors as they are.
_STEPS = (3, 5, 10, 20, 40, 80, 160, 640)
COMPRESSIBLE: dict[str, dict[str, dict[str, object]]] = {
    "int8-weights": {f"steps of rms/{steps}": {"steps": steps} for steps in _STEPS}
}


@dataclass(frozen=True)
class Form:
    """A method that stores single tensors in a smaller form, with options."""

    label: str
    run: Run
    options: WeightOptions
    variant: bool = False  # not what the method does by itself: with errors that make up for each other

    @property
    def at_best(self) -> float:
        """dB that it leaves of any tensor at most, as far as that is known beforehand."""
        if isinstance(self.options, Int8Weights) and self.options.steps:
            return EVEN + 20 * math.log10(self.options.steps)
        by_bits = self.variant and isinstance(self.options, Int4Weights)
        return BIT * self.options.bits if by_bits else math.inf  # type: ignore[attr-defined]

    def nbytes(self, elements: int, shape: tuple[int, ...]) -> float:
        """What a tensor takes in this form, without what surrounds it."""
        options = self.options
        if isinstance(options, Int8Weights):
            by_block = options.granularity == "block"
            return elements * (1 + 2 / options.block_size) if by_block else elements + 4 * max(shape)
        if isinstance(options, Int4Weights):
            scale = 2 if options.scales == "fp16" else 1
            return elements * (options.bits / 8 + scale / options.block_size)
        return 2 * elements


def forms_of(choices: Sequence[MethodChoice], *, compressible: bool = False) -> list[Form]:
    """All forms that a rule's methods allow, mildest first as the rule has them; also those that are small
    only once they are compressed, if asked for."""
    return [form for choice in choices if choice.name in FORMS for form in _variants(choice, compressible)]


def _variants(choice: MethodChoice, compressible: bool) -> Iterator[Form]:
    chosen = method(choice.name)
    label, variants = FORMS[choice.name]
    further = COMPRESSIBLE.get(choice.name, {})
    named = {option for options in (*variants.values(), *further.values()) for option in options}
    if compressible:
        variants = {**variants, **further}
    if not variants or named & choice.options.keys() or choice.options.get("encoding") == "dq":
        variants = {label: {}}
    for label, more in variants.items():
        options = {**choice.options, **more}
        yield Form(label, Run(chosen, options), chosen.read_options(options), variant=bool(more))


ENOUGH = 1 << 16  # elements of a tensor that tell what rounding does to all of it
ENOUGH_BLOCKS = 1 << 12  # where the scale of a block is that of its own elements
BIT = 6.5  # dB, of codes
EVEN = 11.0  # dB, of steps as large as what is rounded
LEVEL = 6  # of zlib: what larger ones give too, to a percent
REPEATED = 0.3  # what compression leaves of nodes and names, about
FormKey = tuple[str, int, bool]  # a tensor, its form, and whether errors make up for each other in it
Mix = Mapping[str, int]  # the form of each tensor that has one


@dataclass(frozen=True)
class Estimate:
    """What a form takes, and the sum of squares of what rounding changes, about."""

    nbytes: float
    error: float


@dataclass
class Tensor:
    """A name with all the places it stands for; those are stored alike. Forms by their number."""

    name: str
    places: list[Site]
    nbytes: float = 0.0
    elements: int = 0
    power: float = 0.0  # the sum of its squares
    forms: dict[int, Estimate] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class Shelf:
    """The tensors of a model in all forms that they may take."""

    model: Model
    forms: Sequence[Form]
    folder: Path
    _: KW_ONLY
    compressed: bool  # bytes are counted as they are once the file is compressed
    least: float = 0.0  # dB that a form has to leave of a tensor

    def __post_init__(self) -> None:
        self.tables: dict[int, float] = {}  # bytes that all tensors of a form share
        self.around: dict[int, int] = {}  # bytes of nodes and names that each has, about
        self.encodings = [form.run.method.encoding(self.model, form.run.options) for form in self.forms]
        found = self._found()
        for tensor in found:
            self._look_around(tensor.places[0])
        estimated = map(self._estimated, found)
        self.tensors = {tensor.name: tensor for tensor in estimated if tensor.forms}
        self.nbytes = sum(tensor.nbytes for tensor in self.tensors.values())
        self.numbers = {name: number for number, name in enumerate(self.tensors)}
        self.ready: dict[FormKey, list[Path]] = {}
        self.moments: dict[str, Moments] = {}  # of what tensors are multiplied with, as far as it is known
        self.harms: dict[str, dict[FormKey, float]] = defaultdict(dict)  # of whole tensors that were rounded
        self.left: dict[str, float] = {}  # of the harm of rounding, where it goes by those
        # What an error of each tensor does to what is computed with it, as far as that is known.
        self.gain = {name: 1 / tensor.power for name, tensor in self.tensors.items() if tensor.power}

    def files(self, mix: Mix, *, plain: bool = False) -> dict[str, list[Path]]:
        """The values of tensors in forms, as files: all forms together may be more than memory holds."""
        keys = {name: self._key(name, form, plain) for name, form in mix.items()}
        missing = [key for key in keys.values() if key not in self.ready]
        self.ready.update((key, self._written(key)) for key in missing)
        return {name: self.ready[key] for name, key in keys.items()}

    def _key(self, name: str, form: int, plain: bool) -> FormKey:
        """A form of a tensor, and whether errors make up for each other in it."""
        return name, form, self.forms[form].variant and name in self.moments and not plain

    def take_moments(self, moments: Mapping[str, Moments]) -> None:
        """Round by these from now on, and expect less harm of the forms that are rounded so."""
        self.moments = dict(moments)
        for name, found in moments.items():
            weight = self._weight(name)
            self.left[name] = harm_left(weight, found)
            self.gain[name] = gain(weight, found) or self.gain.get(name, 1.0)

    def harm(self, name: str, form: int, *, plain: bool = False) -> float:
        """What a form does to what is computed with a tensor: the error that rounding leaves, over what it
        would be without. As long as the tensor was not rounded so, it is what a part of it tells, corrected
        by what came of the form most like it: a part may miss what is rare and large, and spoils a scale."""
        key, known = self._key(name, form, plain), self.harms[name]
        if key in known:
            return known[key]
        expected = self._expected(key)
        others = [(one, self._expected(one)) for one in known]
        likely = [
            (abs(math.log(other / expected)), one, other) for one, other in others if other and expected
        ]
        if not likely:
            return expected
        _, one, other = min(likely)
        return expected * known[one] / other

    def _expected(self, key: FormKey) -> float:
        name, form, compensates = key
        left = self.left.get(name, 1.0) if compensates else 1.0
        return self.tensors[name].forms[form].error * left * self.gain.get(name, 1.0)

    def _weight(self, name: str) -> Array:
        return self.model.array(self.tensors[name].places[0].tensor).astype(np.float32, copy=False)

    def damaged(self, name: str) -> list[Path]:
        """A tensor with its values in reverse order, as files."""
        made: list[Path] = []
        for place, site in enumerate(self.tensors[name].places):
            values = self.model.array(site.tensor)
            made.append(self.folder / f"damaged-{self.numbers[name]}-{place}.npy")
            np.save(made[-1], values.reshape(-1)[::-1].reshape(values.shape), allow_pickle=False)
        return made

    def _found(self) -> list[Tensor]:
        """The weights that some form may take, in the main graph and all that is nested in it."""
        left_alone = fixed_names(self.model.proto) | encoding_parts(self.model.proto)
        found: dict[str, Tensor] = {}
        for scope in Scope(self.model.proto.graph).nested():
            for site in sites(scope, left_alone):
                if any(is_chosen(site, form.options) for form in self.forms):
                    found.setdefault(site.name, Tensor(site.name, [])).places.append(site)
        return list(found.values())

    def _look_around(self, site: Site) -> None:
        """Find out what surrounds a tensor in each form that no other has told of: it is the same for all,
        but for the length of names."""
        open_forms = [index for index in range(len(self.forms)) if index not in self.around]
        chosen = [index for index in open_forms if is_chosen(site, self.forms[index].options)]
        part = _sample(self.model.array(site.tensor), ENOUGH_BLOCKS)[0] if chosen else None
        for index in chosen:
            encode = self.encodings[index]
            if encode and part is not None and (made := sketched(self.model, site, encode, part)):
                self.tables[index] = sum(self._size(in_bytes(table)) for table in made.shared)
                self.around[index] = made.overhead

    def _estimated(self, tensor: Tensor) -> Tensor:
        arrays = [_sample(self.model.array(site.tensor), ENOUGH) for site in tensor.places]
        blocks = [(_sample(part, ENOUGH_BLOCKS)[0], elements) for part, elements in arrays]
        tensor.elements = sum(elements for _, elements in arrays)
        tensor.power = sum(_energy(part) * elements / part.size for part, elements in arrays)
        tensor.nbytes = sum(self._size(part) * elements / part.size for part, elements in arrays)
        for index, (form, encode) in enumerate(zip(self.forms, self.encodings, strict=True)):
            if index not in self.around or not all(is_chosen(site, form.options) for site in tensor.places):
                continue
            if encode is None or form.at_best < self.least:
                continue
            parts = blocks if isinstance(form.options, Int4Weights) and not self.compressed else arrays
            estimate = self._in_form(index, encode, tensor, parts)
            if estimate is None or estimate.nbytes >= tensor.nbytes:
                continue
            if estimate.error * 10 ** (self.least / 10) <= tensor.power:
                tensor.forms[index] = estimate
        return tensor

    def _in_form(
        self, index: int, encode: Encode, tensor: Tensor, arrays: Sequence[tuple[Array, int]]
    ) -> Estimate | None:
        nbytes = error = 0.0
        for site, (part, elements) in zip(tensor.places, arrays, strict=True):
            made = sketched(self.model, site, encode, part, packs=self.compressed)
            if made is None:
                return None
            error += _energy(made.values - part) * elements / part.size
            if self.compressed:
                size = sum(map(self._size, made.arrays)) * elements / part.size
                nbytes += size + self.around[index] * REPEATED
            else:
                nbytes += self.forms[index].nbytes(elements, tuple(site.tensor.dims)) + self.around[index]
        return Estimate(nbytes, error)

    def _size(self, values: Array) -> float:
        """Bytes of an array, compressed if that counts."""
        return values.nbytes * compressed_share(values, LEVEL) if self.compressed else values.nbytes

    def _written(self, key: FormKey) -> list[Path]:
        name, form, compensates = key
        encode, made, harm = self.encodings[form], [], 0.0
        moments = self.moments.get(name)
        for place, site in enumerate(self.tensors[name].places):
            file = self.folder / f"{self.numbers[name]}-{form}-{place}{'-c' if compensates else ''}.npy"
            values = self.model.array(site.tensor)
            given = moments if compensates else None
            found = sketched(self.model, site, encode, values, given, packs=False) if encode else None
            if found is not None:
                error = found.values - values
                if moments is None:
                    harm += _energy(error) * self.gain.get(name, 1.0)
                else:
                    harm += harm_of(error, values, moments)
                values = found.values.astype(values.dtype, copy=False)
            np.save(file, values, allow_pickle=False)
            made.append(file)
        self.harms[name][key] = harm
        return made


def second_moments(
    runner: Runner,
    model: Model,
    shapes: Mapping[str, tuple[int, ...]],
    feeds: Sequence[Feeds],
    folder: Path,
    *,
    limits: Limits,
    spare: Collection[str] = (),
) -> tuple[dict[str, Moments], float]:
    """Of what each weight is multiplied with, as far as that can be seen: one run a sample. What is inside
    branches and loops is left out where the model does not run when that is carried out of them. Also how
    many numbers a run multiplies with them."""
    found = Products(model, shapes)
    for inside in (True, False):
        watched, met = _watched(model, found, inside=inside)
        layouts = {one.weight: one.layout for _, one in met}
        met = [(name, one) for name, one in met if one.layout == layouts[one.weight]]
        if not met or not feeds:
            return {}, 0.0
        numbers = {name: number for number, name in enumerate(layouts)}
        path, target = folder / "watched.onnx", folder / "moments"
        write_model(watched, path)
        asked = [one.asked(numbers[one.weight], name) for name, one in met]
        with suppress(RunFailed):
            known, count = runner.moments(path, feeds, asked, target, limits=limits, spare=spare)
            moments: dict[str, Moments] = {}
            for name, number in numbers.items():
                if number in known:
                    both = np.load(target / f"{number}.npy", mmap_mode="r", allow_pickle=False)
                    moments[name] = Moments(*layouts[name], *both)
            return moments, count
    return {}, 0.0


def _watched(model: Model, products: Products, *, inside: bool) -> tuple[Model, list[tuple[str, Product]]]:
    """The model with nothing but what weights meet as outputs, and which product each output is for."""
    copy = model.copy()
    met: list[tuple[str, Product]] = []

    def measure(marker: Marker, node: NodeProto, key: str, nodes: list[NodeProto]) -> dict[str, str]:
        scope = key.rpartition("/")[0]
        values: dict[str, str] = {}
        if scope and not inside:
            return values
        for product in products.of(node):
            mark = f"{scope} {product.value}"
            if all(mark != other for other, _ in met):
                values[mark] = marker.name()
                nodes.append(make_node("Cast", [product.value], values[mark], to=TensorProto.FLOAT))
            met.append((mark, product))
        return values

    graph = copy.proto.graph
    outputs = Marker(copy.proto, measure, "each").body(graph, "")
    graph.ClearField("output")
    for name in outputs.values():
        graph.output.add(name=name)
    return copy, [(outputs[mark], product) for mark, product in met]


def _energy(values: Array) -> float:
    """The sum of squares, which fp16 could not hold."""
    flat = values.reshape(-1).astype(np.float32, copy=False)
    return sum_of_products(flat, flat)


def _sample(values: Array, enough: int) -> tuple[Array, int]:
    """A part of a large tensor, evenly spread along its longest axis, and how many elements there are."""
    if values.size <= enough:
        return values, values.size
    axis = int(np.argmax(values.shape))
    length = values.shape[axis]
    count = max(1, length * enough // values.size)
    chosen = np.linspace(0, length - 1, count).astype(np.int64)
    return np.ascontiguousarray(values.take(chosen, axis=axis)), values.size


REACHING = 2  # inputs that are tried on too, where the others do not reach all tensors
TIPPED = 10.0  # times the usual noise: an answer turned into another
FAILED = 1e9  # times the noise that is allowed: what does not run, or where none is allowed
LESSON = 0.5  # of the noise that a mix may make, after one was refused: inputs tell less than it seemed


def _key(mix: Mix) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(mix.items()))


class Ended(Exception):
    """No more trials: as many runs as a plan may take were made, or the user's limit of time is near."""


@dataclass(frozen=True)
class Tried:
    """What came of one mix. `noise` is the power of the error over what the tolerance allows, of the output
    that is nearest to its limit."""

    mix: Mix
    deltas: tuple[OutputDelta, ...]
    noise: float
    safe: bool = False  # holds with room to spare
    moved: bool = True  # any bit of any output, as far as that was asked

    @property
    def holds(self) -> bool:
        return not any(delta.problem for delta in self.deltas)

    @property
    def sqnr(self) -> float:
        return min((delta.sqnr for delta in self.deltas), default=SQNR_CAP)

    @property
    def cosine(self) -> float:
        return min((delta.cosine for delta in self.deltas), default=1.0)

    @property
    def problem(self) -> str:
        return next((f"output {delta.name!r}: {delta.problem}" for delta in self.deltas if delta.problem), "")


@dataclass(frozen=True)
class Glance:
    """What inputs gave: a part of each large output, and a digest a sample of all outputs whole."""

    outputs: ArrayOutputs
    digests: list[int]

    def followed_by(self, other: Glance) -> Glance:
        return Glance([*self.outputs, *other.outputs], [*self.digests, *other.digests])


@dataclass(eq=False, repr=False, kw_only=True)
class Trials:
    """Runs mixes in one session."""

    shelf: Shelf
    reference: Reference
    open_session: Callable[[Sequence[Feeds]], WeightSwapSession]
    own: Refuting  # the inputs that a proof begins with
    inputs: Mapping[str, list[str]]  # of the session, by the tensors they stand for
    tolerance: Tolerance
    room: float  # the part of the noise within it that a search which goes to the edge may use up
    most: int  # runs of one input each
    until: float  # on the clock
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self.made: dict[tuple[tuple[str, int], ...], Tried] = {}
        self.alone: dict[tuple[tuple[str, int], ...], Tried] = {}  # tensors and groups, plainly rounded
        self.begun: dict[tuple[tuple[str, int], ...], tuple[Tried, Glance]] = {}  # on the first inputs only
        self.runs = 0
        self.late = False  # whether the clock ended it
        self.learned: list[Refuting] = []
        self.references: dict[int, ArrayOutputs] = {}  # what references gave that mixes are held against
        self.feeds, known = list(self.reference.feeds()), self.reference.outputs()
        names = {name for sample in known for name in sample}
        self.whole_axes = whole_axes(names, self.tolerance, batched=self.reference.batched)
        self.originals, self.memory = self._thinned(known), ReferenceMemo()
        self.first, self.rest = self.open_session(self.feeds), self.open_session([])
        self.unharmed: dict[int, int] = {}  # digests of what inputs give with no mix at all

    def begin(self, mix: Mix) -> None:
        """Try the mildest mix there is, and everything else first on the input on which it does the most
        harm: what does not hold shows there, and what single tensors do. Inputs on which even this mix turns
        an answer into another are left out, unless a proof begins with them: what happens there can't be
        foreseen, and milder plans are no safer."""
        _, seen = self._tried(mix)
        noise = self._noises(seen)
        if not noise:
            return
        feeds = self.own.reference.feeds()
        own = [id(feeds[number]) for number in self.own.numbers]
        most = max(self.room, TIPPED * median_low(noise))
        kept = [at for at, found in enumerate(noise) if found <= most or id(self.feeds[at]) in own]
        order = sorted(kept, key=lambda place: -noise[place])
        self._take(order, first=1)
        seen = Glance([seen.outputs[place] for place in order], [seen.digests[place] for place in order])
        self.made[_key(mix)] = self._judged(mix, seen)

    def _worst(self, seen: Glance) -> list[int]:
        """The places of all inputs, those that show most first."""
        noise = self._noises(seen)
        return sorted(range(len(self.feeds)), key=lambda place: -noise[place] if noise else 0.0)

    def _noises(self, seen: Glance) -> list[float]:
        """What each input shows."""
        return [self._noise_on(place, seen.outputs) for place in range(len(seen.outputs))]

    def _put_first(self, places: Sequence[int]) -> None:
        others = [place for place in range(len(self.feeds)) if place not in places]
        self._take([*places, *others], first=len(places))

    def _take(self, places: Sequence[int], *, first: int) -> None:
        """Go on with the inputs at these places, in this order."""
        self.feeds = [self.feeds[place] for place in places]
        self.originals = [self.originals[place] for place in places]
        self.first = self.open_session(self.feeds[:first])
        self.rest = self.open_session(self.feeds[first:])
        self.begun.clear()

    def _noise_on(self, place: int, outputs: ArrayOutputs) -> float:
        """What one input shows, as if others had no error at all."""
        found = [*self.originals[:place], outputs[place], *self.originals[place + 1 :]]
        return self._noise(self._compared(found))

    @property
    def count(self) -> int:
        return len(self.made.keys() | self.alone.keys() | self.begun.keys())

    def known(self, mixes: Iterable[Mix]) -> list[Tried]:
        """What came of those mixes that were tried."""
        keys = [_key(mix) for mix in mixes]
        return [self.made[key] for key in keys if key in self.made]

    def run(self, mix: Mix, *, spare: bool = False) -> Tried:
        """Try a mix on all inputs; on the first only, where it does not hold there, with room to spare if
        that is asked for. What does not hold on others makes the worst of them the first from now on."""
        key = _key(mix)
        if key not in self.made:
            self.made[key], seen = self._begun(mix)
            tried = self.made[key]
            if self.rest.feeds and (tried.safe or (tried.holds and not spare)):
                self.made[key], seen = self._tried(mix, seen)
                if tried.safe and not self.made[key].safe:
                    self._put_first(self._worst(seen)[: len(self.first.feeds)])
        return self.made[key]

    def on_first(self, mix: Mix) -> Tried:
        """Try a mix on the first inputs only."""
        return self.made.get(_key(mix)) or self._begun(mix)[0]

    def _begun(self, mix: Mix) -> tuple[Tried, Glance]:
        key = _key(mix)
        if key not in self.begun:
            self.begun[key] = self._tried(mix)
        return self.begun[key]

    def learn(self, refuting: Refuting | None) -> bool:
        """Try mixes on more inputs from now on, first on these: where what held in trials was refused. What
        did not hold before is not tried again. False where they are known already."""
        if refuting is None or refuting in self.learned:
            return False
        feeds, outputs = refuting.reference.feeds(), refuting.reference.outputs()
        more = [number for number in refuting.numbers if not any(feeds[number] is one for one in self.feeds)]
        if more:
            self.first = self.open_session([feeds[number] for number in more])
            self.rest = self.open_session(self.feeds)
            self.feeds = [*self.first.feeds, *self.feeds]
            self.originals = [*self._thinned([outputs[number] for number in more]), *self.originals]
        self.made = {key: tried for key, tried in self.made.items() if not tried.holds}
        self.begun.clear()
        self.learned.append(refuting)
        self.room *= LESSON
        return True

    def _as_proven(self, one: Refuting, outputs: ArrayOutputs) -> Sequence[OutputDelta]:
        """Compare as a proof does, against what all of its inputs give: as if others had no error at all."""
        feeds = one.reference.feeds()
        originals = self.references.setdefault(id(one.reference), self._thinned(one.reference.outputs()))
        found = list(originals)
        for number in one.numbers:
            place = next(at for at, fed in enumerate(self.feeds) if fed is feeds[number])
            found[number] = outputs[place]
        return self._between(one.reference, originals, found)

    def glance(self, mix: Mix) -> Tried:
        """Try a mix, plainly rounded, on the first input; where that moves nothing, on the others."""
        tried, seen = self._tried(mix, plain=True)
        if not self._moved(seen, self.first):
            tried, seen = self._tried(mix, seen, plain=True)
            tried = replace(tried, moved=self._moved(seen, self.first, self.rest))
        self.alone[_key(mix)] = tried
        return tried

    def shows(self, name: str) -> bool:
        """Whether any output moves when a tensor is damaged for good."""
        damaged = dict(zip(self.inputs[name], self.shelf.damaged(name), strict=True))
        sessions = self.first, self.rest
        return any(self._moved(self._seen(damaged, session), session) for session in sessions)

    def _moved(self, seen: Glance, *sessions: WeightSwapSession) -> bool:
        """Whether any bit of any output is another than with no mix, or a model did not run."""
        unharmed: list[int] = []
        for session in sessions:
            numbers = [id(feeds) for feeds in session.feeds]
            if any(number not in self.unharmed for number in numbers):
                self._know(session, self._seen({}, session).digests)
            unharmed += [self.unharmed[number] for number in numbers]
        return seen.digests != unharmed

    def _know(self, session: WeightSwapSession, digests: Sequence[int]) -> None:
        self.unharmed.update(zip(map(id, session.feeds), digests, strict=True))

    def unharmed_holds(self) -> bool:
        """Whether outputs hold before any weight is rounded, on the first inputs."""
        tried, seen = self._begun({})
        if seen.digests:
            self._know(self.first, seen.digests)
        return tried.holds

    def reaching(self, names: Sequence[str], feeds: Sequence[Feeds]) -> list[Feeds]:
        """Of other inputs a few on which an output moves when these tensors are damaged together."""
        session = self.open_session(feeds)
        damaged: dict[str, Path] = {}
        for name in names:
            damaged.update(zip(self.inputs[name], self.shelf.damaged(name), strict=True))
        try:
            unharmed, harmed = self._seen({}, session).digests, self._seen(damaged, session).digests
        except (RunFailed, Ended):
            return []
        moved = [fed for fed, one, other in zip(feeds, unharmed, harmed, strict=True) if one != other]
        return moved[:REACHING]

    def _tried(self, mix: Mix, known: Glance | None = None, *, plain: bool = False) -> tuple[Tried, Glance]:
        """Try a mix on the first inputs; on the rest, where it is known what the first show."""
        self.say(f"planning: trial {self.count + 1}")
        weights: dict[str, Path] = {}
        for name, files in self.shelf.files(mix, plain=plain).items():
            weights.update(zip(self.inputs[name], files, strict=True))
        try:
            seen = self._seen(weights, self.first if known is None else self.rest)
        except RunFailed as error:
            worst = vars(NOTHING_IN_COMMON)
            failed = OutputDelta(name="all", exact=False, problem=error.message, **worst)
            return Tried(mix, (failed,), FAILED), Glance([], [])
        seen = known.followed_by(seen) if known else seen
        return self._judged(mix, seen), seen

    def _judged(self, mix: Mix, seen: Glance) -> Tried:
        count = len(seen.outputs)
        # What was not run counts as kept: then no input is judged more strictly than all of them would be.
        outputs = [*seen.outputs, *self.originals[count:]]
        with self.reference.runner.meter.timing("comparing"):
            deltas = self._compared(outputs)
            complete = count == len(self.originals)
            for one in self.learned if complete else ():
                deltas = worse_of(deltas, self._as_proven(one, outputs))
            noise = self._noise(deltas)
            if complete:  # what a proof begins with has to hold too, but needs no room to spare
                deltas = worse_of(deltas, self._as_proven(self.own, outputs))
            safe = noise <= self.room and not any(delta.problem for delta in deltas)
            return Tried(mix, deltas, noise, safe=safe)

    def _compared(self, outputs: ArrayOutputs) -> tuple[OutputDelta, ...]:
        return self._between(self.reference, self.originals, outputs)

    def _between(
        self, reference: Reference, originals: ArrayOutputs, outputs: ArrayOutputs
    ) -> tuple[OutputDelta, ...]:
        """Compare as a proof on these inputs does."""
        return compare_outputs(
            originals,
            outputs,
            self.tolerance,
            batched=reference.batched,
            together=reference.is_made_up,
            memory=self.memory,
        )

    def _noise(self, deltas: Sequence[OutputDelta]) -> float:
        return min(FAILED, max((use_of(delta, self.tolerance) for delta in deltas), default=0.0))

    def _thinned(self, outputs: ArrayOutputs) -> ArrayOutputs:
        """Originals as the worker hands out what they are compared with."""
        return [
            {name: thinned(value, self.whole_axes.get(name, ())) for name, value in sample.items()}
            for sample in outputs
        ]

    def _seen(self, weights: Mapping[str, Path], session: WeightSwapSession) -> Glance:
        if not session.feeds:
            return Glance([], [])
        if self.runs + len(session.feeds) > self.most:
            raise Ended
        if time.monotonic() > self.until:
            self.late = True
            raise Ended
        self.runs += len(session.feeds)
        return Glance(*session.glance(weights, self.whole_axes))
