"""The options of every method that has any: what a policy may write, with defaults and limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Literal, TypeVar

from onnx_ci.sizes import parse_size

Options = TypeVar("Options")
Kind = Literal["choice", "count", "file", "flag", "size", "texts"]


def choice(default: str, *others: str) -> Any:
    """One of a few words."""
    return field(default=default, metadata={"kind": "choice", "choices": (default, *others)})


def count(default: int, *, least: int, most: int | None = None) -> Any:
    """A whole number within bounds."""
    return field(default=default, metadata={"kind": "count", "least": least, "most": most})


def flag(default: bool = False) -> Any:
    """true or false."""
    return field(default=default, metadata={"kind": "flag"})


def size(default: str) -> Any:
    """Bytes as a policy writes them: 1 kB, 2 MiB, 4096."""
    return field(default=default, metadata={"kind": "size"})


def file_name() -> Any:
    """The name of a file beside the model; empty for the usual one."""
    return field(default="", metadata={"kind": "file"})


def texts() -> Any:
    """A list of texts."""
    return field(default=(), metadata={"kind": "texts"})


def read_options(method: str, options: type[Options], given: Mapping[str, object]) -> Options:
    """Return the options as their dataclass; a ValueError says in plain words what is wrong with them."""
    known = {item.name: item.metadata for item in fields(options)}  # type: ignore[arg-type]
    for name, value in given.items():
        if name not in known:
            raise ValueError(_unknown_option(method, name, list(known)))
        wanted = _CHECKS[known[name]["kind"]](value, known[name])
        if wanted:
            raise ValueError(f"{method}: {name}: expected {wanted}, found {value!r}")
    return options(**given)


def _unknown_option(method: str, name: str, known: list[str]) -> str:
    if not known:
        return f"{method} takes no options, found {name!r}"
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    return f"{method} has no option {name!r}; {guess}it takes {', '.join(known)}"


def _not_a_choice(value: object, allowed: Mapping[str, Any]) -> str:
    return "" if value in allowed["choices"] else f"one of {', '.join(allowed['choices'])}"


def _not_a_count(value: object, allowed: Mapping[str, Any]) -> str:
    least, most = allowed["least"], allowed["most"]
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole and value >= least and (most is None or value <= most):
        return ""
    return f"a whole number from {least}" + (f" to {most}" if most is not None else "")


def _not_a_flag(value: object, _: Mapping[str, Any]) -> str:
    return "" if isinstance(value, bool) else "true or false"


def _not_a_size(value: object, _: Mapping[str, Any]) -> str:
    try:
        parse_size(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "a size, for example 1 MB"
    return ""


def _not_a_file(value: object, _: Mapping[str, Any]) -> str:
    plain = isinstance(value, str) and value.isprintable() and not set(value) & set("/\\:")
    fits = plain and value not in (".", "..") and not str(value).endswith(".onnx")
    return "" if fits else "the name of a data file beside the model, without folders"


def _not_texts(value: object, _: Mapping[str, Any]) -> str:
    listed = isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
    return "" if listed else "a list of names"


_CHECKS: dict[Kind, Callable[[object, Mapping[str, Any]], str]] = {
    "choice": _not_a_choice,
    "count": _not_a_count,
    "file": _not_a_file,
    "flag": _not_a_flag,
    "size": _not_a_size,
    "texts": _not_texts,
}
_SCHEMAS: dict[Kind, dict[str, object]] = {
    "count": {"type": "integer"},
    "file": {"type": "string"},
    "flag": {"type": "boolean"},
    "size": {"type": ["string", "integer"]},
    "texts": {"type": "array", "items": {"type": "string"}},
}


def json_schema(options: type[Any]) -> dict[str, object]:
    """Return the JSON schema of a method's options."""
    properties = {item.name: _option_schema(item) for item in fields(options)}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _option_schema(item: Field[Any]) -> dict[str, object]:
    kind = item.metadata["kind"]
    if kind == "choice":
        return {"enum": list(item.metadata["choices"]), "default": item.default}
    schema = dict(_SCHEMAS[kind])
    for keyword, bound in (("minimum", "least"), ("maximum", "most")):
        if item.metadata.get(bound) is not None:
            schema[keyword] = item.metadata[bound]
    schema["default"] = [] if kind == "texts" else item.default
    return schema


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

    passes: tuple[str, ...] = texts()


@dataclass(frozen=True, kw_only=True)
class OrtOptimize:
    """How far onnxruntime goes: beyond `basic` the result runs in onnxruntime only."""

    level: str = choice("basic", "extended", "layout")


@dataclass(frozen=True, kw_only=True)
class FuseTransformer:
    """Whose patterns are looked for, and the heads where the graph does not tell; 0 is not given."""

    model_type: str = choice("auto", *TRANSFORMERS)
    num_heads: int = count(0, least=0, most=1024)
    hidden_size: int = count(0, least=0, most=1 << 20)


@dataclass(frozen=True, kw_only=True)
class DynamicInt8:
    """Unsigned weights give the same outputs on every x86 processor; signed ones are faster on new ones."""

    weight_type: str = choice("uint8", "int8")
    per_channel: bool = flag(True)
    reduce_range: bool = flag()
    ops: tuple[str, ...] = texts()
    skip: tuple[str, ...] = texts()


@dataclass(frozen=True, kw_only=True)
class StaticInt8:
    """Signed weights of 7 bits are as fast as those of 8, and don't overflow on older processors."""

    calibration: str = choice("minmax", "entropy", "percentile")
    activation_type: str = choice("uint8", "int8")
    weight_type: str = choice("int8", "uint8")
    reduce_range: bool = flag(True)
    per_channel: bool = flag(True)
    ops: tuple[str, ...] = texts()
    skip: tuple[str, ...] = texts()


@dataclass(frozen=True, kw_only=True)
class Dedupe:
    """`transposed` also stores a tensor once that is there as its own transpose."""

    transposed: bool = flag()


@dataclass(frozen=True, kw_only=True)
class WeightOptions:
    """Which tensors a method takes: large ones, by name those of `only` (all if empty) but not of `skip`.

    Small tensors stay as they are: their bytes don't matter, their values might.
    """

    min_elements: int = count(1024, least=1)
    only: tuple[str, ...] = texts()
    skip: tuple[str, ...] = texts()


@dataclass(frozen=True, kw_only=True)
class Fp16Weights(WeightOptions):
    """Nothing but the choice of tensors."""


@dataclass(frozen=True, kw_only=True)
class Int8Weights(WeightOptions):
    """`channel`: a scale for each slice along the best axis; `tensor`: one for all; `block`: one for
    each run of `block_size`. `fold` is decoded when a session starts, `dq` by DequantizeLinear."""

    granularity: Literal["channel", "tensor", "block"] = choice("channel", "tensor", "block")
    block_size: int = count(64, least=16, most=4096)
    encoding: Literal["fold", "dq"] = choice("fold", "dq")


@dataclass(frozen=True, kw_only=True)
class FloatLevels(WeightOptions):
    """How many different values a weight may have."""

    levels: int = count(256, least=2, most=65536)


@dataclass(frozen=True, kw_only=True)
class RoundMantissa(WeightOptions):
    """How many of the 23 bits of a float32's mantissa are kept."""

    bits: int = count(8, least=1, most=22)


@dataclass(frozen=True, kw_only=True)
class Int4Weights(WeightOptions):
    """Codes of `bits`; each run of `block_size` has a scale. `fold` is decoded when a session starts, `dq` by
    DequantizeLinear, for which an older opset is raised to 21 if `raise_opset` allows it."""

    min_elements: int = count(4096, least=1)
    bits: int = count(4, least=2, most=7)
    block_size: int = count(32, least=16, most=256)
    encoding: Literal["fold", "dq"] = choice("fold", "dq")
    raise_opset: bool = flag()

    def __post_init__(self) -> None:
        if self.encoding == "dq" and self.bits != 4:
            raise ValueError(f"int4-weights: bits: {self.bits} needs encoding: fold, DequantizeLinear has 4")


@dataclass(frozen=True, kw_only=True)
class ExternalData:
    """What goes out: tensors from `threshold` on, or those that `tensors` and `ops` name instead."""

    threshold: str = size("1 MB")
    file: str = file_name()
    tensors: tuple[str, ...] = texts()
    ops: tuple[str, ...] = texts()
    embed: bool = flag()


@dataclass(frozen=True, kw_only=True)
class ExtractNpy:
    """What `tensors` and `ops` name is taken out; repeated constants if asked, or if nothing is named."""

    tensors: tuple[str, ...] = texts()
    ops: tuple[str, ...] = texts()
    repeated: bool = flag()


@dataclass(frozen=True, kw_only=True)
class Downcast:
    """Which types are narrowed: float64 to float32, int64 to int32."""

    float64: bool = flag(default=True)
    int64: bool = flag(default=True)
