"""The options of every method that has any: what a policy may write, with defaults and limits."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_ci.methods.option_kinds import choice, count, flag, texts


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """For methods that take none."""


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
class FloatLevels(WeightOptions):
    """How many different values a weight may have."""

    levels: int = count(256, least=2, most=65536)


@dataclass(frozen=True, kw_only=True)
class RoundMantissa(WeightOptions):
    """How many of the 23 bits of a float32's mantissa are kept."""

    bits: int = count(8, least=1, most=22)


@dataclass(frozen=True, kw_only=True)
class Int4Weights(WeightOptions):
    """Each run of `block_size` has a scale. `fold` is decoded when a session starts, `dq` by
    DequantizeLinear, for which an older opset is raised to 21 if `raise_opset` allows it."""

    min_elements: int = count(4096, least=1)
    block_size: int = count(32, least=16, most=256)
    encoding: str = choice("fold", "dq")
    raise_opset: bool = flag()
