"""Rounds a weight so that the errors of its numbers make up for each other, on inputs as the model has them.

A product with a weight errs by E·x. Over many x that is E·H·Eᵀ, where H is the second moment of x: the
numbers that follow can take back most of what one was rounded by, as far as their inputs go together (LDLQ,
which finds the same as GPTQ). The form stays as it is, and takes the same bytes. Plain rounding is kept where
it does better on inputs that had no part in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import xxhash

from onnx_ci.methods.rounding import Array

DAMPING = 0.1  # of the mean of the diagonal: what holds for inputs that were never seen
STRIDE = 16  # columns after which errors are passed on to all that follow
SLAB = 1 << 18  # numbers at a time
JUDGED = 64  # rows that tell whether it was worth it


@dataclass(frozen=True)
class Moments:
    """Second moments of what a weight is multiplied with, in groups and in chunks of columns: what `fit`
    has is for rounding, what `held_out` has for judging it."""

    shape: tuple[int, int, int]  # of the weight, so that one turn makes it groups, rows and columns
    turned: bool  # whether rows are the last axis there
    fit: Array
    held_out: Array
    found: dict[bytes, Array] = field(
        default_factory=dict, compare=False, repr=False
    )  # what was asked before

    @cached_property
    def factors(self) -> tuple[Array, Array]:
        """Of each moment the factor above the diagonal, by which errors are passed on, with the columns in
        the order of what they weigh; and that order. What weighs most comes first: others can make up for it.

        In float64, where the order in which a library adds moves no code.
        """
        moments = self.fit.reshape(-1, *self.fit.shape[-2:]).astype(np.float64)
        weight = np.diagonal(moments, axis1=1, axis2=2)
        order = np.argsort(-weight, axis=1, kind="stable")
        moments = np.take_along_axis(moments, order[:, :, None], axis=1)
        moments = np.take_along_axis(moments, order[:, None, :], axis=2)
        damping = DAMPING * weight.mean(axis=1)
        damping[damping == 0] = 1.0  # nothing ever came here
        moments += damping[:, None, None] * np.eye(moments.shape[1])
        lower = np.linalg.cholesky(moments[:, ::-1, ::-1])
        lower /= np.diagonal(lower, axis1=1, axis2=2)[:, None, :]
        return np.ascontiguousarray(lower[:, ::-1, ::-1]), order

    @cached_property
    def digest(self) -> str:
        digest = xxhash.xxh3_64(np.ascontiguousarray(self.fit).data)
        digest.update(np.ascontiguousarray(self.held_out).data)
        return digest.hexdigest()

    def matrix(self, values: Array) -> Array:
        """A tensor as (groups and chunks, columns, rows); what fills up the last chunk is zero."""
        grouped: Array = values.reshape(self.shape)
        if not self.turned:
            grouped = grouped.swapaxes(1, 2)
        groups, columns, rows = grouped.shape
        chunks, width = self.fit.shape[1:3]
        if chunks * width > columns:
            grouped = np.pad(grouped, ((0, 0), (0, chunks * width - columns), (0, 0)))
        return np.ascontiguousarray(grouped.reshape(groups * chunks, width, rows))

    def tensor(self, matrix: Array, shape: tuple[int, ...]) -> Array:
        """What was a tensor of this shape, back from a matrix."""
        groups = self.shape[0]
        columns = self.shape[1 if self.turned else 2]
        grouped = matrix.reshape(groups, -1, matrix.shape[-1])[:, :columns]
        if not self.turned:
            grouped = grouped.swapaxes(1, 2)
        return np.ascontiguousarray(grouped.reshape(shape))


@dataclass(frozen=True)
class Steps:
    """How the numbers of a tensor are rounded: to what `snap` makes of each over its scale, plus its zero."""

    scale: Array  # scale and zero have the shape of the tensor
    zero: Array | None
    snap: Callable[[Array], Array]


def compensated(values: Array, plain: Array, steps: Steps, moments: Moments) -> Array:
    """What `snap` gives for each number of a tensor; as in `plain` where that is better."""
    key = xxhash.xxh3_128(np.ascontiguousarray(plain).data)
    key.update(np.ascontiguousarray(steps.scale).data)
    if key.digest() not in moments.found:
        moments.found[key.digest()] = _compensated(values, plain, steps, moments)
    return moments.found[key.digest()]


def _compensated(values: Array, plain: Array, steps: Steps, moments: Moments) -> Array:
    weight, before, scale = map(moments.matrix, (values, plain, steps.scale))
    scale[scale == 0] = 1.0  # what fills up the last chunk
    zero = np.broadcast_to(0.0 if steps.zero is None else moments.matrix(steps.zero), weight.shape)
    result = np.empty(weight.shape, plain.dtype)
    width = max(1, SLAB // (weight.shape[0] * weight.shape[1]))
    for start in range(0, weight.shape[2], width):
        part = (slice(None), slice(None), slice(start, start + width))
        result[part] = _passed_on(weight[part], scale[part], zero[part], steps.snap, moments)
    some = (slice(None), slice(None), slice(None, None, -(-weight.shape[2] // JUDGED)))
    was, now = (
        _harm(weight[some] - (found[some] - zero[some]) * scale[some], moments) for found in (before, result)
    )
    return moments.tensor(result, values.shape) if now < was else plain


def _passed_on(
    weight: Array, scale: Array, zero: Array, snap: Callable[[Array], Array], moments: Moments
) -> Array:
    """Round column after column, each with what those before it left."""
    upper, order = moments.factors
    places = order[:, :, None]
    weight, scale = (np.take_along_axis(part, places, axis=1).astype(np.float64) for part in (weight, scale))
    zero = np.take_along_axis(zero, places, axis=1)
    wanted, found = weight.copy(), np.empty_like(weight)
    count = weight.shape[1]
    for start in range(0, count, STRIDE):
        end = min(start + STRIDE, count)
        errors = np.empty((weight.shape[0], end - start, weight.shape[2]))
        for at in range(start, end):
            found[:, at] = snap(wanted[:, at] / scale[:, at] + zero[:, at])
            error = weight[:, at] - (found[:, at] - zero[:, at]) * scale[:, at]
            wanted[:, at + 1 : end] += upper[:, at, at + 1 : end, None] * error[:, None]
            errors[:, at - start] = error
        wanted[:, end:] += upper[:, start:end, end:].swapaxes(1, 2) @ errors
    back = np.empty_like(found)
    np.put_along_axis(back, places, found, axis=1)
    return back


def _harm(error: Array, moments: Moments) -> float:
    """What an error does to outputs, on inputs that had no part in the rounding."""
    held_out = moments.held_out.reshape(-1, *moments.held_out.shape[-2:])
    return float(np.einsum("bcn,bcn->", error, np.matmul(held_out, error), dtype=np.float64))
