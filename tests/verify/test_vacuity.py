"""A pass has to be earned: what outputs do not tell of, no verdict speaks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnx_ci.model.load import open_model
from onnx_ci.policy.schema import InputSpec, Rule, Tolerance
from onnx_ci.results import Verification
from onnx_ci.sandbox.runner import Runner
from onnx_ci.verify.prove import Prover, Submission
from tests.traps.base import model, weight

pytestmark = pytest.mark.sampled(2)

BRANCH = """g (float[n,64] x, bool c) => (float[n,64] y) { h = MatMul(x, W)
    y = If (c) <then_branch = t () => (float[n,64] a) { a = MatMul(h, A) },
    else_branch = e () => (float[n,64] b) { b = Identity(h) }> }"""
TWICE = """g (float[n,64] x, bool c) => (float[n,64] y) {
    y = If (c) <then_branch = t () => (float[n,64] a) <float[64,64] V = {0}> { a = MatMul(x, V) },
    else_branch = e () => (float[n,64] b) <float[64,64] V = {0}> { b = MatMul(x, V) }> }"""
Prove = Callable[..., Verification]


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as runner:
        yield runner


@pytest.fixture
def prove(runner: Runner, tmp_path: Path) -> Prove:
    """The verdict on a candidate of an original, on a sample or on inputs made up."""

    def prove(
        original: onnx.ModelProto,
        candidate: onnx.ModelProto,
        sample: dict[str, Any] | None = None,
        tolerance: Tolerance | None = None,
        ranges: dict[str, tuple[float, float]] | None = None,
    ) -> Verification:
        for name, proto in (("a", original), ("b", candidate)):
            onnx.save(proto, tmp_path / f"{name}.onnx")
        spec = InputSpec(samples=("s.npz",) if sample else (), ranges=ranges or {})
        if sample:
            np.savez(tmp_path / "s.npz", **sample)
        rule = Rule(pattern="a", inputs=spec, tolerance=tolerance or Tolerance(cosine=0.999))
        with open_model(tmp_path / "a.onnx") as before, open_model(tmp_path / "b.onnx") as after:
            prover = Prover(rule, before, runner, tmp_path, home=tmp_path)
            return prover.prove(Submission(path=after.path, model=after)).verification

    return prove


def rounded(proto: onnx.ModelProto, *names: str) -> onnx.ModelProto:
    """A copy in which some initializers, of whatever graph, went through fp16."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for tensor in found(copy, *names):
        values = numpy_helper.to_array(tensor).astype(np.float16)
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        tensor.CopyFrom(numpy_helper.from_array(values.astype(kind), tensor.name))
    return copy


def found(proto: onnx.ModelProto, *names: str) -> Iterator[onnx.TensorProto]:
    graphs = [proto.graph, *(a.g for n in proto.graph.node for a in n.attribute if a.HasField("g"))]
    yield from (t for graph in graphs for t in graph.initializer if t.name in names)


NEVER = {"c": (0.0, 0.0)}  # a condition that no input makes true, made up or not


def x(rows: int = 2, width: int = 64) -> np.ndarray:
    return weight(rows, width, seed=9, scale=1.0)


def test_what_no_input_reaches_is_not_vouched_for_by_the_rest(prove: Prove) -> None:
    original = model(BRANCH, {"W": weight(64, 64, seed=1), "A": weight(64, 64, seed=2)})
    other = rounded(original, "W", "A")
    found = prove(original, other, {"x": x(), "c": np.array(False)}, ranges=NEVER)
    assert (found.status, found.code) == ("not_run", "OCI005")
    assert "1 of 2 changed tensors" in found.reason
    assert "'A'" in found.reason
    assert 'skip: ["A"]' in found.hint
    assert found.coverage is not None
    assert (found.coverage.noticed, found.coverage.unseen) == (1, ("A",))
    reached = prove(original, other, {"x": x(), "c": np.array(True)})
    assert reached.status == "passed", reached.reason
    assert reached.coverage is not None
    assert (reached.coverage.changed, reached.coverage.noticed) == (2, 2)
    only = prove(original, rounded(original, "W"), {"x": x(), "c": np.array(False)}, ranges=NEVER)
    assert only.status == "passed"


def test_one_name_in_two_branches_is_two_tensors(prove: Prove) -> None:
    original = model(TWICE)
    for seed, tensor in enumerate(found(original, "V")):
        tensor.CopyFrom(numpy_helper.from_array(weight(64, 64, seed=seed), "V"))
    seen = prove(original, rounded(original, "V"), {"x": x(), "c": np.array(False)}, ranges=NEVER)
    assert (seen.status, seen.code) == ("not_run", "OCI005")
    assert seen.coverage is not None
    assert (seen.coverage.changed, seen.coverage.noticed) == (2, 1)


def test_weights_that_a_library_fused_unseen_are_no_pass(prove: Prove) -> None:
    """Two products became one in a branch that is not taken: other names, other values."""
    text = BRANCH.replace("a = MatMul(h, A)", "k = MatMul(h, A) a = MatMul(k, B)")
    first, second = weight(64, 64, seed=2), weight(64, 64, seed=3)
    original = model(text, {"W": weight(64, 64, seed=1), "A": first, "B": second})
    fused = model(BRANCH.replace("A)", "fused)"), {"W": weight(64, 64, seed=1), "fused": first @ second})
    hidden = prove(original, fused, {"x": x(), "c": np.array(False)}, ranges=NEVER)
    assert hidden.status == "not_run"
    assert hidden.coverage is not None
    assert hidden.coverage.unseen == ("A", "B")
    assert prove(original, fused, {"x": x(), "c": np.array(True)}).status == "passed"


KINDS = {
    "echo": "g (float[2,64] x) => (float[2,64] y, float[2,64] z) { y = MatMul(x, W) z = Identity(x) }",
    "constant": "g (float[2,64] x) => (float[2,64] y, float[2,64] z) { y = MatMul(x, W) z = Mul(x, zero) }",
    "nan": "g (float[2,64] x) => (float[2,64] y, float[2,64] z) { y = MatMul(x, W) z = Div(zero, zeros) }",
    "not reached": "g (float[2,64] x) => (float[2,64] y, float[2,64] z) { y = MatMul(x, W) z = Tanh(x) }",
    "empty": """g (float[2,64] x) => (float[2,64] y, float[n,64] z) { y = MatMul(x, W)
        z = Slice(x, i0, i0) }""",
}


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_that_show_nothing_are_named_by_their_kind(prove: Prove, kind: str) -> None:
    stored: dict[str, Any] = {
        "W": weight(64, 64, seed=1),
        "zero": np.zeros((), np.float32),
        "zeros": np.zeros((2, 64), np.float32),
        "i0": np.zeros(1, np.int64),
    }
    original = model(KINDS[kind], {name: value for name, value in stored.items() if name in KINDS[kind]})
    seen = prove(original, rounded(original, "W"))
    assert seen.status == "passed", seen.reason
    assert {(o.name, o.sensitive, o.kind) for o in seen.outputs} == {("y", True, ""), ("z", False, kind)}


def test_nothing_but_echoes_is_no_pass(prove: Prove) -> None:
    text = "g (float[2,64] x) => (float[2,64] y) { y = Identity(x) dead = MatMul(x, W) }"
    original = model(text, {"W": weight(64, 64, seed=1)})
    seen = prove(original, rounded(original, "W"))
    assert (seen.status, seen.code) == ("not_run", "OCI005")
    assert "whatever is done to the weights" in seen.reason
    assert "'y' repeats an input" in seen.reason
    assert [(output.name, output.kind) for output in seen.outputs] == [("y", "echo")]


def test_a_saturated_output_that_hides_a_third_of_error_is_no_pass(prove: Prove) -> None:
    """Softmax gives exactly 1 and 0, and would go on to do so with weights that are far off."""
    text = "g (float[2,8] x) => (float[2,4] y) { h = MatMul(x, W) y = Softmax(h) }"
    steep = np.zeros((8, 4), np.float32)
    steep[:, 1] = 3e3
    steep[:, 3] = -3e3
    original = model(text, {"W": steep})
    sample = {"x": np.abs(x(2, 8)) + 1}
    seen = prove(original, rounded(original, "W"), sample, ranges={"x": (1.0, 2.0)})
    assert (seen.status, seen.code) == ("not_run", "OCI005")
    assert "'y' is saturated" in seen.reason
    assert "add samples on which the model is undecided" in seen.hint
    assert "record" not in seen.hint
    assert [(o.sensitive, o.kind) for o in seen.outputs] == [(True, "saturated")]
    mild = model(text, {"W": steep / 1e4})
    assert prove(mild, rounded(mild, "W"), sample).outputs[0].kind == ""


def test_classes_only_pass_where_they_tell_small_errors(prove: Prove) -> None:
    text = "g (float[16,64] x) => (int64[16] y) { h = MatMul(x, W) y = ArgMax <axis = 1, keepdims = 0> (h) }"
    original = model(text, {"W": weight(64, 64, seed=1)})
    seen = prove(original, rounded(original, "W"))
    assert seen.status == "passed", seen.reason


@pytest.mark.parametrize(
    "values",
    [np.full((64, 64), 0.1), np.array([0.1 * (4 - abs(4 - i)) for i in range(9)]), np.full((), 0.1)],
    ids=["constant", "palindrome", "scalar"],
)
def test_weights_that_read_the_same_from_either_end_are_damaged_too(prove: Prove, values: np.ndarray) -> None:
    text = "g (float[64,64] x, float[64,1] k) => (float[n,m] y) { y = Mul(%s, W) }"
    shaped = text % ("k" if values.ndim == 1 else "x")
    original = model(shaped, {"W": values.astype(np.float32)})
    seen = prove(original, rounded(original, "W"))
    assert seen.status == "passed", seen.reason
    assert seen.coverage is not None
    assert (seen.coverage.changed, seen.coverage.noticed) == (1, 1)


def test_a_bias_of_zeros_that_is_no_longer_zero(prove: Prove) -> None:
    """Its old content is stored elsewhere too: it is by its name that the change is found."""
    text = """g (float[2,64] x, bool c) => (float[2,64] y) { h = MatMul(x, W) g = Add(h, p)
        y = If (c) <then_branch = t () => (float[2,64] a) { a = Add(g, q) },
        else_branch = e () => (float[2,64] b) { b = Identity(g) }> }"""
    zeros = np.zeros(64, np.float32)
    original = model(text, {"W": weight(64, 64, seed=1), "p": zeros, "q": zeros})
    other = model(text, {"W": weight(64, 64, seed=1), "p": zeros, "q": zeros + 1})
    seen = prove(original, other, {"x": x(), "c": np.array(False)}, ranges=NEVER)
    assert (seen.status, seen.code) == ("not_run", "OCI005")
    assert "'q'" in seen.reason


def test_a_tolerance_that_lets_reversed_weights_pass_is_blind(prove: Prove) -> None:
    original = model("g (float[2,64] x) => (float[2,64] y) { y = MatMul(x, W) }", {"W": weight(64, 64)})
    seen = prove(original, rounded(original, "W"), tolerance=Tolerance(max_abs=1e6))
    assert (seen.status, seen.code) == ("not_run", "OCI005")
    assert "the tolerance is blind to output 'y'" in seen.reason


def test_damage_that_does_not_run_is_replaced_by_damage_that_does(prove: Prove) -> None:
    """Reversed, the codes point past the end of the table."""
    text = """g (float[2,8] x) => (float[2,8] y) { i = Cast <to = 7> (codes) t = Slice(codes, s, e)
        n = Cast <to = 7> (t) r = Gather(table, i) k = Expand(r, n) y = Mul(x, k) }"""
    table = weight(10, 1, seed=1).reshape(-1)
    codes = np.array([8, 1, 2, 3, 4, 5, 6, 9], np.uint8)
    stored: dict[str, Any] = {"codes": codes, "s": np.array([0], np.int64), "e": np.array([1], np.int64)}
    candidate = model(text, {**stored, "table": table.astype(np.float16).astype(np.float32)})
    seen = prove(model(text, {**stored, "table": table}), candidate)
    assert seen.status == "passed", seen.reason
    assert seen.outputs[0].sensitive


def test_where_no_damage_runs_nothing_is_proven(prove: Prove) -> None:
    """The weight is a shape: with any other value of it there are not as many elements."""
    text = """g (float[16,16] x) => (float[16,16] y) { s = Cast <to = 7> (sizes) t = Reshape(x, s)
        p = Relu(t) y = Reshape(p, r) }"""
    sizes, back = np.full(8, 2.25, np.float32), np.array([16, 16], np.int64)
    original = model(text, {"sizes": sizes, "r": back})
    seen = prove(original, model(text, {"sizes": sizes + np.float32(0.125), "r": back}))
    assert (seen.status, seen.code) == ("not_run", "OCI005")
    assert "no damaged form of the candidate runs" in seen.reason
