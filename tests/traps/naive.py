"""Methods as one would write them in a hurry: right on a plain model, wrong on the traps made for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

from tests.traps.base import Array, subgraphs, tensor

Key = Callable[[TensorProto], object]


def _rename(top: GraphProto, names: dict[str, str]) -> None:
    for node in top.node:
        for at, name in enumerate(node.input):
            node.input[at] = names.get(name, name)


def _merge(model: ModelProto, key: Key) -> dict[str, str]:
    first: dict[object, str] = {}
    names = {item.name: first.setdefault(key(item), item.name) for item in model.graph.initializer}
    kept = [item for item in model.graph.initializer if names[item.name] == item.name]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    return names


def _array(item: TensorProto) -> Array:
    return numpy_helper.to_array(item)


def merge_by_value(model: ModelProto) -> None:
    """-0.0 == 0.0, and a hash of the numbers knows no difference either."""
    _rename(
        model.graph, _merge(model, lambda item: (_array(item).shape, tuple(_array(item).ravel().tolist())))
    )


def merge_by_value_squeezed(model: ModelProto) -> None:
    """np.array_equal after a broadcast: [1] equals a scalar."""
    _rename(
        model.graph,
        _merge(model, lambda item: (item.data_type, _array(item).squeeze().shape, _array(item).tobytes())),
    )


def merge_by_bytes(model: ModelProto) -> None:
    """Type and shape forgotten."""
    _rename(model.graph, _merge(model, lambda item: item.raw_data))


def merge_main_graph_only(model: ModelProto) -> None:
    """The right tensors, but their users inside subgraphs forgotten."""
    _rename(model.graph, _merge(model, _identity))


def merge_without_scopes(model: ModelProto) -> None:
    """The users everywhere, but a subgraph's own names forgotten."""
    names = _merge(model, _identity)
    for part in (model.graph, *subgraphs(model.graph)):
        _rename(part, names)


def merge_all_graphs_by_name(model: ModelProto) -> None:
    """One table of names for the graph and all of its subgraphs."""
    parts = [model.graph, *subgraphs(model.graph)]
    known = {item.name: item for part in parts for item in part.initializer}
    for part in parts:
        for item in part.initializer:
            item.CopyFrom(known[item.name])


def _identity(item: TensorProto) -> object:
    return (item.data_type, tuple(item.dims), _array(item).tobytes())


def drop_unused(model: ModelProto) -> None:
    """What subgraphs take, and outputs that are weights, forgotten."""
    used = {name for node in model.graph.node for name in node.input}
    kept = [item for item in model.graph.initializer if item.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)


def _large_floats(model: ModelProto) -> Iterator[TensorProto]:
    for item in model.graph.initializer:
        if item.data_type == TensorProto.FLOAT and np.prod(item.dims) >= 1024:
            yield item


def fp16_in_place(model: ModelProto) -> None:
    """The weight gets another type under its name, and a Cast in front of its users in the main graph."""
    for item in list(_large_floats(model)):
        with np.errstate(over="ignore"):
            item.CopyFrom(tensor(item.name, _array(item).astype(np.float16)))
        _rename(model.graph, {item.name: f"{item.name}_cast"})
        model.graph.node.insert(
            0, helper.make_node("Cast", [item.name], [f"{item.name}_cast"], to=TensorProto.FLOAT)
        )


def fp16_behind_cast(model: ModelProto) -> None:
    """A new tensor, and a Cast that makes the old name: better, but blind to names and ranges."""
    for item in list(_large_floats(model)):
        with np.errstate(over="ignore"):
            half = _array(item).astype(np.float16)
        model.graph.node.insert(
            0, helper.make_node("Cast", [f"{item.name}_fp16"], [item.name], to=TensorProto.FLOAT)
        )
        item.CopyFrom(tensor(f"{item.name}_fp16", half))


def int8(model: ModelProto, axis: int | None) -> None:
    """int8, Cast and Mul, with a scale for each index of one axis (or one for all), whatever the op."""
    for item in list(_large_floats(model)):
        values = _array(item)
        others = tuple(n for n in range(values.ndim) if n != axis)
        with np.errstate(all="ignore"):
            scale = (np.abs(values).max(axis=others, keepdims=True) / 127).astype(np.float32)
            code = np.round(values / scale).clip(-127, 127).astype(np.int8)
        cast = helper.make_node("Cast", [f"{item.name}_int8"], [f"{item.name}_float"], to=TensorProto.FLOAT)
        mul = helper.make_node("Mul", [f"{item.name}_float", f"{item.name}_scale"], [item.name])
        model.graph.initializer.append(tensor(f"{item.name}_scale", scale))
        item.CopyFrom(tensor(f"{item.name}_int8", code))
        model.graph.node.insert(0, mul)
        model.graph.node.insert(0, cast)


def uint8_with_zero_point(model: ModelProto) -> None:
    """From the smallest to the largest number of each column, which may be the same."""
    for item in list(_large_floats(model)):
        values = _array(item)
        others = tuple(range(values.ndim - 1))
        with np.errstate(all="ignore"):
            low = values.min(axis=others, keepdims=True)
            scale = (values.max(axis=others, keepdims=True) - low) / 255
            zero = np.round(-low / scale)
            code = np.round(values / scale + zero).clip(0, 255).astype(np.uint8)
        made = {"uint8": code, "zero": zero.astype(np.float32), "scale": scale.astype(np.float32)}
        steps = [
            helper.make_node("Cast", [f"{item.name}_uint8"], [f"{item.name}_float"], to=TensorProto.FLOAT),
            helper.make_node("Sub", [f"{item.name}_float", f"{item.name}_zero"], [f"{item.name}_sub"]),
            helper.make_node("Mul", [f"{item.name}_sub", f"{item.name}_scale"], [item.name]),
        ]
        nodes = [*steps, *model.graph.node]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        model.graph.initializer.extend(tensor(f"{item.name}_{key}", made[key]) for key in ("zero", "scale"))
        item.CopyFrom(tensor(f"{item.name}_uint8", made["uint8"]))


def int8_per_tensor(model: ModelProto) -> None:
    int8(model, None)


def int8_axis_0(model: ModelProto) -> None:
    int8(model, 0)


def int8_last_axis(model: ModelProto) -> None:
    int8(model, max((len(item.dims) for item in _large_floats(model)), default=1) - 1)


def constants_to_initializers(model: ModelProto) -> None:
    """Every Constant is taken to have a tensor called value."""
    kept = []
    for node in model.graph.node:
        if node.op_type != "Constant":
            kept.append(node)
        else:
            model.graph.initializer.append(tensor(node.output[0], node.attribute[0].t))
    del model.graph.node[:]
    model.graph.node.extend(kept)


def rewrite_without_sparse(model: ModelProto) -> None:
    """What the intermediate form does not know is lost."""
    del model.graph.sparse_initializer[:]
    del model.functions[:]


BROKEN_BY: dict[Callable[[ModelProto], None], tuple[str, ...]] = {
    merge_by_value: (
        "negative_zero",
        "negative_zero_among_weights",
        "weight_is_output",
        "captured_duplicates",
    ),
    merge_by_value_squeezed: ("scalar_against_one", "same_bytes_other_shape", "scalar_in_float_data"),
    merge_by_bytes: (
        "same_bytes_other_dtype",
        "same_bytes_other_shape",
        "packed_int4",
        "float8_weights",
        "empty_tensors",
        "float_data",
        "qdq_equal_parameters",
        "string_weights",
    ),
    merge_main_graph_only: ("captured_duplicates", "weight_is_output", "overridable_weight"),
    merge_without_scopes: (
        "shadowed_merge_target",
        "loop_state_named_like_a_weight",
        "weight_is_output",
        "overridable_weight",
        "overridable_weight_in_branch",
    ),
    merge_all_graphs_by_name: ("if_same_names_in_branches", "shadowed_name"),
    drop_unused: ("captured_only", "weight_is_output", "no_nodes", "overridable_weight_in_branch"),
    fp16_in_place: (
        "weights_with_declared_types",
        "captured_before_use",
        "all_weights_are_inputs",
        "overridable_weight",
        "weight_is_output",
        "names_with_taken_suffixes",
        "names_taken_inside_branch",
        "outputs_with_taken_suffixes",
    ),
    fp16_behind_cast: (
        "overridable_weight",
        "all_weights_are_inputs",
        "names_with_taken_suffixes",
        "outputs_with_taken_suffixes",
        "past_fp16",
        "lowest_mask",
        "floats_that_are_indices",
        "tiny_epsilon",
        "denormals",
        "variance_under_a_root",
    ),
    int8_per_tensor: (
        "one_outlier",
        "infinite_mask",
        "lowest_mask",
        "variance_under_a_root",
        "denormals",
        "one_nan",
        "floats_that_are_indices",
        "gather_axes",
        "conv_depthwise",
        "opset_6_that_runs",
        "shape_from_values",
    ),
    int8_axis_0: ("gemm_transa0_transb0", "gemm_transa1_transb0", "conv_transpose", "conv_transpose_grouped"),
    uint8_with_zero_point: ("flat_channels", "zero_weight", "one_nan", "infinite_mask", "tiny_epsilon"),
    int8_last_axis: (
        "gemm_transa0_transb1",
        "gemm_transa1_transb1",
        "conv",
        "conv_grouped",
        "conv_depthwise",
    ),
    constants_to_initializers: (
        "constant_short_forms",
        "constant_scalar_and_list_of_one",
        "constant_strings",
    ),
    rewrite_without_sparse: ("sparse_initializers", "local_functions", "nested_functions"),
}
