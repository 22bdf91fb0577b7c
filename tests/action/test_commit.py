"""Mode commit: what is committed, how it is pushed, and what is refused, in real repositories."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import onnx
import pytest

from onnx_ci.action.commit import is_our_own
from onnx_ci.action.push import BOT, BOT_ADDRESS
from tests.support.action import Called, call
from tests.support.git_repo import Repository
from tests.support.models import bloated, save_outside
from tests.support.pull_requests import Hosted

pytestmark = pytest.mark.sampled(12)


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What one test has proven, the next believes: these tests are about git."""
    return {"ONNX_CI_CACHE": str(tmp_path_factory.mktemp("proven")), "ONNX_CI_CACHE_KEY": "of these tests"}


@pytest.fixture
def host(tmp_path: Path) -> Hosted:
    made = Hosted(tmp_path)
    made.add_model()
    made.push("a bloated model")
    return made


def commit(folder: Repository, proven: dict[str, str], event: str = "push", **inputs: str) -> Called:
    payload = inputs.pop("payload", None)
    also = {**proven, **inputs.pop("also", {})}  # type: ignore[dict-item]
    return call(folder.root, event, payload, also=also, mode="commit", **inputs)  # type: ignore[arg-type]


def hook(repository: Path, name: str, script: str) -> None:
    path = repository / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def overtake(clone: Repository, other: Repository, change: str, times: int = 1) -> None:
    """Just before our push gets through, somebody else's does."""
    counter = clone.root / ".git" / "pushes"
    script = f"""
unset $(env | sed -n 's/^\\(GIT_[A-Z_]*\\)=.*/\\1/p')
echo x >> '{counter}'
[ "$(wc -l < '{counter}')" -gt {times} ] && exit 0
cd '{other.root}' && {change}
git add -A && git -c user.name=o -c user.email=o@example.com commit -qm "theirs" && git push -q origin HEAD
"""
    hook(clone.root / ".git", "pre-push", script)


def test_what_was_fixed_is_committed_and_nothing_else(host: Hosted, proven: dict[str, str]) -> None:
    save_outside(bloated(seed=5), host.author.root / "outside.onnx")
    (host.author.root / "notes.txt").write_text("old")
    host.push("more")
    clone = host.clone("clone", "--depth=1")
    (clone.root / "notes.txt").write_text("edited by an earlier step")
    (clone.root / "staged.txt").write_text("staged by an earlier step")
    clone.git("add", "staged.txt")
    (clone.root / "left.txt").write_text("left by an earlier step")

    done = commit(clone, proven, commit_message="Shrink {models} models by {saved}")

    assert (done.code, done.outputs["committed"], done.outputs["changed"]) == ("0", "true", "true"), done.log
    assert done.outputs["commit-sha"] == host.origin.git("rev-parse", "main").strip()
    files = host.origin.git("show", "--format=", "--name-only", "main").split()
    assert files == ["models/a.onnx", "outside.onnx", "outside.onnx.data"]
    message = host.origin.git("log", "-1", "--format=%B%n%an <%ae>", "main")
    assert message.startswith("Shrink 2 models by 9"), message
    assert "- models/a.onnx: 65.8 kB -> 16.9 kB (-74.3%) with dedupe\n" in message
    assert "- outside.onnx: " in message
    assert "github-actions[bot] <41898282+github-actions[bot]@users.noreply.github.com>" in message
    assert is_our_own(host.origin.git("log", "-1", "--format=%B", "main"))
    assert clone.git("status", "--porcelain").split("\n")[:3] == [
        " M notes.txt",
        "A  staged.txt",
        "?? left.txt",
    ]
    assert "starts no workflow" in done.log
    assert int(done.outputs["bytes-after"]) < int(done.outputs["bytes-before"]) / 3


def test_nothing_to_do_is_no_commit(host: Hosted, proven: dict[str, str]) -> None:
    clone = host.clone("clone")
    commit(clone, proven)
    again = commit(clone, proven)
    assert (again.outputs["committed"], again.outputs["changed"], again.code) == ("false", "false", "0")
    (host.author.root / "readme").write_text("x")
    host.author.git("pull", "--quiet", "--rebase", "origin", "main")
    host.push("not about models")
    third = commit(host.clone("third"), proven)
    assert (third.outputs["committed"], third.outputs["changed"], third.code) == ("false", "false", "0")
    assert host.log() == ["not about models", "Shrink ONNX models", "a bloated model", "start"]


def our_own(host: Hosted, message: str) -> None:
    """A commit as the action makes them, with what is in the author's folder."""
    host.author.git("add", "--all")
    marked = f"{message}\n\nShrunk-by: onnx-ci 0.0.9"
    host.author.git("commit", "--quiet", "-m", marked, "--author", f"{BOT} <{BOT_ADDRESS}>")
    host.author.git("push", "--quiet", "origin", "HEAD:main")


@pytest.mark.parametrize("depth", [(), ("--depth=1",)])
def test_what_its_own_commit_changed_is_not_changed_again(
    host: Hosted, proven: dict[str, str], depth: tuple[str, ...]
) -> None:
    """Else a method that always finds something would lead from one run to the next."""
    (host.author.root / "models" / "a.onnx").unlink()
    host.push("without it")
    host.add_model("models/b.onnx", seed=1)
    our_own(host, "b")
    (host.author.root / "notes.txt").write_text("x")
    our_own(host, "another on top")
    done = commit(host.clone("clone", *depth), proven)
    assert (done.code, done.outputs["committed"]) == ("1", "false")
    assert "models/b.onnx was changed by the last commit, one of our own" in done.log
    assert done.patch.is_file()
    host.author.git("commit", "--quiet", "--amend", "--reset-author", "--no-edit")  # squashed by somebody
    host.author.git("push", "--quiet", "--force", "origin", "HEAD:main")
    assert commit(host.clone("squashed", *depth), proven).outputs["committed"] == "true"


@pytest.mark.parametrize("depth", [(), ("--depth=1",)])
def test_a_push_below_its_own_commit_is_fixed_too(
    host: Hosted, proven: dict[str, str], depth: tuple[str, ...]
) -> None:
    """While the first model was fixed somebody pushed a second: its run comes when ours is on top."""
    clone, other = host.clone("clone"), host.clone("other")
    onnx.save(bloated(seed=1), host.home / "new.onnx")
    overtake(clone, other, f"cp '{host.home}/new.onnx' models/b.onnx")
    assert commit(clone, proven).outputs["committed"] == "true"
    assert host.log()[:2] == ["Shrink ONNX models", "theirs"]
    assert host.size("models/b.onnx") > 60_000
    done = commit(host.clone("second", *depth), proven)
    assert (done.code, done.outputs["committed"]) == ("0", "true"), done.log
    assert host.size("models/b.onnx") < 20_000
    third = commit(host.clone("third", *depth), proven)
    assert (third.code, third.outputs["committed"]) == ("0", "false")


@pytest.mark.real
def test_who_is_configured_commits_and_signs(host: Hosted, proven: dict[str, str]) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    clone = host.clone("clone")
    key = host.home / "key"
    clone.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
    settings = {"user.name": "Ann", "user.email": "ann@example.com", "gpg.format": "ssh"}
    for name, value in {**settings, "user.signingkey": str(key), "commit.gpgsign": "true"}.items():
        clone.git("config", name, value)
    done = commit(clone, proven)
    assert done.outputs["committed"] == "true", done.log
    raw = host.origin.git("cat-file", "commit", "main")
    assert "committer Ann <ann@example.com>" in raw
    assert "BEGIN SSH SIGNATURE" in raw


def test_a_push_that_was_overtaken_goes_on_top(host: Hosted, proven: dict[str, str]) -> None:
    clone, other = host.clone("clone", "--depth=1"), host.clone("other")
    overtake(clone, other, "echo theirs >> theirs.txt", times=2)
    done = commit(clone, proven)
    assert done.outputs["committed"] == "true", done.log
    assert host.log() == ["Shrink ONNX models", "theirs", "theirs", "a bloated model", "start"]
    assert host.size("models/a.onnx") < 20_000
    assert host.origin.git("show", "main:theirs.txt") == "theirs\ntheirs\n"
    assert done.outputs["commit-sha"] == host.origin.git("rev-parse", "main").strip()


def test_a_model_that_moved_is_fixed_anew(host: Hosted, proven: dict[str, str]) -> None:
    clone, other = host.clone("clone"), host.clone("other")
    onnx.save(bloated(seed=9, layers=8), host.home / "new.onnx")
    overtake(clone, other, f"cp '{host.home}/new.onnx' models/a.onnx")
    done = commit(clone, proven)
    assert done.outputs["committed"] == "true", done.log
    assert host.log()[:2] == ["Shrink ONNX models", "theirs"]
    final = onnx.load_from_string(clone.root.joinpath("models/a.onnx").read_bytes())
    assert len(final.graph.node) == len(bloated(layers=8).graph.node)
    assert host.size("models/a.onnx") < 20_000
    assert done.report["models"][0]["before"]["size"] == (host.home / "new.onnx").stat().st_size


def test_a_policy_that_moved_is_obeyed(host: Hosted, proven: dict[str, str]) -> None:
    clone, other = host.clone("clone", "--depth=1"), host.clone("other")
    policy = 'version: 1\\nmodels:\\n  - {path: "*.onnx", ignore: true}\\n'
    overtake(clone, other, f"printf '{policy}' > .onnx-ci.yaml")
    done = commit(clone, proven)
    assert (done.code, done.outputs["committed"]) == ("0", "false"), done.log
    assert host.log() == ["theirs", "a bloated model", "start"]
    assert clone.git("status", "--porcelain") == ""


def test_attempts_end(host: Hosted, proven: dict[str, str]) -> None:
    clone, other = host.clone("clone"), host.clone("other")
    overtake(clone, other, "date +%N >> theirs.txt", times=99)
    done = commit(clone, proven, push_attempts="2")
    assert (done.code, done.outputs["committed"]) == ("1", "false")
    assert "has moved at each of 2 attempts" in done.log
    assert len((clone.root / ".git" / "pushes").read_text().split()) == 2
    applies(host, done)


def applies(host: Hosted, done: Called, branch: str = "main") -> None:
    """The patch gives somebody else the same models."""
    fresh = host.clone("fresh", branch=branch)
    fresh.git("apply", str(done.patch))
    assert (fresh.root / "models" / "a.onnx").stat().st_size < 20_000


def test_a_protected_branch_is_not_pushed_to_twice(host: Hosted, proven: dict[str, str]) -> None:
    counter = host.home / "received"
    words = "error: GH006: Protected branch update failed for refs/heads/main."
    hook(host.origin.root, "pre-receive", f"echo x >> '{counter}'; echo '{words}' >&2; exit 1")
    done = commit(host.clone("clone"), proven)
    assert (done.code, done.outputs["committed"], done.outputs["changed"]) == ("1", "false", "true")
    assert "the branch main is protected" in done.log
    assert "GH006" in done.summary
    assert counter.read_text().split() == ["x"]
    applies(host, done)


@pytest.mark.parametrize(
    ("event", "ref", "reason"),
    [
        ("merge_group", "refs/heads/gh-readonly-queue/main/pr-7", "merge queue"),
        ("push", "refs/tags/v1", "the tag v1"),
        ("schedule", "", "no branch is checked out"),
    ],
)
def test_where_nothing_can_be_committed(
    host: Hosted, proven: dict[str, str], event: str, ref: str, reason: str
) -> None:
    clone = host.clone("clone")
    clone.git("checkout", "--quiet", "--detach")
    done = commit(clone, proven, event, also={"GITHUB_REF": ref})  # type: ignore[arg-type]
    assert (done.code, done.outputs["committed"], done.outputs["changed"]) == ("1", "false", "true")
    assert reason in done.log
    assert reason in done.summary
    applies(host, done)
    assert host.log() == ["a bloated model", "start"]


def test_a_fork_is_not_written_to(host: Hosted, proven: dict[str, str]) -> None:
    event = host.pull_request("feature", fork="stranger/models")
    clone = host.clone("clone")
    clone.git("fetch", "--quiet", "origin", "refs/pull/7/merge")
    clone.git("checkout", "--quiet", "--detach", "FETCH_HEAD")
    done = commit(clone, proven, "pull_request", payload=event, all="true")  # type: ignore[arg-type]
    assert (done.code, done.outputs["committed"]) == ("1", "false")
    assert "the branch is in a fork" in done.log
    applies(host, done)


def test_the_base_of_a_pull_request_is_not_pushed_to(host: Hosted, proven: dict[str, str]) -> None:
    event = host.pull_request("feature")
    done = commit(host.clone("clone"), proven, "pull_request_target", payload=event, all="true")  # type: ignore[arg-type]
    assert done.code == "2"
    assert "is not in what is checked out" in done.log
    assert done.outputs.get("committed") != "true"
    assert host.log() == ["a bloated model", "start"]


def test_the_head_of_a_pull_request_is_taken_even_if_it_moved(host: Hosted, proven: dict[str, str]) -> None:
    host.add_model("models/b.onnx", seed=1)
    event = host.pull_request("feature")
    (host.author.root / "later.txt").write_text("x")
    host.push("later", "feature")
    clone = host.clone("clone", "--depth=1")
    clone.git("fetch", "--quiet", "--depth=1", "origin", "refs/pull/7/merge")
    clone.git("checkout", "--quiet", "--detach", "FETCH_HEAD")
    also = {"GITHUB_BASE_REF": "main", "GITHUB_REF": "refs/pull/7/merge"}
    done = commit(clone, proven, "pull_request", payload=event, also=also)  # type: ignore[arg-type]
    assert done.outputs["committed"] == "true", done.log
    assert host.log("feature")[:3] == ["Shrink ONNX models", "later", "a change"]
    assert [model["path"] for model in done.report["models"]] == ["models/b.onnx"]


def test_a_branch_that_was_deleted_is_not_made_anew(host: Hosted, proven: dict[str, str]) -> None:
    event = host.pull_request("feature")
    early, late = host.clone("early", branch="feature"), host.clone("late", branch="feature")
    detached = host.clone("detached")
    detached.git("checkout", "--quiet", "--detach", "origin/feature")
    detached.git("branch", "--quiet", "--delete", "--remotes", "origin/feature")
    delete = f"git -C '{host.origin.root}' update-ref -d refs/heads/feature"
    hook(late.root / ".git", "pre-push", f"unset GIT_DIR; {delete}")
    for clone in (late, early, detached):  # while the first is pushing it goes
        done = commit(clone, proven, "pull_request", payload=event, all="true")  # type: ignore[arg-type]
        assert (done.code, done.outputs["committed"]) == ("1", "false"), done.log
        assert "feature" in done.summary.split("\n")[0]
        assert done.patch.stat().st_size > 0
        assert "feature" not in host.origin.git("branch", "--list")
    assert "the branch feature is not there any more" in done.summary


def test_a_branch_that_this_job_made_is_pushed(host: Hosted, proven: dict[str, str]) -> None:
    clone = host.clone("clone", "--depth=1")
    clone.git("checkout", "--quiet", "-b", "shrunk")
    (clone.root / "notes.txt").write_text("x")
    clone.commit_all("by an earlier step")
    assert commit(clone, proven).outputs["committed"] == "true"
    assert host.log("shrunk")[:2] == ["Shrink ONNX models", "by an earlier step"]


def test_commits_of_an_earlier_step_are_pushed_with_it(host: Hosted, proven: dict[str, str]) -> None:
    clone = host.clone("clone", "--depth=1")
    (clone.root / "notes.txt").write_text("x")
    clone.commit_all("by an earlier step")
    assert commit(clone, proven).outputs["committed"] == "true"
    assert host.log()[:3] == ["Shrink ONNX models", "by an earlier step", "a bloated model"]


def test_models_that_git_does_not_have_stay_out(host: Hosted, proven: dict[str, str]) -> None:
    """An earlier step has downloaded one, and built another with its data outside."""
    clone = host.clone("clone", "--depth=1")
    (clone.root / "build").mkdir()
    onnx.save(bloated(seed=1), clone.root / "build" / "downloaded.onnx")
    save_outside(bloated(seed=5), clone.root / "build" / "built.onnx")
    done = commit(clone, proven)
    assert (done.code, done.outputs["committed"]) == ("0", "true"), done.log
    assert host.origin.git("show", "--format=", "--name-only", "main").split() == ["models/a.onnx"]
    message = host.origin.git("log", "-1", "--format=%B", "main")
    assert "build/" not in message
    assert "left out of the commit" in done.summary
    assert "build/downloaded.onnx" in done.log
    again = commit(clone, proven)
    assert (again.code, again.outputs["committed"]) == ("0", "false")


def test_data_that_stays_is_told_and_nothing_is_left_to_be_staged(
    host: Hosted, proven: dict[str, str]
) -> None:
    path = host.author.root / "models" / "a.onnx"
    onnx.save(bloated(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    host.push("data of another name")
    done = commit(host.clone("clone"), proven)
    assert done.outputs["committed"] == "true", done.log
    assert "models/a.onnx.data" in host.origin.git("show", "--format=", "--name-only", "main").split()
    message = host.origin.git("log", "-1", "--format=%B", "main")
    assert "\n  models/a.onnx: no longer needs weights.bin" in message
    assert "OCI029" not in done.log
    assert "OCI021" in done.log


def test_names_do_nothing_in_the_message(host: Hosted, proven: dict[str, str]) -> None:
    names = ["fixes #1 @octocat [skip ci].onnx", "closes gh-2 ***NO_CI***.onnx", "o/r#3 [ci skip].onnx"]
    for name in names:
        host.add_model(name)
    host.push("hostile")
    assert commit(host.clone("clone"), proven).outputs["committed"] == "true"
    message = host.origin.git("log", "-1", "--format=%B", "main")
    for word in ("#1", "@octocat", "[skip ci]", "gh-2", "***NO_CI***", "#3", "[ci skip]"):
        assert word not in message
    for name in names:
        assert name in message.replace("\u200b", "")


def test_data_that_git_ignores_is_not_left_behind(host: Hosted, proven: dict[str, str]) -> None:
    policy = host.author.root / ".onnx-ci.yaml"
    policy.write_text(policy.read_text().replace("[dedupe", "[{external-data: {threshold: 1 kB}}, dedupe"))
    (host.author.root / ".gitignore").write_text("*.data\n")
    host.push("data beside models")
    done = commit(host.clone("clone"), proven)
    assert (done.code, done.outputs["committed"]) == ("1", "false"), done.log
    assert "Not committed:** models/a.onnx: " in done.summary, done.summary
    assert "a.onnx.data" in done.summary.split("\n")[0]
    assert host.log()[0] == "data beside models"


def test_names_are_only_names(host: Hosted, proven: dict[str, str]) -> None:
    names = [
        "$(touch pwned).onnx",
        "-rf.onnx",
        "a\n::error::pwned\nShrunk-by: onnx-ci.onnx",
        ":(top)x`id`.onnx",
    ]
    for number, name in enumerate(names):
        host.add_model(name, seed=number % 2)
    host.push("hostile")
    clone = host.clone("clone")
    done = commit(clone, proven)
    assert done.outputs["committed"] == "true", done.log
    assert not list(host.home.rglob("pwned"))
    assert "\n::error::pwned" not in done.log
    message = host.origin.git("log", "-1", "--format=%B", "main")
    assert "\nShrunk-by: onnx-ci.onnx" not in message
    changed = host.origin.git("show", "--format=", "--name-only", "-z", "main").split("\0")
    assert sorted(filter(None, changed)) == sorted([*names, "models/a.onnx"])


def test_without_a_checkout_it_says_so(tmp_path: Path) -> None:
    done = call(tmp_path, mode="commit")
    assert done.code == "2"
    assert "there is none here" in done.log
