"""Which models a run looks at, in every shape a repository can have."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.support.cli import Done
from tests.support.cli import call as onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.models import lean

pytestmark = pytest.mark.sampled(6)

RULE = "    budget: {size: 1 MB, growth: 5%}\n    methods: []\n"


def checked(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> list[str]:
    done = onnx_ci("check", "--format", "json", *arguments, cwd=cwd, env=env)
    assert done.code == 0, done.out + done.err
    return [model["path"] for model in done.json["models"]]


@pytest.fixture
def forked(tmp_path: Path) -> Repository:
    """`main` and `branch` have both gone on since they parted, each by a model and 60 commits."""
    made = Repository(tmp_path / "origin")
    write_policy(made.root, RULE)
    onnx.save(lean(), made.root / "both.onnx")
    made.commit_all("parted here")
    for branch in ("branch", "main"):
        made.git("checkout", "--quiet", "-B", branch, "HEAD" if branch == "branch" else "main")
        onnx.save(lean(seed=1), made.root / f"{branch}.onnx")
        made.commit_all(branch)
        made.empty_commits(60)
    return made


def test_since_means_the_merge_base(forked: Repository) -> None:
    forked.git("checkout", "--quiet", "--detach", "branch")
    assert checked("--since", "main", cwd=forked.root) == ["branch.onnx"]


def clone(forked: Repository, to: Path, *options: str) -> Repository:
    forked.git("clone", "--quiet", "--branch=branch", *options, f"file://{forked.root}", str(to))
    return Repository(to)


def test_a_shallow_clone_fetches_what_it_needs(forked: Repository, tmp_path: Path) -> None:
    shallow = clone(forked, tmp_path / "shallow", "--depth=1")
    assert checked("--since", "origin/main", cwd=shallow.root) == ["branch.onnx"]
    by_commit = clone(forked, tmp_path / "other", "--depth=1")
    tip = forked.git("rev-parse", "main").strip()
    assert checked("--since", tip, cwd=by_commit.root) == ["branch.onnx"]


def test_a_shallow_clone_that_can_not_fetch_says_what_to_run(forked: Repository, tmp_path: Path) -> None:
    shallow = clone(forked, tmp_path / "shallow", "--depth=1", "--no-single-branch")
    forked.root.rename(tmp_path / "gone")
    deep = onnx_ci("check", "--since", "origin/main", cwd=shallow.root)
    assert deep.code == 2
    assert "run: git fetch --unshallow origin" in deep.err
    assert "fatal: " in deep.err, "the reason, not the advice that git ends with"
    everything = onnx_ci("check", "--all", cwd=shallow.root, env={"GITHUB_BASE_REF": "main"})
    assert everything.code == 0
    assert "growth was not judged" in everything.out
    unknown = onnx_ci("check", "--since", "origin/nowhere", cwd=shallow.root)
    assert unknown.code == 2
    assert "git fetch origin nowhere" in unknown.err
    shallow.git("remote", "remove", "origin")
    alone = onnx_ci("check", "--since", "HEAD~1", cwd=shallow.root)
    assert alone.code == 2
    assert "git does not know the revision 'HEAD~1'" in alone.err
    gone = onnx_ci("check", "--since", "origin/main", cwd=shallow.root)
    assert "there is no remote to fetch it from" in gone.err
    assert "git fetch origin" not in gone.err


def test_branches_with_nothing_in_common(forked: Repository) -> None:
    forked.git("checkout", "--quiet", "--orphan", "other")
    forked.commit_all("another history")
    done = onnx_ci("check", "--since", "main", cwd=forked.root)
    assert (done.code, "no commit in common" in done.err) == (2, True)


def test_no_commits_yet(tmp_path: Path) -> None:
    Repository(tmp_path)
    write_policy(tmp_path, RULE)
    onnx.save(lean(), tmp_path / "m.onnx")
    assert checked(cwd=tmp_path) == ["m.onnx"]
    assert checked("--all", cwd=tmp_path) == ["m.onnx"]
    assert onnx_ci("check", "--since", "main", cwd=tmp_path).code == 2


def test_outside_git(tmp_path: Path) -> None:
    write_policy(tmp_path, RULE)
    onnx.save(lean(), tmp_path / "m.onnx")
    assert checked("m.onnx", cwd=tmp_path) == ["m.onnx"]
    (tmp_path / ".cache").mkdir()
    onnx.save(lean(), tmp_path / ".cache" / "m.onnx")
    assert checked(cwd=tmp_path) == ["m.onnx"]
    assert checked("--all", cwd=tmp_path) == ["m.onnx"]
    for selection in (["--staged"], ["--since", "main"], ["--staged", "m.onnx"]):
        assert onnx_ci("check", *selection, cwd=tmp_path).code == 2


def test_a_worktree_of_its_own(forked: Repository, tmp_path: Path) -> None:
    forked.git("worktree", "add", "--quiet", str(tmp_path / "tree"), "branch")
    tree = Repository(tmp_path / "tree")
    onnx.save(lean(seed=5), tree.root / "branch.onnx")
    onnx.save(lean(seed=6), tree.root / "new.onnx")
    tree.git("add", "new.onnx")
    assert checked(cwd=tree.root) == ["branch.onnx", "new.onnx"]
    assert checked("--staged", cwd=tree.root) == ["new.onnx"]
    assert checked(cwd=forked.root) == []


def test_submodules_are_entered_only_by_name(forked: Repository, tmp_path: Path) -> None:
    outer = Repository(tmp_path / "outer")
    write_policy(outer.root, RULE)
    onnx.save(lean(), outer.root / "own.onnx")
    url = f"file://{forked.root}"
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "sub")
    assert checked("--all", cwd=outer.root) == ["own.onnx"]
    assert checked("--staged", cwd=outer.root) == []
    outer.commit_all("both")
    onnx.save(lean(layers=3), outer.root / "sub" / "both.onnx")
    assert checked(cwd=outer.root) == []
    named = onnx_ci("check", "sub", cwd=outer.root)
    assert "OCI002 sub/both.onnx" in named.out, "compared with what the submodule has"


def monorepo(root: Path) -> Repository:
    """Budgets that tell the policies apart: no model is under 1 kB, all are under 1 MB."""
    made = Repository(root)
    write_policy(root, "    budget: {size: 1 MB}\n    methods: []\n")
    write_policy(root / "apps" / "strict", "    budget: {size: 1 kB}\n    methods: []\n")
    (root / "apps" / "strict" / "models").mkdir()
    (root / "apps" / "plain").mkdir()
    onnx.save(lean(), root / "apps" / "strict" / "models" / "m.onnx")
    onnx.save(lean(), root / "apps" / "plain" / "m.onnx")
    return made


def test_the_nearest_policy_upward_rules(tmp_path: Path) -> None:
    monorepo(tmp_path)
    for cwd in (tmp_path, tmp_path / "apps"):
        done = onnx_ci("check", "--all", "--format", "json", cwd=cwd)
        verdicts = {model["path"]: model["verdict"] for model in done.json["models"]}
        assert (done.code, verdicts) == (
            1,
            {"apps/plain/m.onnx": "ok", "apps/strict/models/m.onnx": "over_budget"},
        )
        assert "strict/.onnx-ci.yaml:4" in done.out  # where the budget is
    inside = onnx_ci("check", "--all", "--format", "json", cwd=tmp_path / "apps" / "strict")
    verdicts = {model["path"]: model["verdict"] for model in inside.json["models"]}
    assert verdicts == {"models/m.onnx": "over_budget", "apps/plain/m.onnx": "ok"}
    named = onnx_ci("check", "--all", "--policy", ".onnx-ci.yaml", cwd=tmp_path)
    assert named.code == 0, "a policy that is named rules alone"


def test_built_in_rules_are_spoken_of_where_they_rule(tmp_path: Path) -> None:
    monorepo(tmp_path)
    (tmp_path / ".onnx-ci.yaml").unlink()
    said = "no .onnx-ci.yaml found"
    assert said in onnx_ci("check", "--all", cwd=tmp_path).out
    assert said not in onnx_ci("check", "apps/strict", cwd=tmp_path).out


def test_a_changed_policy_means_the_models_below_it(tmp_path: Path) -> None:
    repository = monorepo(tmp_path)
    repository.commit_all("models")
    write_policy(tmp_path / "apps" / "plain", RULE)
    assert checked(cwd=tmp_path) == ["apps/plain/m.onnx"]
    repository.git("add", ".")
    assert checked("--staged", cwd=tmp_path) == ["apps/plain/m.onnx"]


def test_a_broken_policy_below_is_named(tmp_path: Path) -> None:
    monorepo(tmp_path)
    (tmp_path / "apps" / "plain" / ".onnx-ci.yml").write_text("version: 1\nmodels: 5\n")
    done: Done = onnx_ci("check", "--all", cwd=tmp_path)
    assert done.code == 2
    assert "apps/plain/.onnx-ci.yml:2:" in done.err
