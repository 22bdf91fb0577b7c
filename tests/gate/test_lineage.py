"""What a receipt tells of a model, and when it is believed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from onnx_ci.gate.lineage import Lineage, fingerprint, lineage, stamp
from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Run
from onnx_ci.model.load import open_model
from onnx_ci.model.receipt import Receipt, read_receipt
from onnx_ci.model.save import write_model
from onnx_ci.policy.schema import Budget, Gain, Limits, MethodChoice, Rule, Tolerance
from onnx_ci.results import Measure
from tests.support.models import lean

RULE = Rule(pattern="*.onnx")
INT8 = replace(RULE, methods=(MethodChoice(name="int8-weights"),))
SOURCE = Measure(size=1000, sha256="a" * 64)


def stamped(folder: Path, *names: str, rule: Rule = RULE) -> Path:
    """A model with a receipt for methods, whether they did anything or not."""
    onnx.save(lean(), folder / "source.onnx")
    with open_model(folder / "source.onnx") as model:
        copy = model.copy()
        runs = [Run(method(name), {}) for name in names]
        stamp(copy, runs, lineage(model, rule), SOURCE, verified=True)
        write_model(copy, folder / "m.onnx")
    return folder / "m.onnx"


def of(path: Path, rule: Rule = RULE) -> Lineage:
    with open_model(path) as model:
        return lineage(model, rule)


def test_a_model_without_a_receipt_is_a_source(tmp_path: Path) -> None:
    onnx.save(lean(), tmp_path / "m.onnx")
    found = of(tmp_path / "m.onnx")
    assert (found.receipt, found.current, found.lossy, found.edited) == (None, False, False, False)
    assert found.findings("m.onnx", over=True) == ()
    assert found.data == {}


def test_a_receipt_of_this_rule_is_current_and_of_another_outdated(tmp_path: Path) -> None:
    path = stamped(tmp_path, "int8-weights")
    found = of(path)
    assert found.current
    assert found.lossy
    assert found.outdated is None
    other = of(path, INT8)
    assert not other.current
    assert other.outdated is not None
    assert other.outdated.source_sha256 == SOURCE.sha256


def test_what_lost_nothing_is_never_outdated(tmp_path: Path) -> None:
    assert of(stamped(tmp_path, "dedupe"), INT8).outdated is None


@pytest.mark.parametrize(
    ("over", "forbidden", "severity"),
    [(False, "", "note"), (True, "", "warning"), (False, "its rule does not allow int8-weights", "error")],
)
def test_what_only_the_original_can_give(tmp_path: Path, over: bool, forbidden: str, severity: str) -> None:
    found = of(stamped(tmp_path, "int8-weights"), INT8)
    (finding,) = found.findings("m.onnx", over=over, missing="was not found", forbidden=forbidden)
    assert (finding.code, finding.severity) == ("OCI011", severity)
    assert "its original was not found" in finding.message
    assert forbidden in finding.message


def test_a_model_that_was_edited_is_not_believed(tmp_path: Path) -> None:
    path = stamped(tmp_path, "dedupe")
    proto = onnx.load(path)
    proto.graph.node[0].op_type = "Gemm"
    onnx.save(proto, path)
    found = of(path)
    assert (found.edited, found.unpacked, found.receipt) == (True, (), None)
    assert [finding.code for finding in found.findings("m.onnx", over=False)] == ["OCI019"]


def test_a_model_that_was_unpacked_is_told_so(tmp_path: Path) -> None:
    path = stamped(tmp_path, "dedupe", "int8-weights")
    proto = onnx.load(path)
    proto.graph.node[0].op_type = "Gemm"
    onnx.save(proto, path)
    found = of(path)
    assert (found.edited, found.unpacked) == (False, ("int8-weights",))
    (finding,) = found.findings("m.onnx", over=False)
    assert finding.code == "OCI019"
    assert "int8-weights" in finding.message


def test_a_disowned_model_is_a_source_of_its_own(tmp_path: Path) -> None:
    found = of(stamped(tmp_path, "int8-weights")).disowned
    assert (found.receipt, found.foreign, found.lossy, found.current) == (None, True, False, False)


def test_a_receipt_carries_on_what_was_lost_first(tmp_path: Path) -> None:
    path = stamped(tmp_path, "int8-weights")
    with open_model(path) as model:
        copy = model.copy()
        now = Measure(size=500, sha256="b" * 64)
        stamp(copy, [Run(method("dedupe"), {})], lineage(model, RULE), now, verified=False)
        receipt = read_receipt(copy.proto)
    assert isinstance(receipt, Receipt)
    assert (receipt.source_sha256, receipt.names) == (SOURCE.sha256, ("int8-weights", "dedupe"))
    assert (receipt.lossy, receipt.verified) == (True, False)


def test_the_fingerprint_is_of_what_decides_what_a_model_becomes() -> None:
    assert fingerprint(RULE) == fingerprint(replace(RULE, pattern="other", line=9, severity="warning"))
    others = [
        INT8,
        replace(RULE, tolerance=Tolerance(cosine=0.9)),
        replace(RULE, budget=Budget(size=5)),
        replace(RULE, minimum_gain=Gain(share=0.5)),
        replace(RULE, shrink="exact-only"),
        replace(RULE, limits=Limits(total_seconds=60)),
    ]
    assert len({fingerprint(rule) for rule in [RULE, *others]}) == 7
