"""`files`: a model with all that belongs to it, whatever that is called, or an error."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

from tests.support.cli import call as onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.models import bloated, lean
from tests.traps.bad_data import with_data


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "work")
    (made.root / "models").mkdir()
    for name, data in (("a", "weights.bin"), ("b", "b.weight")):
        path = made.root / "models" / f"{name}.onnx"
        onnx.save(lean(), path, save_as_external_data=True, location=data, size_threshold=0)
    onnx.save(bloated(), made.root / "plain.onnx")
    made.commit_all("models")
    return made


def test_data_is_listed_whatever_it_is_called(repository: Repository) -> None:
    done = onnx_ci("files", "--all", "--null", cwd=repository.root)
    assert done.code == 0, done.err
    expected = ["models/a.onnx", "models/weights.bin", "models/b.onnx", "models/b.weight", "plain.onnx"]
    assert done.out.split("\0") == [*expected, ""]
    some = onnx_ci("files", "a.onnx", cwd=repository.root / "models")
    assert some.out == "a.onnx\nweights.bin\n"


def test_extracted_tensors_are_listed(repository: Repository) -> None:
    out = repository.root / "out.onnx"
    made = onnx_ci("shrink", "plain.onnx", out, "--methods", "extract-npy", cwd=repository.root)
    assert made.code == 0, made.err
    arrays = sorted(path.name for path in repository.root.glob("*.npy"))
    assert arrays
    assert sorted(onnx_ci("files", "out.onnx", cwd=repository.root).out.split()) == sorted(
        ["out.onnx", *arrays]
    )
    (repository.root / arrays[0]).unlink()
    done = onnx_ci("files", "out.onnx", cwd=repository.root)
    assert (done.code, done.out) == (1, "")
    assert arrays[0] in done.err


def test_nothing_is_listed_where_something_is_missing(repository: Repository) -> None:
    (repository.root / "models" / "b.weight").unlink()
    done = onnx_ci("files", "--all", cwd=repository.root)
    assert (done.code, done.out) == (1, "")
    assert "b.weight" in done.err
    (repository.root / "plain.onnx").write_text("garbage")
    done = onnx_ci("files", "--all", cwd=repository.root)
    assert (done.code, done.out) == (1, "")
    assert re.search("nothing is listed: models/b.onnx: .*b.weight.*; plain.onnx: ", done.err)
    assert onnx_ci("files", cwd=repository.root).code == 2
    assert onnx_ci("files", "none.onnx", cwd=repository.root).code == 2


def test_no_file_is_listed_that_is_none_of_a_models(repository: Repository) -> None:
    onnx.save(with_data(location=".git/config", length=64), repository.root / "steal.onnx")
    assert onnx_ci("files", "steal.onnx", cwd=repository.root).code == 1


def test_what_a_rule_ignores_need_not_be_a_model(repository: Repository) -> None:
    (repository.root / "broken.onnx").write_bytes(b"no model")
    assert onnx_ci("files", "--all", cwd=repository.root).code == 1
    write_policy(repository.root, "  - path: broken.onnx\n    ignore: true\n")
    done = onnx_ci("files", "--all", cwd=repository.root)
    assert "broken.onnx\n" in done.out, done.err
