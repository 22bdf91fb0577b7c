"""Both branches of every If are taken where inputs can reach them; the others are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_ci.policy.schema import InputSpec, Limits, Tolerance
from onnx_ci.sandbox.runner import Runner
from onnx_ci.verify.reference import Reference
from onnx_ci.verify.verifier import Claim, Verifier
from tests.support.inputs import used
from tests.support.text_models import model, save

EITHER = (
    "<then_branch = a () => (float[N,3] u) { u = Mul(x, p) },"
    " else_branch = b () => (float[N,3] v) { v = Mul(x, q) }>"
)
WEIGHTS = "float[3] p = {1,2,3}, float[3] q = {4,5,6}"
NESTED = (
    "<then_branch = a () => (float[N,3] u) { k = Equal(rate, c8) u = If(k) "
    + EITHER.replace("= a", "= aa").replace("= b", "= bb").replace(" u)", " uu)").replace("u =", "uu =")
    + " }, else_branch = b () => (float[N,3] v) { v = Add(x, q) }>"
)
FUNCTIONS = '<ir_version: 8, opset_import: ["": 17, "f": 1]>'


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as made:
        yield made


def reference(runner: Runner, proto: onnx.ModelProto, folder: Path, **spec: Any) -> Reference:
    path = save(proto, folder / "model.onnx")
    return Reference(runner, path, proto, spec=InputSpec(**spec), limits=Limits(seconds=60), root=folder)


@pytest.mark.parametrize(
    ("inputs", "constants", "body"),
    [
        ("bool flag", "", f"y = If(flag) {EITHER}"),
        ("int64 sr", "int64 c = {16000}", f"k = Equal(sr, c) y = If(k) {EITHER}"),
        ("int64[1] mode", "int64[1] c = {7}", f"k = Greater(mode, c) y = If(k) {EITHER}"),
        ("float level", "float c = {0.5}", f"k = Less(c, level) y = If(k) {EITHER}"),
        (
            "int64 mode",
            "int64 c = {3}, int64 two = {2}",
            f"m = Mul(mode, two) n = Add(m, c) k = LessOrEqual(n, c) l = Not(k) y = If(l) {EITHER}",
        ),
        (
            "float[1,past,3] past",
            "int64 zero = {0}",
            f"s = Size(past) k = Equal(s, zero) y = If(k) {EITHER}",
        ),
        (
            "int64[B,S] ids",
            "int64 one = {1}, int64 c = {100}",
            f"s = Shape(ids) n = Gather(s, one) k = GreaterOrEqual(n, c) y = If(k) {EITHER}",
        ),
        (
            "int64 a1, bool b1",
            "int64 c = {5}",
            f"k1 = Equal(a1, c) k = And(k1, b1) y = If(k) {EITHER}",
        ),
        ("float[4] t", "float c = {9}", f"m = ReduceMax<keepdims=0>(t) k = Greater(m, c) y = If(k) {EITHER}"),
    ],
)
def test_both_branches_are_taken(
    runner: Runner, tmp_path: Path, inputs: str, constants: str, body: str
) -> None:
    stored = f"<{WEIGHTS}{', ' if constants else ''}{constants}>"
    proto = model(f"g (float[N,3] x, {inputs}) => (float[N,3] y) {stored} {{ {body} }}")
    made = reference(runner, proto, tmp_path)
    assert list(made.untaken) == []
    assert 2 <= len(made.feeds()) <= 4
    for weight in ("p", "q"):
        assert _notices(made, proto, weight, tmp_path)


def test_a_branch_gets_as_many_samples_as_are_asked_for(runner: Runner, tmp_path: Path) -> None:
    """The other branch on one input only: what is lost for others would not show."""
    body = f"k = Equal(sr, c) y = If(k) {EITHER}"
    proto = model(
        f"g (float[1,3] x, int64 sr) => (float[1,3] y) <{WEIGHTS}, int64 c = {{16000}}> {{ {body} }}".replace(
            "[N,3]", "[1,3]"
        )
    )
    feeds = used(reference(runner, proto, tmp_path, count=4))
    others = [sample["x"] for sample in feeds if sample["sr"] != 16000]
    assert len(others) == 4
    assert len({one.tobytes() for one in others}) == 4


def test_floats_that_decide_are_not_all_alike(runner: Runner, tmp_path: Path) -> None:
    body = f"m = ReduceMean<keepdims=0>(x) k = Greater(m, c) y = If(k) {EITHER}"
    proto = model(f"g (float[N,3] x) => (float[N,3] y) <{WEIGHTS}, float c = {{9}}> {{ {body} }}")
    large = [sample["x"] for sample in used(reference(runner, proto, tmp_path)) if sample["x"].mean() > 9]
    assert len(large) == 2
    assert large[1].std() > 0.1


def _notices(made: Reference, proto: onnx.ModelProto, weight: str, folder: Path) -> bool:
    """Whether damage to this weight is seen."""
    broken = onnx.ModelProto()
    broken.CopyFrom(proto)
    tensor = next(t for t in broken.graph.initializer if t.name == weight)
    tensor.CopyFrom(onnx.numpy_helper.from_array(np.array([9, -1, 2], np.float32), weight))
    path = save(broken, folder / "broken.onnx")
    claim = Claim(path=path, proto=broken, tolerance=Tolerance(cosine=0.999))
    return Verifier(made).check(claim).status == "failed"


def test_nested_branches_are_reached_through_those_around_them(runner: Runner, tmp_path: Path) -> None:
    stored = f"<{WEIGHTS}, int64 c8 = {{8000}}>"
    proto = model(
        f"g (float[N,3] x, bool outer, int64 rate) => (float[N,3] y) {stored} {{ y = If(outer) {NESTED} }}"
    )
    made = reference(runner, proto, tmp_path)
    assert list(made.untaken) == []
    modes = {(bool(f["outer"]), int(f["rate"]) == 8000) for f in used(made)}
    assert {(True, True), (True, False)} <= modes


def test_branches_in_loops_and_functions_are_seen(runner: Runner, tmp_path: Path) -> None:
    loop = (
        "n = Constant<value_int=2>() go = Constant<value=bool {1}>() y = Loop(n, go, x) <body = body"
        f" (int64 i, bool cond, float[N,3] s) => (bool cond2, float[N,3] s2) {{ cond2 = Identity(cond)"
        f" s2 = If(flag) {EITHER} }}>"
    )
    call = "y = f.either(x, flag, p, q)"
    function = (
        f'<domain: "f", opset_import: ["": 17]> either (x, flag, p, q) => (y) {{ y = If(flag) {EITHER} }}'
    )
    for number, (body, more) in enumerate(((loop, ""), (call, function))):
        text = f"g (float[N,3] x, bool flag) => (float[N,3] y) <{WEIGHTS}> {{ {body} }} {more}"
        folder = tmp_path / str(number)
        folder.mkdir()
        assert list(reference(runner, model(text, FUNCTIONS), folder).untaken) == []
        alone = reference(runner, model(text, FUNCTIONS), folder, count=1, ranges={"flag": (1, 1)})
        assert [(side.holds) for side in alone.untaken] == [False]


def test_a_branch_that_nothing_reaches_is_named(runner: Runner, tmp_path: Path) -> None:
    stored = f"<{WEIGHTS}, bool never = {{0}}>"
    proto = model(f"g (float[N,3] x) => (float[N,3] y) {stored} {{ y = If(never) {EITHER} }}")
    proto.graph.node[0].name = "dead end"
    made = reference(runner, proto, tmp_path)
    assert [side.words for side in made.untaken] == ["the then branch of If 'dead end'"]


def test_samples_of_the_user_are_watched_too(runner: Runner, tmp_path: Path) -> None:
    proto = model(f"g (float[N,3] x, bool flag) => (float[N,3] y) <{WEIGHTS}> {{ y = If(flag) {EITHER} }}")
    np.savez(tmp_path / "a.npz", x=np.ones((1, 3), np.float32), flag=np.array(True))
    made = reference(runner, proto, tmp_path, samples=("a.npz",))
    assert [side.holds for side in made.untaken] == [False]
    assert len(made.feeds()) == 1


def test_an_optional_input_is_left_out_where_an_if_asks_for_it(runner: Runner, tmp_path: Path) -> None:
    text = (
        "g (optional(float[2,3]) x) => (float[2,3] y) <float[3] p = {1,2,3}, float[2,3] q = {4,5,6,7,8,9}>"
        " { k = OptionalHasElement(x) y = If(k) <then_branch = a () => (float[2,3] u)"
        " { e = OptionalGetElement(x) u = Mul(e, p) }, else_branch = b () => (float[2,3] v)"
        " { v = Identity(q) }> }"
    )
    proto = model(text)
    made = reference(runner, proto, tmp_path)
    assert list(made.untaken) == []
    assert [sample["x"] is None for sample in made.feeds()] == [False, False, True]
    assert _notices(made, proto, "q", tmp_path)
