"""The promises every method makes, kept on every trap: a new method is in here by being in the catalogue."""

from __future__ import annotations

import platform
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_ci.gate.judge import judge
from onnx_ci.gate.subject import InPlace, Ledger, Task
from onnx_ci.methods.catalogue import METHODS, Method
from onnx_ci.methods.chain import Chained, Run, run_chain
from onnx_ci.model.graph import default_inputs
from onnx_ci.model.interface import contract_breaks
from onnx_ci.model.load import open_model
from onnx_ci.model.measure import files_of
from onnx_ci.model.receipt import model_digest
from onnx_ci.model.save import lay_out, write_model
from onnx_ci.policy.schema import MethodChoice, Rule, Tolerance
from onnx_ci.sandbox.runner import Runner
from tests.support.run_model import fed, identical, outputs
from tests.traps import GOOD_FILES, TRAPS, Trap, feeds_for

pytestmark = pytest.mark.sampled(107)

MODELS = (*TRAPS, *GOOD_FILES)
# Models for which any rounding is too much: differences of nearly equal weights, signs of zero, and what
# depends on whether a number is above a limit.
TOO_MUCH = {
    ("dynamic-int8", "cancellation"),
    # One range for all channels of a result: what is a thousand times smaller is rounded away.
    *(("static-int8", name) for name in ("conv", "conv_1d", "conv_3d", "conv_depthwise", "conv_grouped")),
    *(("static-int8", name) for name in ("conv_pointwise", "one_outlier", "opset_9")),
    ("static-int8", "cancellation"),
    ("static-int8", "saturated_classifier"),
    ("float-levels", "cancellation"),
    ("float-levels", "negative_zero_among_weights"),
    ("float-levels", "variance_under_a_root"),
    ("round-mantissa", "cancellation"),
    ("fp16-weights", "cancellation"),
    ("fp16-weights", "variance_under_a_root"),
    ("int4-weights", "cancellation"),
    ("int4-weights", "negative_zero_among_weights"),
    ("int4-weights", "shape_from_values"),
    ("int8-weights", "cancellation"),
    ("int8-weights", "negative_zero_among_weights"),
    ("int8-weights", "variance_under_a_root"),
}
# How many results there are depends on rounding, or one sample's range on another's. Whether that shows is a
# matter of the inputs: the gate finds out on those a user has.
DEPENDS = {
    *(
        (method, trap)
        for method in ("dynamic-int8", "static-int8")
        for trap in ("boxes", "shape_from_values")
    ),
    ("static-int8", "batch_dependent_quantization"),
}
# Products of 8-bit activations with int8 weights of full range, which overflow where a processor adds up
# pairs of them in 16 bits: x86 without VNNI.
SATURATES = {("dynamic-int8", "sequence_lengths"), ("static-int8", "opset_12")}
_expected: dict[
    tuple[str, int], list[list[Any]]
] = {}  # what a trap computes, by its name and how often it is fed
# How close outputs have to be: 4 bits leave an angle that 8 bits don't.
CLOSE = {"int4-weights": 0.97}


def apply(method: Method, trap: Trap, path: Path, target: Path) -> Chained:
    with open_model(path) as model:
        size = sum(file.stat().st_size for file in files_of(path, model.proto))
        chained = run_chain(model, [Run(method, {})], size=size, feeds=partial(feeds_for, trap, path))
        target.parent.mkdir(exist_ok=True)
        write_model(chained.model, target)
        assert not contract_breaks(model.proto, chained.model.proto, allow=method.changes)
        assert chained.size <= size or method.gains == "layout"
        return chained


@pytest.mark.parametrize("trap", MODELS, ids=lambda trap: trap.name)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_method_keeps_its_promises(method: Method, trap: Trap, tmp_path: Path) -> None:
    path = trap.build(tmp_path)
    once, again = tmp_path / "once" / "model.onnx", tmp_path / "again" / "model.onnx"
    changed = bool(apply(method, trap, path, once).kept)
    apply(method, trap, path, again)
    assert once.read_bytes() == again.read_bytes(), "the same input gave other bytes"
    if changed:  # otherwise the gate writes nothing
        _second_run_changes_nothing(method, trap, once)
    if trap.checks:
        onnx.checker.check_model(str(once))
    if trap.runs and trap.repeats:
        _computes_the_same(method, trap, path, once, changed=changed)


def _second_run_changes_nothing(method: Method, trap: Trap, path: Path) -> None:
    with open_model(path) as model:
        before = model_digest(model)
        feeds = partial(feeds_for, trap, path)
        chained = run_chain(model, [Run(method, {})], size=lay_out(model).size, feeds=feeds)
        assert model_digest(chained.model) == before, "a second run changed the model"


def _computes_the_same(method: Method, trap: Trap, path: Path, made: Path, *, changed: bool) -> None:
    feeds = feeds_for(trap, path)
    if "defaults" in method.changes:  # the promise is to callers who never feed these
        defaults = set(default_inputs(onnx.load(path, load_external_data=False).graph))
        feeds = [feed for feed in feeds if defaults.isdisjoint(feed)]
    expected = _expected.get((trap.name, len(feeds))) or outputs(path, feeds)
    _expected[trap.name, len(feeds)] = expected
    found = outputs(made, fed(feeds, made))
    if method.bitwise or not changed:
        assert identical(expected, found), "an exact method must not move a single bit"
        return
    if (method.name, trap.name) in TOO_MUCH | DEPENDS:
        return
    if (method.name, trap.name) in SATURATES and not _has_vnni():
        return
    for wanted, got in zip(expected, found, strict=True):
        for one, other in zip(wanted, got, strict=True):
            _is_close(np.asarray(one), np.asarray(other), CLOSE.get(method.name, 0.99))


def _has_vnni() -> bool:
    known = Path("/proc/cpuinfo")
    return platform.machine() not in ("x86_64", "AMD64") or (known.exists() and "vnni" in known.read_text())


def _is_close(one: np.ndarray, other: np.ndarray, least: float) -> None:
    """Approximate methods may round; they may not change what is an integer, infinite or missing."""
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    if one.dtype.kind not in "fc":
        return
    a, b = one.astype(np.float64).ravel(), other.astype(np.float64).ravel()
    assert np.array_equal(np.isnan(a), np.isnan(b))
    infinite = np.isinf(a) | np.isinf(b)
    assert np.array_equal(a[infinite], b[infinite])
    a, b = np.nan_to_num(a[~infinite]), np.nan_to_num(b[~infinite])
    if np.linalg.norm(a):
        cosine = float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b) or 1))
        assert cosine > least, f"cosine {cosine}"


@pytest.mark.parametrize(("method", "trap"), sorted(TOO_MUCH))
def test_what_rounding_breaks_the_gate_refuses(method: str, trap: str, tmp_path: Path) -> None:
    """Rounding at all is too much for these models; the verdict, not the method, keeps them whole."""
    path = next(item for item in TRAPS if item.name == trap).build(tmp_path)
    before = path.read_bytes()
    choice = MethodChoice(name=method)
    limits = Tolerance(cosine=0.999, max_abs=0.1)
    rule = Rule(pattern="*", methods=(choice,), tolerance=limits, plan_seconds=0)
    output = InPlace(tmp_path)
    task = Task(path=path, name=trap, rule=rule, root=tmp_path, home=tmp_path, output=output, insists=True)
    with Runner() as runner:
        outcome = judge(task, runner, Ledger())
    assert not outcome.written
    assert outcome.alternatives, "the method found nothing to do, so this shows nothing"
    assert path.read_bytes() == before
