"""The same comparison on inputs that had no part in it so far: some, and many where the limit is near."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import onnx

from onnx_ci.policy.schema import Tolerance
from onnx_ci.shown import Verification
from onnx_ci.verify.client import Feeds
from onnx_ci.verify.compare import outside, worse_of
from onnx_ci.verify.margin import with_margin
from onnx_ci.verify.verifier import Verifier

SOME, MANY = 4, 32
_SEED = 7919  # where further inputs start, counted from those of the rule


class Further:
    """Further inputs for the original of one verifier. There are none where the user has given samples."""

    def __init__(self, verifier: Verifier) -> None:
        self.verifier = verifier

    @cached_property
    def some(self) -> Verifier | None:
        """Many at once where outputs have no distance, only equality."""
        return self._of(SOME if self.verifier.is_graded else MANY, _SEED)

    @cached_property
    def many(self) -> Verifier | None:
        return self._of(MANY, 2 * _SEED)

    def check(
        self,
        passed: Verification,
        candidate: Path,
        proto: onnx.ModelProto,
        tolerance: Tolerance,
        *,
        allow: Collection[str] = (),
        extra: Feeds | None = None,
        always: bool = True,
    ) -> Verification:
        """What passed on made-up inputs, and still does on these; without `always` only where it was near."""
        for other in self._others(always=always):
            if passed.status != "passed" or not (always or is_near(passed, tolerance)):
                break
            always = False
            found = other.check(candidate, proto, tolerance, allow=allow, extra=extra)
            if found.status != "not_run":
                passed = _joined(passed, found)
        return passed

    def _others(self, *, always: bool) -> Iterator[Verifier]:
        if always and self.some is not None:
            yield self.some
        if self.many is not None and self.verifier.is_graded:
            yield self.many

    def _of(self, count: int, offset: int) -> Verifier | None:
        one = self.verifier
        if one.spec.samples:
            return None
        spec = replace(one.spec, count=max(count, one.spec.count), seed=one.spec.seed + offset)
        return Verifier(
            one.runner,
            one.original,
            one.proto,
            spec=spec,
            limits=one.limits,
            root=one.root,
            stored=one.stored,
            like=one,
        )


def is_near(passed: Verification, tolerance: Tolerance) -> bool:
    """Whether an output came so close to the limit that other inputs may well be beyond it."""
    room = with_margin(tolerance, samples=False)
    return any(any(outside(delta, room)) for delta in passed.outputs)


def _joined(passed: Verification, found: Verification) -> Verification:
    reason = f"on further inputs, {found.reason}" if found.reason else ""
    outputs = worse_of(passed.outputs, found.outputs)
    return replace(found, outputs=outputs, samples=passed.samples + found.samples, reason=reason)
