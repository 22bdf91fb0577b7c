"""`compare` and `samples` prove and run models as the gate does, whatever their files are like."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support.cli import Done, call
from tests.support.models import lean
from tests.support.text_models import model
from tests.traps.huge_files import over_2_gib

pytestmark = pytest.mark.sampled(3)

ODD = "not-utf8-\udcff.onnx"
TABLE = "g (int64[1,4] ids) => (float[1,4,8] y) <float[200,8] table> { y = Gather(table, ids) }"


def compare(*arguments: str, cwd: Path) -> Done:
    return call("compare", *arguments, "--format", "json", cwd=cwd)


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    try:
        (tmp_path / ODD).touch()
    except OSError:
        pytest.skip("this file system does not take the name")
    onnx.save(lean(), tmp_path / ODD)
    return tmp_path


@pytest.mark.parametrize("pair", [(ODD, "plain.onnx"), ("plain.onnx", ODD), (ODD, ODD)])
def test_compare_runs_models_whose_names_are_not_text(odd: Path, pair: tuple[str, str]) -> None:
    onnx.save(lean(), odd / "plain.onnx")
    done = compare(*pair, cwd=odd)
    assert (done.code, done.json["verdict"]) == (0, "ok"), done.out
    assert done.json["verification"]["status"] == "passed"
    assert done.json["latency"]["load_after"] > 0


def test_compare_in_a_folder_whose_name_is_not_text(odd: Path) -> None:
    folder = odd / "folder-\udcff"
    folder.mkdir()
    onnx.save(lean(), folder / "m.onnx")
    done = compare("m.onnx", "m.onnx", cwd=folder)
    assert (done.code, done.json["verification"]["status"]) == (0, "passed"), done.out


def test_compare_names_models_as_the_user_does(odd: Path) -> None:
    onnx.save(lean(seed=1), odd / "plain.onnx")
    done = compare("plain.onnx", ODD, cwd=odd)
    assert (done.code, done.json["verdict"]) == (1, "outputs_changed")
    assert done.json["path"] == ODD
    assert done.json["findings"][0]["message"].startswith(ODD)


def test_samples_for_a_model_whose_name_is_not_text(odd: Path) -> None:
    done = call("samples", ODD, "--output", "s.npz", cwd=odd)
    assert done.code == 0, done.err
    with np.load(odd / "s.npz") as sample:
        assert sample["x"].shape == (1, 64)


@pytest.mark.real
def test_compare_and_samples_of_a_model_past_two_gib(tmp_path: Path) -> None:
    first = over_2_gib(tmp_path)
    made = call("samples", first.name, "--output", "s.npz", "--count", "1", cwd=tmp_path)
    assert made.code == 0, made.err
    second = tmp_path / "second.onnx"
    shutil.copyfile(first, second)
    done = compare(first.name, second.name, "--samples", "s.npz", cwd=tmp_path)
    assert (done.code, done.json["verification"]["status"]) == (0, "passed"), done.out


def test_compare_asks_further_inputs_whether_a_change_would_show(tmp_path: Path) -> None:
    """Rows that the first inputs do not read differ a little; further inputs read some of them."""
    table = np.random.default_rng(0).standard_normal((200, 8)).astype(np.float32)
    save_table(table, tmp_path / "a.onnx")
    assert call("samples", "a.onnx", "--output", "s.npz", "--count", "8", cwd=tmp_path).code == 0
    read = {int(row) for path in tmp_path.glob("s*.npz") for row in np.load(path)["ids"].reshape(-1)}
    other = table.copy()
    other[[row for row in range(200) if row not in read]] *= np.float32(1.0001)
    save_table(other, tmp_path / "b.onnx")
    done = compare("a.onnx", "b.onnx", cwd=tmp_path)
    assert (done.code, done.json["verdict"]) == (0, "ok"), done.out
    assert done.json["verification"]["coverage"]["noticed"] == 2  # the table of either model
    assert done.json["verification"]["samples"] == 2 * 8


def save_table(values: np.ndarray, path: Path) -> None:
    made = model(TABLE)
    del made.graph.initializer[:]
    made.graph.initializer.append(numpy_helper.from_array(values, "table"))
    onnx.save(made, path)
