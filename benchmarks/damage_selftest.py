"""Whether the damage bench does what it says: damage damages, always alike; rewrites change nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import models
import onnx
from damages import DAMAGES, PLACES, damaged
from onnx import ModelProto
from rewrites import REWRITES
from truth import SAME, SLIGHT, Witness

from onnx_ci.sandbox.runner import Runner

SMALL = ("ppocr-cls", "silero", "magika")  # between them a model with everything that small ones have


def problems() -> Iterator[str]:
    for name in SMALL:
        source = models.fetch(name)
        model = onnx.load(source)
        yield from (f"{name}: {problem}" for problem in _damages(model))
        with Runner() as runner:
            witness = Witness(name, source, runner)
            yield from (f"{name}: {problem}" for problem in _rewrites(source, model, witness))


def _damages(model: ModelProto) -> Iterator[str]:
    before = model.SerializeToString(deterministic=True)
    for damage in DAMAGES:
        for place in PLACES:
            first, second = damaged(model, damage, place), damaged(model, damage, place)
            if first is None or second is None:
                continue
            after = first.SerializeToString(deterministic=True)
            if after == before:
                yield f"{damage.name}, {place}: nothing was damaged"
            if after != second.SerializeToString(deterministic=True):
                yield f"{damage.name}, {place}: another damage the second time"
    if model.SerializeToString(deterministic=True) != before:
        yield "the original was damaged as well"


def _rewrites(source: Path, model: ModelProto, witness: Witness) -> Iterator[str]:
    for rewrite in REWRITES:
        with tempfile.TemporaryDirectory(prefix="onnx-ci-bench-") as folder:
            target = Path(folder) / "model.onnx"
            if rewrite.write(source, model, target):
                truth = witness.truth(target)
                if truth.kind not in (SAME, SLIGHT):
                    yield f"{rewrite.name}: {truth.kind}, {truth.where}"
