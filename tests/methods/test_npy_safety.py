"""Files of extracted tensors: what is replaced, what is removed, and what is nobody's to touch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_ci.errors import ModelError
from onnx_ci.model.load import open_model
from onnx_ci.model.npy import KEY
from onnx_ci.model.receipt import model_digest
from onnx_ci.model.replace import replace_model
from tests.support.cli import onnx_ci
from tests.support.models import lean

pytestmark = pytest.mark.sampled(9)


def extracted(folder: Path) -> Path:
    onnx.save(lean(), folder / "m.onnx")
    done = onnx_ci("shrink", "m.onnx", "m.onnx", "--methods", "extract-npy:tensors=w0", cwd=folder)
    assert done.code == 0, done.out
    return folder / "m.w0.npy"


def renamed(model: Path, file: str) -> None:
    """Let the record of the model name another file, which is the same otherwise."""
    proto = onnx.load(model)
    (model.parent / "m.w0.npy").rename(model.parent / file)
    entry = next(entry for entry in proto.metadata_props if entry.key == KEY)
    entry.value = json.dumps({"w0": file})
    onnx.save(proto, model)


@pytest.mark.parametrize("file", ["dataset.npy", "m2.w0.npy", "mask.npy"])
def test_a_file_that_is_not_called_after_the_model_stays(tmp_path: Path, file: str) -> None:
    extracted(tmp_path)
    renamed(tmp_path / "m.onnx", file)
    before = (tmp_path / file).read_bytes()
    assert onnx_ci("restore", "m.onnx", "m.onnx", cwd=tmp_path).code == 0
    assert (tmp_path / file).read_bytes() == before


def test_a_file_of_two_models_stays_and_both_are_left_alone(tmp_path: Path) -> None:
    file = extracted(tmp_path)
    shutil.copyfile(tmp_path / "m.onnx", tmp_path / "other.onnx")
    model, values = (tmp_path / "m.onnx").read_bytes(), file.read_bytes()
    arguments = ("shrink", "m.onnx", "m.onnx", "--methods", "fp16-weights", "--format", "json")
    done = onnx_ci(*arguments, cwd=tmp_path)
    assert "OCI021" in [finding["code"] for finding in done.json["findings"]]
    assert (tmp_path / "m.onnx").read_bytes() == model
    assert onnx_ci("restore", "m.onnx", "m.onnx", cwd=tmp_path).code == 0
    assert file.read_bytes() == values


def test_a_file_that_changed_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    file = extracted(tmp_path)
    model = (tmp_path / "m.onnx").read_bytes()
    with open_model(tmp_path / "m.onnx") as opened:
        np.save(file, np.zeros((64, 64), np.float32))
        copy = opened.copy()
        with pytest.raises(ModelError, match=r"m\.w0\.npy: changed while"):
            replace_model(copy, opened, root=tmp_path, digest=model_digest(copy))
    assert not np.load(file).any()
    assert (tmp_path / "m.onnx").read_bytes() == model


def test_the_sha256_is_that_of_all_files(tmp_path: Path) -> None:
    onnx.save(lean(), tmp_path / "m.onnx")
    arguments = ("--methods", "extract-npy:tensors=w0", "--format", "json")
    made = onnx_ci("shrink", "m.onnx", "out.onnx", *arguments, cwd=tmp_path).json["after"]["sha256"]

    def sha256() -> str:
        done = onnx_ci("compare", "out.onnx", "out.onnx", "--format", "json", cwd=tmp_path)
        return str(done.json["before"]["sha256"])

    assert sha256() == made
    np.save(tmp_path / "out.w0.npy", np.ones((64, 64), np.float32))
    assert sha256() != made


def test_restore_does_not_write_over_what_it_reads(tmp_path: Path) -> None:
    file = extracted(tmp_path)
    before = file.read_bytes()
    refused = onnx_ci("restore", "m.onnx", file.name, cwd=tmp_path)
    assert refused.code == 2
    assert "holds the weights" in refused.err
    assert file.read_bytes() == before
