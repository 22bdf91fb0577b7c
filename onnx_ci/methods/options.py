"""The options of every method that has any: what a policy may write, with defaults and limits."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_ci.methods.option_kinds import choice, count, file_name, flag, size, texts


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

    granularity: str = choice("channel", "tensor", "block")
    block_size: int = count(64, least=16, most=4096)
    encoding: str = choice("fold", "dq")


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
