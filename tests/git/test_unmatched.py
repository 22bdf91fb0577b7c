"""A model that no rule reaches is an error; what `init` writes reaches every model."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.support.cli import Done
from tests.support.cli import call as onnx_ci
from tests.support.git_repo import Repository
from tests.support.models import bloated, lean

pytestmark = pytest.mark.sampled(2)

RULED = 'version: 1\nmodels:\n  - path: "models/**"\n    budget: {size: 1 MB}\n'


def repository(folder: Path, policy: str = RULED) -> Repository:
    made = Repository(folder)
    (folder / "models").mkdir()
    onnx.save(lean(), folder / "models" / "a.onnx")
    (folder / ".onnx-ci.yaml").write_text(policy)
    made.commit_all("start")
    return made


def codes(done: Done) -> list[tuple[str, str]]:
    found = [*done.json["findings"], *(f for model in done.json["models"] for f in model["findings"])]
    return [(finding["code"], finding["severity"]) for finding in found]


@pytest.mark.parametrize("how", [(), ("--since", "HEAD"), ("--staged",), ("--all",), ("new.onnx",)])
def test_a_model_without_a_rule_is_an_error(how: tuple[str, ...], tmp_path: Path) -> None:
    made = repository(tmp_path)
    onnx.save(lean(seed=1), tmp_path / "new.onnx")
    made.git("add", "new.onnx")
    done = onnx_ci("check", *how, cwd=tmp_path)
    assert done.code == 1, done.out
    assert "error OCI015 new.onnx: no rule of .onnx-ci.yaml matches it, so it was not checked" in done.out


@pytest.mark.parametrize(
    ("unmatched", "code", "found"),
    [("error", 1, [("OCI015", "error")]), ("warning", 0, [("OCI015", "warning")]), ("ignore", 0, [])],
)
def test_the_policy_says_what_it_is(
    unmatched: str, code: int, found: list[tuple[str, str]], tmp_path: Path
) -> None:
    repository(tmp_path, f"unmatched: {unmatched}\n{RULED}")
    onnx.save(lean(seed=1), tmp_path / "new.onnx")
    done = onnx_ci("check", "--format", "json", cwd=tmp_path)
    assert (done.code, codes(done)) == (code, found), done.out
    (model,) = done.json["models"]
    assert model["verdict"] == "ignored"
    explained = onnx_ci("explain", "new.onnx", cwd=tmp_path).out
    assert "no rule of .onnx-ci.yaml matches it, so it is not checked" in explained


def test_a_typo_in_a_pattern_passes_nothing(tmp_path: Path) -> None:
    repository(tmp_path, RULED.replace("models/**", "modles/**"))
    done = onnx_ci("check", "--all", cwd=tmp_path)
    assert done.code == 1
    assert "0 models checked: failed" in done.out
    told = "warning OCI046 .onnx-ci.yaml:3: the rule for 'modles/**' matches no model"
    assert f"{told}\n  did you mean 'models/a.onnx'?" in done.out
    junit = onnx_ci("check", "--all", "--format", "junit", cwd=tmp_path).out
    assert 'type="OCI015"' in junit
    assert "<skipped" not in junit


def test_a_rule_that_matches_no_model_is_told_at_its_line(tmp_path: Path) -> None:
    idle = '  - path: "gone/**"\n    budget: {size: 1 MB}\n  - path: "vendor/**"\n    ignore: true\n'
    repository(tmp_path, RULED + idle)
    done = onnx_ci("check", "models/a.onnx", "--format", "json", cwd=tmp_path)
    assert done.code == 0
    (finding,) = done.json["findings"]
    assert (finding["code"], finding["severity"], finding["line"]) == ("OCI046", "warning", 5)
    assert "'gone/**'" in finding["message"]
    nothing = onnx_ci("check", cwd=tmp_path)
    assert (nothing.code, "OCI" in nothing.out) == (0, False), "a run with nothing to do lists no models"


def test_a_model_that_was_moved_is_told_of_the_rule_it_had(tmp_path: Path) -> None:
    made = repository(tmp_path)
    made.git("mv", "models/a.onnx", "b.onnx")
    done = onnx_ci("check", "--staged", cwd=tmp_path)
    assert done.code == 1
    assert "error OCI015 b.onnx" in done.out
    assert "it was models/a.onnx before, under the rule for 'models/**' (.onnx-ci.yaml:3)" in done.out


@pytest.mark.sampled(0)
def test_after_init_no_new_model_goes_unseen(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    onnx.save(lean(), tmp_path / "a.onnx")
    assert onnx_ci("init", "--no-survey", cwd=tmp_path).code == 0
    made.commit_all("start")
    (tmp_path / "new").mkdir()
    onnx.save(bloated(layers=2), tmp_path / "new" / "b.onnx")
    done = onnx_ci("check", cwd=tmp_path)
    assert (done.code, "OCI003 new/b.onnx" in done.out) == (1, True), done.out
    onnx.save(lean(layers=3), tmp_path / "new" / "b.onnx")
    larger = onnx_ci("check", cwd=tmp_path)
    assert (larger.code, "OCI001 new/b.onnx" in larger.out) == (1, True), larger.out
    onnx.save(lean(layers=1), tmp_path / "new" / "b.onnx")
    assert onnx_ci("check", "--all", cwd=tmp_path).code == 0
    onnx.save(lean(layers=3), tmp_path / "a.onnx")
    assert onnx_ci("check", "a.onnx", cwd=tmp_path).code == 1, "its own rule holds"


def test_after_init_ratchet_a_new_model_needs_a_rule(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    onnx.save(lean(), tmp_path / "a.onnx")
    assert onnx_ci("init", "--ratchet", "--no-survey", cwd=tmp_path).code == 0
    made.commit_all("start")
    onnx.save(lean(layers=1), tmp_path / "b.onnx")
    assert "error OCI015 b.onnx" in onnx_ci("check", cwd=tmp_path).out
    assert onnx_ci("ratchet", cwd=tmp_path).code == 0
    assert onnx_ci("check", "--all", cwd=tmp_path).code == 0


def test_without_a_policy_built_in_rules_hold(tmp_path: Path) -> None:
    Repository(tmp_path)
    onnx.save(bloated(), tmp_path / "a.onnx")
    done = onnx_ci("check", cwd=tmp_path)
    assert (done.code, "OCI003 a.onnx" in done.out) == (1, True)
