"""Outputs of whole numbers: equal, unless a rule says by how much they may differ, and how it says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from onnx_ci.policy.schema import Tolerance
from onnx_ci.shown import OutputDelta
from onnx_ci.verify.dtypes import Array, is_complex, is_float, is_integer, type_name

MUST_NOT = "must not"
_SMALL = 4  # a larger difference is hardly rounding: such numbers are indices, or wrong


def allowance(tolerance: Tolerance) -> float:
    """How far whole numbers may be off: a `max_abs` below 1 was meant for others."""
    return tolerance.max_abs if tolerance.max_abs is not None and tolerance.max_abs >= 1 else 0.0


def beyond(before: Array, after: Array, allowed: float) -> str:
    """What is wrong, counted in whole numbers: in float64 2^60 and 2^60 + 100 are the same."""
    one, other = _wide(before), _wide(after)
    # Modulo 2^64, which the difference of two numbers of 64 bits is always below.
    apart = np.maximum(one, other).astype(np.uint64) - np.minimum(one, other).astype(np.uint64)
    most = int(apart.max(initial=0))
    return f"max_abs {most} is above {allowed:g}" if most > allowed else ""


def _wide(array: Array) -> Array:
    return array if array.dtype == np.uint64 else array.astype(np.int64)


def way_out(deltas: Sequence[OutputDelta], outputs: Mapping[str, Array]) -> str:
    """What helps where nothing but values that have to be equal are not; empty where other advice fits."""
    failing = [delta for delta in deltas if delta.problem]
    kinds = {delta.name: outputs[delta.name].dtype for delta in failing if delta.name in outputs}
    discrete = [name for name, kind in kinds.items() if not is_float(kind) and not is_complex(kind)]
    if not failing or len(discrete) < len(failing) or not any(MUST_NOT in one.problem for one in failing):
        return ""
    named = " and ".join(dict.fromkeys(type_name(kinds[one.name]) for one in failing))
    most = max(one.max_abs for one in failing)
    differ = all(part.endswith(MUST_NOT) for one in failing for part in one.problem.split("; "))
    if differ and most <= _SMALL and all(map(is_integer, kinds.values())):
        return f"keep {named} equal by a milder change; or allow it: tolerance: {{max_abs: {most:g}}}"
    return f"only a milder change helps: {named} has to be equal, whatever the other limits are"
