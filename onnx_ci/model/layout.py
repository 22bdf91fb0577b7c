"""What a model becomes on disk: one .onnx file and its external data files, as pieces to be written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx_ci.model.container import Model, clear_values, location
from onnx_ci.model.graph import tensors
from onnx_ci.model.npy import header, recorded, set_record
from onnx_ci.model.proto import ModelProto, TensorProto
from onnx_ci.model.skeleton import splice
from onnx_ci.model.wire import Piece, Span, length_of

ALIGNMENT = 64  # external tensors start where every kernel can read them in place


@dataclass(frozen=True)
class Layout:
    """The pieces of every file, external data by its location."""

    model: list[Piece]
    data: dict[str, list[Piece]]

    @property
    def size(self) -> int:
        return length_of(self.model) + sum(map(length_of, self.data.values()))


@dataclass
class _DataFile:
    """One external data file while it is being filled."""

    pieces: list[Piece] = field(default_factory=list)
    end: int = 0
    placed: dict[Span, int] = field(default_factory=dict)

    def place(self, span: Span) -> int:
        """The offset of these bytes; bytes that are already there are not stored again."""
        if span not in self.placed:
            padding = -self.end % ALIGNMENT
            self.pieces += [bytes(padding), span]
            self.placed[span] = self.end + padding
            self.end += padding + span.length
        return self.placed[span]


def lay_out(model: Model, *, names: Mapping[str, str] | None = None, all_to: str = "") -> Layout:
    """Lay the model out. `names` renames data files; `all_to` moves every large tensor to one data file."""
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    files: dict[str, _DataFile] = {}
    for tensor in tensors(proto):
        span = model.span(tensor)
        home = location(tensor) or all_to
        if span is not None and home:
            home = (names or {}).get(home, home)
            offset = files.setdefault(home, _DataFile()).place(span)
            _refer(tensor, home, offset, span.length)
    data = {name: file.pieces for name, file in files.items()}
    data.update(_beside(model, proto, names or {}))
    skeleton = proto.SerializeToString(deterministic=True)
    return Layout(splice(skeleton, key=model.store.key), data)


def _beside(model: Model, proto: ModelProto, names: Mapping[str, str]) -> dict[str, list[Piece]]:
    """The .npy files, and the record of them in the model."""
    record = recorded(proto)
    files: dict[str, list[Piece]] = {}
    for tensor in model.beside:
        span, home = model.span(tensor), location(tensor)
        record[tensor.name] = names.get(home, home)
        files[record[tensor.name]] = [header(tensor), *([span] if span else [])]
    if files:
        set_record(proto, record)
    return files


def _refer(tensor: TensorProto, home: str, offset: int, length: int) -> None:
    clear_values(tensor)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", home), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
