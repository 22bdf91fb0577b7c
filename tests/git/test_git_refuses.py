"""A git that refuses is never taken for a repository without models: exit 3, in git's own words."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from tests.support.cli import call, onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.models import bloated

pytestmark = pytest.mark.sampled(16)

COMMANDS = {
    "check": ["check"],
    "check --all": ["check", "--all"],
    "check --staged": ["check", "--staged"],
    "check --staged --hook": ["check", "--staged", "--hook", "--", "m.onnx"],
    "check --since": ["check", "--since", "main~1"],
    "check FOLDER": ["check", "."],
    "check MODEL": ["check", "m.onnx"],
    "fix": ["fix"],
    "fix --all": ["fix", "--all"],
    "files": ["files", "--all"],
    "plan": ["plan", "--shards", "2", "--all"],
    "ratchet": ["ratchet"],
    "init": ["init", "--force"],
}
Change = Callable[[Repository], dict[str, str] | None]


def another_owner(repository: Repository) -> dict[str, str]:
    if os.geteuid() == 0:
        for path in (repository.root, repository.root / ".git"):
            os.chown(path, 12345, 12345)
        return {}
    return {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}


def garbage(name: str, text: str = "garbage\n") -> Change:
    def write(repository: Repository) -> None:
        (repository.root / ".git" / name).write_text(text)

    return write


def no_head(repository: Repository) -> None:
    (repository.root / ".git/HEAD").unlink()


def moved_worktree(repository: Repository) -> None:
    (repository.root / ".git").rename(repository.root.parent / "elsewhere")
    (repository.root / ".git").write_text(f"gitdir: {repository.root.parent}/gone/.git/worktrees/w\n")


def empty_folder(repository: Repository) -> None:
    (repository.root / ".git").rename(repository.root.parent / "elsewhere")
    (repository.root / ".git").mkdir()


def unknown_format(repository: Repository) -> None:
    repository.git("config", "core.repositoryformatversion", "99")


def no_git(repository: Repository) -> dict[str, str]:
    (repository.root.parent / "bin").mkdir()
    return {"PATH": str(repository.root.parent / "bin")}


def missing_commit(repository: Repository) -> None:
    (repository.root / ".git/refs/heads/main").write_text("1234567890" * 4 + "\n")


# Each with words that have to be in what is said.
STATES: dict[str, tuple[Change, str]] = {
    "another owner": (another_owner, "git config --global --add safe.directory "),
    "garbage index": (garbage("index", "garbage " * 20), "index"),
    "broken config": (garbage("config", "[core\n"), "bad config line 1"),
    "no HEAD": (no_head, "not a git repository"),
    "garbage HEAD": (garbage("HEAD"), "not a git repository"),
    "garbage branch": (garbage("refs/heads/main"), "HEAD"),
    "missing commit": (missing_commit, "HEAD"),
    "bad GIT_DIR": (lambda _: {"GIT_DIR": "/nowhere/.git"}, "GIT_DIR"),
    "moved worktree": (moved_worktree, "not a git repository"),
    "unknown format": (unknown_format, "99"),
    "empty .git folder": (empty_folder, "not a git repository"),
    "no git": (no_git, "git is not installed"),
}
# What these commands ask has an answer all the same, and that is the right one.
ANSWERED = {
    "garbage index": {"check MODEL"},
    "garbage branch": {"files", "ratchet", "init"},
    "missing commit": {"files", "ratchet", "init"},
}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "checkout")
    write_policy(made.root, "    budget: {size: 20 kB}\n")
    made.commit_all("policy")
    onnx.save(bloated(), made.root / "m.onnx")
    made.commit_all("model")
    onnx.save(bloated(seed=1), made.root / "m.onnx")
    made.git("add", "m.onnx")
    return made


REFUSED = [
    (state, command) for state in STATES for command in COMMANDS if command not in ANSWERED.get(state, ())
]


@pytest.mark.parametrize(("state", "command"), REFUSED)
def test_no_verdict_where_git_refuses(state: str, command: str, repository: Repository) -> None:
    change, words = STATES[state]
    before = {path: path.read_bytes() for path in repository.root.iterdir() if path.is_file()}
    environment = change(repository) or {}
    done = call(*COMMANDS[command], cwd=repository.root, env=environment)
    assert done.code == 3, done.out + done.err
    assert words in done.err
    assert "no model" not in done.out + done.err
    after = {path: path.read_bytes() for path in before if path.name != ".git"}
    assert after == {path: content for path, content in before.items() if path.name != ".git"}


@pytest.mark.parametrize("state", STATES)
def test_as_a_process_of_its_own(state: str, repository: Repository) -> None:
    environment = STATES[state][0](repository) or {}
    done = onnx_ci("check", "--all", cwd=repository.root, env=environment)
    assert done.code == 3, done.out + done.err
    assert STATES[state][1] in done.err
    assert "nothing was checked" in done.err or state == "no git"


def test_what_to_run_for_a_checkout_of_another_user(repository: Repository) -> None:
    environment = another_owner(repository)
    environment |= {"GIT_CONFIG_GLOBAL": str(repository.root.parent / "gitconfig")}
    refused = onnx_ci("check", cwd=repository.root, env=environment)
    line = next(line for line in refused.err.splitlines() if "safe.directory" in line)
    command = line.partition("run: ")[2].split()
    assert command[:5] == ["git", "config", "--global", "--add", "safe.directory"]
    assert command[5:] == [str(repository.root)]
    assert repository.run(*command, **environment).returncode == 0
    assert onnx_ci("check", cwd=repository.root, env=environment).code == 1


@pytest.mark.parametrize("below", [False, True])
def test_a_git_folder_that_is_none_does_not_lead_to_the_repository_around(
    below: bool, repository: Repository
) -> None:
    """Git itself goes on upward, and its names would be those of another folder."""
    inner = repository.root / "inner"
    (inner / ".git").mkdir(parents=True)
    onnx.save(bloated(), inner / "inner.onnx")
    done = call("check", cwd=inner) if below else call("check", "--all", cwd=inner)
    assert done.code == 3
    assert "not a git repository" in done.err


@pytest.mark.parametrize("command", ["check --since", "check --staged", "check", "check MODEL"])
def test_corrupt_objects(command: str, repository: Repository) -> None:
    """Trees that can't be read are not trees in which nothing changed."""
    for path in (repository.root / ".git/objects").glob("??/*"):
        path.chmod(0o644)
        path.write_bytes(b"garbage")
    assert call(*COMMANDS[command], cwd=repository.root).code == 3


def test_a_corrupt_pack(repository: Repository) -> None:
    repository.git("gc", "--quiet")
    for path in (repository.root / ".git/objects/pack").glob("*.pack"):
        path.chmod(0o644)
        path.write_bytes(b"PACK" + bytes(2000))
    for command in ("check", "check --since", "check --staged"):
        assert call(*COMMANDS[command], cwd=repository.root).code == 3


def test_a_lost_content_is_not_an_empty_file(repository: Repository) -> None:
    """The base can't be read: how much a model grew is not known, and not nothing."""
    write_policy(repository.root, "    budget: {growth: 5%}\n    methods: []\n")
    blob = repository.git("rev-parse", "HEAD:m.onnx").strip()
    (repository.root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    done = call("check", "m.onnx", cwd=repository.root)
    assert done.code == 3
    assert blob in done.err


def test_a_repository_by_git_dir_alone(repository: Repository) -> None:
    """No `.git` upward, and GIT_DIR says where it is."""
    moved = repository.root.parent / "kept.git"
    (repository.root / ".git").rename(moved)
    here = {"GIT_DIR": str(moved), "GIT_WORK_TREE": str(repository.root)}
    assert call("check", cwd=repository.root, env=here).code == 1
    assert call("check", "--staged", cwd=repository.root, env=here).code == 1
    nowhere = call("check", cwd=repository.root, env={"GIT_DIR": "/nowhere/.git"})
    assert nowhere.code == 3
    assert "GIT_DIR" in nowhere.err


def test_no_repository_is_a_plain_folder(tmp_path: Path) -> None:
    onnx.save(bloated(), tmp_path / "m.onnx")
    done = call("check", cwd=tmp_path, env={"PATH": str(tmp_path)})
    assert done.code == 1, done.out + done.err


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"check --since"}))
def test_a_repository_without_commits(command: str, tmp_path: Path) -> None:
    made = Repository(tmp_path)
    write_policy(made.root, "    budget: {size: 1 MB}\n    methods: []\n")
    onnx.save(bloated(), made.root / "m.onnx")
    made.git("add", "m.onnx")
    assert call(*COMMANDS[command], cwd=made.root).code == 0


@pytest.mark.parametrize(
    "arguments", [("check", "--all"), ("check", "--since", "HEAD~1"), ("files", "--all")]
)
def test_models_that_a_sparse_checkout_leaves_out_are_not_passed_over(
    arguments: tuple[str, ...], repository: Repository
) -> None:
    (repository.root / "src").mkdir()
    (repository.root / "src" / "code.py").write_text("")
    (repository.root / "models").mkdir()
    repository.git("mv", "m.onnx", "models/m.onnx")
    repository.commit_all("moved")
    repository.git("sparse-checkout", "set", "src")
    done = onnx_ci(*arguments, cwd=repository.root)
    assert done.code == 3, done.out + done.err
    assert "a sparse checkout leaves models out" in done.err
    assert "models/m.onnx" in done.err


def test_another_work_tree_in_the_environment_is_not_asked(repository: Repository) -> None:
    elsewhere = {"GIT_WORK_TREE": str(repository.root.parent)}
    assert onnx_ci("check", "--all", cwd=repository.root, env=elsewhere).code == 1
