"""What a model was: extracted tensors and external data back in the .onnx file, or its original."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.methods.catalogue import METHODS
from onnx_ci.methods.edit import constant_node, remove_sites
from onnx_ci.methods.scopes import Scope
from onnx_ci.model.container import Model, display_path
from onnx_ci.model.digest import model_digest
from onnx_ci.model.embed import PROTOBUF_LIMIT, embed, embedded_size, take_in
from onnx_ci.model.external import opened_files
from onnx_ci.model.load import open_model, read_skeleton
from onnx_ci.model.measure import by_name, files_of
from onnx_ci.model.npy import recorded, recorded_inner, set_inner, set_record
from onnx_ci.model.proto import GraphProto, NodeProto
from onnx_ci.model.receipt import Receipt, attach_receipt, read_receipt, without_receipt
from onnx_ci.model.replace import put_files, replace_model, writable_target, write_new
from onnx_ci.original import find_original
from onnx_ci.results import OriginalState
from onnx_ci.scratch import scratch_folder
from onnx_ci.shell import shell_path
from onnx_ci.sizes import format_size


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


def restore_original(source: Path, target: Path, repository: Path | None) -> tuple[OriginalState, int]:
    """Write a model as it was before it was shrunk, byte for byte: where it was found, and its size."""
    name = display_path(source)
    with open_model(source) as model:
        receipt = read_receipt(model.proto)
        if receipt is None:
            raise ModelError(
                f"{name}: has no receipt of onnx-ci, so nothing tells what it was made from",
                hint="look for it in git: git log --follow -- " + shell_path(source),
            )
        in_place = target.exists() and target.samefile(source)
        if in_place and receipt.digest != model_digest(model):
            raise ModelError(
                f"{name}: was changed after onnx-ci shrank it, and that would be lost",
                hint=f"name another file: onnx-ci restore --original {shell_path(source)} OUT",
            )
        data = opened_files(model) if in_place else []
    with scratch_folder() as scratch:
        found = find_original(receipt, source.resolve(), repository, scratch)
        if isinstance(found, str):
            raise ModelError(
                f"{name}: its original (sha256 {receipt.source_sha256},"
                f" {receipt.source_size:,} bytes) {found}",
                hint="bring it here (git fetch, git lfs fetch --all), or set ONNX_CI_ORIGINALS to where it"
                " was kept",
            )
        files = by_name(files_of(found.path, read_skeleton(found.path)))
        final = writable_target(target, _root(target, repository))
        put_files(files, final, also_ours=data)
        return found.state, sum(file.stat().st_size for file in files.values())


def _root(target: Path, repository: Path | None) -> Path:
    """A link that leads out of the repository, or outside of one out of its folder, is not followed."""
    folder = target.parent.resolve()
    return repository if repository and folder.is_relative_to(repository) else folder


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
    kept = [value for value in graph.input if value.name not in names]
    graph.ClearField("input")
    graph.input.extend(kept)
    root, inner = Scope(graph), set(recorded_inner(model.proto))
    front: dict[Scope, list[NodeProto]] = defaultdict(list)
    for tensor in model.beside:
        span = model.span(tensor)
        if span is not None:
            take_in(model, tensor, span)
        home = _home(root, tensor.name) if tensor.name in inner else root
        if model.proto.ir_version >= 4 and isinstance(home.body, GraphProto):
            home.body.initializer.add().CopyFrom(tensor)
        else:  # every initializer would have to be an input as well
            front[home].append(constant_node(tensor.name, tensor))
    remove_sites([], front)
    model.beside.clear()
    set_record(model.proto, {})
    set_inner(model.proto, [])
    return len(names)


def _home(root: Scope, name: str) -> Scope:
    """The innermost graph around all that read a name: where it was before, or as good as that."""
    users = [scope for scope in root.nested() if any(name in node.input for node in scope.body.node)]
    chains = [scope.chain() for scope in users or [root]]
    return next(scope for scope in chains[0] if all(scope in chain for chain in chains))


def _carry_receipt(original: Model, model: Model) -> str:
    """What was rounded stays known as rounded; a receipt that tells of nothing but moving goes."""
    receipt = read_receipt(original.proto)
    valid = receipt is not None and receipt.digest == model_digest(original)
    model.proto.CopyFrom(without_receipt(model.proto))
    digest = model_digest(model)
    if receipt is not None and valid:
        _attach_rest(model, receipt, digest)
    return digest


def _attach_rest(model: Model, receipt: Receipt, digest: str) -> None:
    moving = {method.name for method in METHODS if method.gains == "layout"}
    rest = [entry for entry in receipt.methods if entry.get("name") not in moving]
    if rest:
        # Under no rule of anyone's: whatever a policy asks for is looked at anew.
        attach_receipt(model.proto, replace(receipt, methods=rest, policy="restored", digest=digest))
