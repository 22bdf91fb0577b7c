"""A model that is opened and written without a method computes what it computed before."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from onnx_ci.model.load import open_model
from onnx_ci.model.receipt import model_digest
from onnx_ci.model.save import write_model
from tests.support.run_model import Feed, identical, outputs
from tests.traps import GOOD_FILES, HUGE_FILES, TRAPS, Trap, feeds_for

CONFORMANCE = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data").glob("*/*/model.onnx"))


def rewrite(path: Path, target: Path) -> Path:
    with open_model(path) as model:
        write_model(model, target)
        digest = model_digest(model)
    with open_model(target) as written:
        assert model_digest(written) == digest
    return target


def conformance_feed(folder: Path, path: Path) -> Feed:
    model = onnx.load(path, load_external_data=False)
    files = sorted(folder.glob("input_*.pb"), key=lambda file: int(file.stem.split("_")[1]))
    weights = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in weights]
    arrays = [numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes())) for file in files]
    return dict(zip(names, arrays, strict=False))


def test_there_are_conformance_models() -> None:
    assert len(CONFORMANCE) > 100


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", CONFORMANCE, ids=lambda path: path.parent.name)
def test_conformance_models_survive(path: Path, tmp_path: Path) -> None:
    target = rewrite(path, tmp_path / "model.onnx")
    inputs = onnx.load(path, load_external_data=False).graph.input
    if any(value.type.WhichOneof("value") != "tensor_type" for value in inputs):
        return  # its feeds are no tensors
    folders = sorted(path.parent.glob("test_data_set_*"))
    feeds = [conformance_feed(folder, path) for folder in folders]
    try:
        expected = outputs(path, feeds)
    except Exception as error:  # noqa: BLE001 - what onnxruntime refuses, it must refuse alike
        with pytest.raises(type(error)):
            outputs(target, feeds)
        return
    assert identical(expected, outputs(target, feeds))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("trap", [*TRAPS, *GOOD_FILES], ids=lambda trap: trap.name)
def test_traps_survive(trap: Trap, tmp_path: Path) -> None:
    path = trap.build(tmp_path)
    (tmp_path / "out").mkdir()
    target = rewrite(path, tmp_path / "out" / "model.onnx")
    if trap.runs and trap.repeats:
        feeds = feeds_for(trap, path)
        assert identical(outputs(path, feeds), outputs(target, feeds))


@pytest.mark.real
@pytest.mark.parametrize("trap", HUGE_FILES, ids=lambda trap: trap.name)
def test_files_past_two_gib_open(trap: Trap, tmp_path: Path) -> None:
    path = trap.build(tmp_path)
    assert path.stat().st_size > 1 << 31
    with open_model(path) as model:
        assert len(model.proto.SerializeToString()) < 1 << 20
