"""What a model computes in float16 is looked at in float32: overflows that a CPU does not show are said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ci.model.load import open_model
from onnx_ci.policy.schema import Limits, Rule
from onnx_ci.results import Float16Range
from onnx_ci.sandbox.runner import RunFailed, Runner
from onnx_ci.verify import float16
from onnx_ci.verify.prove import Prover
from tests.support.cli import Done, call
from tests.support.git_repo import write_policy
from tests.support.models import lean, save_outside
from tests.support.text_models import HEAD, model, save

pytestmark = pytest.mark.sampled(2)

# A value of 300, whatever comes in: its square is past 65504.
START = """g (float[4] x) => (float[4] y) <float k32 = {%s}, float none32 = {0}> {
    k = Cast<to=10>(k32) none = Cast<to=10>(none32) i = Cast<to=10>(x) z = Mul(i, none) h = Add(z, k) """
SQUARE = "[square] q = Mul(h, h) d = Div(q, h) y = Cast<to=1>(d) }"


def square(value: float) -> str:
    return START % value + SQUARE


def looked_at(proto: onnx.ModelProto, folder: Path, *, seconds: float = 60) -> Float16Range | None:
    path = save(proto, folder / "m.onnx")
    rule = Rule(pattern="m.onnx", limits=Limits(seconds=seconds))
    with open_model(path) as opened, Runner() as runner:
        return Prover(rule, opened, runner, folder, home=folder).float16


def over(found: Float16Range | None) -> list[tuple[str, str]]:
    assert found is not None
    assert not found.unseen
    return [(peak.name, peak.op) for peak in found.over]


def test_an_overflow_is_found_and_named(tmp_path: Path) -> None:
    found = looked_at(model(square(300)), tmp_path)
    assert over(found) == [("q", "Mul")]
    assert found is not None
    assert (found.over[0].node, found.over[0].magnitude, found.near) == ("square", 90000, ())
    assert "'q' (Mul 'square') comes to 9e+04" in found.words


@pytest.mark.parametrize(
    ("value", "names"), [(255.5, [["q"], []]), (200, [["q"], []]), (180, [[], []]), (256.1, [[], ["q"]])]
)
def test_near_is_a_factor_of_two(tmp_path: Path, value: float, names: list[list[str]]) -> None:
    found = looked_at(model(square(value)), tmp_path)
    assert found is not None
    assert [[peak.name for peak in peaks] for peaks in (found.near, found.over)] == names
    assert [finding.severity for finding in found.findings("m")] == (
        ["warning"] if names[1] else ["note"] if names[0] else []
    )


def test_negative_values_and_casts_count(tmp_path: Path) -> None:
    text = """g (float[4] x) => (float[4] y) <float far = {-100000}> {
        m = Mul(x, far) s = Sub(m, m) b = Add(s, far) c = Cast<to=10>(b) n = Tanh(c) y = Cast<to=1>(n) }"""
    assert over(looked_at(model(text), tmp_path)) == [("c", "Cast")]


def test_a_float32_island_may_hold_what_it_likes(tmp_path: Path) -> None:
    text = START % 300 + "w = Cast<to=1>(h) q = Mul(w, w) r = Sqrt(q) c = Cast<to=10>(r) y = Cast<to=1>(c) }"
    assert over(looked_at(model(text), tmp_path)) == []


def test_weights_that_are_only_stored_as_float16_are_not_looked_at(tmp_path: Path) -> None:
    proto = lean()
    for tensor in list(proto.graph.initializer):
        half = numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), f"{tensor.name}.h")
        proto.graph.initializer.append(half)
        proto.graph.node.insert(0, helper.make_node("Cast", [half.name], [tensor.name], to=TensorProto.FLOAT))
    names = {f"w{number}.h" for number in range(2)}
    kept = [tensor for tensor in proto.graph.initializer if tensor.name in names]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    assert looked_at(proto, tmp_path) is None
    assert looked_at(lean(), tmp_path) is None


MASK = """g (float[1,4] x) => (float[1,4] y) <float low32 = {-65504}, float keep32 = {0,0,1,1}> {
    h = Cast<to=10>(x) low = Cast<to=10>(low32) one = Cast<to=10>(keep32) m = Mul(one, low)
    s = Add(m, m) t = Add(h, s) %s y = Cast<to=1>(p) }"""


def test_masks_before_a_softmax_are_no_overflow(tmp_path: Path) -> None:
    text = MASK.replace("float keep32", "float[4] keep32")
    found = looked_at(model(text % "p = Softmax(t)"), tmp_path)
    assert over(found) == []
    assert over(looked_at(model(text % "u = Mul(t, one) p = Softmax(u)"), tmp_path)) != []


IF = """g (float[4] x) => (float[4] y) <float k32 = {300}, float none = {0}> {
    r = ReduceSum<keepdims=0>(x) c = Less(none, r) k = Cast<to=10>(k32) i = Cast<to=10>(x)
    o = If (c) <then_branch = t () => (float16[4] a) { q = Mul(k, k) n = Div(q, k) a = Add(n, i) },
                else_branch = e () => (float16[4] b) { j = Add(k, i) b = Sub(j, k) }>
    y = Cast<to=1>(o) }"""
LOOP = """g (float[4] x) => (float[4] y) <int64 n = {3}, bool go = {1}, float k32 = {60}> {
    k = Cast<to=10>(k32) f = Cast<to=10>(x) i = Clip(f, k) u = Add(k, k) s = Add(i, u) m = Min(s, u)
    o = Loop (n, go, m) <body = b (int64 at, bool c, float16[4] a) => (bool d, float16[4] p) {
        d = Identity(c) p = Mul(a, k) }>
    z = Tanh(o) y = Cast<to=1>(z) }"""
SCAN = """g (float[4,2] x) => (float[2] y, float[4,2] all) <float k32 = {40000, 40000}> {
    k = Cast<to=10>(k32) f = Cast<to=10>(x)
    o, l = Scan <num_scan_inputs=1, body = b (float16[2] a, float16[2] v) => (float16[2] p, float16[2] w) {
        t = Tanh(v) g = Abs(t) r = Min(a, k) p = Add(r, k) w = Identity(g) }> (k, f)
    e = Tanh(o) y = Cast<to=1>(e) all = Cast<to=1>(l) }"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (IF, [("q", "Mul")]),
        (LOOP, [("p", "Mul")]),
        (SCAN.replace("float k32", "float[2] k32"), [("p", "Add")]),
    ],
)
def test_branches_and_loops_are_looked_into(
    tmp_path: Path, text: str, expected: list[tuple[str, str]]
) -> None:
    assert over(looked_at(model(text), tmp_path)) == expected


WITH_OWN = '<ir_version: 8, opset_import: ["": 17, "own": 1]>\n'
FUNCTION = """
<domain: "own", opset_import: ["": 17]>
squared (a) => (b) { b = Mul(a, a) }"""


def test_functions_are_looked_into_where_they_are_given_float16(tmp_path: Path) -> None:
    """One call is in float32, where the same square is harmless."""
    text = START % 300 + "w = Cast<to=1>(h) v = own.squared(w) q = own.squared(h) d = Div(q, h)"
    text += " e = Cast<to=1>(d) y = Add(e, v) }" + FUNCTION
    (peak,) = over(looked_at(model(text, head=WITH_OWN), tmp_path))
    assert peak == ("q", "Mul")


def test_functions_that_multiply_without_end_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = "\n".join(
        f'<domain: "own", opset_import: ["": 17, "own": 1]>\nf{n} (a) => (b) '
        f"{{ c = own.f{n + 1}(a) b = own.f{n + 1}(c) }}"
        for n in range(6)
    )
    last = '\n<domain: "own", opset_import: ["": 17]>\nf6 (a) => (b) { b = Neg(a) }'
    text = START % 2 + "q = own.f0(h) y = Cast<to=1>(q) }\n" + calls + last
    monkeypatch.setattr(float16, "_MOST", 50)
    found = looked_at(model(text, head=WITH_OWN), tmp_path)
    assert found is not None
    assert "more than 50 nodes" in found.unseen
    assert [finding.severity for finding in found.findings("m")] == ["note"]


def test_empty_values_infinity_and_nan_are_no_trouble(tmp_path: Path) -> None:
    text = (
        START % 300
        + """
        zero = Sub(k, k) inf = Div(k, zero) nan = Mul(inf, zero) lots = Add(h, inf)
        at = Constant<value = int64[1] {0}>() nothing = Slice(h, at, at) empty = Mul(nothing, k)
        both = Concat<axis=0>(lots, h, empty) q = Mul(both, both) four = Constant<value = int64[1] {4}>()
        eight = Constant<value = int64[1] {8}>() r = Slice(q, four, eight)
        d = Div(r, h) y = Cast<to=1>(d) }"""
    )
    assert ("q", "Mul") in over(looked_at(model(text), tmp_path))


@pytest.mark.sampled(0)
def test_what_integers_come_to_is_no_matter(tmp_path: Path) -> None:
    text = """g (float[200000] x) => (int64[2] y) <int64 two = {2}> {
        h = Cast<to=10>(x) n = Neg(h) s = Exp(n) t = Sqrt(s) v, y = TopK(t, two) }"""
    found = looked_at(model(text.replace("int64 two", "int64[1] two")), tmp_path)
    assert over(found) == []


def test_stored_tensors_of_every_kind(tmp_path: Path) -> None:
    """Large and small, in Constants, as defaults of inputs, outside of the file."""
    big = np.full((64, 64), 40.0, np.float16)
    nodes = [
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(big)),
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Max", ["a", "least"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["first"]),
        helper.make_node("MatMul", ["first", "c"], ["second"]),
        helper.make_node("Tanh", ["second"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, [1, 64]) for name in "xy"]
    inputs = [values[0], helper.make_tensor_value_info("least", TensorProto.FLOAT16, [1])]
    stored = [numpy_helper.from_array(big, "w"), numpy_helper.from_array(np.ones(1, np.float16), "least")]
    graph = helper.make_graph(nodes, "g", inputs, values[1:], stored)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert ("second", "MatMul") in over(looked_at(proto, tmp_path))
    save_outside(proto, tmp_path / "outside.onnx")
    with open_model(tmp_path / "outside.onnx") as opened, Runner() as runner:
        found = Prover(Rule(pattern="m"), opened, runner, tmp_path, home=tmp_path).float16
    assert ("second", "MatMul") in over(found)


def test_operators_of_onnxruntime_itself(tmp_path: Path) -> None:
    text = START % 300 + "q = com.microsoft.FastGelu(h) r = Mul(q, h) d = Div(r, h) y = Cast<to=1>(d) }"
    head = '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>\n'
    assert over(looked_at(model(text, head=head), tmp_path)) == [("r", "Mul")]


def test_an_old_opset_is_said(tmp_path: Path) -> None:
    head = HEAD.replace("17", "8")
    found = looked_at(model(square(300), head=head), tmp_path)
    assert found is not None
    assert "before 9" in found.unseen


def test_a_twin_that_onnxruntime_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float16, "write_runnable", lambda _, path: path.write_bytes(b"no model"))
    found = looked_at(model(square(300)), tmp_path)
    assert found is not None
    assert "could not be run" in found.unseen
    assert "could not be looked at" in found.findings("m")[0].message


def test_too_many_values_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float16, "_MOST", 2)
    found = looked_at(model(square(300)), tmp_path)
    assert found is not None
    assert "2 are the most" in found.unseen


def checked(folder: Path, proto: onnx.ModelProto, rule: str = "    methods: []\n") -> Any:
    save(proto, folder / "m.onnx")
    write_policy(folder, rule)
    done = call("check", "m.onnx", "--format", "json", cwd=folder)
    return done.code, done.json["models"][0]


def codes(outcome: Any) -> list[tuple[str, str]]:
    """Of its findings, but for what onnxruntime makes of the graph."""
    findings = [(finding["code"], finding["severity"]) for finding in outcome["findings"]]
    return [found for found in findings if found[0] != "OCI030"]


def test_check_warns_of_the_users_own_model_and_remembers(tmp_path: Path) -> None:
    for _ in range(2):
        code, outcome = checked(tmp_path, model(square(300)))
        assert (code, outcome["verdict"], codes(outcome)) == (0, "ok", [("OCI056", "warning")])
        assert "float32" in outcome["findings"][0]["hint"]
    code, outcome = checked(tmp_path, model(square(3)))
    assert (code, codes(outcome)) == (0, [])
    code, outcome = checked(tmp_path, model(square(300)), "    methods: []\n    load_check: off\n")
    assert (code, codes(outcome)) == (0, [])


def test_a_twin_past_its_limits_is_said_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Runner.run

    def too_slow(self: Runner, model: Path, *arguments: Any, **settings: Any) -> Any:
        if model.name == "twin.onnx":
            raise RunFailed("timeout", "onnxruntime took longer than 60 s")
        return run(self, model, *arguments, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(Runner, "run", too_slow)
        code, outcome = checked(tmp_path, model(square(300)))
        assert (code, codes(outcome)) == (0, [("OCI056", "note")])
        assert "took longer than 60 s" in outcome["findings"][0]["message"]
    code, outcome = checked(tmp_path, model(square(300)))
    assert (code, codes(outcome)) == (0, [("OCI056", "warning")])


@pytest.mark.sampled(0)
def test_a_candidate_that_was_looked_at_speaks_for_the_model(tmp_path: Path) -> None:
    """Rounded weights next to a float16 part; the finding is there once, whichever was looked at."""
    wide = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], np.linspace(-1, 1, 4096).astype(np.float32))
    text = """g (float[1,64] x) => (float[1,64] y) <float k32 = {%s}> {
        m = MatMul(x, w) t = Tanh(m) i = Cast<to=10>(t) k = Cast<to=10>(k32) h = Add(i, k) q = Mul(h, h)
        d = Div(q, k) s = Sub(d, k) y = Cast<to=1>(s) }"""
    for value, expected in ((300, [("OCI056", "warning")]), (3, [])):
        proto = model(text % value)
        proto.graph.initializer.append(wide)
        save(proto, tmp_path / "m.onnx")
        write_policy(tmp_path, "    methods: [fp16-weights]\n    shrink: smallest\n")
        done = call("fix", "m.onnx", "--format", "json", cwd=tmp_path)
        outcome = done.json["models"][0]
        assert (done.code, outcome["verdict"]) == (0, "shrunk"), done.out
        assert codes(outcome) == expected


def compared(folder: Path, first: str, second: str) -> Done:
    save(model(first), folder / "a.onnx")
    save(model(second), folder / "b.onnx")
    return call("compare", "a.onnx", "b.onnx", "--format", "json", cwd=folder)


SINGLE_SQUARE = """g (float[4] x) => (float[4] y) <float k = {%s}> {
    t = Tanh(x) h = Add(t, k) q = Mul(h, h) y = Div(q, k) }"""
HALF_SQUARE = """g (float[4] x) => (float[4] y) <float k32 = {%s}> {
    k = Cast<to=10>(k32) i = Cast<to=10>(x) t = Tanh(i) h = Add(t, k) q = Mul(h, h) d = Div(q, k)
    y = Cast<to=1>(d) }"""


@pytest.mark.sampled(0)
def test_compare_refuses_a_conversion_that_overflows(tmp_path: Path) -> None:
    done = compared(tmp_path, SINGLE_SQUARE % 300, HALF_SQUARE % 300)
    assert (done.code, codes(done.json)) == (1, [("OCI056", "error")]), done.out
    assert "'q' (Mul)" in done.json["findings"][0]["message"]
    assert done.json["verification"]["float16"]["over"][0]["name"] == "q"
    # What overflows already is not made worse.
    done = compared(tmp_path, HALF_SQUARE % 300, HALF_SQUARE % 300)
    assert (done.code, codes(done.json)) == (0, [("OCI056", "warning")]), done.out
    done = compared(tmp_path, SINGLE_SQUARE % 3, HALF_SQUARE % 3)
    assert (done.code, codes(done.json)) == (0, []), done.out
    assert done.json["verification"]["float16"]["values"] > 2
