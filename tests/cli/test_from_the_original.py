"""Models that were rounded under another rule are derived anew from their originals, in real repositories."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support.cli import Done, onnx_ci
from tests.support.git_repo import Repository
from tests.support.models import lean

pytestmark = pytest.mark.sampled(40)

HEAD = 'version: 1\nmodels:\n  - path: "**/*.onnx"\n'
FP16 = f"{HEAD}    methods: [fp16-weights]\n"
INT8 = f"{HEAD}    methods: [int8-weights]\n"
LOOSE = "    tolerance: {cosine: 0.9}\n"
DATA: dict[str, Any] = {"save_as_external_data": True, "location": "m.onnx.data", "size_threshold": 0}


def policy(folder: Path, text: str) -> None:
    (folder / ".onnx-ci.yaml").write_text(text)


def committed(folder: Path, rule: str, **how: Any) -> Repository:
    """A repository whose first commit has the original, and whose second what a rule made of it."""
    repository = Repository(folder)
    policy(folder, rule)
    onnx.save(lean(), folder / "m.onnx", **how)
    repository.commit_all("original")
    assert onnx_ci("fix", "--all", cwd=folder).code == 0
    repository.commit_all("shrunk")
    return repository


def made_from_scratch(folder: Path, rule: str, **how: Any) -> dict[str, bytes]:
    """What a rule makes of the original, where nothing was done to it before."""
    folder.mkdir()
    policy(folder, rule)
    onnx.save(lean(), folder / "m.onnx", **how)
    onnx_ci("fix", cwd=folder)
    return files(folder)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("m.*"))}


def receipt(path: Path) -> dict[str, Any]:
    (entry,) = onnx.load(path, load_external_data=False).metadata_props
    found: dict[str, Any] = json.loads(entry.value)
    return found


def codes(done: Done) -> dict[str, str]:
    (model,) = done.json["models"]
    return {finding["code"]: finding["severity"] for finding in model["findings"]}


def verdict(done: Done) -> str:
    return str(done.json["models"][0]["verdict"])


def test_a_stronger_rule_is_applied_to_the_original(tmp_path: Path) -> None:
    here = tmp_path / "here"
    committed(here, FP16)
    source = receipt(here / "m.onnx")["source_sha256"]
    policy(here, INT8)
    before = files(here)
    checked = onnx_ci("check", "--all", "--format", "json", cwd=here)
    assert (checked.code, verdict(checked)) == (1, "would_shrink")
    assert codes(checked) == {"OCI011": "note", "OCI003": "error"}
    assert checked.json["models"][0]["before"]["size"] == len(before["m.onnx"])
    assert files(here) == before
    fixed = onnx_ci("fix", "--all", "--format", "json", cwd=here)
    assert (fixed.code, verdict(fixed)) == (0, "shrunk")
    assert fixed.json["models"][0]["verification"]["status"] == "passed"
    assert files(here) == made_from_scratch(tmp_path / "there", INT8)
    assert receipt(here / "m.onnx")["source_sha256"] == source
    once = files(here)
    again = onnx_ci("fix", "--all", "--format", "json", cwd=here)
    assert (again.code, verdict(again), codes(again)) == (0, "ok", {})
    assert files(here) == once


def test_a_loss_that_is_no_longer_allowed_is_taken_back(tmp_path: Path) -> None:
    """The model gets larger, which is said and not done by `check`."""
    here = tmp_path / "here"
    committed(here, INT8)
    policy(here, FP16)
    before = files(here)
    checked = onnx_ci("check", "--all", cwd=here)
    assert checked.code == 1
    assert "error OCI011 m.onnx: " in checked.out
    assert "its rule does not allow int8-weights; derived anew from its original it is" in checked.out
    assert "would change" in checked.out
    assert files(here) == before
    fixed = onnx_ci("fix", "--all", cwd=here)
    assert fixed.code == 0, fixed.out
    assert files(here) == made_from_scratch(tmp_path / "there", FP16)
    assert len(files(here)["m.onnx"]) > len(before["m.onnx"])


def test_a_tolerance_that_is_no_longer_kept_takes_the_loss_back(tmp_path: Path) -> None:
    here = tmp_path / "here"
    both = f"{HEAD}    methods: [fp16-weights, int8-weights]\n"
    committed(here, both)
    strict = f"{both}    tolerance: {{sqnr: 60}}\n"
    policy(here, strict)
    checked = onnx_ci("check", "--all", cwd=here)
    assert checked.code == 1
    assert "error OCI011 m.onnx: " in checked.out
    assert "sqnr" in checked.out
    assert onnx_ci("fix", "--all", cwd=here).code == 0
    assert files(here) == made_from_scratch(tmp_path / "there", strict)


def test_what_keeps_the_new_rule_is_not_made_larger(tmp_path: Path) -> None:
    """A raised budget would be met by fp16 now; what is there is smaller and within the tolerance."""
    methods = "    methods: [fp16-weights, int8-weights]\n"
    committed(tmp_path, f"{HEAD}{methods}    budget: {{size: 12 kB}}\n")
    policy(tmp_path, f"{HEAD}{methods}    budget: {{size: 25 kB}}\n")
    before = files(tmp_path)
    done = onnx_ci("fix", "--all", "--format", "json", cwd=tmp_path)
    assert (done.code, verdict(done), codes(done)) == (0, "ok", {"OCI011": "note"})
    assert files(tmp_path) == before
    (finding,) = done.json["models"][0]["findings"]
    assert "with fp16-weights" in finding["message"]
    follow(finding["hint"].removeprefix("to have that instead: "), tmp_path)
    types = {tensor.data_type for tensor in onnx.load(tmp_path / "m.onnx").graph.initializer}
    assert types == {onnx.TensorProto.FLOAT16}


def follow(hint: str, folder: Path) -> None:
    """Do what a hint says, with our own command in place of the installed one."""
    restore, _, fix = hint.partition(" && onnx-ci ")
    subprocess.run(["sh", "-ec", restore], cwd=folder, check=True)
    if fix:
        onnx_ci(*fix.split(), cwd=folder)


def test_nothing_is_enlarged_past_its_budget(tmp_path: Path) -> None:
    committed(tmp_path, INT8)
    original = lean().SerializeToString()
    policy(tmp_path, f"{HEAD}    shrink: exact-only\n    methods: [dedupe]\n    budget: {{size: 20 kB}}\n")
    before = files(tmp_path)
    done = onnx_ci("fix", "--all", "--format", "json", cwd=tmp_path)
    assert (done.code, verdict(done), codes(done)) == (1, "outputs_changed", {"OCI011": "error"})
    assert done.json["models"][0]["after"] == done.json["models"][0]["before"]
    assert files(tmp_path) == before
    (finding,) = done.json["models"][0]["findings"]
    assert "left as it is" in finding["message"]
    follow(finding["hint"].removeprefix("change the rule, or put the original back: "), tmp_path)
    assert files(tmp_path)["m.onnx"] == original


def test_a_result_that_is_larger_and_over_its_budget_is_not_put_in_place(tmp_path: Path) -> None:
    """fp16 is allowed and proven, but too large for a budget that the int8 model there keeps."""
    committed(tmp_path, INT8)
    policy(
        tmp_path, f"{HEAD}    shrink: smallest\n    methods: [fp16-weights]\n    budget: {{size: 12 kB}}\n"
    )
    before = files(tmp_path)
    done = onnx_ci("fix", "--all", "--format", "json", cwd=tmp_path)
    assert (done.code, verdict(done), codes(done)) == (1, "outputs_changed", {"OCI011": "error"})
    assert "which breaks its budget" in done.out
    assert files(tmp_path) == before


def test_another_rule_with_the_same_result_changes_nothing(tmp_path: Path) -> None:
    committed(tmp_path, INT8)
    policy(tmp_path, INT8 + LOOSE)
    before = files(tmp_path)
    done = onnx_ci("fix", "--all", "--format", "json", cwd=tmp_path)
    assert (done.code, verdict(done), codes(done)) == (0, "ok", {})
    assert files(tmp_path) == before


def test_an_original_that_is_not_there_is_said_and_nothing_is_stacked(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    policy(tmp_path, FP16)
    onnx.save(lean(), tmp_path / "m.onnx")
    onnx_ci("fix", cwd=tmp_path)
    repository.commit_all("shrunk, the original never was in git")
    repository.forget_originals()
    policy(tmp_path, INT8)
    before = files(tmp_path)
    done = onnx_ci("fix", "--all", "--format", "json", cwd=tmp_path)
    assert (done.code, verdict(done), codes(done)) == (0, "ok", {"OCI011": "note"})
    assert "was not found in git history" in done.out
    assert files(tmp_path) == before
    policy(tmp_path, f"{INT8}    budget: {{size: 10 kB}}\n")
    over = onnx_ci("check", "--all", "--format", "json", cwd=tmp_path)
    assert (over.code, codes(over)) == (1, {"OCI011": "warning", "OCI001": "error"})
    policy(tmp_path, FP16.replace("fp16-weights", "dedupe"))
    exact = onnx_ci("check", "--all", "--format", "json", cwd=tmp_path)
    assert (exact.code, codes(exact)) == (1, {"OCI011": "error"})


def test_a_shallow_clone_says_that_it_is_one(tmp_path: Path) -> None:
    committed(tmp_path / "far", FP16)
    near = Repository(tmp_path / "near")
    near.git("fetch", "--quiet", "--depth=1", f"file://{tmp_path / 'far'}", "main")
    near.git("checkout", "--quiet", "FETCH_HEAD")
    policy(near.root, INT8)
    out = onnx_ci("check", "--all", cwd=near.root).out
    assert "OCI011 m.onnx: " in out
    assert "git fetch --unshallow" in out


def test_it_is_found_under_another_name_and_in_another_branch(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    policy(tmp_path, FP16)
    repository.commit_all("policy")
    repository.git("checkout", "--quiet", "-b", "side")
    (tmp_path / "old").mkdir()
    onnx.save(lean(), tmp_path / "old" / "n.onnx")
    repository.commit_all("original")
    repository.git("checkout", "--quiet", "main")
    onnx.save(lean(), tmp_path / "m.onnx")
    onnx_ci("fix", "m.onnx", cwd=tmp_path)
    repository.commit_all("shrunk")
    policy(tmp_path, INT8)
    assert verdict(onnx_ci("fix", "--all", "--format", "json", cwd=tmp_path)) == "shrunk"


def test_an_original_that_was_only_staged_is_found(tmp_path: Path) -> None:
    """What a hook that fixes leaves behind: the original was added and never committed."""
    repository = Repository(tmp_path)
    policy(tmp_path, FP16)
    onnx.save(lean(), tmp_path / "m.onnx")
    repository.git("add", "--all")
    onnx_ci("fix", cwd=tmp_path)
    repository.commit_all("shrunk")
    policy(tmp_path, INT8)
    assert verdict(onnx_ci("fix", "--all", "--format", "json", cwd=tmp_path)) == "shrunk"


def test_another_content_of_the_same_size_is_not_taken_for_it(tmp_path: Path) -> None:
    """The receipt and git agree on size and name; only the sha256 tells."""
    repository = Repository(tmp_path)
    policy(tmp_path, FP16)
    for seed in (1, 2):
        onnx.save(lean(seed=seed), tmp_path / "m.onnx")
        repository.commit_all("another model")
    onnx.save(lean(), tmp_path / "m.onnx")
    onnx_ci("fix", cwd=tmp_path)
    repository.commit_all("shrunk")
    repository.forget_originals()
    policy(tmp_path, INT8)
    out = onnx_ci("check", "--all", cwd=tmp_path).out
    assert "OCI011 m.onnx: " in out
    assert "was not found" in out


def test_the_right_one_of_several_versions_is_found(tmp_path: Path) -> None:
    here = tmp_path / "here"
    repository = Repository(here)
    policy(here, FP16)
    for seed in (1, 0, 2):
        onnx.save(lean(seed=seed), here / "m.onnx")
        repository.commit_all(f"version {seed}")
    onnx.save(lean(), here / "m.onnx")
    onnx_ci("fix", cwd=here)
    policy(here, INT8)
    assert onnx_ci("fix", "--all", cwd=here).code == 0
    assert files(here) == made_from_scratch(tmp_path / "there", INT8)


def test_external_data_is_found_with_its_model(tmp_path: Path) -> None:
    here = tmp_path / "here"
    committed(here, FP16, **DATA)
    source = receipt(here / "m.onnx")
    policy(here, INT8)
    done = onnx_ci("fix", "--all", "--format", "json", cwd=here)
    assert (done.code, verdict(done)) == (0, "shrunk"), done.out
    assert files(here) == made_from_scratch(tmp_path / "there", INT8, **DATA)
    assert receipt(here / "m.onnx")["source_data"] == source["source_data"]


def test_external_data_is_found_where_it_was_before_it_was_moved(tmp_path: Path) -> None:
    here = tmp_path / "here"
    repository = committed(here, FP16, **DATA)
    (here / "sub").mkdir()
    repository.git("mv", "m.onnx", "m.onnx.data", "sub")
    repository.commit_all("moved")
    policy(here, INT8)
    assert verdict(onnx_ci("fix", "--all", "--format", "json", cwd=here)) == "shrunk"
    assert files(here / "sub") == made_from_scratch(tmp_path / "there", INT8, **DATA)


def test_external_data_that_is_gone_is_an_original_that_is_gone(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    policy(tmp_path, FP16)
    (tmp_path / ".gitignore").write_text("*.data\n")
    onnx.save(lean(), tmp_path / "m.onnx", **DATA)
    repository.commit_all("original without its data")
    onnx_ci("fix", "--all", cwd=tmp_path)
    repository.forget_originals()
    policy(tmp_path, INT8)
    out = onnx_ci("check", "--all", cwd=tmp_path).out
    assert "OCI011 m.onnx: " in out
    assert "was not found" in out


@pytest.mark.real
@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")
@pytest.mark.parametrize("how", [{}, DATA], ids=["one file", "external data"])
def test_an_original_in_git_lfs_is_found_and_nothing_is_downloaded(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    far, near = tmp_path / "far", tmp_path / "near"
    repository = Repository(far)
    repository.git("lfs", "install", "--local")
    repository.git("lfs", "track", "*.onnx", "*.data")
    committed(far, FP16, **how)
    assert b"git-lfs" in repository.git("cat-file", "blob", "HEAD~1:m.onnx").encode()
    environment = {**os.environ, "GIT_LFS_SKIP_SMUDGE": "1"}
    subprocess.run(["git", "clone", "--quiet", f"file://{far}", near], env=environment, check=True)
    for name in files(far):
        shutil.copy(far / name, near / name)
    policy(near, INT8)
    missing = onnx_ci("check", "--all", cwd=near)
    assert "OCI011 m.onnx: " in missing.out
    assert "was not found" in missing.out
    policy(far, INT8)
    done = onnx_ci("fix", "--all", "--format", "json", cwd=far)
    assert (done.code, verdict(done)) == (0, "shrunk"), done.out
    assert files(far) == made_from_scratch(tmp_path / "there", INT8, **how)


@pytest.mark.real
@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")
def test_the_way_back_from_git_lfs(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.git("lfs", "install", "--local")
    repository.git("lfs", "track", "*.onnx")
    committed(tmp_path, FP16)
    policy(tmp_path, f"{HEAD}    methods: [dedupe]\n")
    done = onnx_ci("check", "--all", "--format", "json", cwd=tmp_path)
    (finding,) = done.json["models"][0]["findings"]
    follow(finding["hint"].removeprefix("change the rule, or put the original back: "), tmp_path)
    assert files(tmp_path)["m.onnx"] == lean().SerializeToString()


@pytest.mark.real
@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")
def test_a_damaged_lfs_object_is_not_trusted(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.git("lfs", "install", "--local")
    repository.git("lfs", "track", "*.onnx")
    committed(tmp_path, FP16)
    digest = hashlib.sha256(lean().SerializeToString()).hexdigest()
    stored = tmp_path / ".git" / "lfs" / "objects" / digest[:2] / digest[2:4] / digest
    stored.chmod(0o644)
    stored.write_bytes(lean(seed=1).SerializeToString())
    policy(tmp_path, INT8)
    before = files(tmp_path)
    out = onnx_ci("fix", "--all", cwd=tmp_path).out
    assert "OCI011 m.onnx: " in out
    assert "was not found" in out
    assert files(tmp_path) == before


def test_a_rule_without_methods_looks_for_nothing(tmp_path: Path) -> None:
    committed(tmp_path, INT8)
    policy(tmp_path, f"{HEAD}    methods: []\n")
    assert onnx_ci("check", "--all", cwd=tmp_path).code == 0


FORGED: list[dict[str, Any]] = [
    {"source_sha256": "../../../../etc/passwd"},
    {"source_sha256": 5},
    {"source_size": "many"},
    {"source_size": -1},
    {"methods": [5]},
    {"methods": "int8-weights"},
    {"source_data": {"../m.onnx": "0" * 64, "x": "1"}},
    {"source_data": {"m.onnx": None}},
]


def test_a_forged_receipt_leads_nowhere(tmp_path: Path) -> None:
    committed(tmp_path, FP16)
    model = onnx.load(tmp_path / "m.onnx")
    (entry,) = model.metadata_props
    for number, field in enumerate(FORGED):
        entry.value = json.dumps({**receipt(tmp_path / "m.onnx"), **field})
        onnx.save(model, tmp_path / f"forged-{number}.onnx")
    policy(tmp_path, f"{HEAD}    methods: [dedupe]\n")
    done = onnx_ci("check", "--all", "--format", "json", cwd=tmp_path)
    found = {model["path"]: model for model in done.json["models"]}
    assert found.pop("m.onnx")["findings"][0]["code"] == "OCI011"
    # What is believed to be rounded, by an original that nobody has, may not stay under this rule.
    assert {model["verdict"] for model in found.values()} == {"ok", "unfit"}
    for one in found.values():
        errors = [finding["code"] for finding in one["findings"] if finding["severity"] == "error"]
        assert (errors == ["OCI011"]) == (one["verdict"] == "unfit")


def test_explain_shows_what_comes_of_the_original(tmp_path: Path) -> None:
    committed(tmp_path, FP16)
    policy(tmp_path, INT8)
    out = onnx_ci("explain", "m.onnx", cwd=tmp_path).out
    assert "OCI011 m.onnx: " in out
    assert "derived anew from its original" in out


def test_samples_of_the_repository_still_count(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=np.random.default_rng(3).standard_normal((2, 64)).astype(np.float32))
    given = '    inputs: {samples: ["*.npz"]}\n'
    committed(tmp_path, FP16 + given)
    policy(tmp_path, INT8 + given)
    done = onnx_ci("fix", "--all", "--format", "json", cwd=tmp_path)
    assert (verdict(done), done.json["models"][0]["verification"]["inputs"]) == ("shrunk", "samples")
