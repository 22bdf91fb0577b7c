"""What a model was: extracted tensors and external data back in the .onnx file, or its original."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.methods.catalogue import METHODS
from onnx_ci.methods.edit import Edits
from onnx_ci.model.graph import Scope, common_scope, keep_items
from onnx_ci.model.load import open_model
from onnx_ci.model.model import Model, display_path
from onnx_ci.model.npy import recorded, recorded_inner, set_record
from onnx_ci.model.proto import PROTOBUF_LIMIT
from onnx_ci.model.receipt import attach_receipt, model_digest, read_receipt, without_receipt
from onnx_ci.model.replace import replace_model, write_new
from onnx_ci.model.save import embed, embedded_size, take_in
from onnx_ci.util.sizes import format_size


def restore_file(source: Path, target: Path) -> int:
    """Write the model with everything in it; how many tensors came back."""
    with open_model(source) as original:
        _refuse_missing(original)
        model = original.copy()
        count = _take_back(model) + embed(model)
        if embedded_size(model) > PROTOBUF_LIMIT:
            raise ModelError(
                f"{display_path(source)}: takes {format_size(embedded_size(model))} as one file,"
                " and protobuf reads no more than 2 GiB",
                hint="leave its weights outside",
            )
        digest = _carry_receipt(original, model)
        if target.exists() and target.samefile(source):
            replace_model(model, original, root=source.resolve().parent, digest=digest)
        else:
            write_new(model, original, target.resolve(), digest=digest)
    return count


def _refuse_missing(model: Model) -> None:
    there = {tensor.name for tensor in model.beside}
    missing = {name: file for name, file in recorded(model.proto).items() if name not in there}
    for name, file in missing.items():
        raise ModelError(
            f"{display_path(model.path)}: input {name!r} was extracted to {file!r}, which is not there or"
            " does not hold an array of its type and shape",
            hint=f"put {file!r} beside the model",
            code="OCI012",
        )


def _take_back(model: Model) -> int:
    """Extracted tensors become what the model stores again; the inputs they were fed through go."""
    graph = model.proto.graph
    names = {tensor.name for tensor in model.beside}
    keep_items(graph, "input", lambda value: value.name not in names)
    root, inner = Scope(graph), set(recorded_inner(model.proto))
    edits = Edits(root)
    for tensor in model.beside:
        span = model.span(tensor)
        if span is not None:
            take_in(model, tensor, span)
        home = root
        if tensor.name in inner:  # to where it was before, or as good as that: around all that read it
            home = common_scope([use.scope for use in root.readers.get((root, tensor.name), ())] or [root])
        edits.store(home, tensor.name, tensor, model.proto.ir_version)
    edits.make()
    model.beside.clear()
    set_record(model.proto, {}, [])
    return len(names)


def _carry_receipt(original: Model, model: Model) -> str:
    """What was rounded stays known as rounded; a receipt that tells of nothing but moving goes."""
    receipt = read_receipt(original.proto)
    valid = receipt is not None and receipt.digest == model_digest(original)
    model.proto.CopyFrom(without_receipt(model.proto))
    digest = model_digest(model)
    moving = {method.name for method in METHODS if method.gains == "layout"}
    if receipt is not None and valid:
        rest = [entry for entry in receipt.methods if entry.get("name") not in moving]
        if rest:
            # Under no rule of anyone's: whatever a policy asks for is looked at anew.
            attach_receipt(model.proto, replace(receipt, methods=rest, policy="restored", digest=digest))
    return digest
