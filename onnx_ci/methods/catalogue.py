"""All methods, mildest first: the one place where a method is registered.

Stages: below 20 what simplifies a graph (simplifiers would unpack stored encodings again), 20 to 39
exact clean-up, 40 to 59 methods that change the graph's arithmetic, 60 to 79 encodings of weights, the
strongest first (and exact ones last, for what those left or made), 80 and above what only moves bytes.

Plain classes, and options and code loaded on first use: reading a policy must load neither dataclasses
nor typing, numpy or onnx.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, TypeAlias

    from onnx_ci.methods.weights import Encode
    from onnx_ci.model.model import Model

    Feeds: TypeAlias = Callable[[], Sequence[Mapping[str, Any]]]
    # "exact*" is the same mathematics with other rounding.
    Fidelity: TypeAlias = Literal["exact", "exact*", "approximate", "changes inputs"]
    # What makes a step worth keeping; "layout" is where bytes are.
    Gains: TypeAlias = Literal["size", "compressed", "layout"]


ENCODINGS = 60  # the first stage of methods that encode weights


class Applied:
    """How many tensors a method touched, and what it left alone and why.

    `failed` is for a library that broke down on the model: the model is as it was, and the report warns.
    """

    def __init__(self, tensors: int, note: str = "", *, failed: bool = False) -> None:
        self.tensors = tensors
        self.note = note
        self.failed = failed


class Method:
    """A row of the catalogue.

    Its code is the function named like the method, in the module of that name or in `home`; or another
    library, `tool`, that rewrites the whole model. Its options are the dataclass of that name in options.py.
    """

    def __init__(
        self,
        stage: int,
        name: str,
        fidelity: Fidelity,
        summary: str,
        *,
        gains: Gains = "size",
        changes: tuple[str, ...] = (),
        home: str = "",
        tool: str = "",
        wants_feeds: bool = False,
    ) -> None:
        self.stage = stage  # methods run in this order, whatever order a policy lists them in
        self.name = name
        self.fidelity = fidelity
        self.summary = summary
        self.gains = gains
        self.changes = changes  # parts of the model's interface that it is meant to change
        self.home = home
        self.tool = tool
        self.wants_feeds = wants_feeds  # it takes inputs to calibrate on as well

    @property
    def exact(self) -> bool:
        """Nothing is lost: what it gives may stand in for the original."""
        return self.fidelity != "approximate"

    @property
    def bitwise(self) -> bool:
        """Not a single bit of an output may move."""
        return self.fidelity == "exact"

    @property
    def encodes(self) -> bool:
        """It rounds weights, and stores them small or in few values."""
        return not self.exact and self.stage >= ENCODINGS

    @property
    def option_class(self) -> type[Any]:
        from onnx_ci.methods import options

        name = self.name.title().replace("-", "")
        option_class: type[Any] = getattr(options, name, options.NoOptions)
        return option_class

    def read_options(self, given: Mapping[str, object]) -> Any:
        """Return the options as a dataclass; a ValueError says in plain words what is wrong with them."""
        from onnx_ci.methods.options import read_options

        return read_options(self.name, self.option_class, given)

    def apply(self, model: Model, given: Mapping[str, object], feeds: Feeds) -> Applied:
        """Edit the model in place. `feeds` gives inputs that run it, to methods that want some."""
        options = self.read_options(given)
        if self.tool:
            from onnx_ci.methods.external_tools import run_tool

            return run_tool(model, self.tool, options)
        function = getattr(self._module, self.name.replace("-", "_"))
        applied: Applied = function(model, options, feeds) if self.wants_feeds else function(model, options)
        return applied

    @property
    def presumes(self) -> bool:
        """It is exact as long as a library keeps to the same mathematics: its own, or onnxruntime's folding
        of what is constant from now on."""
        return self.fidelity == "exact*" or "defaults" in self.changes

    @property
    def foreign(self) -> bool:
        """Another library does the work."""
        return bool(self.tool) or self.home == "ort_quantize" or self.name == "fuse-transformer"

    def encoding(self, model: Model, given: Mapping[str, object]) -> Encode | None:
        """Return how one weight is stored, of methods that store them one by one; None if a model can't."""
        encode: Encode | None = self._module.encoding(model, self.read_options(given))
        return encode

    @property
    def _module(self) -> Any:
        return importlib.import_module(f"onnx_ci.methods.{self.home or self.name.replace('-', '_')}")


METHODS = (
    Method(20, "dedupe", "exact", "store identical tensors once: initializers, Constants, subgraphs"),
    Method(
        24, "drop-unused", "exact", "remove nodes, weights and orphaned external bytes that no output needs"
    ),
    Method(
        28,
        "strip-docs",
        "exact",
        "remove doc strings and node metadata, never model metadata",
        home="drop_unused",
    ),
    Method(
        2,
        "freeze-inputs",
        "exact",
        "initializers that are listed as graph inputs too become constants",
        changes=("defaults",),
        home="drop_unused",
    ),
    Method(10, "fold-constants", "exact", "replace constant subgraphs where the result is not larger"),
    Method(
        76,
        "compact",
        "exact",
        "tensors that a smaller form gives back bit for bit: few values, repeats, fp16- or int-exact",
    ),
    Method(4, "simplify", "exact*", "onnxslim or onnxsim, extra `simplify`", tool="simplify"),
    Method(6, "optimize", "exact*", "onnxoptimizer passes, extra `simplify`", tool="optimize"),
    Method(
        8,
        "ort-optimize",
        "exact*",
        "onnxruntime's own graph optimizations",
        changes=("opset",),
        tool="ort_optimize",
    ),
    Method(
        40,
        "fuse-transformer",
        "approximate",
        "onnxruntime's transformer optimizer: attention, normalization and GELU fused, extra `fuse`",
        changes=("opset",),
    ),
    Method(
        44,
        "dynamic-int8",
        "approximate",
        "onnxruntime dynamic quantization: matrix products computed in 8 bits",
        changes=("opset",),
        home="ort_quantize",
    ),
    Method(
        48,
        "static-int8",
        "approximate",
        "onnxruntime static quantization, calibrated on the rule's samples",
        changes=("opset",),
        home="ort_quantize",
        wants_feeds=True,
    ),
    Method(42, "downcast", "approximate", "float64 to float32, int64 to int32, where types allow"),
    Method(68, "fp16-weights", "approximate", "weights stored as fp16, computed in float32"),
    Method(64, "int8-weights", "approximate", "8-bit weights with a scale per channel, computed in float32"),
    Method(
        60,
        "int4-weights",
        "approximate",
        "4-bit weights with a scale per block, computed in float32",
        changes=("opset", "ir"),
    ),
    Method(
        72,
        "float-levels",
        "approximate",
        "weights rounded to evenly spaced levels, kept as float32, for compressed size",
        gains="compressed",
        home="compressible",
    ),
    Method(
        76,
        "round-mantissa",
        "approximate",
        "weights rounded to fewer mantissa bits, kept as float32, for compressed size",
        gains="compressed",
        home="compressible",
    ),
    Method(
        80,
        "external-data",
        "exact",
        "large tensors to a standard external data file, or back into the model",
        gains="layout",
        home="layout",
    ),
    Method(
        84,
        "extract-npy",
        "changes inputs",
        "named or repeated constants to .npy files, fed as inputs",
        gains="layout",
        changes=("inputs",),
        home="layout",
    ),
)

_BY_NAME = {method.name: method for method in METHODS}


def method(name: str) -> Method:
    """Return the method of that name; a KeyError for any other name is a bug of the caller."""
    return _BY_NAME[name]


class Catalogue:
    """The catalogue as the policy sees it: names, and a check of options."""

    def names(self) -> Sequence[str]:
        return tuple(_BY_NAME)

    def check_options(self, name: str, options: Mapping[str, object]) -> None:
        if options:
            _BY_NAME[name].read_options(options)


def option_schemas() -> list[tuple[str, dict[str, object]]]:
    """Return the name and the JSON schema of the options of each method, in the order of the catalogue."""
    from onnx_ci.methods.options import json_schema

    return [(row.name, json_schema(row.option_class)) for row in METHODS]
