"""The Python functions: what they take, and what their results look like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import onnx_ci
from onnx_ci import api
from onnx_ci.errors import UsageError
from onnx_ci.inputs.samples import load_samples
from tests.support.git_repo import write_policy
from tests.support.models import bloated, lean


def test_what_there_is_can_be_listed() -> None:
    assert {"check", "compare", "record", "shrink", "ShrinkResult"} <= set(dir(onnx_ci))


def test_samples_in_memory(tmp_path: Path) -> None:
    model = bloated(layers=2)
    (given,) = model.graph.input
    shape = [dim.dim_value or 3 for dim in given.type.tensor_type.shape.dim]
    array = np.ones(shape, np.float32)
    for samples in (array, {given.name: array}, {given.name: array.tolist()}):
        with api._files_of(samples, tmp_path) as files:
            (sample,) = load_samples([Path(file).name for file in files], tmp_path, model)
        assert sample[given.name].dtype == np.float32
        assert sample[given.name].tolist() == array.tolist()
    np.save(tmp_path / "x.npy", array)
    result = onnx_ci.shrink(model, samples=[array, 2 * array, tmp_path / "x.npy"], plan_runs=0)
    assert isinstance(result.model, onnx.ModelProto)
    assert result.verification.samples == 3
    assert repr(result).startswith("<ShrinkResult with a model, <Outcome ")
    assert len(repr(result.outcome)) < 250
    assert "\n" not in repr(result)
    wrong = onnx_ci.compare(model, model, samples=[{"nothing": array}])
    assert wrong.verdict == "unverified"
    assert "samples[0]" in wrong.findings[0].message


def test_sizes_of_dims() -> None:
    model = lean()
    with pytest.raises(UsageError, match="nonsense"):
        onnx_ci.compare(model, model, dims={"nonsense": 2})


def test_check_takes_one_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_policy(tmp_path, "    methods: []\n    load_check: off\n")
    onnx.save(lean(), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    for paths in ("m.onnx", Path("m.onnx"), ["m.onnx"]):
        report = onnx_ci.check(paths)
        assert [outcome.path for outcome in report.outcomes] == ["m.onnx"]
    assert repr(report) == "<RunReport check, models: 1, errors: 0, warnings: 0, exit: 0>"
