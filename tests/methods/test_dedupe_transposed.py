"""dedupe with `transposed`: a weight and its transpose are stored once, wherever the two are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.support.cli import onnx_ci
from tests.support.one_method import ops_at_run_time, rewrite, run_method
from tests.support.run_model import identical, outputs
from tests.traps import TRAPS, Trap, feeds_for
from tests.traps.base import Array, constant, graph, model, weight

TIED = "g (int64[2] at) => (float[2,96] y) { e = Gather(E, at) y = MatMul(e, H) }"
E = weight(96, 64, seed=1)
AT = [{"at": np.array([3, 90])}]


def transposes(path: Path) -> int:
    return sum(node.op_type == "Transpose" for node in onnx.load(path).graph.node)


def test_a_tied_embedding_is_stored_once(tmp_path: Path) -> None:
    before, after = run_method("dedupe", model(TIED, {"E": E, "H": E.T}), tmp_path, transposed=True)
    assert identical(outputs(before, AT), outputs(after, AT))
    assert ops_at_run_time(before) == ops_at_run_time(after)
    assert after.stat().st_size < 0.55 * before.stat().st_size
    rewrite("dedupe", after, tmp_path / "again.onnx", transposed=True)
    assert onnx.load(tmp_path / "again.onnx") == onnx.load(after)


def test_only_when_asked(tmp_path: Path) -> None:
    before, after = run_method("dedupe", model(TIED, {"E": E, "H": E.T}), tmp_path)
    assert onnx.load(before) == onnx.load(after)


def one_sign(values: Array) -> Array:
    other: Array = values.copy()
    other[values == 0] = -0.0
    return other


ZERO = np.where(np.arange(96 * 64).reshape(96, 64) == 70, np.float32(0), E)


@pytest.mark.parametrize("other", [one_sign(ZERO).T, E[::-1].T, E.T.astype(np.float64), E.reshape(64, 96)])
def test_another_bit_order_type_or_shape_is_another_tensor(other: Array, tmp_path: Path) -> None:
    kind = "double" if other.dtype == np.float64 else "float"
    text = f"g (int64[2] at) => (float[2,64] y, {kind}[2,96] z) {{ y = Gather(E, at) z = Gather(H, at) }}"
    before, after = run_method("dedupe", model(text, {"E": ZERO, "H": other}), tmp_path, transposed=True)
    assert onnx.load(before) == onnx.load(after)


def test_more_axes(tmp_path: Path) -> None:
    """Every order of three axes, and NaNs."""
    base = weight(8, 16, 24, seed=1)
    base[1, 2, 3] = np.nan
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    stored = {f"W{n}": base.transpose(order) for n, order in enumerate(orders)}
    shapes = [base.transpose(order).shape[1:] for order in orders]
    kinds = ", ".join(f"float[2,{a},{b}] y{n}" for n, (a, b) in enumerate(shapes))
    text = f"g (int64[2] at) => ({kinds}) {{ {' '.join(f'y{n} = Gather(W{n}, at)' for n in range(6))} }}"
    before, after = run_method("dedupe", model(text, stored), tmp_path, transposed=True)
    feeds = [{"at": np.array([1, 7])}]
    assert identical(outputs(before, feeds), outputs(after, feeds))
    assert transposes(after) == 5


def test_in_branches_and_constants(tmp_path: Path) -> None:
    """A branch may take the outer tensor; two branches can't take each other's, and stay as they are."""
    square, own = weight(64, 64, seed=1), weight(64, 64, seed=2)
    text = """g (float[2,64] x, bool c) => (float[2,64] y) { h = MatMul(x, K)
        y = If (c) <then_branch = t () => (float[2,64] p) { a = MatMul(h, T) p = MatMul(a, U) },
                    else_branch = e () => (float[2,64] q) { q = MatMul(h, V) }> }"""
    built = model(text, inside={"t": {"T": square.T, "U": own}, "e": {"V": own.T}})
    built.graph.node.insert(0, constant("K", square))
    before, after = run_method("dedupe", built, tmp_path, transposed=True)
    feeds = [{"x": weight(2, 64, seed=7), "c": np.array(way)} for way in (True, False)]
    assert identical(outputs(before, feeds), outputs(after, feeds))
    assert ops_at_run_time(before) == ops_at_run_time(after)
    assert 0.7 < after.stat().st_size / before.stat().st_size < 0.8


def test_in_a_function(tmp_path: Path) -> None:
    built = model(graph("g (float[2,64] x) => (float[2,64] y) { y = local.F(x) }"), domains={"local": 1})
    square = weight(64, 64, seed=1)
    nodes = [
        helper.make_node("Identity", ["x"], ["i"]),
        constant("K", square),
        helper.make_node("MatMul", ["i", "K"], ["h"]),
        constant("L", square.T),
        helper.make_node("MatMul", ["h", "L"], ["y"]),
    ]
    imports = [helper.make_opsetid("", 17)]
    built.functions.append(helper.make_function("local", "F", ["x"], ["y"], nodes, imports))
    before, after = run_method("dedupe", built, tmp_path, transposed=True)
    feeds = [{"x": weight(2, 64, seed=7)}]
    assert identical(outputs(before, feeds), outputs(after, feeds))
    assert after.stat().st_size < 0.6 * before.stat().st_size


@pytest.mark.sampled(9)
@pytest.mark.parametrize("trap", [trap for trap in TRAPS if trap.runs and trap.repeats], ids=lambda t: t.name)
def test_traps(trap: Trap, tmp_path: Path) -> None:
    path = trap.build(tmp_path)
    (tmp_path / "made").mkdir()
    rewrite("dedupe", path, tmp_path / "made" / "model.onnx", transposed=True)
    feeds = feeds_for(trap, path)
    assert identical(outputs(path, feeds), outputs(tmp_path / "made" / "model.onnx", feeds))


def test_from_the_command_line(tmp_path: Path) -> None:
    onnx.save(model(TIED, {"E": E, "H": E.T}), tmp_path / "m.onnx")
    arguments = ["shrink", "m.onnx", "o.onnx", "--methods", "dedupe:transposed=true", "--format", "json"]
    done = onnx_ci(*arguments, cwd=tmp_path)
    assert done.code == 0
    assert done.json["steps"][0]["tensors"] == 1
    wrong = onnx_ci("shrink", "m.onnx", "p.onnx", "--methods", "dedupe:transposed=maybe", cwd=tmp_path)
    assert wrong.code == 2
    assert "expected true or false" in wrong.err
