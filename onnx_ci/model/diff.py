"""What is different between two models, from their skeletons and from samples of their tensors' bytes.

Small pairs are compared whole. Of large ones each tensor gives pieces at even distances, at the same places
in both, so that the time does not grow with the size; `exact` reads everything.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_ci.errors import ModelError
from onnx_ci.model.dtypes import BITS, NUMPY_TYPES, stored_bytes
from onnx_ci.model.graph import Body, attribute_tensors
from onnx_ci.model.interface import operator_name, opset_imports, own_metadata, show_type, type_name
from onnx_ci.model.load import open_model, open_skeleton
from onnx_ci.model.measure import files_of, is_plain, parameters
from onnx_ci.model.model import Model, location
from onnx_ci.model.proto import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, full_onnx
from onnx_ci.model.receipt import read_receipt
from onnx_ci.model.wire import Span
from onnx_ci.results import (
    ChangeCounts,
    Difference,
    LayerChange,
    ModelDiff,
    TensorChange,
    ValueShift,
    ValueSpread,
)
from onnx_ci.util.text import layers_of

if TYPE_CHECKING:
    import numpy as np

WHOLE = 64_000_000  # bytes of tensors; a pair that has no more is compared whole
SAMPLED = 16_000_000  # bytes of all samples of one side
PIECE = 4096
BLOCK = 1 << 24  # bytes that are held at once
LONGEST = 120  # characters of a value that is shown
LISTED = 50  # changes of one kind in a report of many models
KEPT = 500  # characters of a value there
FEW = 8  # elements that are shown themselves

Key = tuple[str, int]  # a name, and which one it is of several that are called so
Ranges = list[tuple[int, int]]  # elements, from and to
Pairs = Iterable[tuple[bytes | bytearray, bytes | bytearray]]  # the same elements of two tensors
BINS = 16  # of the values of a tensor
ENOUGH = 65_536  # values of each block that is held, to see how they are spread


def diff_models(
    before: Path,
    after: Path,
    *,
    names: tuple[str, str] | None = None,
    roots: Sequence[Path | None] = (None, None),
    exact: bool = False,
) -> ModelDiff:
    """Compare two files; `names` are what the user calls them, their data lies inside of `roots`."""
    with _opened(before, roots[0]) as old, _opened(after, roots[1]) as new:
        comparison = _Comparison(_Parts(old), _Parts(new), exact)
        tensors = comparison.tensors()
        called = names or (str(before), str(after))
        return ModelDiff(
            before=called[0],
            after=called[1],
            size_before=_size(before, old.proto),
            size_after=_size(after, new.proto),
            params_before=parameters(old.proto),
            params_after=parameters(new.proto),
            interface=tuple(_interface(old.proto, new.proto)),
            opsets=_changes(opset_imports(old.proto), opset_imports(new.proto)),
            header=_changes(_header(old.proto), _header(new.proto)),
            metadata=_changes(own_metadata(old.proto), own_metadata(new.proto)),
            operators=comparison.operators(),
            nodes=comparison.nodes,
            node_counts=comparison.node_counts(),
            tensor_counts=ChangeCounts(**Counter(str(change.state) for change in tensors)),
            tensors=tensors,
            layers=comparison.layers(tensors),
            same_tensors=comparison.same,
            exact=comparison.exact,
            notes=tuple(comparison.unread(called)),
        )


def brief(diff: ModelDiff, most: int = LISTED) -> ModelDiff:
    """The same for a report of many models: the first of each list, the largest tensors, no long values."""
    names = ("interface", "opsets", "header", "metadata", "operators", "nodes")
    lists: dict[str, Any] = {name: tuple(map(_clipped, getattr(diff, name)[:most])) for name in names}
    lists["tensors"] = diff.tensors[:most]
    cut = [
        f"{name}: {most:,} of {len(getattr(diff, name)):,} are listed"
        for name in lists
        if len(getattr(diff, name)) > most
    ]
    return replace(diff, **lists, notes=(*diff.notes, *cut))


def _clipped(change: Difference) -> Difference:
    before, after = (
        value if value is None or (isinstance(value, int) and value >= 0) else str(value)[:KEPT]
        for value in (change.before, change.after)
    )
    return Difference(name=change.name[:KEPT], before=before, after=after)


def _opened(path: Path, root: Path | None = None) -> Model:
    """A model; where its data is missing or not to be read, as much of it as there is."""
    try:
        return open_model(path, root=root)
    except ModelError as error:
        if error.code not in ("OCI007", "OCI012"):
            raise
        return open_skeleton(path)


def _size(path: Path, proto: ModelProto) -> int:
    return sum(file.stat().st_size for file in files_of(path, proto) if file.is_file())


def _changes(before: Mapping[str, str | int], after: Mapping[str, str | int]) -> tuple[Difference, ...]:
    names = [*before, *(name for name in after if name not in before)]
    pairs = ((name, before.get(name), after.get(name)) for name in names)
    return tuple(Difference(name=name, before=was, after=now) for name, was, now in pairs if was != now)


def _interface(before: ModelProto, after: ModelProto) -> Iterator[Difference]:
    for kind in ("input", "output"):
        old, new = ({v.name: show_type(v.type) for v in getattr(m.graph, kind)} for m in (before, after))
        for change in _changes(old, new):
            yield Difference(name=f"{kind} {change.name}", before=change.before, after=change.after)
        if list(old) != list(new) and set(old) == set(new):
            yield Difference(name=f"order of {kind}s", before=", ".join(old), after=", ".join(new))


def _header(proto: ModelProto) -> dict[str, str | int]:
    names = ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string")
    header = {name.replace("_", " "): getattr(proto, name) for name in names if getattr(proto, name)}
    header |= {f"function {f.domain or 'ai.onnx'}.{f.name}": len(f.node) for f in proto.functions}
    receipt = read_receipt(proto)
    return {**header, "shrunk by onnx-ci with": ", ".join(receipt.names)} if receipt else header


@dataclass(eq=False)
class _Parts:
    """The nodes and tensors of a model by what they are called, those of inner graphs and functions too.

    A node is called by its first output, a Constant's tensor likewise, other tensors of a node after it."""

    model: Model
    nodes: dict[Key, NodeProto] = field(default_factory=dict)
    tensors: dict[Key, TensorProto] = field(default_factory=dict)
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        proto = self.model.proto
        self._add(proto.graph, "")
        for function in proto.functions:
            self._add(function, f"{function.domain}.{function.name}: ")
            for attribute in function.attribute_proto:
                self._add_tensors(attribute, f"{function.domain}.{function.name}: {attribute.name}")
        for training in proto.training_info:
            self._add(training.initialization, "training: ")
            self._add(training.algorithm, "training: ")

    def _key(self, kind: str, name: str) -> Key:
        self._counts[kind, name] += 1
        return name, self._counts[kind, name]

    def _add(self, body: Body, scope: str) -> None:
        if isinstance(body, GraphProto):
            for tensor in body.initializer:
                self.tensors[self._key("tensor", scope + tensor.name)] = tensor
            for sparse in body.sparse_initializer:
                self.tensors[self._key("tensor", scope + sparse.values.name)] = sparse.values
                self.tensors[self._key("tensor", f"{scope}{sparse.values.name} (indices)")] = sparse.indices
        for node in body.node:
            name = scope + (next(filter(None, node.output), "") or node.name)
            self.nodes[self._key("node", name)] = node
            for attribute in node.attribute:
                plain = node.op_type == "Constant" and attribute.name == "value"
                self._add_tensors(attribute, name if plain else f"{name}.{attribute.name}")
                graphs = [attribute.g] if attribute.HasField("g") else attribute.graphs
                for number, graph in enumerate(graphs):
                    self._add(graph, f"{name}/{attribute.name}{number or ''}/")

    def _add_tensors(self, attribute: AttributeProto, name: str) -> None:
        for tensor in attribute_tensors(attribute):
            self.tensors[self._key("tensor", name)] = tensor

    @property
    def operators(self) -> dict[str, str | int]:
        counts = Counter(map(operator_name, self.nodes.values()))
        return dict(sorted(counts.items()))

    def content(self, tensor: TensorProto) -> Span | bytes | None:
        """Where its bytes are, or the bytes themselves; None where they are missing or make no sense."""
        span = self.model.span(tensor)
        if span is not None:
            return span if span.length == stored_bytes(tensor.data_type, tensor.dims) else None
        if tensor.data_location == TensorProto.EXTERNAL:
            return None
        if tensor.data_type == TensorProto.STRING:
            return bytes(TensorProto(string_data=tensor.string_data).SerializeToString())
        try:
            raw = bytes(self.model.raw(tensor))
        except (ValueError, TypeError):  # fewer numbers than its shape needs
            return None
        return raw if len(raw) == stored_bytes(tensor.data_type, tensor.dims) else None

    def read(self, content: Span | bytes, start: int, stop: int) -> bytes | bytearray:
        if isinstance(content, Span):
            return self.model.store.read(Span(content.source, content.offset + start, stop - start))
        return content[start:stop]

    def digest(self, content: Span | bytes, ranges: Ranges) -> bytes:
        digest = hashlib.sha256()
        for start, stop in ranges:
            digest.update(self.read(content, start, stop))
        return digest.digest()

    def size(self, tensor: TensorProto) -> int:
        if tensor.data_type == TensorProto.STRING:
            return sum(map(len, tensor.string_data))
        return max(stored_bytes(tensor.data_type, tensor.dims) or 0, 0)


def describe(tensor: TensorProto) -> str:
    """Its type and shape: float[64,3,7,7]."""
    return f"{type_name(tensor.data_type)}[{','.join(map(str, tensor.dims))}]"


@dataclass(eq=False)
class _Comparison:
    old: _Parts
    new: _Parts
    asked_exact: bool
    same: int = 0
    exact: bool = True
    sums: dict[str, tuple[float, float]] = field(default_factory=dict)  # of each changed tensor: was, error
    spreads: dict[int, Callable[[], ValueSpread | None]] = field(default_factory=dict)  # by the change's id

    @cached_property
    def allowance(self) -> int | None:
        """Bytes of each tensor that are compared; None: all."""
        tensors = [(part, t) for part in (self.old, self.new) for t in part.tensors.values()]
        total = sum(part.size(tensor) for part, tensor in tensors)
        if self.asked_exact or total <= 2 * WHOLE:
            return None
        large = sum(part.size(tensor) > PIECE for part, tensor in tensors)
        return max(PIECE, 2 * SAMPLED // large)

    def unread(self, names: tuple[str, str]) -> Iterator[str]:
        """Why values of a model were not compared."""
        for name, part in zip(names, (self.old, self.new), strict=True):
            missing = [t for t in part.tensors.values() if part.content(t) is None]
            if missing:
                files = ", ".join(sorted({location(t) for t in missing} - {""})) or "what it stores"
                count = f"{len(missing)} tensor{'s' * (len(missing) != 1)}"
                yield f"{name}: {count} not compared: {files} is not here, or not what it should be"

    def operators(self) -> tuple[Difference, ...]:
        return _changes(self.old.operators, self.new.operators)

    @cached_property
    def nodes(self) -> tuple[Difference, ...]:
        changes = []
        for (name, number), node in self.old.nodes.items():
            other = self.new.nodes.get((name, number))
            if other is not None:
                was, now = _differences(node, other)
                changes.append(Difference(name=name, before=was, after=now))
        return tuple(change for change in changes if change.before or change.after)

    def node_counts(self) -> ChangeCounts:
        gone = Counter(_kind(n) for key, n in self.old.nodes.items() if key not in self.new.nodes)
        added = Counter(_kind(n) for key, n in self.new.nodes.items() if key not in self.old.nodes)
        renamed = (gone & added).total()
        return ChangeCounts(
            added=added.total() - renamed,
            gone=gone.total() - renamed,
            renamed=renamed,
            changed=len(self.nodes),
        )

    def tensors(self) -> tuple[TensorChange, ...]:
        old, new = self.old.tensors, self.new.tensors
        gone = {key: tensor for key, tensor in old.items() if key not in new}
        added = {key: tensor for key, tensor in new.items() if key not in old}
        renamed = self._renamed(gone, added)
        sizes: Counter[str] = Counter()
        for part in (self.old, self.new):
            for (name, _), tensor in part.tensors.items():
                sizes[name] += part.size(tensor)
        self._layers = layers_of(sizes)
        changes = []
        for key, tensor in old.items():
            if key in new:
                change = self._changed(key, tensor, new[key])
            elif key in renamed:
                change = self._change(renamed[key], tensor, added[renamed[key]], former=key[0])
            else:
                change = self._change(key, tensor, None)
            if change is None:
                self.same += 1
            else:
                changes.append(change)
        taken = set(renamed.values())
        changes += [self._change(key, None, tensor) for key, tensor in added.items() if key not in taken]
        changes.sort(key=lambda change: -max(change.size_before, change.size_after))
        for place, change in enumerate(changes[:LISTED]):
            if id(change) in self.spreads:
                changes[place] = replace(change, values=self.spreads[id(change)]())
        return tuple(changes)

    def _change(
        self,
        key: Key,
        old: TensorProto | None,
        new: TensorProto | None,
        former: str = "",
        moved: ValueShift | None = None,
    ) -> TensorChange:
        both = old is not None and new is not None
        return TensorChange(
            name=key[0],
            state=("renamed" if former else "changed") if both else "gone" if new is None else "added",
            layer=self._layers[key[0]],
            before=None if old is None else describe(old),
            after=None if new is None else describe(new),
            size_before=0 if old is None else self.old.size(old),
            size_after=0 if new is None else self.new.size(new),
            former=former,
            moved=moved,
        )

    def _changed(self, key: Key, old: TensorProto, new: TensorProto) -> TensorChange | None:
        """None where two tensors of one name are the same, as far as they were compared."""
        same_form = old.data_type == new.data_type and list(old.dims) == list(new.dims)
        was, now = self.old.content(old), self.new.content(new)
        if was is None or now is None:
            self.same -= same_form  # nobody knows
            return None if same_form else self._change(key, old, new)
        if same_form and isinstance(was, bytes) and was == now:
            return None
        types = _numpy_type(old.data_type), _numpy_type(new.data_type)
        numeric = all(types)
        comparable = numeric or (same_form and _length(was) == _length(now))
        if list(old.dims) != list(new.dims) or not comparable:
            return self._change(key, old, new)
        count, width = _length(was), (1, 1)
        if numeric:
            count, width = math.prod(old.dims), (BITS[old.data_type] // 8, BITS[new.data_type] // 8)
        ranges, exact = _ranges(count, max(width), self.allowance)
        self.exact &= exact

        def pairs() -> Iterator[tuple[bytes | bytearray, bytes | bytearray]]:
            for start, stop in ranges:
                yield (
                    self.old.read(was, start * width[0], stop * width[0]),
                    self.new.read(now, start * width[1], stop * width[1]),
                )

        if same_form and all(first == second for first, second in pairs()):
            return None
        if not numeric:
            return self._change(key, old, new, moved=_changed_bytes(pairs(), exact))
        moved, sums = _changed_numbers(pairs(), types, exact)
        scale = count / max(sum(stop - start for start, stop in ranges), 1)
        self.sums[key[0]] = (sums[0] * scale, sums[1] * scale)
        change = self._change(key, old, new, moved=moved)
        self.spreads[id(change)] = lambda: _spread(pairs, types)
        return change

    def _renamed(self, gone: Mapping[Key, TensorProto], added: Mapping[Key, TensorProto]) -> dict[Key, Key]:
        """Tensors that are there under another name. What may be stored a hundred times is not told apart."""
        forms = {_form(tensor) for tensor in gone.values()}
        known: dict[bytes, list[Key]] = {}
        for key, tensor in added.items():
            if _form(tensor) in forms:
                known.setdefault(self._fingerprint(self.new, tensor, key), []).append(key)
        renamed = {}
        for key, tensor in gone.items():
            others = known.get(self._fingerprint(self.old, tensor, key)) if known else None
            if others:
                renamed[key] = others.pop(0)
        return renamed

    def _fingerprint(self, part: _Parts, tensor: TensorProto, key: Key) -> bytes:
        content = part.content(tensor)
        if content is None:
            return repr(key).encode()
        ranges, exact = _ranges(_length(content), 1, self.allowance)
        self.exact &= exact
        return repr(_form(tensor)).encode() + part.digest(content, ranges)

    def layers(self, tensors: Sequence[TensorChange]) -> tuple[LayerChange, ...]:
        sizes: dict[str, list[int]] = {}
        for side, part in enumerate((self.old, self.new)):
            for (name, _), tensor in part.tensors.items():
                sizes.setdefault(self._layers[name], [0, 0])[side] += part.size(tensor)
        grouped: dict[str, list[TensorChange]] = {}
        for change in tensors:
            grouped.setdefault(change.layer, []).append(change)
        layers = [
            LayerChange(
                prefix=prefix,
                tensors=len(changes),
                size_before=sizes[prefix][0],
                size_after=sizes[prefix][1],
                relative=_relative(self.sums[c.name] for c in changes if c.name in self.sums),
            )
            for prefix, changes in grouped.items()
        ]
        return tuple(sorted(layers, key=lambda layer: -max(layer.size_before, layer.size_after)))


def _length(content: Span | bytes) -> int:
    return content.length if isinstance(content, Span) else len(content)


def _form(tensor: TensorProto) -> tuple[int, tuple[int, ...]]:
    return tensor.data_type, tuple(tensor.dims)


def _ranges(count: int, width: int, allowance: int | None) -> tuple[Ranges, bool]:
    """Which elements are compared, and whether that is all of them."""
    if allowance is None or count * width <= allowance:
        step = max(1, BLOCK // width)
        return [(start, min(start + step, count)) for start in range(0, count, step)], True
    pieces, length = max(2, allowance // PIECE), PIECE // width
    starts = [round(number * (count - length) / (pieces - 1)) for number in range(pieces)]
    ends = [following for _, following in pairwise(starts)] + [count]
    return [(start, min(start + length, end)) for start, end in zip(starts, ends, strict=True)], False


def _numpy_type(data_type: int) -> Any:
    """What numpy reads the values as; None where it can't, or not one by one."""
    if data_type in NUMPY_TYPES:
        return NUMPY_TYPES[data_type]
    complex_types = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)
    if BITS.get(data_type, 0) < 8 or data_type in complex_types:
        return None
    return full_onnx().helper.tensor_dtype_to_np_dtype(data_type)


def _spread(pairs: Callable[[], Pairs], types: tuple[Any, Any]) -> ValueSpread | None:
    """None where all values are the same, or further apart than a number can be."""
    import numpy as np

    def finite() -> Iterator[tuple[int, Any]]:
        for pair in pairs():
            for side, data in enumerate(pair):
                values = _numbers(data, types[side], most=ENOUGH)
                values = values[np.isfinite(values)]
                if len(values):
                    yield side, values

    low, high = math.inf, -math.inf
    for _, values in finite():
        low, high = min(low, float(values.min())), max(high, float(values.max()))
    if not low < high or not math.isfinite(high - low):
        return None
    counts = np.zeros((2, BINS), dtype=np.int64)
    for side, values in finite():
        counts[side] += np.histogram(values, bins=BINS, range=(low, high))[0]
    before, after = (tuple(side.tolist()) for side in counts)
    return ValueSpread(low=low, high=high, before=before, after=after)


def _changed_bytes(pairs: Pairs, exact: bool) -> ValueShift:
    import numpy as np

    count = different = 0
    for first, second in pairs:
        count += len(first)
        different += int(np.count_nonzero(np.frombuffer(first, np.uint8) != np.frombuffer(second, np.uint8)))
    share = different / max(count, 1)
    return ValueShift(share=share, relative=None, max_abs=None, not_finite=0, exact=exact)


def _changed_numbers(
    pairs: Pairs, types: tuple[Any, Any], exact: bool
) -> tuple[ValueShift, tuple[float, float]]:
    """How far values moved, and the sums of the squares of what they were and of their errors."""
    import numpy as np

    count = different = not_finite = 0
    squares = errors = largest = 0.0
    for first, second in pairs:
        was, now = _numbers(first, types[0]), _numbers(second, types[1])
        count += len(was)
        different += int(np.count_nonzero((was != now) & ~(np.isnan(was) & np.isnan(now))))
        not_finite += int(np.count_nonzero(np.isfinite(was) & ~np.isfinite(now)))
        usable = np.isfinite(was) & np.isfinite(now)
        was, now = was[usable], now[usable]
        apart = np.abs(now - was)
        squares += float(was @ was)
        errors += float(apart @ apart)
        largest = max(largest, float(apart.max(initial=0.0)))
    moved = ValueShift(
        share=different / max(count, 1),
        relative=_relative([(squares, errors)]),
        max_abs=largest if math.isfinite(largest) else None,
        not_finite=not_finite,
        exact=exact,
    )
    return moved, (squares, errors)


def _numbers(
    data: bytes | bytearray, kind: Any, most: int | None = None
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The values; at most about so many, at even distances."""
    import numpy as np

    values = np.frombuffer(data, dtype=kind)
    with np.errstate(invalid="ignore"):  # signalling NaN
        return values[:: max(1, len(values) // most) if most else 1].astype(np.float64)


def _relative(sums: Iterable[tuple[float, float]]) -> float | None:
    """The size of the errors relative to that of the values; None where there is nothing to relate to."""
    pairs = list(sums)
    was, error = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    return math.sqrt(error / was) if 0 < was < math.inf and error < math.inf else None


def _attributes(node: NodeProto) -> dict[str, bytes]:
    """What each attribute says; tensors and graphs in it are compared by themselves."""
    values = {}
    for attribute in node.attribute:
        plain = AttributeProto(name=attribute.name, type=attribute.type)
        if is_plain(attribute):
            plain.CopyFrom(attribute)
            plain.ClearField("doc_string")
        values[attribute.name] = plain.SerializeToString(deterministic=True)
    return values


def _kind(node: NodeProto) -> tuple[object, ...]:
    """All of a node but what its values are called."""
    return operator_name(node), len(node.input), len(node.output), tuple(sorted(_attributes(node).items()))


def _differences(before: NodeProto, after: NodeProto) -> tuple[str, str]:
    """What two nodes that give the same value are, as far as that differs; nothing where it does not."""
    old, new = _attributes(before), _attributes(after)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    whole = operator_name(before) != operator_name(after) or before.input != after.input

    def shown(node: NodeProto) -> str:
        values = (f" {a.name}={_value(a)}" for a in node.attribute if a.name in names)
        return (_call(node) if whole else operator_name(node)) + "".join(values)

    return (shown(before), shown(after)) if names or whole else ("", "")


def _call(node: NodeProto) -> str:
    return f"{operator_name(node)}({_short(', '.join(node.input))})"


def _value(attribute: AttributeProto) -> str:
    if attribute.HasField("t"):
        return describe(attribute.t)
    for name in ("i", "f", "s"):
        if attribute.HasField(name):
            single = getattr(attribute, name)
            return _short(single.decode(errors="replace")) if name == "s" else f"{single:g}"
    for name in ("ints", "floats", "strings"):
        if several := getattr(attribute, name):
            texts = (v.decode(errors="replace") if name == "strings" else f"{v:g}" for v in several)
            return _short(f"[{', '.join(texts)}]")
    return "[]" if is_plain(attribute) else "…"


def _short(text: str) -> str:
    """What is too long to be shown ends in a digest, so that two that differ never look the same."""
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}… #{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:8]}"


def textconv(path: Path) -> Iterator[str]:
    """A model line by line, for `git diff`. Git gives it one file in a scratch folder, so external data is
    never looked at; what is no model is told in a line, since a failure would end all of git's diff."""
    try:
        model = open_skeleton(path)
    except ModelError as error:
        yield error.message.partition(": ")[2] or error.message
        return
    with model:
        proto = model.proto
        for name, value in {**_header(proto), **opset_imports(proto)}.items():
            yield f"{name}: {value}"
        for name, value in own_metadata(proto).items():
            yield f"metadata {name}: {_short(value)}"
        for change in _interface(ModelProto(), proto):
            yield f"{change.name}: {change.after}"
        parts = _Parts(model)
        for (name, _), node in parts.nodes.items():
            attributes = "".join(f" {a.name}={_value(a)}" for a in node.attribute)
            given = ", ".join(node.output) if name in node.output else name
            yield f"node {given} = {_call(node)}{attributes}"
        for (name, _), tensor in parts.tensors.items():
            yield f"tensor {name}: {describe(tensor)} {_stored(parts, tensor)}"


def _stored(parts: _Parts, tensor: TensorProto) -> str:
    if file := location(tensor):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        return f"in {file} at {entries.get('offset', '0')}, {parts.size(tensor):,} bytes"
    content = parts.content(tensor)
    if content is None:
        return "does not hold what its shape needs"
    if math.prod(tensor.dims) <= FEW and _numpy_type(tensor.data_type):
        return str(parts.model.array(tensor).reshape(-1).tolist())
    digest = parts.digest(content, _ranges(parts.size(tensor), 1, None)[0])
    return f"{parts.size(tensor):,} bytes, sha256 {digest.hex()[:16]}"
