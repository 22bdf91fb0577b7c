"""`samples`: what would be made up, in files that the other commands read back."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from tests.support.cli import call as onnx_ci

pytestmark = pytest.mark.sampled(3)

HEAD = '<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3]>\n'
TEXT = (
    "g (int64[B,S] ids, float[B,S] file) => (float[B,S,1] y) <float[11,1] t = {1,2,3,4,5,6,7,8,9,0,1}>"
    " { e = Gather(t, ids) a = Constant<value_ints=[2]>() u = Unsqueeze(file, a) y = Mul(e, u) }"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    onnx.save(parser.parse_model(HEAD + TEXT), tmp_path / "m.onnx")
    return tmp_path


def test_samples_are_written_and_read_back(folder: Path) -> None:
    made = onnx_ci("samples", "m.onnx", "--output", "s.npz", "--dims", "S=300", cwd=folder)
    assert made.code == 0, made.err
    assert re.search(r"ids: int64 1x300, \d to 10 \(0 to 10: what the table it indexes", made.out)
    with np.load(folder / "s.npz") as first, np.load(folder / "s-1.npz") as second:
        assert first["ids"].shape == (1, 300)
        assert second["file"].shape == (2, 300)
    same = onnx_ci("compare", "m.onnx", "m.onnx", "--samples", "s*.npz", "--format", "json", cwd=folder)
    assert same.code == 0, same.err
    assert '"samples": 2' in same.out
    shrunk = onnx_ci("shrink", "m.onnx", "out.onnx", "--samples", "s.npz", cwd=folder)
    assert shrunk.code == 0, shrunk.err


def test_files_that_are_there_stay_unless_forced(folder: Path) -> None:
    (folder / "s-1.npz").write_bytes(b"mine")
    refused = onnx_ci("samples", "m.onnx", "--output", "s.npz", cwd=folder)
    assert refused.code == 2
    assert "s-1.npz" in refused.err
    assert "--force" in refused.err
    assert not (folder / "s.npz").exists()
    assert onnx_ci("samples", "m.onnx", "--output", "s.npz", "--force", cwd=folder).code == 0
    once = (folder / "s-1.npz").read_bytes()
    assert onnx_ci("samples", "m.onnx", "--output", "s.npz", "--force", cwd=folder).code == 0
    assert (folder / "s-1.npz").read_bytes() == once != b"mine"


def test_the_rule_says_how_many_and_how_large(folder: Path) -> None:
    rule = "inputs: {count: 1, dims: {S: 5}, ranges: {ids: [3, 3]}, samples: [nowhere.npz]}"
    (folder / ".onnx-ci.yaml").write_text(f"version: 1\nmodels:\n  - path: m.onnx\n    {rule}\n")
    made = onnx_ci("samples", "m.onnx", "--output", "s.npz", cwd=folder)
    assert made.code == 0, made.err
    assert "ids: int64 1x5, 3 (the range given for it)" in made.out
    assert not (folder / "s-1.npz").exists()
    more = onnx_ci("samples", "m.onnx", "--output", "t.npz", "--count", "3", "--seed", "9", cwd=folder)
    assert more.code == 0
    assert (folder / "t-2.npz").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none.onnx", "--output", "s.npz"), "there is no file"),
        (("m.onnx", "--output", "s.npy"), "is no .npz file"),
        (("m.onnx", "--output", "no/s.npz"), "there is no folder"),
        (("m.onnx", "--output", "s.npz", "--dims", "S"), "NAME=SIZE"),
        (("m.onnx", "--output", "s.npz", "--count", "-1"), "whole number"),
    ],
)
def test_wrong_arguments(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    found = onnx_ci("samples", *arguments, cwd=folder)
    assert found.code == 2
    assert said in found.err


def test_sequences_and_maps_come_back(tmp_path: Path) -> None:
    proto = parser.parse_model(
        HEAD + "g (float[2] x, float[1] z) => (float[1,2] y, float[2] w) {"
        ' y = ai.onnx.ml.DictVectorizer<string_vocabulary=["a","b"]>(x) i = Constant<value_int=0>()'
        " w = SequenceAt(z, i) }"
    )
    mapped, listed = proto.graph.input
    mapped.type.Clear()
    mapped.type.map_type.key_type = onnx.TensorProto.STRING
    mapped.type.map_type.value_type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    listed.type.CopyFrom(onnx.helper.make_tensor_sequence_value_info("z", onnx.TensorProto.FLOAT, [2]).type)
    onnx.save(proto, tmp_path / "m.onnx")
    made = onnx_ci("samples", "m.onnx", "--output", "s.npz", cwd=tmp_path)
    assert made.code == 0, made.err
    with np.load(tmp_path / "s.npz") as sample:
        assert sample["x{keys}"].tolist() == ["a", "b"]
        assert sample["z[2]"].shape == (2,)
    same = onnx_ci("compare", "m.onnx", "m.onnx", "--samples", "s.npz", cwd=tmp_path)
    assert same.code == 0, same.out + same.err
