"""Made-up inputs for tests, which know what they asked for: values are of any type here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx

from onnx_ci.inputs.generate import deriver_of
from onnx_ci.inputs.size_search import usual_attempts
from onnx_ci.policy.schema import InputSpec
from onnx_ci.verify.reference import Reference

Samples = list[dict[str, Any]]


def attempts(proto: onnx.ModelProto, **spec: Any) -> Iterator[Samples]:
    deriver = deriver_of(proto, InputSpec(**spec))
    for attempt in usual_attempts(deriver):
        yield [dict(sample) for sample in deriver.feeds(attempt)]


def first(proto: onnx.ModelProto, **spec: Any) -> Samples:
    return next(attempts(proto, **spec))


def used(reference: Reference) -> Samples:
    return [dict(sample) for sample in reference.feeds()]
