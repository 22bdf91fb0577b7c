"""Tensor by tensor, however it is stored: which were changed, and which of them outputs tell of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ci import compare
from onnx_ci.methods.edit import probe
from onnx_ci.model.load import open_model
from onnx_ci.model.save import write_model
from onnx_ci.policy.schema import InputSpec, Limits, Tolerance
from onnx_ci.sandbox.runner import Runner
from onnx_ci.verify import damage
from onnx_ci.verify.damage import Rebuilt, StoredTensor, changed_tensors, plain_copy, stored_tensors
from onnx_ci.verify.reference import Reference
from onnx_ci.verify.sensitivity import TensorCoverage, grouped
from onnx_ci.verify.verifier import Verifier
from tests.traps.base import weight

HEAD = '<ir_version: %d, opset_import: ["": 21, "own": 1]>\n'
FORMS = {
    "float64": "g (double[2,4] x) => (double[2,4] y) <double[4] w = {1,2,3,4}> { y = Mul(x, w) }",
    "float16": "g (float16[2,4] x) => (float16[2,4] y) <float16[4] w = {1,2,3,4}> { y = Mul(x, w) }",
    "bfloat16": """g (float[2,4] x) => (float[2,4] y) <bfloat16[4] w = {1,2,3,4}> {
        f = Cast <to = 1> (w) y = Mul(x, f) }""",
    "uint8 codes": """g (float[2,4] x) => (float[2,4] y) <uint8[4] w = {1,2,3,4}, float s = {0.1}> {
        f = DequantizeLinear(w, s) y = Mul(x, f) }""",
    "a zero point": """g (float[2,4] x) => (float[2,4] y)
        <int8[4] q = {1,2,3,4}, float s = {0.1}, int8 w = {0}> {
        f = DequantizeLinear(q, s, w) y = Mul(x, f) }""",
    "a scalar": "g (float[2,4] x) => (float[2,4] y) <float w = {0.5}> { y = Mul(x, w) }",
    "value_float": "g (float[2,4] x) => (float[2,4] y) { w = Constant <value_float = 0.5> () y = Mul(x, w) }",
    "value_floats": """g (float[2,4] x) => (float[2,4] y) {
        w = Constant <value_floats = [0.5, 1.5, 2.5, 3.5]> () y = Mul(x, w) }""",
    "a Constant": """g (float[2,4] x) => (float[2,4] y) {
        w = Constant <value = float[4] {0.5, 1.5, 2.5, 3.5}> () y = Mul(x, w) }""",
    "a bias of zeros": "g (float[2,4] x) => (float[2,4] y) <float[4] w = {0,0,0,0}> { y = Add(x, w) }",
    "a function": """g (float[2,4] x) => (float[2,4] y) { y = own.f (x) }
        <domain: "own", opset_import: ["": 21]> f (a) => (b) {
            w = Constant <value = float[4] {0.5, 1.5, 2.5, 3.5}> () b = Mul(a, w) }""",
    "an input too": """g (float[2,4] x, float[4] w) => (float[2,4] y) <float[4] w = {1,2,3,4}> {
        y = Mul(x, w) }""",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("g (float[B,3,8,8] x, float[4,3,3,3] w) => (float[B,4,6,6] y) { y = Conv(x, w) }", 2 * 36 * 108),
        (
            "g (float[B,3,8,8] x, float[3,4,2,2] w) => (float[B,4,9,9] y) { y = ConvTranspose(x, w) }",
            2 * 64 * 48,
        ),
        ("g (float[B,5,8] x, float[8,7] w) => (float[B,5,7] y) { y = MatMul(x, w) }", 2 * 5 * 8 * 7),
        ("g (float[B,8] x, float[7,8] w) => (float[B,7] y) { y = Gemm <transB = 1> (x, w) }", 2 * 8 * 7),
        ("g (float[B,8] x, float[8] w) => (float[B,8] y) { y = Mul(x, w) }", 0),
    ],
)
def test_multiplications_of_a_run_are_counted(text: str, expected: int) -> None:
    proto = onnx.parser.parse_model(HEAD % 10 + text)
    shapes = {
        value.name: [dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim]
        for value in proto.graph.input
    }
    assert damage.multiplications(proto, shapes) == expected


def test_tensors_of_a_model_that_multiplies_much_are_damaged_with_their_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"w{number}" for number in range(16)]
    nodes = [
        helper.make_node("MatMul", [before, name], [after])
        for before, name, after in zip(
            ["x", *[f"h{number}" for number in range(15)]],
            names,
            [*[f"h{number}" for number in range(15)], "y"],
            strict=True,
        )
    ]
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(np.linalg.qr(rng.standard_normal((8, 8)))[0].astype(np.float32), name)
        for name in names
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 8]) for name in "xy"]
    before = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], weights), ir_version=10)
    before.opset_import[0].version = 21
    after = onnx.ModelProto()
    after.CopyFrom(before)
    for tensor in after.graph.initializer:
        values = numpy_helper.to_array(tensor) * np.float32(1 + 1e-6)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for name, proto in (("a", before), ("b", after)):
        onnx.save(proto, tmp_path / f"{name}.onnx")
    found = []
    for products in (10**12, 1):
        monkeypatch.setattr("onnx_ci.verify.sensitivity.PRODUCTS", products)
        verification = compare(tmp_path / "a.onnx", tmp_path / "b.onnx").verification
        coverage = verification.coverage
        assert coverage is not None, verification.reason
        assert coverage.noticed == coverage.changed == 32
        found.append((coverage.runs, coverage.alone))
    assert found == [(32, True), (24, False)]


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as runner:
        yield runner


@pytest.fixture
def states(runner: Runner, tmp_path: Path) -> Callable[..., dict[str, str]]:
    def states(proto: onnx.ModelProto, *names: str, ready: Collection[str] = ()) -> dict[str, str]:
        onnx.save(proto, tmp_path / "m.onnx")
        with open_model(tmp_path / "m.onnx") as found:
            plain = plain_copy(found)
            reference = Reference(
                runner, found.path, found.proto, spec=InputSpec(), limits=Limits(), root=tmp_path
            )
            whole = TensorCoverage(plain, Verifier(reference), tmp_path / "scratch")
            if ready:
                made, inputs = probe(found, ready)
                write_model(made, tmp_path / "probe.onnx")
                whole.ready = tmp_path / "probe.onnx", inputs
            items = [item for item in stored_tensors(plain) if item.name in names]
            told, _ = whole.ask(
                items, Tolerance(cosine=0.999), lambda left: Rebuilt(far={i.key for i in left})
            )
            return {item.name: told[item.key] for item in items}

    return states


@pytest.mark.parametrize("form", FORMS)
def test_a_tensor_is_found_and_damaged_however_it_is_stored(
    states: Callable[..., dict[str, str]], form: str
) -> None:
    ir = 3 if form == "an input too" else 10
    proto = onnx.parser.parse_model(HEAD % ir + FORMS[form])
    assert states(proto, "w") == {"w": "noticed"}


@pytest.mark.parametrize("ready", ["v", "vw"])
def test_a_session_that_trials_had_is_used_where_it_has_all_tensors(
    states: Callable[..., dict[str, str]], runner: Runner, ready: str
) -> None:
    text = """g (float[2,4] x) => (float[2,4] y) <float[4] w = {1,2,3,4}, float[4] v = {1,2,3,4}> {
        a = Mul(x, v) y = Add(a, w) }"""
    asked: list[Path] = []
    ask = runner.ask

    def noted(job: str, models: list[Path], *args: Any, **more: Any) -> dict[str, Any]:
        asked.extend(models)
        return ask(job, models, *args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "ask", noted)
        proto = onnx.parser.parse_model(HEAD % 10 + text)
        assert states(proto, "w", "v", ready=ready) == {"w": "noticed", "v": "noticed"}
    folders = {path.parent.name for path in asked if path.name == "probe.onnx"}
    assert ("scratch" in folders) == (ready == "v")


def test_sparse_weights_are_damaged_too(states: Callable[..., dict[str, str]]) -> None:
    proto = onnx.parser.parse_model(HEAD % 10 + "g (float[2,4] x) => (float[2,4] y) { y = Mul(x, w) }")
    values = numpy_helper.from_array(np.array([1, 2], np.float32), "w")
    indices = numpy_helper.from_array(np.array([1, 3], np.int64), "i")
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    assert states(proto, "w") == {"w": "noticed"}


def test_what_is_multiplied_by_nothing_is_not_seen(states: Callable[..., dict[str, str]]) -> None:
    """All of it runs, in one graph; still no output depends on it."""
    text = """g (float[2,4] x) => (float[2,4] y)
        <float[4] w = {1,2,3,4}, float[4] v = {1,2,3,4}, float z = {0}> {
        a = Mul(x, v) b = Mul(x, w) c = Mul(b, z) y = Add(a, c) }"""
    proto = onnx.parser.parse_model(HEAD % 10 + text)
    assert states(proto, "w", "v") == {"w": "unseen", "v": "noticed"}


def test_a_small_part_of_an_output_is_seen_if_only_faintly(states: Callable[..., dict[str, str]]) -> None:
    text = """g (float[2,4] x) => (float[2,4] y) <float[4] w = {1,2,3,4}, float z = {0.0000001}> {
        b = Mul(x, w) c = Mul(b, z) y = Add(x, c) }"""
    assert states(onnx.parser.parse_model(HEAD % 10 + text), "w") == {"w": "faint"}


def test_what_is_near_need_not_be_noticed_and_what_is_far_is_asked_again(
    runner: Runner, tmp_path: Path
) -> None:
    """All inputs and other damage are for what is far from what it was."""
    text = """g (float[2,4] x) => (float[2,4] y)
        <float[4] w = {1,2,3,4}, float[4] v = {1,2,3,4}, float z = {0.0000001}> {
        a = Mul(x, v) b = Mul(a, w) c = Mul(b, z) y = Add(x, c) }"""
    onnx.save(onnx.parser.parse_model(HEAD % 10 + text), tmp_path / "m.onnx")
    with open_model(tmp_path / "m.onnx") as found:
        reference = Reference(
            runner, found.path, found.proto, spec=InputSpec(), limits=Limits(), root=tmp_path
        )
        whole = TensorCoverage(plain_copy(found), Verifier(reference), tmp_path / "scratch")
        items = [item for item in stored_tensors(whole.model) if item.name in "wv"]
        keys = {item.key for item in items}

        def runs_for(rebuilt: Rebuilt) -> int:
            done = whole.runs
            told, _ = whole.ask(items, Tolerance(cosine=0.999), lambda _: rebuilt)
            assert set(told.values()) == {"faint"}
            return whole.runs - done

        near, far = Rebuilt(), Rebuilt(far=keys)
        runs = [runs_for(rebuilt) for rebuilt in (near, near, far, far, Rebuilt(keys=keys))]
    assert runs == [5, 0, 6, 0, 0]


def test_groups_never_span_two_graphs() -> None:
    """A weight is in the graph that reads it, wherever it is stored."""
    readers = [0] * 9 + [3] * 2
    items = [StoredTensor(0, str(number), TensorProto(), reader) for number, reader in enumerate(readers)]
    for most in (1, 2, 5, 11, 50):
        groups = list(grouped(items, most))
        assert [item for group in groups for item in group] == items
        assert all(len({item.read_in for item in group}) == 1 for group in groups)
        assert len(groups) == min(max(most, 2), 11)


def test_a_weight_that_only_a_branch_reads_is_read_there(tmp_path: Path) -> None:
    text = """g (float[2,4] x, bool c) => (float[2,4] y) <float[4] w = {1,2,3,4}, float[4] v = {1,2,3,4}> {
        h = Mul(x, w) y = If (c) <then_branch = t () => (float[2,4] a) { a = Mul(h, v) },
        else_branch = e () => (float[2,4] b) { b = Identity(h) }> }"""
    onnx.save(onnx.parser.parse_model(HEAD % 10 + text), tmp_path / "m.onnx")
    with open_model(tmp_path / "m.onnx") as found:
        assert {item.name: item.read_in for item in stored_tensors(found)} == {"w": 0, "v": 1}


def names_changed(folder: Path, before: onnx.ModelProto, after: onnx.ModelProto) -> list[str]:
    for name, proto in (("a", before), ("b", after)):
        onnx.save(proto, folder / f"{name}.onnx")
    with open_model(folder / "a.onnx") as one, open_model(folder / "b.onnx") as other:
        return [item.name for item in changed_tensors(plain_copy(one), plain_copy(other))]


def two(**values: np.ndarray) -> onnx.ModelProto:
    """A model that adds all its tensors to its input."""
    nodes, last = [], "x"
    for name in values:
        nodes.append(helper.make_node("Add", [last, name], [f"{name}+"]))
        last = f"{name}+"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 64])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def test_what_counts_as_changed(tmp_path: Path) -> None:
    a, b = weight(64, 64, seed=1), weight(64, 64, seed=2)
    assert names_changed(tmp_path, two(a=a, b=b), two(a=a, b=b)) == []
    assert names_changed(tmp_path, two(a=a, b=b), two(a=a, b=b + 1)) == ["b"]
    assert names_changed(tmp_path, two(a=a, b=b), two(a=b, b=a)) == ["a", "b"]
    assert names_changed(tmp_path, two(a=a, b=b), two(a=a, other=b)) == []
    assert names_changed(tmp_path, two(a=a, b=a), two(a=a)) == []  # the same bytes are stored still
    assert names_changed(tmp_path, two(a=a, b=b), two(a=a)) == ["b"]
    eps = np.array([1e-5], np.float32)
    assert names_changed(tmp_path, two(a=a, eps=eps), two(a=a)) == []  # fused away
    assert names_changed(tmp_path, two(a=a, eps=eps), two(a=a, eps=eps * 2)) == ["eps"]


def test_what_no_output_needs_is_never_missed(tmp_path: Path) -> None:
    before = two(a=weight(64, 64, seed=1))
    before.graph.initializer.append(numpy_helper.from_array(weight(64, 64, seed=2), "dead"))
    assert names_changed(tmp_path, before, two(a=weight(64, 64, seed=1))) == []


MEASURED = (
    '<ir_version: 10, opset_import: ["": 21]> g (float[2,16] x) => (float[16,2] y)'
    " <float[2,16] w = {%s}, %s> {%s z = Mul(x, w) y = Reshape(z, s) }"
)
STORED = {
    "as it is": ("float[16,2] m = {%s}", " s = Shape (m)"),
    "in another type": ("double[16,2] h = {%s}", " m = Cast <to = 1> (h) s = Shape (m)"),
    "folded": ("int64[2] s = {16,2}", ""),
}


@pytest.mark.parametrize("form", STORED)
def test_a_tensor_of_which_only_the_shape_is_asked_for_may_hold_anything(tmp_path: Path, form: str) -> None:
    numbers = ",".join(f"{number}.5" for number in range(32))
    for name, (stored, read), values in (
        ("a", STORED["as it is"], ",".join(["1.5"] * 32)),
        ("b", STORED[form], ",".join(["0.5"] * 32)),
    ):
        tensor = stored % values if "%s" in stored else stored
        proto = onnx.parser.parse_model(MEASURED % (numbers, tensor, read))
        onnx.save(proto, tmp_path / f"{name}.onnx")
    found = compare(tmp_path / "a.onnx", tmp_path / "b.onnx", tolerance={"cosine": 0.999})
    assert found.verdict == "ok", found.verification.reason


def test_integers_in_another_type_are_the_same(tmp_path: Path) -> None:
    text = "g (float[2,4] x) => (float[4,2] y) <%s[2] s = {%s}> { i = Cast <to = 7> (s) y = Reshape(x, i) }"
    long, short, other = (
        onnx.parser.parse_model(HEAD % 10 + text % pair)
        for pair in (("int64", "4,2"), ("int32", "4,2"), ("int64", "-1,2"))
    )
    assert names_changed(tmp_path, long, short) == []
    assert names_changed(tmp_path, long, other) == ["s"]


@pytest.mark.parametrize("how", [damage.scramble, damage.randomize])
@pytest.mark.parametrize("kind", ["float32", "float16", "float64", "int8", "uint8", "int64", "bool"])
def test_nothing_is_left_as_it_was_and_the_type_stays(
    how: Callable[[np.ndarray], np.ndarray], kind: str
) -> None:
    for values in ([0], [7], [1, 1], [0, 1, 0], [[1, 2], [3, 4]], 3):
        before = np.array(values).astype(kind)
        after = how(before)
        assert (after.dtype, after.shape) == (before.dtype, before.shape)
        assert not np.array_equal(after, before)
        assert np.array_equal(how(before), after)
