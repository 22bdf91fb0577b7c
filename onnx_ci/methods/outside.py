"""Hands a whole model to another library, in a child process that may crash, hang or run out of memory."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from onnx_ci.child.launch import memory_for
from onnx_ci.child.pool import Pool
from onnx_ci.child.process import Died
from onnx_ci.child.wording import clean
from onnx_ci.errors import EnvironmentFault, ModelError
from onnx_ci.methods.applied import Applied
from onnx_ci.methods.interface import restore
from onnx_ci.model.container import Model, clear_values, location
from onnx_ci.model.external import weight_files
from onnx_ci.model.graphs import tensors
from onnx_ci.model.layout import lay_out
from onnx_ci.model.load import adopt
from onnx_ci.model.proto import ModelProto
from onnx_ci.model.save import write_model

TOOLS = Pool("onnx_ci.tools.serve")
SECONDS = 900.0
SMALL = 64 << 20  # bytes; the child that had a larger model is not used again
LIMIT = (1 << 31) - (1 << 20)  # bytes; protobuf takes no more in one file
EXTRAS = {"simplify": "simplify", "optimize": "simplify", "fuse_transformer": "fuse"}
IN, OUT = "in.onnx", "out.onnx"


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
        made = adopt(model.store, folder / OUT)
        restore(made, model.proto, raises_opset=raises_opset)
    except ModelError as error:
        shutil.rmtree(folder, ignore_errors=True)
        return Applied(0, f"{_name(tool)} failed: {clean(error.message)}", failed=True)
    touched = len(_stored(model.proto) ^ _stored(made))
    _settle(Model(model.path, made, model.store), weight_files(model.proto))
    model.proto = made
    return Applied(max(1, touched), note)


def _run(whole: Model, tool: str, options: Mapping[str, object], folder: Path) -> str:
    """The tool's note; what it made is in the folder."""
    size = lay_out(whole).size
    write_model(whole, folder / IN, all_to="" if size <= LIMIT else f"{IN}.data")
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
        f"{_name(tool)} needs the package {package}, which can't be loaded", hint=f"run: pip install {what}"
    )


def _whole(model: Model) -> Model:
    """A copy whose tensors are all in the model file, whatever data files they came from."""
    copy = model.copy()
    copy.beside.clear()  # inputs to a tool like any others
    for tensor in tensors(copy.proto):
        span = copy.span(tensor)
        if span is not None and location(tensor):
            clear_values(tensor)
            copy.set_span(tensor, span)
    return copy


def _settle(model: Model, homes: list[str]) -> None:
    """Tensors go back to the data file the model had. Of several none is their home any more: then they are
    embedded, unless that makes a file nobody can read."""
    for tensor in tensors(model.proto):
        span = model.span(tensor)
        if span is not None:
            clear_values(tensor)
            model.set_span(tensor, span)
    if len(homes) == 1 or (homes and lay_out(model).size > LIMIT):
        for tensor in tensors(model.proto):
            span = model.span(tensor)
            if span is not None:
                tensor.external_data.add(key="location", value=homes[0])


def _stored(proto: ModelProto) -> set[tuple[str, int, tuple[int, ...]]]:
    return {(tensor.name, tensor.data_type, tuple(tensor.dims)) for tensor in tensors(proto)}


def _name(tool: str) -> str:
    return tool.replace("_", "-")
