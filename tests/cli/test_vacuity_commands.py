"""What users see where weights are changed that no input reaches: spared, named, never passed over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnx_ci import compare
from onnx_ci.model.graph import tensors
from tests.support.cli import Done, call
from tests.traps.base import model, weight

pytestmark = pytest.mark.sampled(4)

BRANCH = """g (float[n,64] x, int64 k) => (float[n,64] y) { h = MatMul(x, W)
    m = Constant<value_int = 9973>() r = Mod(k, m) t = Constant<value_int = 8191>() c = Equal(r, t)
    y = If (c) <then_branch = t () => (float[n,64] a) { a = MatMul(h, A) },
    else_branch = e () => (float[n,64] b) { b = Identity(h) }> }"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model whose weight A no sample reaches."""
    onnx.save(branch(), tmp_path / "m.onnx")
    np.savez(tmp_path / "s.npz", x=weight(2, 64, seed=3, scale=1.0), k=np.array(0))
    return tmp_path


def branch(*, off: float = 0.0) -> onnx.ModelProto:
    a = weight(64, 64, seed=2) + np.float32(off)
    return model(BRANCH, {"W": weight(64, 64, seed=1), "A": a.astype(np.float32)})


def shrink(folder: Path, methods: str, *more: str) -> Done:
    given = ("--methods", methods, "--plan-seconds", "0", "--samples", "s.npz", "--no-cache")
    return call("shrink", "m.onnx", "out.onnx", *given, "--format", "json", *more, cwd=folder)


METHODS = (
    *("fp16-weights", "int8-weights", "int4-weights:min_elements=1024", "round-mantissa", "float-levels"),
    *("dynamic-int8", "static-int8"),
)


@pytest.mark.parametrize("method", METHODS)
def test_what_no_input_reaches_stays_as_it_is(folder: Path, method: str) -> None:
    done = shrink(folder, method, "--tolerance", "cosine=0.98")
    assert done.code == 0, done.out
    stored = {t.name: t for t in tensors(onnx.load(folder / "out.onnx"))}
    assert np.array_equal(numpy_helper.to_array(stored["A"]), weight(64, 64, seed=2))
    if done.json["written"]:
        assert done.json["verification"]["coverage"]["unseen"] == []
        assert done.json["verification"]["coverage"]["noticed"] == 1
        assert "W" not in stored or method in ("round-mantissa", "float-levels")


def test_what_can_not_be_spared_is_not_verified(folder: Path) -> None:
    """A weight of float64 in a branch that is not taken; `downcast` takes all or nothing."""
    text = BRANCH.replace("float[", "double[")
    stored = {"W": weight(64, 64, seed=1).astype(np.float64), "A": np.random.default_rng(0).random((64, 64))}
    onnx.save(model(text, stored), folder / "m.onnx")
    np.savez(folder / "s.npz", x=np.random.default_rng(1).random((2, 64)), k=np.array(0))
    done = shrink(folder, "downcast")
    assert (done.code, done.json["verdict"]) == (1, "unverified")
    assert "'A'" in done.json["findings"][0]["message"]
    assert "--samples F.npz" in done.json["findings"][0]["hint"]
    assert not (folder / "out.onnx").exists()
    unchecked = shrink(folder, "downcast", "--no-verify")
    assert (unchecked.code, unchecked.json["verification"]["status"]) == (0, "not_run")


def test_exact_methods_need_no_input_that_reaches(folder: Path) -> None:
    proto = branch()
    proto.graph.initializer.append(numpy_helper.from_array(weight(64, 64, seed=2), "copy"))
    proto.graph.node[-1].attribute[1].g.node[0].CopyFrom(
        onnx.helper.make_node("MatMul", ["h", "copy"], ["b"])
    )
    onnx.save(proto, folder / "m.onnx")
    done = shrink(folder, "dedupe")
    assert (done.code, done.json["verification"]["status"]) == (0, "passed")


def test_the_report_says_what_was_covered_and_what_outputs_are(folder: Path) -> None:
    text = "g (float[n,64] x) => (float[n,64] y, float[n,64] z) { y = MatMul(x, W) z = Identity(x) }"
    onnx.save(model(text, {"W": weight(64, 64, seed=1)}), folder / "m.onnx")
    done = call("shrink", "m.onnx", "out.onnx", "--methods", "fp16-weights", "--no-cache", cwd=folder)
    assert "1 changed tensor, as damage by rounding told when they were planned: 1 noticed" in done.out
    call_again = (
        "shrink",
        "m.onnx",
        "out.onnx",
        "--methods",
        "fp16-weights",
        "--plan-runs",
        "0",
        "--no-cache",
    )
    done = call(*call_again, cwd=folder)
    assert "1 changed tensor, damaged on purpose: 1 noticed (1 run)" in done.out
    assert "did not move when the weights were damaged: it repeats an input" in done.out
    other = call("compare", "m.onnx", "out.onnx", cwd=folder)
    assert other.code == 0, other.out
    assert "it repeats an input" in other.out


def test_compare_does_not_pass_what_it_can_not_see(folder: Path) -> None:
    onnx.save(branch(off=0.5), folder / "other.onnx")
    same = call("compare", "m.onnx", "m.onnx", "--samples", "s.npz", cwd=folder)
    assert same.code == 0, same.out
    done = call("compare", "m.onnx", "other.onnx", "--samples", "s.npz", "--format", "json", cwd=folder)
    assert (done.code, done.json["verdict"]) == (1, "unverified")
    assert "'A'" in done.json["findings"][0]["message"]
    assert done.json["verification"]["coverage"]["unseen"] == ["A"]


def test_compare_of_models_that_only_echo(tmp_path: Path) -> None:
    text = "g (float[2,64] x) => (float[2,64] y) { dead = MatMul(x, W) z = Mul(dead, zero) y = Sub(x, z) }"
    zero = {"zero": np.zeros((), np.float32)}
    one, other = (model(text, {"W": weight(64, 64, seed=seed), **zero}) for seed in (1, 2))
    found = compare(one, other)
    assert found.verdict == "unverified"
    assert compare(one, one).verdict == "ok"


def test_compare_looks_at_what_only_the_second_model_has(tmp_path: Path) -> None:
    """Another branch that no input takes, with weights of its own: nothing vouches for it."""
    plain = model("g (float[2,64] x) => (float[2,64] y) { y = MatMul(x, W) }", {"W": weight(64, 64, seed=1)})
    text = """g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W)
        y = If (c) <then_branch = t () => (float[2,64] a) { a = MatMul(h, A) },
        else_branch = e () => (float[2,64] b) { b = Identity(h) }> }"""
    stored = {"W": weight(64, 64, seed=1), "A": weight(64, 64, seed=2), "c": np.array(False)}
    found = compare(plain, model(text, stored))
    assert found.verdict == "unverified"
    assert "'A'" in found.findings[0].message


def test_compare_takes_what_is_computed_from_other_bytes_for_the_same(folder: Path) -> None:
    """Half of the bytes, and the same bits when decoded; no input has to reach it to see that."""
    proto = branch()
    (stored,) = (tensor for tensor in proto.graph.initializer if tensor.name == "A")
    exact = weight(64, 64, seed=2).astype(np.float16)
    stored.CopyFrom(numpy_helper.from_array(exact.astype(np.float32), "A"))
    onnx.save(proto, folder / "m.onnx")
    assert shrink(folder, "compact").json["written"]
    assert "A" not in {t.name for t in tensors(onnx.load(folder / "out.onnx"))}
    done = call("compare", "m.onnx", "out.onnx", "--samples", "s.npz", "--format", "json", cwd=folder)
    assert (done.code, done.json["verdict"]) == (0, "ok"), done.out
    other = onnx.load(folder / "out.onnx")
    (half,) = (t for t in tensors(other) if t.data_type == onnx.TensorProto.FLOAT16)
    half.CopyFrom(numpy_helper.from_array(exact * np.float16(2), half.name))
    onnx.save(other, folder / "out.onnx")
    done = call("compare", "m.onnx", "out.onnx", "--samples", "s.npz", "--format", "json", cwd=folder)
    assert (done.code, done.json["verdict"]) == (1, "unverified")
