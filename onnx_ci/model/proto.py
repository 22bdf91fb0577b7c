"""The protobuf classes of ONNX, without the rest of the onnx package.

`import onnx` also loads numpy, the checker, the parser and more: five times what the classes alone
take, and longer than the exact methods need for most models. The classes are the very same objects
that `import onnx` gives, whichever comes first.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

PROTOBUF_LIMIT = (1 << 31) - 1  # bytes; no reader of ONNX takes a larger .onnx file
HANDED_LIMIT = (1 << 31) - (1 << 20)  # what another library is given in one file: it may add to it


def _message_module() -> Any:
    name = "onnx.onnx_ml_pb2"
    if "onnx" in sys.modules:
        return importlib.import_module(name)
    found = importlib.util.find_spec("onnx")
    if found is None or found.submodule_search_locations is None:
        raise ModuleNotFoundError("No module named 'onnx'", name="onnx")
    package = ModuleType("onnx")
    package.__path__ = list(found.submodule_search_locations)
    sys.modules["onnx"] = package
    try:
        return importlib.import_module(name)
    finally:
        del sys.modules["onnx"]


def full_onnx() -> ModuleType:
    """The whole package, for the few places that need more than the classes."""
    onnx = importlib.import_module("onnx")
    # A module that was loaded before its package is not yet an attribute of it.
    onnx.onnx_ml_pb2 = sys.modules["onnx.onnx_ml_pb2"]  # type: ignore[attr-defined]
    return onnx


def _strict_class(model_class: Any) -> Any:
    """ModelProto once more, by the rules of proto3, which refuses text that is not UTF-8 when it parses.

    ONNX is proto2: there such text is let through, and comes out as bytes where it is looked at."""
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    described = model_class.DESCRIPTOR.file.serialized_pb
    pool.AddSerializedFile(described + b"\x62\x06proto3")  # the field `syntax`; the last one counts
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("onnx.ModelProto"))


if TYPE_CHECKING:
    import onnx.onnx_ml_pb2 as _messages
else:
    _messages = _message_module()

AttributeProto = _messages.AttributeProto
FunctionProto = _messages.FunctionProto
GraphProto = _messages.GraphProto
ModelProto = _messages.ModelProto
NodeProto = _messages.NodeProto
TensorProto = _messages.TensorProto
StrictModelProto = _strict_class(ModelProto)
