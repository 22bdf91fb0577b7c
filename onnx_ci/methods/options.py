"""The options of every method that has any: what a policy may write, with defaults and limits."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_ci.methods.option_kinds import choice, count, flag, texts


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
class DynamicInt8:
    """Unsigned weights give the same outputs on every x86 processor; signed ones are faster on new ones."""

    weight_type: str = choice("uint8", "int8")
    per_channel: bool = flag(True)
    reduce_range: bool = flag()
    ops: tuple[str, ...] = texts()


@dataclass(frozen=True, kw_only=True)
class Fp16Weights:
    """Tensors with fewer elements stay as they are: their bytes don't matter, their values might."""

    min_elements: int = count(1024, least=1)


@dataclass(frozen=True, kw_only=True)
class Int8Weights:
    """`channel` gives each slice along the best axis its own scale; `tensor` one scale for all."""

    granularity: str = choice("channel", "tensor")
    min_elements: int = count(1024, least=1)
