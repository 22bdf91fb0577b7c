"""Moves tensors out of the model, to external data or to .npy files that are fed as inputs, or back in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.methods.catalogue import METHODS, Applied
from onnx_ci.methods.edit import Edits, declare_input
from onnx_ci.methods.options import ExternalData, ExtractNpy
from onnx_ci.methods.selection import all_stored, encoding_parts, same_content, select
from onnx_ci.model.graph import Scope, Site, all_names, common_scope, fixed_names, fresh_name, keep_items
from onnx_ci.model.load import open_model, own_data
from onnx_ci.model.model import LARGE, Model, display_path, element_count, location, stored_size
from onnx_ci.model.npy import FLOATS, TYPES, header, npy_names, recorded, recorded_inner, set_record
from onnx_ci.model.proto import PROTOBUF_LIMIT, TensorProto
from onnx_ci.model.receipt import attach_receipt, model_digest, read_receipt, without_receipt
from onnx_ci.model.replace import replace_model, write_new
from onnx_ci.model.save import embed, embedded_size, take_in
from onnx_ci.util.sizes import format_size, parse_size

Group = list[Site]  # sites with the very same content: one file, one input


def external_data(model: Model, options: ExternalData) -> Applied:
    if options.embed:
        return _embed(model)
    root = Scope(model.proto.graph)
    sites, note = list(all_stored(root)), ""
    least = parse_size(options.threshold)
    if options.tensors or options.ops:
        sites, note = select(root, sites, tensors=options.tensors, ops=options.ops)
        least = 0
    # Smaller ones than a kilobyte are never moved: shapes and axes are among them, which onnxruntime has to
    # see when it loads a model.
    least = max(least, LARGE)
    moved = [s.tensor for s in sites if not location(s.tensor) and stored_size(s.tensor) >= least]
    for tensor in moved:
        _move_out(model, tensor, tensor, options.file or own_data(model.path))
    total = format_size(sum(map(stored_size, moved)))
    return Applied(len(moved), f"{total} to external data{note}" if moved else note[2:])


def _move_out(model: Model, source: TensorProto, target: TensorProto, file: str) -> None:
    """Let a tensor have the values of another, or those it has, in a file outside the model."""
    span = model.span(source) or model.store.put(bytes(model.raw(source)))
    target.external_data.add(key="location", value=file)
    model.set_span(target, span)


def _embed(model: Model) -> Applied:
    size = embedded_size(model)
    if size > PROTOBUF_LIMIT:
        return Applied(0, f"left outside: {format_size(size)} in one file, protobuf reads no more than 2 GiB")
    count = embed(model)
    return Applied(count, "back into the model")


def extract_npy(model: Model, options: ExtractNpy) -> Applied:
    root = Scope(model.proto.graph)
    fixed = fixed_names(model.proto)
    found = [s for s in root.nested_sites(fixed) if s.tensor.data_type in TYPES and stored_size(s.tensor)]
    named, note = select(root, found, tensors=options.tensors, ops=options.ops)
    groups = same_content(model, named)
    if options.repeated or not (options.tensors or options.ops):
        # Scales, zero points and codes: onnxruntime wants them inside, so nothing but a name takes them out.
        encoded, taken = encoding_parts(model.proto), set(named)
        rest = [site for site in found if site not in taken and site.name not in encoded]
        rest = [site for site in rest if _is_data(site.tensor)]
        groups += [group for group in same_content(model, rest) if _is_worth_it(group)]
    _extract(model, root, groups)
    total = format_size(sum(stored_size(group[0].tensor) for group in groups))
    moved = f"{total} to .npy files, fed as inputs{note}"
    return Applied(sum(map(len, groups)), moved if groups else note[2:])


def _is_data(tensor: TensorProto) -> bool:
    """Not a scalar, a shape or a list of axes: onnxruntime has to see those when it loads a model."""
    return stored_size(tensor) >= LARGE or (tensor.data_type in FLOATS and element_count(tensor) > 1)


def _is_worth_it(group: Group) -> bool:
    """Whether the copies take more than a file of their own, an input and a line of the record."""
    tensor = group[0].tensor
    overhead = len(header(tensor)) + 4 * len(group[0].name) + 128
    return (len(group) - 1) * stored_size(tensor) > overhead


def _extract(model: Model, root: Scope, groups: list[Group]) -> None:
    edits, taken = Edits(root), all_names(model.proto)
    record, inner = recorded(model.proto), recorded_inner(model.proto)
    files = {name.lower() for name in record.values()}
    for group in groups:
        keeper = next((s for s in group if s.scope is root and s.name not in edits.shadowed), None)
        name = keeper.name if keeper else fresh_name(group[0].name, taken)
        if all(site.scope is not root for site in group):
            inner.append(name)
        record[name] = next(file for file in npy_names(model.path, name) if file.lower() not in files)
        files.add(record[name].lower())
        _put_beside(model, group[0].tensor, name, record[name])
        for site in group:
            edits.replace(site, name)
    edits.make()
    set_record(model.proto, record, inner)


def _put_beside(model: Model, tensor: TensorProto, name: str, file: str) -> None:
    """Declare the input, last of all, and keep the values for the file."""
    beside = TensorProto(name=name, data_type=tensor.data_type, dims=tensor.dims)
    _move_out(model, tensor, beside, file)
    model.beside.append(beside)
    declare_input(model.proto.graph, beside)


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
