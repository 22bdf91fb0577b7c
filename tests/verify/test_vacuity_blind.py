"""Damage that the tolerance lets through as a whole, and what differs in a part that no input reaches."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnx_ci import compare
from tests.support.known import known
from tests.support.text_models import model

pytestmark = pytest.mark.sampled(2)

HEADS = """g (float[N,16] x) => (float[N,28] y) <float[16,8] boxes, float[8] far, float[16,20] classes> {
    b = MatMul(x, boxes)
    p = Add(b, far)
    l = MatMul(x, classes)
    s = Sigmoid(l)
    y = Concat<axis = 1>(p, s) }"""
BARE_HEADS = HEADS.replace("s = Sigmoid(l)", "s = Identity(l)")
OFFSET = """g (float[N,16] x) => (float[N,16] y) <float[16,16] w, float[16] far> {
    m = MatMul(x, w)
    y = Add(m, far) }"""
MARK = """g (float[N,16] x) => (float[N,16] y) <float[16,16] w> {
    m = MatMul(x, w)
    t = Tanh(m)
    little = Constant<value_float = 0.01>()
    p = Mul(t, little)
    y = Add(x, p) }"""
TABLE = """g (int64[N,S] ids) => (float[N,S,8] y) <float[64,8] table> {
    few = Constant<value_int = 7>()
    i = Mod(ids, few)
    y = Gather(table, i) }"""


def filled(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    made = model(text)
    del made.graph.initializer[:]
    made.graph.initializer.extend(
        numpy_helper.from_array(values.astype(np.float32), name) for name, values in weights.items()
    )
    return made


def heads(change: float = 1.0, text: str = HEADS) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    boxes, classes = 300 * rng.standard_normal((16, 8)), rng.standard_normal((16, 20))
    return filled(text, boxes=boxes, far=np.full(8, 100.0), classes=classes * change)


@pytest.mark.sampled(0)
def test_scores_beside_large_numbers_are_judged_behind_their_sigmoid() -> None:
    """A detector has boxes in pixels and scores below one in the same output."""
    found = compare(heads(), heads(change=-1.0))
    assert found.verdict == "outputs_changed"
    assert found.verification.outputs[0].behind == "Sigmoid"
    assert found.verification.outputs[0].cosine == pytest.approx(-1.0)


def test_scores_that_nothing_squashes_can_be_anything_and_that_is_said() -> None:
    found = compare(heads(text=BARE_HEADS), heads(change=-1.0, text=BARE_HEADS))
    assert found.verification.outputs[0].cosine > 0.999
    assert found.verdict == "unverified"
    assert known(found.verification.coverage).blind == ("classes",)
    assert "whatever is done to 'classes'" in found.verification.reason


def marked(change: float = 1.0, text: str = MARK) -> onnx.ModelProto:
    weights = np.random.default_rng(0).standard_normal((16, 16))
    return filled(text, w=weights * np.where(weights < 0.5, change, 1.0))


@pytest.mark.parametrize("text", [MARK, MARK.replace("Tanh", "Identity")])
def test_what_is_added_to_an_input_is_judged_where_the_sum_hides_it(text: str) -> None:
    """A writer of watermarks hands on a picture that is far stronger than what it adds."""
    assert compare(marked(text=text), marked(0.999, text)).verdict == "ok"
    assert compare(marked(text=text), marked(0.5, text)).verdict == "outputs_changed"


def test_what_is_added_to_an_input_is_judged_with_it_where_that_tells() -> None:
    """A denoiser that takes a third of its input away may be off by more than its output."""
    loud = MARK.replace("0.01", "0.3")
    found = compare(marked(text=loud), marked(0.95, loud))
    assert (found.verdict, found.verification.outputs[0].behind) == ("ok", "")


def test_what_is_near_to_what_it_was_needs_no_output_to_say_so() -> None:
    found = compare(heads(text=BARE_HEADS), heads(change=1.001, text=BARE_HEADS))
    assert (found.verdict, known(found.verification.coverage).faint) == ("ok", ("classes",))


def test_damage_that_undoes_what_was_done_proves_nothing() -> None:
    """The weights in reverse order, once more in reverse order, are the original's."""
    weight = np.random.default_rng(0).standard_normal((16, 16))
    before = filled(OFFSET, w=weight, far=np.full(16, 3000.0))
    after = filled(OFFSET, w=weight.reshape(-1)[::-1].reshape(16, 16), far=np.full(16, 3000.0))
    assert compare(before, after).verdict == "unverified"


@pytest.mark.parametrize(
    ("rows", "verdict"), [(slice(20, 64), "unverified"), (slice(2, 3), "outputs_changed")]
)
def test_rows_that_differ_have_to_be_rows_that_are_read(rows: slice, verdict: str) -> None:
    table = np.random.default_rng(0).standard_normal((64, 8))
    other = table.copy()
    other[rows] = 0
    found = compare(filled(TABLE, table=table), filled(TABLE, table=other))
    assert found.verdict == verdict
    if verdict == "unverified":
        assert known(found.verification.coverage).unseen == ("table",)
