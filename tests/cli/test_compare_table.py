"""`compare` of any number of models: the classic table, with the user's own score and where models part."""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnx_ci.model.load import open_model
from onnx_ci.report.sheet import render, variants_sheet
from onnx_ci.results import Divergence, Gap, Variant
from onnx_ci.util.text import Style
from onnx_ci.verify.observation import _Values
from tests.support.cli import call
from tests.support.models import lean

BAD = 'b<script>|".onnx'


def rounded(step: float) -> onnx.ModelProto:
    """Two layers, of which the second weight is rounded."""
    model = lean()
    values = numpy_helper.to_array(model.graph.initializer[1])
    coarse = (np.round(values / step) * step).astype(np.float32)
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(coarse, "w1"))
    return model


@pytest.mark.real
def test_one_row_a_model_in_every_format(tmp_path: Path) -> None:
    onnx.save(lean(), tmp_path / "a.onnx")
    onnx.save(rounded(1e-3), tmp_path / "fine.onnx")
    onnx.save(rounded(0.5), tmp_path / BAD)
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    (tmp_path / "score.py").write_text("import os, sys\nprint('bytes:', os.path.getsize(sys.argv[1]))\n")
    kinds = {"text": "txt", "markdown": "md", "html": "html", "json": "json", "junit": "xml"}
    done = call(
        *("compare", "a.onnx", "fine.onnx", BAD, "broken.onnx", "--layers"),
        *("--evaluate", f"{sys.executable} score.py {{model}}", "--metric", "bytes"),
        *(word for kind, end in kinds.items() for word in ("--format", kind, "--output", f"o.{end}")),
        cwd=tmp_path,
    )
    assert done.code == 1, done.err
    first, fine, coarse, broken = json.loads((tmp_path / "o.json").read_text())["variants"]
    assert [row["verdict"] for row in (first, fine, coarse, broken)] == [
        *(None, "ok", "outputs_changed", "unreadable")
    ]
    for row in (first, fine, coarse):
        assert row["size"] == row["score"] > row["gzip"] > 0
        assert row["params"] == 8192
        assert row["seconds"] > 0, "also where outputs changed"
    assert fine["low"] <= fine["ratio"] <= fine["high"]
    assert fine["sqnr"] > 40 > coarse["sqnr"]
    parted = coarse["divergence"]
    assert (parted["first"]["name"], parted["first"]["op"]) == ("m1", "MatMul"), "h0 and m0 are the same"
    assert parted["skip"] == ["w1"], "w0 did not change"
    text = (tmp_path / "o.txt").read_text()
    assert "4 models, held against a.onnx" in text
    assert f'{BAD}: to leave alone what loses most: skip: ["w1"]' in text
    assert "not an ONNX model" in text
    assert "8,192" in (tmp_path / "o.md").read_text()
    assert escape(BAD) in (tmp_path / "o.xml").read_text()


def test_names_are_inert_and_empty_columns_left_out() -> None:
    gap = Gap(name=BAD, op="MatMul", sqnr=12.0, relative=0.25, weights=(BAD,))
    parted = Divergence(compared=2, first=gap, worst=(gap,), skip=(BAD,), note="every 2nd")
    first = Variant(path="a.onnx", size=5_000, params=8)
    other = Variant(path=BAD, size=2_000, verdict="ok", cosine=0.5, divergence=parted)
    sheet = variants_sheet([first, other], 0, "")
    for kind in ("text", "markdown", "html"):
        shown = render(sheet, kind, Style())
        own = kind == "html"  # a page has one script, ours
        assert shown.count("<script") == own or kind == "text"
        assert "0.500000" in shown
        assert "memory" not in shown


@pytest.mark.parametrize("width", [60, 80])
def test_a_table_that_does_not_fit_is_stacked(width: int) -> None:
    full = Variant(
        path="models/encoder.onnx",
        verdict="ok",
        size=5_000_000,
        gzip=4_000_000,
        params=1_250_000,
        seconds=0.012,
        ratio=1.01,
        low=0.98,
        high=1.04,
        load=0.2,
        memory=9_000_000,
        cosine=0.99,
        sqnr=31.0,
        max_abs=0.1,
        top1=1.0,
        score=0.76,
    )
    sheet = variants_sheet([full, full], 0, "accuracy")
    lines = render(sheet, "text", Style(width=width)).splitlines()
    assert max(map(len, lines)) <= width
    assert lines.count("    models/encoder.onnx") == 2
    assert sum("accuracy 0.76" in line for line in lines) == 2
    assert "ratio " in render(sheet, "text", Style(width=200)).splitlines()[3]


def test_score_and_metric_go_together(tmp_path: Path) -> None:
    onnx.save(lean(), tmp_path / "a.onnx")
    for words in (["--evaluate", "x {model}"], ["--metric", "x"], ["--evaluate", "x", "--metric", "x"]):
        assert call("compare", "a.onnx", "a.onnx", *words, cwd=tmp_path).code == 2


def test_weights_behind_a_transpose_are_found(tmp_path: Path) -> None:
    model, other = lean(), rounded(0.5)
    for proto in (model, other):
        node = onnx.helper.make_node("Transpose", ["w1"], ["w1t"])
        proto.graph.node.insert(0, node)
        proto.graph.node[3].input[1] = "w1t"
    for name, proto in (("a.onnx", model), ("b.onnx", other)):
        onnx.save(proto, tmp_path / name)
    with open_model(tmp_path / "a.onnx") as first, open_model(tmp_path / "b.onnx") as second:
        values = _Values(first, second)
        assert values.nearest_weights("y") == ("w1",)
        assert values.nearest_weights("m0") == (), "w0 did not change"
