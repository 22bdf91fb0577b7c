"""`onnx-ci diff`: what changed between two models, from their skeletons."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ci import diff
from onnx_ci.model import diff as diffing
from onnx_ci.results import TensorChange
from onnx_ci.util.text import layers_of
from tests.support.cli import call
from tests.support.git_repo import Repository
from tests.support.models import lean, save_outside


def changed(model: onnx.ModelProto, name: str, values: np.ndarray) -> None:
    """Give a weight other values, or another name with them."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    weights[name].CopyFrom(numpy_helper.from_array(values, name))


def tensors(first: onnx.ModelProto, second: onnx.ModelProto) -> dict[str, TensorChange]:
    return {change.name: change for change in diff(first, second).tensors}


def test_all_that_changed_is_told(tmp_path: Path) -> None:
    before, after = lean(), lean(layers=3)
    after.opset_import[0].version = 18
    after.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "many"
    after.metadata_props.add(key="labels", value="a,b")
    after.graph.node[0].attribute.add(name="alpha", f=0.5, type=onnx.AttributeProto.FLOAT)
    onnx.save(before, tmp_path / "a.onnx")
    onnx.save(after, tmp_path / "b.onnx")
    done = call("diff", "a.onnx", "b.onnx", cwd=tmp_path)
    assert done.code == 0, done.err
    rows = [" ".join(line.split()) for line in done.out.splitlines()]
    assert rows[0] == "a.onnx -> b.onnx"
    assert "parameters 8,192 -> 12,288" in rows
    assert "nodes: 2 changed, 2 added" in rows
    assert "tensors: 1 added, 2 the same" in rows
    assert "input x float[batch,64] float[many,64]" in rows
    assert "ai.onnx 17 18" in rows
    assert "labels - a,b" in rows
    assert "MatMul 2 3" in rows
    assert "w2 added float[64,64] 16.4 kB" in rows
    assert "m0 MatMul MatMul alpha=0.5" in rows
    assert call("diff", "--exit-code", "a.onnx", "b.onnx", cwd=tmp_path).code == 1
    same = call("diff", "--exit-code", "a.onnx", "a.onnx", cwd=tmp_path)
    assert (same.code, "no difference" in same.out) == (0, True)


def test_how_far_values_moved_is_exact_for_small_models() -> None:
    before, after = lean(), lean()
    values = numpy_helper.to_array(before.graph.initializer[0]).copy()
    values[0, :32] *= 1.5
    values[1, 0] = np.nan
    changed(after, "w0", values)
    (change,) = diff(before, after).tensors
    was = numpy_helper.to_array(before.graph.initializer[0]).astype(np.float64)
    was[1, 0] = 0.0
    assert change.moved is not None
    assert change.moved.exact
    assert change.moved.share == 33 / 4096
    assert change.moved.not_finite == 1
    expected = np.sqrt(((0.5 * was[0, :32]) ** 2).sum() / (was**2).sum())
    assert change.moved.relative == pytest.approx(expected, rel=1e-6)
    assert change.moved.max_abs == pytest.approx(np.abs(was[0, :32]).max() / 2)
    assert change.values is not None
    assert (sum(change.values.before), sum(change.values.after)) == (4096, 4095)
    assert change.values.low == min(was.min(), np.nanmin(values))


def test_types_names_and_shapes() -> None:
    before, after = lean(), lean()
    half = numpy_helper.to_array(before.graph.initializer[0]).astype(np.float16)
    changed(after, "w0", half)
    after.graph.initializer[1].name = "other"
    found = tensors(before, after)
    assert found["w0"].after == "float16[64,64]"
    assert found["w0"].moved is not None
    assert 0 < (found["w0"].moved.relative or 0) < 1e-3
    assert (found["other"].state, found["other"].former) == ("renamed", "w1")
    changed(after, "w0", np.zeros((2, 2), np.float32))
    assert tensors(before, after)["w0"].moved is None, "nothing to compare where the shape is another"


def test_large_models_are_sampled_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = lean(width=256), lean(width=256)
    changed(after, "w0", numpy_helper.to_array(before.graph.initializer[0]) * np.float32(1.25))
    monkeypatch.setattr(diffing, "WHOLE", 1000)
    monkeypatch.setattr(diffing, "SAMPLED", 100_000)
    found = diff(before, after)
    assert not found.exact
    (change,) = found.tensors
    assert change.moved is not None
    assert change.moved.relative == pytest.approx(0.25)
    assert diff(before, after, exact=True).exact


def test_revisions_and_what_is_staged(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    (tmp_path / "sub").mkdir()
    save_outside(lean(seed=1), tmp_path / "sub/m.onnx")
    made.commit_all("one")
    save_outside(lean(seed=2), tmp_path / "sub/m.onnx")
    made.git("add", "--all")
    save_outside(lean(seed=1), tmp_path / "sub/m.onnx")
    for first, second, differs in (
        ("HEAD:sub/m.onnx", ":sub/m.onnx", True),
        ("HEAD:m.onnx", "m.onnx", False),
        ("HEAD:./m.onnx", "m.onnx", False),
    ):
        done = call("diff", "--format", "json", first, second, cwd=tmp_path / "sub")
        assert done.json["differs"] is differs, (first, second)
        assert [change["name"] for change in done.json["tensors"]] == ["w0", "w1"] * differs
    assert "no difference" in call("diff", "m.onnx", cwd=tmp_path / "sub").out, (
        "one alone is held against HEAD"
    )
    for wrong, words in (("x:m.onnx", "no revision 'x'"), ("HEAD:x", "no 'x' in HEAD"), ("x", "no file 'x'")):
        failed = call("diff", wrong, "m.onnx", cwd=tmp_path / "sub")
        assert (failed.code, words in failed.err) == (2, True), failed.err


def test_without_its_data_a_model_is_compared_as_far_as_it_goes(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        save_outside(lean(), tmp_path / name)
    data = next(path for path in tmp_path.iterdir() if path.name.startswith("b") and path.suffix != ".onnx")
    data.unlink()
    done = call("diff", "a.onnx", "b.onnx", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "no difference was found" in done.out
    assert f"b.onnx: 2 tensors not compared: {data.name}" in done.out
    assert "tensors: 0 the same" in done.out


@pytest.mark.sampled(0)
def test_git_shows_models_once_it_is_told_to(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    (tmp_path / ".gitattributes").write_text("*.onnx filter=lfs diff=lfs merge=lfs -text")
    onnx.save(lean(), tmp_path / "m.onnx")
    told = call("init", cwd=tmp_path)
    assert 'git config diff.onnx.textconv "onnx-ci diff --textconv"' in told.out
    lines = (tmp_path / ".gitattributes").read_text().splitlines()
    assert lines == ["*.onnx filter=lfs diff=lfs merge=lfs -text", "*.onnx diff=onnx"]
    (tmp_path / ".gitattributes").unlink()
    for _ in range(2):
        call("init", "--force", cwd=tmp_path)
    assert (tmp_path / ".gitattributes").read_text() == "*.onnx binary diff=onnx\n"
    assert made.git("check-attr", "merge", "diff", "--", "m.onnx").split() == [
        *("m.onnx:", "merge:", "unset"),
        *("m.onnx:", "diff:", "onnx"),
    ]
    shown = call("diff", "--textconv", "m.onnx", cwd=tmp_path).out.splitlines()
    assert "node m0 = MatMul(x, w0)" in shown
    assert any(line.startswith("tensor w0: float[64,64] 16,384 bytes, sha256 ") for line in shown)
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    done = call("diff", "--textconv", "broken.onnx", cwd=tmp_path)
    assert (done.code, "not an ONNX model" in done.out) == (0, True), "a failure would end git's diff"


def test_hostile_names_give_no_commands(tmp_path: Path) -> None:
    bad = "::error::\x1b[31m|<script>alert(1)</script>\n### @all"
    node = helper.make_node("Identity", ["x"], [bad])
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", bad)]
    weight = numpy_helper.from_array(np.zeros(1, np.float32), bad + "w")
    graph = helper.make_graph([node], "g", value[:1], value[1:], [weight])
    hostile = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    hostile.metadata_props.add(key=bad, value=bad)
    onnx.save(lean(), tmp_path / "a.onnx")
    onnx.save(hostile, tmp_path / "b.onnx")
    for kind in ("text", "markdown", "html", "json"):
        shown = call("diff", "a.onnx", "b.onnx", "--format", kind, cwd=tmp_path).out
        assert "\x1b" not in shown
        assert "\n###  @" not in shown
        if kind in ("markdown", "html"):
            assert shown.count("<script") == (kind == "html")  # its own
        assert not any(line.startswith("::error") for line in shown.splitlines())
    assert "\x1b" not in call("diff", "--textconv", "b.onnx", cwd=tmp_path).out


def test_info_shows_where_the_bytes_are_as_bars(tmp_path: Path) -> None:
    model = lean(layers=3)
    for tensor, name in zip(model.graph.initializer, ("enc.0.w", "enc.1.w", "\x1bhead.w"), strict=True):
        for node in model.graph.node:
            node.input[:] = [name if each == tensor.name else each for each in node.input]
        tensor.name = name
    onnx.save(model, tmp_path / "m.onnx")
    lines = call("info", "m.onnx", cwd=tmp_path).out.splitlines()
    start = lines.index("  bytes by layer")
    rows = sorted(line.split() for line in lines[start + 1 : start + 4])
    assert rows == [[name, "16.4", "kB", "33.2%", "#" * 12] for name in ("\\x1bhead", "enc.0", "enc.1")]
    assert all(len(line) <= 60 for line in lines[:start])


def test_layers_are_what_names_begin_with() -> None:
    deep = [f"encoder.layers.{n}.{part}.weight" for n in range(6) for part in ("q", "k")]
    layers = layers_of(dict.fromkeys([*deep, "head.bias"], 10))
    assert set(layers.values()) == {*(f"encoder.layers.{n}" for n in range(6)), "head"}
    many = {f"model.{n}.conv.weight": n for n in range(40)} | {"12": 5, "": 1, "...": 2}
    assert set(layers_of(many)) == set(many)
    assert len(set(layers_of(many).values())) <= 12
    assert set(layers_of({f"onnx::MatMul_{n}": 1 for n in range(99)}).values()) == {"onnx::MatMul"}
