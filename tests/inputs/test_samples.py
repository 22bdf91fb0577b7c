"""Samples from files: what is read, and how clearly the rest is refused."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ci.errors import ModelError
from onnx_ci.inputs.samples import load_samples
from tests.support.text_models import LINEAR, model

X = np.ones((2, 4), np.float32)
TWO = "g (float[N,4] x, int64[N] n) => (float[N,4] y) { y = Relu(x) }"


def refused(patterns: list[str], root: Path, proto: onnx.ModelProto) -> ModelError:
    with pytest.raises(ModelError) as caught:
        load_samples(patterns, root, proto)
    assert caught.value.code == "OCI005"
    assert caught.value.hint
    return caught.value


def test_npz_and_npy_in_order(tmp_path: Path) -> None:
    np.savez(tmp_path / "b.npz", x=X * 2)
    np.savez(tmp_path / "a.npz", x=X)
    np.save(tmp_path / "c.npy", X * 3)
    found = load_samples(["*.npz", "c.npy", "a.npz"], tmp_path, model(LINEAR))
    assert [sample["x"][0, 0] for sample in found] == [1, 2, 3]


def test_folders_of_test_data(tmp_path: Path) -> None:
    for index in range(2):
        folder = tmp_path / "data" / f"test_data_set_{index}"
        folder.mkdir(parents=True)
        for number, array in enumerate([X * index, np.array([5, 6])]):
            data = numpy_helper.from_array(array).SerializeToString()
            (folder / f"input_{number}.pb").write_bytes(data)
        (folder / "output_0.pb").write_bytes(b"not looked at")
    for patterns in (["data/test_data_set_*"], ["data"]):
        found = load_samples(patterns, tmp_path, model(TWO))
        assert [sample["x"][0, 0] for sample in found] == [0, 1]
        assert found[0]["n"].tolist() == [5, 6]


def test_sequences_and_optionals(tmp_path: Path) -> None:
    proto = model("g (seq(float[2]) s, optional(float[2]) o) => (float[2] y) { y = SequenceAt(s, s) }")
    items = [np.ones(2, np.float32), np.zeros(2, np.float32)]
    named: dict[str, Any] = {"s[0]": items[0], "s[1]": items[1]}
    np.savez(tmp_path / "a.npz", **named)
    (sample,) = load_samples(["a.npz"], tmp_path, proto)
    assert [item.tolist() for item in sample["s"]] == [[1, 1], [0, 0]]
    assert sample["o"] is None
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "input_0.pb").write_bytes(numpy_helper.from_list(items).SerializeToString())
    (folder / "input_1.pb").write_bytes(numpy_helper.from_optional(items[0]).SerializeToString())
    (sample,) = load_samples(["data"], tmp_path, proto)
    assert len(sample["s"]) == 2
    assert sample["o"].tolist() == [1, 1]


def test_bfloat16_survives_npz(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    value = helper.make_tensor_value_info("x", TensorProto.BFLOAT16, [2])
    np.savez(tmp_path / "a.npz", x=np.array([1, 2], ml_dtypes.bfloat16))
    proto = helper.make_model(helper.make_graph([], "g", [value], []))
    assert load_samples(["a.npz"], tmp_path, proto)[0]["x"].tolist() == [1, 2]


def test_strings(tmp_path: Path) -> None:
    proto = model("g (string[N] s) => (string[N] y) { y = Identity(s) }")
    np.save(tmp_path / "a.npy", np.array(["one", "three"]))
    assert load_samples(["a.npy"], tmp_path, proto)[0]["s"].tolist() == ["one", "three"]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"z": X}, ["'z'", "no input"]),
        ({"x": X}, ["'n'", "missing"]),
        ({"x": X.astype(np.float64), "n": np.ones(2, np.int64)}, ["'x'", "float64[2, 4]", "float[N,4]"]),
        ({"x": X[0], "n": np.ones(2, np.int64)}, ["'x'", "[4]", "float[N,4]"]),
        ({"x": X[:, :3], "n": np.ones(2, np.int64)}, ["'x'", "[2, 3]", "float[N,4]"]),
        ({"x": X, "n": np.array([object()])}, ["a.npz", "can't be read"]),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, arrays: dict[str, Any], words: list[str]) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    message = refused(["a.npz"], tmp_path, model(TWO)).message
    for word in ["a.npz", *words]:
        assert word in message


@pytest.mark.parametrize("pattern", ["*.npz", "/etc/*", "", "missing/*.npy"])
def test_no_match_is_an_error(tmp_path: Path, pattern: str) -> None:
    refused([pattern], tmp_path, model(LINEAR))


def test_one_array_for_two_inputs(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    assert "2 inputs" in refused(["a.npy"], tmp_path, model(TWO)).message


@pytest.mark.parametrize("name", ["a.npz", "a.npy", "a.txt"])
@pytest.mark.parametrize("data", [b"", b"\x93NUMPY junk", b"PK\x03\x04 junk", pickle.dumps({"x": 1})])
def test_broken_files(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    assert name in refused([name], tmp_path, model(LINEAR)).message


def test_absurd_headers_are_not_allocated(tmp_path: Path) -> None:
    header = str({"descr": "<f4", "fortran_order": False, "shape": (2**40, 4)}).encode()
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 16
    (tmp_path / "a.npy").write_bytes(data)
    refused(["a.npy"], tmp_path, model(LINEAR))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", data)
    refused(["a.npz"], tmp_path, model(LINEAR))


def test_broken_folders(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    assert "0 files" in refused(["data"], tmp_path, model(LINEAR)).message
    (folder / "input_0.pb").write_bytes(b"\xff\xff")
    assert "input_0.pb" in refused(["data"], tmp_path, model(LINEAR)).message
    outside = TensorProto(dims=[2, 4], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="secret.bin")
    (folder / "input_0.pb").write_bytes(outside.SerializeToString())
    assert "another file" in refused(["data"], tmp_path, model(LINEAR)).message
    (folder / "input_0.pb").write_bytes(
        TensorProto(dims=[2**40], data_type=1, raw_data=b"abc").SerializeToString()
    )
    refused(["data"], tmp_path, model(LINEAR))


def test_nothing_outside_of_the_root(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    folder = root / "data"
    folder.mkdir(parents=True)
    np.save(tmp_path / "secret.npy", X)
    (root / "link.npy").symlink_to(tmp_path / "secret.npy")
    (root / "nowhere.npy").symlink_to(root / "gone.npy")
    (root / "circle.npy").symlink_to(root / "circle.npy")
    (tmp_path / "input_0.pb").write_bytes(numpy_helper.from_array(X).SerializeToString())
    (folder / "input_0.pb").symlink_to(tmp_path / "input_0.pb")
    for pattern in ("link.npy", "../secret.npy", "data"):
        assert "outside" in refused([pattern], root, model(LINEAR)).message
    for pattern in ("nowhere.npy", "circle.npy"):
        refused([pattern], root, model(LINEAR))
