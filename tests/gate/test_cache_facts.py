"""Results survive the way to JSON and back, whatever their fields are made of."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from math import inf

from onnx_ci.gate.cache import plain, read
from onnx_ci.results import Alternative, OutputDelta, Verification


@dataclass(frozen=True)
class Sample:
    """One field of each kind that results have."""

    verification: Verification
    tried: tuple[Alternative, ...] = ()
    counted: tuple[tuple[str, int], ...] = ()
    best: Alternative | None = None
    note: str | None = None
    ratio: float = 1.0


def test_what_is_read_is_what_was_written() -> None:
    delta = OutputDelta(
        name="y", max_abs=0.1, max_rel=inf, mean_abs=1e-9, cosine=0.1 + 0.2, sqnr=inf, top1=1.0, exact=False
    )
    tried = Alternative(methods=("dedupe", "int8-weights"), size=3, verdict="too large")
    for sample in (
        Sample(Verification(status="passed", outputs=(delta,)), (tried, tried), (("a", 1), ("b", 2)), tried),
        Sample(Verification(status="failed", reason="é\n"), note="x", ratio=0.1),
    ):
        assert read(Sample, json.loads(json.dumps(plain(sample)))) == sample


def test_a_field_can_be_kept_in_another_way() -> None:
    sample = Sample(Verification(status="passed"), note="x")
    values = plain(sample, leave_out=("note",))
    assert set(values) == {field.name for field in fields(Sample)} - {"note"}
    assert read(Sample, values, note="x") == sample
