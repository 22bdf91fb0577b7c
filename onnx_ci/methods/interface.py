"""Gives a model that another library wrote the interface it had: callers must not notice the tool."""

from __future__ import annotations

from onnx_ci.errors import ModelError
from onnx_ci.model.graphs import bodies
from onnx_ci.model.proto import GraphProto, ModelProto

PLAIN = ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string")
STANDARD = ("", "ai.onnx")


def restore(made: ModelProto, before: ModelProto, *, raises_opset: bool) -> None:
    """Put back what tools drop or overwrite. A ModelError says what can't be put back."""
    _check_values(made.graph, before.graph)
    for kind in ("input", "output"):
        made.graph.ClearField(kind)
        getattr(made.graph, kind).extend(getattr(before.graph, kind))
    for name in PLAIN:
        made.ClearField(name)
        if before.HasField(name):
            setattr(made, name, getattr(before, name))
    made.ClearField("metadata_props")
    made.metadata_props.extend(before.metadata_props)
    made.graph.name, made.graph.doc_string = before.graph.name, before.graph.doc_string
    _drop_new_notes(made, before)
    _check_functions(made, before)
    _restore_imports(made, before, raises_opset=raises_opset)


def _check_values(made: GraphProto, before: GraphProto) -> None:
    given = {value.name for value in before.input}
    added = [value.name for value in made.input if value.name not in given]
    if added:
        raise ModelError(f"its result wants an input that the model had not: {added[0]!r}")
    known = {name for node in made.node for name in node.output} | given
    known.update(tensor.name for tensor in made.initializer)
    known.update(sparse.values.name for sparse in made.sparse_initializer)
    lost = [value.name for value in before.output if value.name not in known]
    if lost:
        raise ModelError(f"its result has no output {lost[0]!r}")


def _drop_new_notes(made: ModelProto, before: ModelProto) -> None:
    """Tools write down the type of every value they looked at; those cost bytes that the model had not."""
    known = {info.name for body in bodies(before) for info in body.value_info}
    for body in bodies(made):
        kept = [info for info in body.value_info if info.name in known]
        if len(kept) < len(body.value_info):
            body.ClearField("value_info")
            body.value_info.extend(kept)


def _check_functions(made: ModelProto, before: ModelProto) -> None:
    local = {(f.domain, f.name) for f in before.functions} - {(f.domain, f.name) for f in made.functions}
    called = {(node.domain, node.op_type) for body in bodies(made) for node in body.node}
    if local & called:
        raise ModelError(f"its result lacks the function {sorted(local & called)[0][1]!r}")


def _restore_imports(made: ModelProto, before: ModelProto, *, raises_opset: bool) -> None:
    """The imports the model had, and those of domains that are new in it. Versions must not move, unless
    that of the standard one is raised on purpose."""
    found = {entry.domain: entry.version for entry in made.opset_import}
    kept = list(before.opset_import)
    old = {entry.domain for entry in kept}
    old |= set(STANDARD) if old.intersection(STANDARD) else set()
    used = {node.domain for body in bodies(made) for node in body.node}
    new = [entry for entry in made.opset_import if entry.domain in used and entry.domain not in old]
    moved = [e.domain for e in kept if found.get(e.domain, e.version) != e.version]
    if moved and not (raises_opset and set(moved) <= set(STANDARD)):
        raise ModelError(f"it changed the opset of {moved[0] or 'ai.onnx'} to {found[moved[0]]}")
    del made.opset_import[:]
    made.opset_import.extend([*kept, *new])
    for entry in made.opset_import:
        entry.version = found.get(entry.domain, entry.version)
