"""A run that is compared with a commit says what became of each model since."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from tests.support.cli import call as onnx_ci
from tests.support.git_repo import Repository
from tests.support.models import lean

pytestmark = pytest.mark.sampled(2)

POLICY = """\
version: 1
models:
  - path: "**/*.onnx"
    budget: {size: 100 kB, gzip: 100 kB, growth: 400%}
    methods: []
"""


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("changed")
    made = Repository(folder)
    (folder / ".onnx-ci.yaml").write_text(POLICY)
    for seed, name in enumerate(["gone", "grown", "moved", "retrained", "same"]):
        onnx.save(lean(seed=seed, layers=1), folder / f"{name}.onnx")
    made.commit_all("base")
    made.git("tag", "base")
    made.git("remote", "add", "origin", "https://me:secret@example.com/team/models.git")
    (folder / "gone.onnx").unlink()
    (folder / "sub").mkdir()
    (folder / "moved.onnx").rename(folder / "sub" / "new name.onnx")
    onnx.save(lean(seed=1, layers=3), folder / "grown.onnx")
    onnx.save(lean(seed=9, layers=1), folder / "retrained.onnx")
    onnx.save(lean(seed=8, layers=1), folder / "added.onnx")
    made.commit_all("change")
    return folder


def test_each_model_has_what_it_was(changed: Path) -> None:
    report = onnx_ci("check", "--since", "base", "--format", "json", cwd=changed).json
    models = {model["path"]: model for model in report["models"]}
    states = {path: (model["base"]["state"], model["base"]["path"]) for path, model in models.items()}
    assert states == {
        "added.onnx": ("new", ""),
        "grown.onnx": ("changed", ""),
        "retrained.onnx": ("changed", ""),
        "sub/new name.onnx": ("unchanged", "moved.onnx"),
    }
    was = models["grown.onnx"]["base"]["measure"]
    assert was["gzip"] < was["size"] < models["grown.onnx"]["before"]["size"]
    assert [limit["name"] for limit in models["grown.onnx"]["limits"]] == ["size", "gzip", "growth"]
    assert models["retrained.onnx"]["moved"]["cosine"] < 0.9
    assert "moved" not in models["grown.onnx"]
    assert [model["path"] for model in report["gone"]] == ["gone.onnx"]
    sizes = [model["before"]["size"] for model in models.values()]
    assert report["totals"]["size_now"] == sum(sizes)
    assert report["totals"]["size_base"] == report["gone"][0]["size"] + was["size"] + sum(
        models[path]["base"]["measure"]["size"] for path in ("retrained.onnx", "sub/new name.onnx")
    )
    assert report["provenance"]["repository"] == "https://example.com/team/models.git"
    assert models["grown.onnx"]["inputs"] == [{"name": "x", "type": "float[batch,64]"}]
    assert [tensor["name"] for tensor in models["grown.onnx"]["tensors"]] == ["w0", "w1", "w2"]


def test_what_changed_in_a_model_is_folded_into_every_report(changed: Path, tmp_path: Path) -> None:
    kinds = {"json": "json", "markdown": "md", "html": "html"}
    files = [
        word for kind, end in kinds.items() for word in ("--format", kind, "--output", tmp_path / f"r.{end}")
    ]
    onnx_ci("check", "--since", "base", *map(str, files), cwd=changed)
    models = {model["path"]: model for model in json.loads((tmp_path / "r.json").read_text())["models"]}
    diff = models["grown.onnx"]["base"]["diff"]
    assert diff["operators"][0] == {"name": "MatMul", "before": 1, "after": 3}
    assert (diff["tensor_counts"]["added"], diff["same_tensors"]) == (2, 1)
    assert models["retrained.onnx"]["base"]["diff"]["tensors"][0]["moved"]["share"] == 1
    assert "diff" not in models["added.onnx"]["base"]
    markdown = (tmp_path / "r.md").read_text()
    folded = markdown.split("<details><summary>what changed in <code>retrained.onnx</code></summary>")[1]
    assert "| <code>w0</code> | changed | float&#91;64,64&#93; |" in folded
    page = (tmp_path / "r.html").read_text()
    assert page.count("what changed in it since the base") == 2


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{7:064}\nsize 12345\n"


@pytest.mark.parametrize(("was", "why"), [("no model", "not an ONNX model"), (POINTER, "only a pointer")])
def test_what_can_not_be_compared_says_why(tmp_path: Path, was: str, why: str) -> None:
    made = Repository(tmp_path)
    (tmp_path / "m.onnx").write_bytes(was.encode())
    made.commit_all("base")
    onnx.save(lean(layers=1), tmp_path / "m.onnx")
    done = onnx_ci("check", "--format", "json", cwd=tmp_path)
    (model,) = done.json["models"]
    assert done.code == 0
    assert why in model["base"]["undiffed"]
    assert "diff" not in model["base"]


def test_all_models_of_a_pull_request_too(changed: Path) -> None:
    made = Repository(changed)
    made.git("update-ref", "refs/remotes/origin/main", "base")
    report = onnx_ci("check", "--all", "--format", "json", cwd=changed, env={"GITHUB_BASE_REF": "main"}).json
    states = {model["path"]: model["base"]["state"] for model in report["models"]}
    assert (states["same.onnx"], states["added.onnx"]) == ("unchanged", "new")
    assert [model["path"] for model in report["gone"]] == ["gone.onnx"]


def test_a_fix_is_compared_with_what_was_there(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    onnx.save(lean(layers=1), tmp_path / "m.onnx")
    made.commit_all("base")
    model = onnx.load(tmp_path / "m.onnx")
    model.graph.initializer.add().CopyFrom(model.graph.initializer[0])
    model.graph.initializer[1].name = "unused"
    onnx.save(model, tmp_path / "m.onnx")
    (fixed,) = onnx_ci("fix", "--format", "json", cwd=tmp_path).json["models"]
    assert fixed["written"]
    assert fixed["base"]["measure"]["size"] < fixed["before"]["size"]
    assert {each["name"]: each["after"] for each in fixed["tensors"]}["unused"] == 0


def test_a_change_that_only_removes_a_model_says_so(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    onnx.save(lean(layers=1), tmp_path / "m.onnx")
    made.commit_all("base")
    (tmp_path / "m.onnx").unlink()
    done = onnx_ci("check", cwd=tmp_path)
    assert done.code == 0
    assert "0 models checked, 1 gone, 16.5 kB -> 0 B (-16.5 kB, -100%): passed" in done.out
