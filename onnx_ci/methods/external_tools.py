"""Hands a whole model to another library, in a child process, and takes back what that made of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from onnx_ci.errors import EnvironmentFault, ModelError
from onnx_ci.methods.catalogue import Applied
from onnx_ci.methods.drop_unused import inputs_too
from onnx_ci.model.dtypes import BITS
from onnx_ci.model.graph import (
    CONSTANTS_IR,
    STANDARD_DOMAINS,
    Scope,
    bodies,
    default_inputs,
    keep_items,
    roots,
    stored_in,
    tensors,
)
from onnx_ci.model.load import adopt_model, weight_files
from onnx_ci.model.model import Model, element_count
from onnx_ci.model.proto import HANDED_LIMIT, GraphProto, ModelProto, NodeProto, TensorProto
from onnx_ci.model.save import embed, lay_out, write_model
from onnx_ci.sandbox.process import Died, Pool, memory_for
from onnx_ci.util.advice import to_run
from onnx_ci.util.text import clean

TOOLS = Pool("onnx_ci.sandbox.server")
SECONDS = 900.0
SMALL = 64 << 20  # bytes; the child that had a larger model is not used again
EXTRAS = {"simplify": "simplify", "optimize": "simplify", "fuse_transformer": "fuse"}
IN, OUT = "in.onnx", "out.onnx"
# What a model says of itself, apart from its graph.
OWN_FIELDS = ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string")
ENOUGH = 1024  # elements from which an encoding matters


def run_tool(model: Model, tool: str, options: Any) -> Applied:
    """Let a tool rewrite the model with a dataclass of options, unless it is one that no tool may have."""
    reason = unfit(model.proto) or unpackable(model.proto)
    if reason:
        return Applied(0, f"left alone: {reason}")
    return rewrite(model, tool, asdict(options))


def rewrite(
    model: Model,
    tool: str,
    options: Mapping[str, object],
    *,
    given: Model | None = None,
    raises_opset: bool = False,
) -> Applied:
    """Let a tool rewrite the model. `given` is what it gets to see instead of the model as it is."""
    folder = model.store.folder()
    try:
        note = _run(_whole(given or model), tool, {**options, "folder": str(folder)}, folder)
        made = adopt_model(model.store, folder / OUT).proto
        restore_interface(made, model.proto, raises_opset=raises_opset)
    except ModelError as error:
        shutil.rmtree(folder, ignore_errors=True)
        return Applied(0, f"{_name(tool)} failed: {clean(error.message)}", failed=True)
    touched = len(_signatures(model.proto) ^ _signatures(made))
    _settle(Model(model.path, made, model.store), weight_files(model.proto))
    model.proto = made
    return Applied(max(1, touched), note)


def _run(whole: Model, tool: str, options: Mapping[str, object], folder: Path) -> str:
    """The tool's note; what it made is in the folder."""
    size = lay_out(whole).size
    write_model(whole, folder / IN, all_to="" if size <= HANDED_LIMIT else f"{IN}.data")
    request = {"tool": tool, "source": str(folder / IN), "target": str(folder / OUT), "options": options}
    try:
        memory = memory_for([folder / IN])
        answer = TOOLS.ask(request, memory=memory, seconds=SECONDS, last=size > SMALL)
    except Died as death:
        raise ModelError(death.said("it")) from None
    finally:
        for file in folder.glob(f"{IN}*"):
            file.unlink()
    if answer["kind"] == "missing":
        raise _missing(tool, answer["message"])
    if answer["kind"] != "ok":
        raise ModelError(answer["message"])
    return str(answer["note"])


def _missing(tool: str, package: str) -> EnvironmentFault:
    extra = EXTRAS.get(tool, "")
    what = f"'onnx-ci[{extra}]'" if extra else package
    return EnvironmentFault(
        f"{_name(tool)} needs the package {package}, which can't be loaded",
        hint=to_run(f"pip install {what}"),
    )


def _whole(model: Model) -> Model:
    """A copy whose tensors are all in the model file, whatever data files they came from."""
    copy = model.copy()
    copy.beside.clear()  # inputs to a tool like any others
    embed(copy)
    return copy


def _settle(model: Model, homes: list[str]) -> None:
    """Tensors go back to the data file the model had. Of several none is their home any more: then they are
    embedded, unless that makes a file nobody can read."""
    embed(model)
    if len(homes) == 1 or (homes and lay_out(model).size > HANDED_LIMIT):
        for tensor in tensors(model.proto):
            if model.span(tensor) is not None:
                tensor.external_data.add(key="location", value=homes[0])


def _signatures(proto: ModelProto) -> set[tuple[str, int, tuple[int, ...]]]:
    return {(tensor.name, tensor.data_type, tuple(tensor.dims)) for tensor in tensors(proto)}


def _name(tool: str) -> str:
    return tool.replace("_", "-")


def restore_interface(made: ModelProto, before: ModelProto, *, raises_opset: bool) -> None:
    """Put back what tools drop or overwrite. A ModelError says what can't be put back."""
    _check_values(made.graph, before.graph)
    for kind in ("input", "output"):
        made.graph.ClearField(kind)
        getattr(made.graph, kind).extend(getattr(before.graph, kind))
    for name in OWN_FIELDS:
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
    known = Scope(made).defined.keys() | given
    lost = [value.name for value in before.output if value.name not in known]
    if lost:
        raise ModelError(f"its result has no output {lost[0]!r}")


def _drop_new_notes(made: ModelProto, before: ModelProto) -> None:
    """Tools write down the type of every value they looked at; those cost bytes that the model had not."""
    known = {info.name for body in bodies(before) for info in body.value_info}
    for body in bodies(made):
        keep_items(body, "value_info", lambda info: info.name in known)


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
    if old.intersection(STANDARD_DOMAINS):
        old.update(STANDARD_DOMAINS)
    used = {node.domain for body in bodies(made) for node in body.node}
    new = [entry for entry in made.opset_import if entry.domain in used and entry.domain not in old]
    moved = [e.domain for e in kept if found.get(e.domain, e.version) != e.version]
    if moved and not (raises_opset and set(moved) <= set(STANDARD_DOMAINS)):
        raise ModelError(f"it changed the opset of {moved[0] or 'ai.onnx'} to {found[moved[0]]}")
    del made.opset_import[:]
    made.opset_import.extend([*kept, *new])
    for entry in made.opset_import:
        entry.version = found.get(entry.domain, entry.version)


def unfit(model: ModelProto) -> str:
    """Why no tool may have the model; empty where one may."""
    if model.ir_version < CONSTANTS_IR:
        return f"IR version {model.ir_version} makes every weight a graph input too: add freeze-inputs"
    shared = default_inputs(model.graph)
    if shared:
        return inputs_too(len(shared))
    if model.training_info:
        return "it has training graphs"
    if any(function.overload or function.domain in STANDARD_DOMAINS for function in model.functions):
        return "it has functions that tools take for others: overloads, or named like a standard operator"
    if any(isinstance(body, GraphProto) and body.quantization_annotation for body in bodies(model)):
        return "it has quantization annotations"
    return "it has sparse tensors" if _sparse(model) else _shadowing(model)


def _sparse(model: ModelProto) -> bool:
    for body in bodies(model):
        if isinstance(body, GraphProto) and body.sparse_initializer:
            return True
        if any(a.HasField("sparse_tensor") or a.sparse_tensors for node in body.node for a in node.attribute):
            return True
    return False


def _shadowing(model: ModelProto) -> str:
    """Tools keep one table of what is stored: where an inner graph uses such a name again, they mix it up.

    A name that is only computed outside may come again: decoders call the results of their branches so.
    """
    for root in roots(model):
        for scope in root.nested():
            around = {name for outer in scope.chain()[1:] for name in _given(outer)}
            twice = sorted(around & scope.defined.keys())
            if twice:
                return f"the name {twice[0]!r} means one thing in a graph and another in a graph inside it"
    return ""


def _given(scope: Scope) -> Iterator[str]:
    """Names of what is stored or fed, not computed."""
    yield from (site.name for site in stored_in(scope))
    for value in scope.body.input:
        yield value if isinstance(value, str) else value.name


def unpackable(model: ModelProto) -> str:
    """Why no tool that computes what is constant may have the model: it would unpack encoded weights."""
    scopes = [scope for root in roots(model) for scope in root.nested()]
    stored = {site.name: site.tensor for scope in scopes for site in stored_in(scope)}
    for body in bodies(model):
        for node in body.node:
            tensor = stored.get(node.input[0]) if node.input else None
            if tensor is not None and _grows(node, tensor):
                return f"weights are stored encoded ({node.input[0]!r} and others), and would be unpacked"
    return ""


def _grows(node: NodeProto, tensor: TensorProto) -> bool:
    if element_count(tensor) < ENOUGH:
        return False
    if node.op_type != "Cast":
        return node.op_type in ("CastLike", "DequantizeLinear")
    wanted = [BITS.get(attribute.i, 0) for attribute in node.attribute if attribute.name == "to"]
    return any(bits > BITS.get(tensor.data_type, 0) for bits in wanted)
