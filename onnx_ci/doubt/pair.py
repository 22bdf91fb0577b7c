"""Two models side by side: a pass stands if they are the same, or if inputs reach all that differs."""

from __future__ import annotations

from dataclasses import replace

from onnx_ci.doubt.doubt import Doubt
from onnx_ci.methods.drop_unused import strip_docs
from onnx_ci.methods.options import NoOptions
from onnx_ci.model.container import Model
from onnx_ci.model.digest import model_digest
from onnx_ci.policy.schema import Tolerance
from onnx_ci.shown import Coverage, Verification


def doubted(
    doubt: Doubt, passed: Verification, before: Model, after: Model, tolerance: Tolerance
) -> Verification:
    """Tensors that only one of the two stores are damaged in the one that has them."""
    if _content(before) == _content(after):
        return passed
    found = doubt.as_a_whole(passed, after, tolerance, before)
    covered: Coverage | None = None
    for one, other in ((before, after), (after, before)):
        if found.status == "passed":
            parts = doubt.parts if one is after else ()
            added = one is after
            found = doubt.tensor_by_tensor(found, one, other, tolerance, known=parts, added=added)
            covered = _both(covered, found.coverage)
    return replace(found, coverage=covered)


def _content(model: Model) -> str:
    """All that has a part in what a model computes."""
    copy = model.copy()
    strip_docs(copy, NoOptions())
    proto = copy.proto
    for name in ("producer_name", "producer_version", "model_version", "domain", "metadata_props"):
        proto.ClearField(name)
    return model_digest(copy)


def _both(one: Coverage | None, other: Coverage | None) -> Coverage | None:
    if one is None or other is None:
        return other
    return Coverage(
        changed=one.changed + other.changed,
        noticed=one.noticed + other.noticed,
        faint=tuple(dict.fromkeys((*one.faint, *other.faint))),
        blind=one.blind,
        unseen=tuple(dict.fromkeys((*one.unseen, *other.unseen))),
        runs=one.runs + other.runs,
        alone=one.alone and other.alone,
        hurried=one.hurried or other.hurried,
    )
