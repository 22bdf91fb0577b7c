"""int8-weights with steps: more bytes on disk than bits need, and the fewest once they are compressed."""

from __future__ import annotations

import zlib
from itertools import pairwise
from math import log10
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_ci.methods.int8_weights import widths
from onnx_ci.model.measure import compressed_size
from tests.support.cli import onnx_ci
from tests.support.weight_models import applied, ops_that_run, rebuilt, sqnr, weights_model

RANDOM = np.random.default_rng(5)
BELL = RANDOM.standard_normal((512, 256)).astype(np.float32)
PEAKED = RANDOM.laplace(size=(512, 256)).astype(np.float32)
ODD = BELL.reshape(-1)[: 95 * 97].reshape(95, 97)
COUNTS = (1, 3, 5, 7, 40, 56, 112, 640)  # every number of planes


@pytest.mark.parametrize("opset", [7, 9, 12, 17, 21])
def test_even_steps_are_folded_in_every_opset(opset: int, tmp_path: Path) -> None:
    weights = {"bell": BELL, "odd": ODD, "flat": BELL.reshape(-1)[:5001]}
    made = weights_model(weights, opset=opset, ir=4 if opset < 21 else 10)
    for count in COUNTS:
        path, chained = applied(made, tmp_path, "int8-weights", steps=count)
        assert chained.steps[0].tensors == 3
        assert set(ops_that_run(path)) == {"Add"}
        for wanted, found in zip(weights.values(), rebuilt(path), strict=True):
            assert sqnr(wanted, found) == pytest.approx(10.8 + 20 * log10(count), abs=0.5), count


def test_what_a_session_sees_are_whole_numbers_of_one_step(tmp_path: Path) -> None:
    for count in COUNTS:
        path, _ = applied(weights_model({"odd": ODD}), tmp_path, "int8-weights", steps=count)
        step = np.float32(np.sqrt(np.square(ODD, dtype=np.float64).mean()) / count)
        np.testing.assert_allclose(rebuilt(path)[0], np.rint(ODD / step) * step, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("count", COUNTS)
def test_what_is_rare_and_large_is_not_clipped(count: int, tmp_path: Path) -> None:
    far = BELL.copy()
    far[3, 4], far[5, 6] = 60.0, -45.0
    path, _ = applied(weights_model({"far": far}), tmp_path, "int8-weights", steps=count)
    (found,) = rebuilt(path)
    assert np.abs(found - far).max() <= 0.51 * np.sqrt(np.square(far).mean()) / count


def test_what_no_plane_reaches_makes_steps_larger(tmp_path: Path) -> None:
    far = np.tile(BELL * np.float32(1e-4), (4, 1))
    far[3, 4] = 1000.0
    assert 6 * 1000 / np.sqrt(np.square(far, dtype=np.float64).mean()) > 127 << 5
    path, chained = applied(weights_model({"far": far}), tmp_path, "int8-weights", steps=6)
    (found,) = rebuilt(path)
    assert chained.steps[0].tensors == 1
    assert found[3, 4] == pytest.approx(1000.0)


@pytest.mark.parametrize("kind", ["gzip", "brotli", "zstd"])
@pytest.mark.parametrize("values", [BELL, PEAKED], ids=["bell", "peaked"])
def test_a_real_compressor_makes_them_smaller_than_packed_codes_of_no_less_error(
    values: np.ndarray[tuple[int, int], np.dtype[np.float32]], kind: str, tmp_path: Path
) -> None:
    made = weights_model({"w": values})
    for bits, count in ((5, 5), (6, 14), (7, 28)):
        packed, _ = applied(made, tmp_path, "int4-weights", bits=bits, block_size=128, scales="int8")
        size, quality = compressed_size(kind, [packed]), sqnr(values, rebuilt(packed)[0])
        steps, _ = applied(made, tmp_path, "int8-weights", steps=count)
        # A bit is 6 dB: what both would take at the same error.
        spared = (sqnr(values, rebuilt(steps)[0]) - quality) / 6.02 * values.size / 8
        assert compressed_size(kind, [steps]) - spared < 0.985 * size, bits


def test_planes_hold_what_compressors_can_use() -> None:
    """Where two codes share a byte, one a byte is larger by some percent, and the other way round."""
    assert [widths(count) for count in COUNTS] == [
        (4, 0),
        (4, 0),
        (4, 1),
        (8, 0),
        (8, 0),
        (8, 1),
        (8, 2),
        (8, 4),
    ]
    rms = np.sqrt(np.square(PEAKED, dtype=np.float64).mean())
    few, many = (np.rint(PEAKED * (count / rms)).astype(np.int8) for count in (3, 10))

    def size(codes: np.ndarray[tuple[int, ...], np.dtype[np.int8]]) -> int:
        return len(zlib.compress(codes.tobytes(), 9))

    def paired(codes: np.ndarray[tuple[int, ...], np.dtype[np.int8]]) -> int:
        flat, rare = codes.reshape(-1) & 15, (codes.reshape(-1) + 8) >> 4
        return size((flat[::2] | flat[1::2] << 4).astype(np.int8)) + size(rare.astype(np.int8))

    assert paired(few) < 0.97 * size(few)
    assert size(many) < 0.97 * paired(many)


def test_more_steps_take_more_bytes_once_compressed(tmp_path: Path) -> None:
    made, sizes = weights_model({"w": PEAKED}), []
    for count in (2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 320, 640):
        path, _ = applied(made, tmp_path, "int8-weights", steps=count)
        sizes.append(compressed_size("gzip", [path]))
    assert all(less < more for less, more in pairwise(sizes)), sizes


def test_weights_that_share_planes_share_the_tables(tmp_path: Path) -> None:
    path, _ = applied(weights_model({"a": BELL, "b": PEAKED}), tmp_path, "int8-weights", steps=112)
    shared = [t.name for t in onnx.load(path).graph.initializer if t.name.startswith("onnx_ci.")]
    shapes = ["onnx_ci.at-1", "onnx_ci.at512x256"]
    assert sorted(shared) == [*shapes, "onnx_ci.steps2_0", "onnx_ci.times1024", "onnx_ci.times4"]


def test_steps_that_the_other_encoding_has_not_are_refused(tmp_path: Path) -> None:
    (tmp_path / ".onnx-ci.yaml").write_text(
        'version: 1\nmodels:\n  - path: "*.onnx"\n    methods: [{int8-weights: {steps: 6, encoding: dq}}]\n'
    )
    done = onnx_ci("check", "--all", cwd=tmp_path)
    assert done.code == 2
    assert ".onnx-ci.yaml:4" in done.err
    assert "needs encoding: fold" in done.err
