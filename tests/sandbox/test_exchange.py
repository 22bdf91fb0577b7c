"""Samples on their way to the worker and back: every kind of value, and none that holds addresses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_ci.sandbox.exchange import ENOUGH, read_samples, thinned, write_samples

ARRAYS = {
    "float": np.linspace(0, 1, 7, dtype=np.float32),
    "scalar": np.array(3.5),
    "empty": np.zeros((0, 3), np.int64),
    "flags": np.array([True, False]),
    "text": np.array(["a", "läng/er"]),
    "strided": np.arange(12).reshape(3, 4)[:, ::2],
    "large": np.arange(1 << 19, dtype=np.float32),
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    samples: list[dict[str, Any]] = [ARRAYS, {"items": [ARRAYS["float"], None], "map": {"a": 1.5, "b": 2.5}}]
    write_samples(tmp_path / "samples", samples)
    first, second = read_samples(tmp_path / "samples")
    for name, array in ARRAYS.items():
        assert np.array_equal(first[name], array)
        assert first[name].dtype == array.dtype
        assert first[name].shape == array.shape
    assert np.array_equal(second["items"][0], ARRAYS["float"])
    assert second["items"][1] is None
    assert second["map"] == {"a": 1.5, "b": 2.5}


@pytest.mark.parametrize("dtype", ["|O", "O", [["x", "O"]]])
def test_bytes_are_never_taken_for_addresses(dtype: Any, tmp_path: Path) -> None:
    write_samples(tmp_path / "samples", [{"x": np.zeros(4)}])
    manifest = tmp_path / "samples" / "manifest.json"
    found = json.loads(manifest.read_text())
    found[0][0][1]["dtype"] = dtype
    manifest.write_text(json.dumps(found))
    with pytest.raises((ValueError, TypeError)):
        read_samples(tmp_path / "samples")


def test_what_is_not_there_is_not_read(tmp_path: Path) -> None:
    write_samples(tmp_path / "samples", [{"x": np.zeros(4)}])
    (tmp_path / "samples" / "values").write_bytes(b"1234")
    with pytest.raises((ValueError, TypeError)):
        read_samples(tmp_path / "samples")


def test_a_large_array_is_thinned_and_some_axes_stay_whole() -> None:
    small = np.zeros((3, 4))
    assert thinned(small) is small
    large = np.zeros((1, 64, ENOUGH // 8))
    assert thinned(large).size <= ENOUGH
    assert thinned(large).shape[1] == 64
    assert thinned(large, (-1,)).shape == (1, 8, ENOUGH // 8)
    assert thinned(large, range(1, 64)).shape == large.shape
