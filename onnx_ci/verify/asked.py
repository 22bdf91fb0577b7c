"""One operand whose values an operator is particular about, and what is known around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from onnx_ci.inputs.graph import Op

Dims = tuple[int | None, ...]  # None where a size is not known
Wish = tuple[float, float] | list[float] | None  # from … to …, or these values, or no idea


class Context(Protocol):
    """What is known of one sample when an operand's values are chosen."""

    def shape(self, name: str) -> Dims | None: ...

    def integers(self, name: str) -> list[int] | None: ...


@dataclass(frozen=True, kw_only=True)
class Asked:
    """`count` values are wanted for an operand of `op`."""

    op: Op
    context: Context
    count: int

    @property
    def data(self) -> Dims | None:
        return self.context.shape(self._input(0))

    @property
    def whole_data(self) -> list[int] | None:
        return _known(self.data)

    @property
    def whole_out(self) -> list[int] | None:
        return _known(self.out())

    def out(self, index: int = 0) -> Dims | None:
        return self.context.shape(self.op.outputs[index]) if index < len(self.op.outputs) else None

    def integers(self, index: int) -> list[int] | None:
        name = self._input(index)
        return self.context.integers(name) if name else None

    def attribute(self, name: str, default: Any) -> Any:
        return self.op.attribute(name, default)

    def along(self, dims: Dims | None, default: int) -> int | None:
        """The size along the operator's own axis."""
        axis = int(self.attribute("axis", default))
        return dims[axis] if dims and -len(dims) <= axis < len(dims) else None

    def _input(self, index: int) -> str:
        return self.op.inputs[index] if index < len(self.op.inputs) else ""


Maker = Callable[[Asked], Wish]


def exactly(*values: float) -> Maker:
    """As many of these as are wanted, the last one again and again."""
    return lambda asked: [values[min(i, len(values) - 1)] for i in range(asked.count)]


def between(low: float, high: float) -> Maker:
    return lambda _: (low, high)


def counting(asked: Asked) -> Wish:
    return [float(i) for i in range(asked.count)]


def _known(dims: Dims | None) -> list[int] | None:
    sizes = [dim for dim in dims or () if dim is not None]
    return None if dims is None or len(sizes) < len(dims) else sizes
