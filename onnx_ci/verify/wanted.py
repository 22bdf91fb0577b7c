"""The values that the uses of an input ask for, carried back through what happens to it on the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_ci.inputs.roles import Role, Use
from onnx_ci.verify.asked import Asked, Context, Wish
from onnx_ci.verify.dtypes import is_integer
from onnx_ci.verify.operands import INTEGER_WISHES, WISHES


def wanted(role: Role, dtype: np.dtype[Any], count: int, context: Context) -> Wish:
    """Of several uses, the first that names its values; else a range that is good for all of them."""
    wishes = [wish for use in role.uses if (wish := _wish(use, dtype, count, context)) is not None]
    lists = [wish for wish in wishes if isinstance(wish, list)]
    if lists:
        return lists[0]
    ranges = [wish for wish in wishes if isinstance(wish, tuple)]
    if not ranges:
        return None
    low, high = max(low for low, _ in ranges), min(high for _, high in ranges)
    return (low, max(low, high))


def _wish(use: Use, dtype: np.dtype[Any], count: int, context: Context) -> Wish:
    key = (use.op.type, use.operand)
    maker = (INTEGER_WISHES.get(key) if is_integer(dtype) else None) or WISHES.get(key)
    wish = None if maker is None else maker(Asked(op=use.op, context=context, count=count))
    if isinstance(wish, list):
        return [use.line.solve(value) for value in wish] if use.line.whole else None
    if wish is None or not (use.line.whole or is_integer(dtype)):
        return None
    low, high = sorted(map(use.line.solve, wish))
    return (low, high)
