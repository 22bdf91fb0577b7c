"""The options of every method that has any: what a policy may write, with defaults and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeVar

from onnx_ci.errors import OptionError
from onnx_ci.util import scalars
from onnx_ci.util.scalars import FLAG, NAMES, Scalar, whole
from onnx_ci.util.text import nearest

Options = TypeVar("Options")
FLOAT, FLOAT16 = 1, 10  # element types by their numbers in the standard


def option(default: object, scalar: Scalar) -> Any:
    """A field of options, with what it may be."""
    return field(default=default, metadata={"scalar": scalar})


def choice(default: str, *others: str) -> Any:
    """One of a few words."""
    return option(default, scalars.choice((default, *others)))


def kinds(options: type[Any]) -> dict[str, Scalar]:
    """Return what each option may be."""
    return {item.name: item.metadata["scalar"] for item in fields(options)}


def read_options(method: str, options: type[Options], given: Mapping[str, object]) -> Options:
    """Return the options as their dataclass; an OptionError says in plain words what is wrong with them."""
    known = kinds(options)
    for name, value in given.items():
        if name not in known:
            raise OptionError(name, _unknown_option(method, name, list(known)))
        if not known[name].fits(value):
            wanted = known[name].expected
            raise OptionError(name, f"{method}: {name}: expected {wanted}, found {value!r}")
    return options(**given)


def _unknown_option(method: str, name: str, known: list[str]) -> str:
    if not known:
        return f"{method} takes no options, found {name!r}"
    near = nearest(name, known)
    guess = f"did you mean {near!r}? " if near else ""
    return f"{method} has no option {name!r}; {guess}it takes {', '.join(known)}"


def json_schema(options: type[Any]) -> dict[str, object]:
    """Return the JSON schema of a method's options."""
    properties: dict[str, object] = {}
    for item in fields(options):
        default = list(item.default) if isinstance(item.default, tuple) else item.default
        properties[item.name] = {**item.metadata["scalar"].schema, "default": default}
    return {"type": "object", "additionalProperties": False, "properties": properties}


# The types of onnxruntime's tool that are of use on a processor.
TRANSFORMERS = (
    "bert",
    "bert_tf",
    "bert_keras",
    "bart",
    "gpt2",
    "gpt_neox",
    "t5",
    "vit",
    "swin",
    "clip",
    "conformer",
    "tnlr",
)


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """For methods that take none."""


@dataclass(frozen=True, kw_only=True)
class Simplify:
    """Which library does the work."""

    engine: str = choice("onnxslim", "onnxsim")


@dataclass(frozen=True, kw_only=True)
class Optimize:
    """Passes of onnxoptimizer by name; none means its own set that fuses and eliminates."""

    passes: tuple[str, ...] = option((), NAMES)


@dataclass(frozen=True, kw_only=True)
class OrtOptimize:
    """How far onnxruntime goes: beyond `basic` the result runs in onnxruntime only."""

    level: str = choice("basic", "extended", "layout")


@dataclass(frozen=True, kw_only=True)
class FuseTransformer:
    """Whose patterns are looked for, and the heads where the graph does not tell; 0 is not given."""

    model_type: str = choice("auto", *TRANSFORMERS)
    num_heads: int = option(0, whole(0, 1024))
    hidden_size: int = option(0, whole(0, 1 << 20))


@dataclass(frozen=True, kw_only=True)
class DynamicInt8:
    """Unsigned weights give the same outputs on every x86 processor; signed ones are faster on new ones."""

    weight_type: str = choice("uint8", "int8")
    per_channel: bool = option(True, FLAG)
    reduce_range: bool = option(False, FLAG)
    ops: tuple[str, ...] = option((), NAMES)
    skip: tuple[str, ...] = option((), NAMES)


@dataclass(frozen=True, kw_only=True)
class StaticInt8:
    """Signed weights of 7 bits are as fast as those of 8, and don't overflow on older processors."""

    calibration: str = choice("minmax", "entropy", "percentile")
    activation_type: str = choice("uint8", "int8")
    weight_type: str = choice("int8", "uint8")
    reduce_range: bool = option(True, FLAG)
    per_channel: bool = option(True, FLAG)
    ops: tuple[str, ...] = option((), NAMES)
    skip: tuple[str, ...] = option((), NAMES)


@dataclass(frozen=True, kw_only=True)
class Dedupe:
    """`transposed` also stores a tensor once that is there as its own transpose."""

    transposed: bool = option(False, FLAG)


@dataclass(frozen=True, kw_only=True)
class FreezeInputs:
    """Which inputs stay inputs, by name."""

    skip: tuple[str, ...] = option((), NAMES)


@dataclass(frozen=True, kw_only=True)
class WeightOptions:
    """Which tensors a method takes: large ones, by name those of `only` (all if empty) but not of `skip`.

    Small tensors stay as they are: their bytes don't matter, their values might.
    """

    element_types: ClassVar[tuple[int, ...]] = (FLOAT,)
    min_elements: int = option(1024, whole(1))
    only: tuple[str, ...] = option((), NAMES)
    skip: tuple[str, ...] = option((), NAMES)


@dataclass(frozen=True, kw_only=True)
class Fp16Weights(WeightOptions):
    """Nothing but the choice of tensors."""


@dataclass(frozen=True, kw_only=True)
class Int8Weights(WeightOptions):
    """`channel`: a scale for each slice along the best axis; `tensor`: one for all; `block`: one for
    each run of `block_size`. With `steps` the root mean square of a tensor is so many even steps, for
    compressed size. `fold` is decoded when a session starts, `dq` by DequantizeLinear."""

    element_types = (FLOAT, FLOAT16)
    granularity: Literal["channel", "tensor", "block"] = choice("channel", "tensor", "block")
    block_size: int = option(64, whole(16, 4096))
    steps: int = option(0, whole(0, 1024))
    encoding: Literal["fold", "dq"] = choice("fold", "dq")

    def __post_init__(self) -> None:
        if self.encoding == "dq" and self.steps:
            raise OptionError("steps", "int8-weights: steps needs encoding: fold")


@dataclass(frozen=True, kw_only=True)
class FloatLevels(WeightOptions):
    """How many different values a weight may have."""

    levels: int = option(256, whole(2, 65536))


@dataclass(frozen=True, kw_only=True)
class RoundMantissa(WeightOptions):
    """How many of the 23 bits of a float32's mantissa are kept."""

    bits: int = option(8, whole(1, 22))


@dataclass(frozen=True, kw_only=True)
class Int4Weights(WeightOptions):
    """Codes of `bits`; each run of `block_size` has a scale, as fp16 or in 8 bits of the largest. `fold` is
    decoded when a session starts, `dq` by DequantizeLinear, for which an older opset is raised to 21 if
    `raise_opset` allows it."""

    element_types = (FLOAT, FLOAT16)
    min_elements: int = option(4096, whole(1))
    bits: int = option(4, whole(2, 12))
    block_size: int = option(32, whole(16, 256))
    scales: Literal["fp16", "int8"] = choice("fp16", "int8")
    encoding: Literal["fold", "dq"] = choice("fold", "dq")
    raise_opset: bool = option(False, FLAG)

    def __post_init__(self) -> None:
        if self.encoding == "dq" and self.bits != 4:
            message = f"int4-weights: bits: {self.bits} needs encoding: fold, DequantizeLinear has 4"
            raise OptionError("bits", message)
        if self.encoding == "dq" and self.scales != "fp16":
            message = "int4-weights: scales: int8 needs encoding: fold, DequantizeLinear has no such scales"
            raise OptionError("scales", message)


@dataclass(frozen=True, kw_only=True)
class ExternalData:
    """What goes out: tensors from `threshold` on, or those that `tensors` and `ops` name instead."""

    threshold: str = option("1 MB", scalars.SIZE)
    file: str = option("", scalars.FILE_NAME)
    tensors: tuple[str, ...] = option((), NAMES)
    ops: tuple[str, ...] = option((), NAMES)
    embed: bool = option(False, FLAG)


@dataclass(frozen=True, kw_only=True)
class ExtractNpy:
    """What `tensors` and `ops` name is taken out; repeated constants if asked, or if nothing is named."""

    tensors: tuple[str, ...] = option((), NAMES)
    ops: tuple[str, ...] = option((), NAMES)
    repeated: bool = option(False, FLAG)


@dataclass(frozen=True, kw_only=True)
class Downcast:
    """Which types are narrowed: float64 to float32, int64 to int32."""

    float64: bool = option(True, FLAG)
    int64: bool = option(True, FLAG)
