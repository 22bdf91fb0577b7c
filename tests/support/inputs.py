"""Made-up inputs for tests, which know what they asked for: values are of any type here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx

from onnx_ci.inputs.generate import derive_feeds
from onnx_ci.policy.schema import InputSpec
from onnx_ci.verify.reference import Reference

Samples = list[dict[str, Any]]


def attempts(proto: onnx.ModelProto, **spec: Any) -> Iterator[Samples]:
    for feeds in derive_feeds(proto, InputSpec(**spec)):
        yield [dict(sample) for sample in feeds]


def first(proto: onnx.ModelProto, **spec: Any) -> Samples:
    return next(attempts(proto, **spec))


def used(reference: Reference) -> Samples:
    return [dict(sample) for sample in reference.feeds()]
