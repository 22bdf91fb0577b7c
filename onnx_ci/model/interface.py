"""What users of a model rely on besides its numbers, and where a candidate changed it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from onnx_ci.model import npy, receipt
from onnx_ci.model.graph import CONSTANTS_IR, STANDARD_DOMAINS, all_nodes, default_inputs
from onnx_ci.model.proto import ModelProto, NodeProto, TensorProto
from onnx_ci.results import Port

if TYPE_CHECKING:
    from onnx import TensorShapeProto, TypeProto, ValueInfoProto

OWN = (receipt.KEY, npy.KEY, npy.INNER)  # entries of the metadata that this program writes
# "dims" are names of open sizes, and what is said of outputs' sizes: no input is taken less for those.
TOPICS = ("inputs", "outputs", "dims", "opset", "ir", "metadata", "producer", "functions")


def contract_breaks(before: ModelProto, after: ModelProto, *, allow: Collection[str] = ()) -> list[str]:
    """Return one sentence for each break; `allow` names the topics that may change.

    Where it names "defaults", inputs that had a value of their own may be gone, and nothing else may: before
    IR 4 that takes IR 4.
    """
    given = list(before.graph.input)
    if "defaults" in allow:
        frozen = {*default_inputs(before.graph)} - {value.name for value in after.graph.input}
        given = [value for value in given if value.name not in frozen]
        if frozen and before.ir_version < CONSTANTS_IR == after.ir_version:
            allow = (*allow, "ir")
    inputs, input_dims = _values("input", given, after.graph.input)
    outputs, output_dims = _values("output", before.graph.output, after.graph.output)
    breaks = {
        "inputs": inputs,
        "outputs": outputs,
        "dims": [*input_dims, *output_dims],
        "opset": _opsets(before, after),
        "ir": _plain("IR version", before.ir_version, after.ir_version),
        "metadata": _metadata(before, after),
        "producer": _producer(before, after),
        "functions": _functions(before, after),
    }
    return [sentence for topic in TOPICS if topic not in allow for sentence in breaks[topic]]


def ports(proto: ModelProto) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """What a model is fed and what it gives. A weight that is an input too is none of these."""
    inputs, outputs = (
        tuple(Port(name=value.name, type=show_type(value.type)) for value in values)
        for values in (fed_inputs(proto), proto.graph.output)
    )
    return inputs, outputs


def fed_inputs(proto: ModelProto) -> list[ValueInfoProto]:
    """The inputs that have no value of their own."""
    weights = {*default_inputs(proto.graph)}
    return [value for value in proto.graph.input if value.name not in weights]


def _values(
    kind: str, before: Sequence[ValueInfoProto], after: Sequence[ValueInfoProto]
) -> tuple[list[str], list[str]]:
    """The breaks of inputs or outputs, and those that concern only names of open sizes."""
    old, new = [value.name for value in before], [value.name for value in after]
    breaks = list(_gone_or_new(kind, old, new))
    dims: list[str] = []
    if old != new and set(old) == set(new):
        breaks.append(f"the order of the {kind}s changed: {', '.join(old)} became {', '.join(new)}")
    types = {value.name: value.type for value in after}
    for value in before:
        was, now = show_type(value.type), show_type(types.get(value.name, value.type))
        if was != now:
            agree = _agree(value.type, types[value.name], said_later=kind == "output")
            (dims if agree else breaks).append(f"{kind} {value.name!r} was {was} and is now {now}")
    return breaks, dims


def _gone_or_new(kind: str, old: Collection[str], new: Collection[str]) -> Iterator[str]:
    for name in old:
        if name not in new:
            yield f"{kind} {name!r} is gone"
    for name in new:
        if name not in old:
            yield f"{kind} {name!r} is new"


def _agree(before: TypeProto, after: TypeProto, *, said_later: bool) -> bool:
    """Whether all sizes are the same, under whatever names. With `said_later` a size that was open may be
    said now, or the other way round: what an output's size is, a run tells."""
    if not (before.HasField("tensor_type") and after.HasField("tensor_type")):
        return False
    old, new = before.tensor_type, after.tensor_type
    if old.elem_type != new.elem_type or old.HasField("shape") != new.HasField("shape"):
        return False
    was, now = list(map(_size, old.shape.dim)), list(map(_size, new.shape.dim))
    known = said_later and len(was) == len(now)
    return was == now or (known and all(a == b or None in (a, b) for a, b in zip(was, now, strict=True)))


def _size(dim: TensorShapeProto.Dimension) -> int | None:
    """None where it is open; some exporters write -1 for that."""
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None


def show_type(kind: TypeProto) -> str:
    """A type as people write it: float[batch,3]."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        return ("sparse " if which.startswith("sparse") else "") + _tensor(getattr(kind, which))
    if which in ("sequence_type", "optional_type"):
        return f"{which.removesuffix('_type')}({show_type(getattr(kind, which).elem_type)})"
    if which == "map_type":
        return f"map({type_name(kind.map_type.key_type)}, {show_type(kind.map_type.value_type)})"
    return "untyped" if which is None else which


def _tensor(tensor: TypeProto.Tensor | TypeProto.SparseTensor) -> str:
    if not tensor.HasField("shape"):
        return f"{type_name(tensor.elem_type)} of unknown shape"
    dims = (str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim)
    return f"{type_name(tensor.elem_type)}[{','.join(dims)}]"


def type_name(data_type: int) -> str:
    """An element type as people write it: float, int64."""
    known = TensorProto.DataType.DESCRIPTOR.values_by_number.get(data_type)
    return known.name.lower() if known else f"type {data_type}"


def operator_name(node: NodeProto) -> str:
    """The operator of a node, with its domain unless that is the standard one."""
    return str(node.op_type) if node.domain in STANDARD_DOMAINS else f"{node.domain}.{node.op_type}"


def _opsets(before: ModelProto, after: ModelProto) -> Iterator[str]:
    old, new = opset_imports(before), opset_imports(after)
    used = {_domain(node.domain) for node in all_nodes(after)}
    for domain, version in old.items():
        if domain in new and new[domain] != version:
            yield f"opset of {domain} was {version} and is now {new[domain]}"
        elif domain not in new and domain in used:
            yield f"opset import of {domain} is gone although its operators are used"
    for domain, version in new.items():
        if domain not in old:
            yield f"opset import of {domain} {version} is new"


def opset_imports(proto: ModelProto) -> dict[str, int]:
    """The version of each domain of operators; of the standard one under its full name."""
    return {_domain(entry.domain): entry.version for entry in proto.opset_import}


def _domain(name: str) -> str:
    return name or "ai.onnx"


def _metadata(before: ModelProto, after: ModelProto) -> Iterator[str]:
    old, new = own_metadata(before), own_metadata(after)
    yield from _gone_or_new("metadata", old, new)
    for key in old:
        if key in new and old[key] != new[key]:
            yield f"metadata {key!r} changed"


def own_metadata(proto: ModelProto) -> dict[str, str]:
    """The metadata without what this program writes."""
    return {entry.key: entry.value for entry in proto.metadata_props if entry.key not in OWN}


def _producer(before: ModelProto, after: ModelProto) -> Iterator[str]:
    yield from _plain("producer name", before.producer_name, after.producer_name)
    yield from _plain("producer version", before.producer_version, after.producer_version)
    yield from _plain("model domain", before.domain, after.domain)
    yield from _plain("model version", before.model_version, after.model_version)
    if after.doc_string not in ("", before.doc_string):  # dropping it is what strip-docs is for
        yield "the doc string changed"


def _plain(kind: str, old: str | int, new: str | int) -> Iterator[str]:
    if old != new:
        yield f"{kind} was {old!r} and is now {new!r}"


def _functions(before: ModelProto, after: ModelProto) -> Iterator[str]:
    old = {f"{_domain(f.domain)}.{f.name}" for f in before.functions}
    new = {f"{_domain(f.domain)}.{f.name}" for f in after.functions}
    called = {f"{_domain(node.domain)}.{node.op_type}" for node in all_nodes(after)}
    for name in sorted((old - new) & called):
        yield f"function {name} is gone although it is called"
    for name in sorted(new - old):
        yield f"function {name} is new"
