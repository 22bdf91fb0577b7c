"""The options of every method that has any: what a policy may write, with defaults and limits."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_ci.methods.option_kinds import choice, count, file_name, flag, size, texts


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """For methods that take none."""


@dataclass(frozen=True, kw_only=True)
class Fp16Weights:
    """Tensors with fewer elements stay as they are: their bytes don't matter, their values might."""

    min_elements: int = count(1024, least=1)


@dataclass(frozen=True, kw_only=True)
class Int8Weights:
    """`channel` gives each slice along the best axis its own scale; `tensor` one scale for all."""

    granularity: str = choice("channel", "tensor")
    min_elements: int = count(1024, least=1)


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
