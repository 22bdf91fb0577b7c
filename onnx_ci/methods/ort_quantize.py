"""Computes matrix products and convolutions in 8 bits, as onnxruntime's quantizers write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_ci.errors import ModelError
from onnx_ci.methods.catalogue import Applied
from onnx_ci.methods.edit import Edits, constant_node, renamed, sort_nodes
from onnx_ci.methods.external_tools import rewrite, unfit
from onnx_ci.methods.options import DynamicInt8, StaticInt8
from onnx_ci.methods.selection import matches
from onnx_ci.methods.weights import plain_weight
from onnx_ci.model.graph import Reader, Scope, Site, fixed_names, opset, roots, tensors
from onnx_ci.model.model import Model
from onnx_ci.model.proto import GraphProto, ModelProto, TensorProto

if TYPE_CHECKING:
    from onnx_ci.methods.catalogue import Feeds

MIN_OPSET = 11  # DynamicQuantizeLinear; onnxruntime would convert older models on the way
DYNAMIC_OPS = ("MatMul", "Gemm", "LSTM", "Attention")
STATIC_OPS = ("Conv", "MatMul", "Gemm")
KINDS = "biufU"  # numpy's letters for what can be written without pickle and read without ml_dtypes
MATRIX = 2  # axes


def dynamic_int8(model: Model, options: DynamicInt8) -> Applied:
    """Store the weights of matrix products in 8 bits; inputs are rounded as they come."""
    reason = unfit(model.proto)
    if not reason and opset(model.proto) < MIN_OPSET:
        reason = f"opset {opset(model.proto)} has no dynamic quantization, {MIN_OPSET} has"
    if reason:
        return Applied(0, f"left alone: {reason}")
    return _quantized(model, "dynamic_int8", {**asdict(options), "ops": options.ops or DYNAMIC_OPS})


def static_int8(model: Model, options: StaticInt8, feeds: Feeds) -> Applied:
    """Compute convolutions and matrix products in 8 bits, with ranges that are measured on samples."""
    reason = unfit(model.proto)
    if reason:
        return Applied(0, f"left alone: {reason}")
    try:
        samples = _saved(feeds(), model.store.folder())
    except ModelError as error:
        return Applied(0, f"static-int8 failed: {error.message}", failed=True)
    settings = {**asdict(options), "ops": options.ops or STATIC_OPS, "samples": samples}
    return _quantized(model, "static_int8", settings)


def _saved(samples: Sequence[Mapping[str, Any]], folder: Path) -> list[dict[str, str]]:
    """The samples as .npy files, by input; names of inputs may hold anything, so files are numbered."""
    saved: list[dict[str, str]] = []
    for number, sample in enumerate(samples):
        files = {name: str(folder / f"{number}-{place}.npy") for place, name in enumerate(sample)}
        for name, file in files.items():
            np.save(file, _plain(name, sample[name]), allow_pickle=False)
        saved.append(files)
    return saved


def _plain(name: str, value: Any) -> np.ndarray[Any, np.dtype[Any]]:
    array = value.astype(np.str_) if isinstance(value, np.ndarray) and value.dtype.kind == "O" else value
    if not isinstance(array, np.ndarray) or array.dtype.kind not in KINDS:
        raise ModelError(f"input {name!r} is of a type that onnxruntime does not calibrate on")
    return array


def _quantized(model: Model, tool: str, options: Mapping[str, Any]) -> Applied:
    """Let a quantizer have the model, but for tensors that patterns of `skip` name. Where it rounded nothing,
    its other changes don't count either."""
    before = model.proto
    view = _quantizer_view(model, options["skip"])
    applied = rewrite(model, tool, options, given=view, raises_opset=True)
    if applied.failed:
        return applied
    rounded = _small_integers(model.proto) - _small_integers(before)
    if rounded <= 0:
        model.proto = before
        return Applied(0, "no weight of the operators that it rounds")
    sort_nodes(model.proto.graph)
    return Applied(rounded, applied.note)


def _small_integers(model: ModelProto) -> int:
    """8-bit tensors that are weights, not the zero points of their columns."""
    kinds = (TensorProto.INT8, TensorProto.UINT8)
    return sum(tensor.data_type in kinds and len(tensor.dims) >= MATRIX for tensor in tensors(model))


def _quantizer_view(model: Model, skip: Sequence[str]) -> Model:
    """Return a copy as quantizers have to see it: what they may round is an initializer, nothing else is.

    They look for weights among the initializers only, so Constants become such. A tensor that must not be
    rounded (a mask, indices, not finite) is hidden from them by the opposite: it becomes a Constant.
    """
    view = model.copy()
    fixed = fixed_names(view.proto)
    for root in roots(view.proto):
        if isinstance(root.body, GraphProto):
            _arrange(view, root, fixed, skip)
    return view


def _arrange(view: Model, root: Scope, fixed: set[str], skip: Sequence[str]) -> None:
    edits = Edits(root)
    shown: list[Site] = []
    for site in root.nested_sites(fixed):
        uses = root.readers.get((site.scope, site.name), ())
        plain = _may_round(view, site, uses) and not matches(site.name, skip)
        if plain is None or plain == (site.node is None):
            continue
        edits.remove(site)
        if plain:
            shown.append(site)
        else:
            edits.front[site.scope].append(constant_node(site.name, site.tensor))
    for site in shown:
        site.scope.body.initializer.append(renamed(site.tensor, site.name))
    edits.make()


def _may_round(view: Model, site: Site, uses: Sequence[Reader]) -> bool | None:
    """Whether a tensor may be rounded; None for one that quantizers don't look at."""
    tensor = site.tensor
    if tensor.data_type not in (TensorProto.FLOAT, TensorProto.FLOAT16) or not tensor.dims:
        return None
    if tensor.data_type == TensorProto.FLOAT16 or any(_mishandled(use, tensor, uses) for use in uses):
        return False
    return plain_weight(view.array(tensor))


def _mishandled(use: Reader, tensor: TensorProto, uses: Sequence[Reader]) -> bool:
    """Uses for which the quantizer writes a graph that does not run, or transposes what others read too."""
    node, position = use.node, use.operand
    if node.op_type == "MatMul":
        return position == 0 or len(tensor.dims) != MATRIX
    turned = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
    return node.op_type == "Gemm" and (position == 0 or (position == 1 and turned and len(uses) > 1))
