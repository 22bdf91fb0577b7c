"""Ops on whole numbers and truth values, and ops that make shapes. Arithmetic of floats is left alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from onnx_ci.methods.folding.plan import Array, Call, Plan, Shape, broadcast, check
from onnx_ci.model.container import NUMPY_TYPES

INT64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)
MIN_OPSET = 7  # operands broadcast as numpy's do from here on


def shape_of(call: Call) -> Plan:
    shape = call.operand(0).shape
    end = call.number("end", len(shape))
    found = np.array(shape[call.number("start", 0) : end], np.int64)
    return call.one(found.shape, lambda: found, INT64)


def size_of(call: Call) -> Plan:
    return call.one((), lambda: np.array(math.prod(call.operand(0).shape), np.int64), INT64)


def filled(call: Call) -> Plan:
    shape = tuple(call.operand(0).numbers())
    check(min(shape, default=0) >= 0)
    given = call.attribute("value")
    if given is None:
        return call.one(shape, lambda: np.zeros(shape, np.float32), np.dtype(np.float32))
    check(given.t.data_type in NUMPY_TYPES and math.prod(given.t.dims) == 1)
    value = call.operand(0).model.array(given.t).reshape(())
    return call.one(shape, lambda: np.full(shape, value), value.dtype)


def counted(call: Call) -> Plan:
    """Range, of whole numbers."""
    first = call.operand(0)
    check(len(call.operands()) == 3 and len({item.dtype for item in call.operands()}) == 1)
    check(all(item.shape in ((), (1,)) for item in call.operands()))
    start, limit, step = (number for item in call.operands() for number in item.numbers())
    check(step != 0)
    count = max(0, -((start - limit) // step))
    return call.one((count,), lambda: np.array(range(start, limit, step), first.dtype))


def cast(call: Call) -> Plan:
    """Only where every value stays what it is: what else becomes of it differs between machines."""
    operand, to = call.operand(0), call.number("to", 0)
    check(call.opset >= 6 and to in NUMPY_TYPES)
    dtype = np.dtype(NUMPY_TYPES[to])

    def compute() -> Array:
        values = operand.read()
        with np.errstate(all="ignore"):
            made: Array = values.astype(dtype)
            back = made.astype(values.dtype)
        # Both ways: bytes that wrap around come back as they were, large numbers compare as floats.
        check(dtype == BOOL or bool(((made == values) & (back == values)).all()))
        return made

    return call.one(operand.shape, compute, dtype)


def _shared(call: Call, *, opset: int = MIN_OPSET) -> Shape:
    check(call.opset >= opset and len({item.dtype for item in call.operands()}) == 1)
    return broadcast(*(item.shape for item in call.operands()))


def arithmetic(name: str, call: Call) -> Plan:
    """Whole numbers that are small enough for any result; a division by zero is left to whoever runs it."""
    operands = call.operands()
    check(len(operands) == 2 and all(item.integer for item in operands))
    most = 1 << (4 * operands[0].dtype.itemsize - 1)

    def compute() -> Array:
        one, other = (item.read() for item in operands)
        check(all(bool(((part < most) & (part > -most)).all()) for part in (one, other)))
        if name == "floor_divide":  # ONNX rounds towards zero, numpy down
            check(bool((one >= 0).all() and (other > 0).all()))
        made: Array = getattr(np, name)(one.astype(INT64), other.astype(INT64))
        info = np.iinfo(operands[0].dtype)
        check(bool(((made >= info.min) & (made <= info.max)).all()))
        return made.astype(operands[0].dtype)

    return call.one(_shared(call), compute)


def comparison(name: str, call: Call) -> Plan:
    operands = call.operands()
    check(len(operands) == 2 and all(item.dtype.kind in "iub" for item in operands))
    return call.one(_shared(call), lambda: getattr(np, name)(*(item.read() for item in operands)), BOOL)


def logic(name: str, call: Call) -> Plan:
    operands = call.operands()
    check(all(item.dtype == BOOL for item in operands))
    return call.one(_shared(call), lambda: getattr(np, name)(*(item.read() for item in operands)), BOOL)


def where(call: Call) -> Plan:
    condition, one, other = (call.operand(position) for position in range(3))
    check(condition.dtype == BOOL and one.dtype == other.dtype)
    shape = broadcast(condition.shape, one.shape, other.shape)
    return call.one(shape, lambda: np.where(condition.read(), one.read(), other.read()), one.dtype)


NUMBERS: dict[str, Callable[[Call], Plan]] = {
    "Shape": shape_of,
    "Size": size_of,
    "ConstantOfShape": filled,
    "Range": counted,
    "Cast": cast,
    "Where": where,
    "Add": partial(arithmetic, "add"),
    "Sub": partial(arithmetic, "subtract"),
    "Mul": partial(arithmetic, "multiply"),
    "Div": partial(arithmetic, "floor_divide"),
    "Equal": partial(comparison, "equal"),
    "Less": partial(comparison, "less"),
    "Greater": partial(comparison, "greater"),
    "LessOrEqual": partial(comparison, "less_equal"),
    "GreaterOrEqual": partial(comparison, "greater_equal"),
    **{op: partial(logic, f"logical_{op.lower()}") for op in ("And", "Or", "Xor", "Not")},
}
