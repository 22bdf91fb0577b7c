"""Budgets that only ever go down, and models that are as they were before."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.support.cli import call as onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.models import bloated, lean

pytestmark = pytest.mark.sampled(2)

WRITTEN = """\
# what our models may weigh
version: 1
defaults: {budget: &common {size: 1 MB, params: 1M}}   # for most
models:
  - path: "*.onnx"
  - {path: small/**, budget: {size: "50 kB",   gzip: 5 MB}}  # keep it so
  - path: over.onnx
    budget:
      <<: *common
      size: &least 10 kB   # too small already
  - path: none/**
    budget: {size: 77 MB}
groups:
    - {name: all, paths: ["**"], budget: {size: 9 GB}}
"""


def test_ratchet_lowers_budgets_and_touches_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    onnx.save(lean(layers=3), tmp_path / "a.onnx")
    onnx.save(lean(layers=1), tmp_path / "b.onnx")
    onnx.save(lean(), tmp_path / "over.onnx")
    onnx.save(lean(layers=1), tmp_path / "small" / "c.onnx")
    sizes = {path.name: path.stat().st_size for path in tmp_path.rglob("*.onnx")}
    (tmp_path / ".onnx-ci.yaml").write_bytes(WRITTEN.replace("\n", "\r\n").encode())
    done = onnx_ci("ratchet", cwd=tmp_path)
    assert done.code == 0, done.err
    assert ".onnx-ci.yaml:3: size 1 MB -> 49.4 kB" in done.out
    text = (tmp_path / ".onnx-ci.yaml").read_bytes().decode().replace("\r\n", "\n")
    expected = WRITTEN
    for old, new in (
        ("size: 1 MB", f"size: {sizes['a.onnx'] / 1000} kB"),
        ("params: 1M", f"params: {3 * 64 * 64}"),
        ('"50 kB"', f'"{sizes["c.onnx"] / 1000} kB"'),
        ("9 GB", f"{sum(sizes.values()) / 1000} kB"),
    ):
        expected = expected.replace(old, new)
    gzip = text.split("gzip: ")[1].split("}")[0]
    assert text == expected.replace("gzip: 5 MB", f"gzip: {gzip}")
    assert gzip.endswith(" kB")
    again = onnx_ci("ratchet", cwd=tmp_path)
    assert "no budget is above" in again.out


def test_a_budget_is_lowered_by_the_models_that_it_holds_for(tmp_path: Path) -> None:
    for name, layers in (("a", 1), ("b", 2), ("c", 3)):
        onnx.save(lean(layers=layers), tmp_path / f"{name}.onnx")
    rules = [
        "defaults: {budget: {size: 3 MB}}\nmodels:",
        '  - {path: "*.onnx", budget: {size: 1 MB}}',
        "  - {path: b.onnx, severity: warning}",
        "  - {path: c.onnx, budget: none}",
    ]
    policy = tmp_path / ".onnx-ci.yaml"
    policy.write_text("version: 1\n" + "\n".join(rules) + "\n")
    done = onnx_ci("ratchet", cwd=tmp_path)
    assert done.code == 0, done.err
    size = (tmp_path / "b.onnx").stat().st_size
    assert policy.read_text().splitlines()[3] == rules[1].replace("1 MB", f"{size / 1000} kB")
    assert "3 MB" in policy.read_text()  # no model is under it


def test_from_init_to_a_smaller_model(tmp_path: Path) -> None:
    Repository(tmp_path)
    onnx.save(bloated(), tmp_path / "m.onnx")
    before = (tmp_path / "m.onnx").stat().st_size
    assert onnx_ci("init", "--ratchet", "--no-survey", cwd=tmp_path).code == 0
    assert f"size: {before / 1000} kB" in (tmp_path / ".onnx-ci.yaml").read_text()
    refused = onnx_ci("init", "--ratchet", cwd=tmp_path)
    assert (refused.code, "onnx-ci ratchet" in refused.err) == (2, True)
    assert onnx_ci("fix", "--all", cwd=tmp_path).code == 0
    assert onnx_ci("ratchet", cwd=tmp_path).code == 0
    after = (tmp_path / "m.onnx").read_bytes()
    assert f"size: {len(after) / 1000} kB" in (tmp_path / ".onnx-ci.yaml").read_text()
    assert onnx_ci("fix", "--all", cwd=tmp_path).code == 0
    assert (tmp_path / "m.onnx").read_bytes() == after
    onnx.save(bloated(layers=8), tmp_path / "m.onnx")
    onnx_ci("ratchet", cwd=tmp_path)
    assert f"size: {len(after) / 1000} kB" in (tmp_path / ".onnx-ci.yaml").read_text(), "never raised"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("models:\n- path: a.onnx # one\n# end\n", "models:\n- path: a.onnx # one\n{}# end\n"),
        (
            "models:\n    - {path: a.onnx}\ngroups: []",
            "models:\n    - {path: a.onnx}\n    {}groups: []",
        ),
        ("models:\n  - path: a.onnx", "models:\n  - path: a.onnx\n  {}"),
        ("models: [{path: a.onnx}]\n", None),
    ],
)
def test_a_model_without_a_rule_gets_one(before: str, after: str | None, tmp_path: Path) -> None:
    policy = tmp_path / ".onnx-ci.yaml"
    policy.write_text(f"version: 1\n{before}")
    for name in ("a.onnx", 'b "b".onnx'):
        onnx.save(lean(), tmp_path / name)
    size = (tmp_path / "a.onnx").stat().st_size / 1000
    done = onnx_ci("ratchet", cwd=tmp_path)
    assert done.code == 0, done.err
    if after is None:
        assert 'could not add a rule for b "b".onnx' in done.out
        assert policy.read_text() == f"version: 1\n{before}"
        return
    margin = after.split("{}")[0].rsplit("\n", 1)[1]
    rule = f'- path: "/b \\"b\\".onnx"\n{margin}  budget: {{size: {size} kB}}\n'
    assert policy.read_text() == "version: 1\n" + after.replace("{}", rule)
    assert onnx_ci("check", "--all", cwd=tmp_path).code == 0
    again = onnx_ci("ratchet", cwd=tmp_path)
    assert "added" not in again.out


def test_no_policy_to_ratchet(tmp_path: Path) -> None:
    done = onnx_ci("ratchet", cwd=tmp_path)
    assert (done.code, "init --ratchet" in done.err) == (2, True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("flag", [True, False])
def test_only_what_is_new_fails(tmp_path: Path, flag: bool) -> None:
    repository = Repository(tmp_path)
    rule = "    budget: {size: 20 kB}\n    methods: []\n" + ("" if flag else "    only_new: true\n")
    arguments = ["--only-new"] if flag else []
    write_policy(tmp_path, rule)
    onnx.save(lean(), tmp_path / "old.onnx")
    onnx.save(lean(seed=1), tmp_path / "same.onnx")
    repository.commit_all("over budget already")
    done = onnx_ci("check", "--all", *arguments, cwd=tmp_path)
    assert done.code == 0, done.out
    assert "warning OCI001 old.onnx" in done.out
    assert "OCI025 old.onnx: did not change since the last commit" in done.out
    onnx.save(lean(seed=3), tmp_path / "old.onnx")
    onnx.save(lean(seed=4), tmp_path / "new.onnx")
    repository.git("mv", "same.onnx", "moved.onnx")
    repository.git("add", "new.onnx")
    changed = onnx_ci("check", "--all", *arguments, cwd=tmp_path)
    assert changed.code == 1
    assert "error OCI001 old.onnx" in changed.out
    assert "error OCI001 new.onnx" in changed.out
    assert "warning OCI001 moved.onnx" in changed.out, "another name, the same content"
    staged = onnx_ci("check", "--staged", "old.onnx", *arguments, cwd=tmp_path)
    assert "warning OCI001 old.onnx" in staged.out, "what is staged did not change"
