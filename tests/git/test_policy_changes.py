"""What a branch does to the policy that judges it: compared with its base, rule by rule."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.support.cli import Done
from tests.support.cli import call as onnx_ci
from tests.support.git_repo import Repository
from tests.support.models import bloated, lean

pytestmark = pytest.mark.sampled(15)

STRICT = """\
version: 1
models:
  - path: "**/*.onnx"
    budget: {size: 40 kB}
    tolerance: {cosine: 0.999}
"""
SINCE = ("--since", "main")


def branch(folder: Path, base: str = STRICT, *, layers: int = 2) -> Repository:
    """On a branch of a repository with one model that keeps its rule."""
    made = Repository(folder)
    (folder / "models").mkdir()
    onnx.save(lean(layers=layers), folder / "models" / "a.onnx")
    (folder / ".onnx-ci.yaml").write_text(base)
    made.commit_all("start")
    made.git("checkout", "--quiet", "-b", "feature")
    return made


def check(made: Repository, policy: str, *arguments: str) -> Done:
    (made.root / ".onnx-ci.yaml").write_text(policy)
    made.commit_all("a change")
    return onnx_ci("check", *(arguments or SINCE), "--format", "json", cwd=made.root)


def found(done: Done, code: str) -> list[dict[str, Any]]:
    everything = [*done.json["findings"], *(f for model in done.json["models"] for f in model["findings"])]
    return [finding for finding in everything if finding["code"] == code]


CASES = [
    ("{size: 40 kB}", "{size: 60 GB}", "budget size is looser for models/a.onnx: 40 kB before", "60 GB now"),
    ("{size: 40 kB}", "{gzip: 40 kB}", "budget size is looser", "none now"),
    ("cosine: 0.999", "cosine: 0.9", "tolerance cosine is looser", "0.9 now"),
    ("cosine: 0.999", "max_abs: 1", "tolerance cosine is looser", "none now"),
    ("tolerance:", "severity: warning\n    tolerance:", "severity is looser", "warning now"),
    ("tolerance:", "ignore: true\n    tolerance:", "ignore is looser", "true now"),
    ("tolerance:", "methods: []\n    tolerance:", "methods is looser", "[] now"),
    ("tolerance:", "only_new: true\n    tolerance:", "only_new is looser", "true now"),
    ("tolerance:", "minimum_gain: 50%\n    tolerance:", "minimum_gain is looser", "50% now"),
    ("tolerance:", "inputs: {ranges: {x: [0, 0]}}\n    tolerance:", "inputs ranges is looser", "'x': (0"),
    ("version: 1", "version: 1\nunmatched: ignore", "unmatched is looser", "ignore now (.onnx-ci.yaml:2)"),
    ("version: 1", "version: 1\nnew_commands: run", "new_commands is looser", "run now (.onnx-ci.yaml:2)"),
    ("**/*.onnx", "other/*.onnx", "rule is looser for models/a.onnx: '**/*.onnx' before", "none now"),
]


@pytest.mark.parametrize(("old", "new", "said", "now"), CASES)
def test_what_is_loosened_is_told(old: str, new: str, said: str, now: str, tmp_path: Path) -> None:
    done = check(branch(tmp_path), STRICT.replace(old, new))
    findings = found(done, "OCI044")
    assert len(findings) == 1, done.out
    assert said in findings[0]["message"]
    assert now in findings[0]["message"]
    assert ":.onnx-ci.yaml" in findings[0]["message"], "where it was in the base"
    assert findings[0]["severity"] == "warning"
    assert "policy_changes: error" in findings[0]["hint"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{size: 40 kB}", "{size: 39 kB, params: 1M}"),
        ("cosine: 0.999", "cosine: 0.9999, max_abs: 1"),
        ("cosine: 0.999", "exact: true"),
        ("tolerance:", "minimum_gain: 0%\n    tolerance:"),
        ("version: 1", "version: 1\npolicy_changes: error"),
        ("version: 1", "# the same\nversion: 1"),
    ],
)
def test_what_is_stricter_is_not(old: str, new: str, tmp_path: Path) -> None:
    done = check(branch(tmp_path), STRICT.replace(old, new))
    assert (done.code, found(done, "OCI044")) == (0, []), done.out


def test_the_base_decides_whether_it_is_an_error(tmp_path: Path) -> None:
    made = branch(tmp_path, f"{STRICT}policy_changes: error\n")
    done = check(made, STRICT.replace("40 kB", "60 GB"))
    messages = {finding["message"].split(" is ")[0]: finding["severity"] for finding in found(done, "OCI044")}
    assert (done.code, messages) == (1, {"budget size": "error", "policy_changes": "error"})


def test_what_fails_under_the_base_is_told_and_decides_where_the_base_does(tmp_path: Path) -> None:
    made = branch(tmp_path)
    onnx.save(lean(layers=3), tmp_path / "models" / "a.onnx")
    loose = STRICT.replace("40 kB", "60 GB")
    done = check(made, loose)
    assert done.code == 0
    (finding,) = found(done, "OCI045")
    assert finding["severity"] == "warning"
    assert "under the policy of the base: models/a.onnx: 49.4 kB" in finding["message"]
    assert "is over its size budget of 40 kB" in finding["message"]
    assert finding["hint"] == "make it fit the base's rule, or have the change of the policy approved"
    strict = check(made, loose, *SINCE, "--policy-from", "base")
    assert strict.code == 1
    assert [f["severity"] for f in found(strict, "OCI001")] == ["error"]
    assert len(found(strict, "OCI044")) == 1
    assert strict.json["models"][0]["rule"]["line"] == 3
    fixed = onnx_ci("fix", *SINCE, "--policy-from", "base", cwd=tmp_path)
    assert (fixed.code, "OCI001" in fixed.out) == (1, True)


def test_what_to_run_for_the_base_mends_what_fails_under_it(tmp_path: Path) -> None:
    made = branch(tmp_path)
    onnx.save(bloated(), tmp_path / "models" / "a.onnx")
    done = check(made, STRICT.replace("tolerance:", "methods: []\n    tolerance:").replace("40 kB", "1 MB"))
    (finding,) = found(done, "OCI045")
    assert finding["hint"] == f"run: {finding['command']}"
    assert onnx_ci(*finding["command"].split()[1:], cwd=tmp_path).code == 0
    made.commit_all("fixed")
    assert not found(onnx_ci("check", *SINCE, "--format", "json", cwd=tmp_path), "OCI045")


def test_a_pull_request_is_known_without_being_told(tmp_path: Path) -> None:
    made = branch(tmp_path)
    made.git("update-ref", "refs/remotes/origin/main", "main")
    (tmp_path / ".onnx-ci.yaml").write_text(STRICT.replace("40 kB", "60 GB"))
    made.commit_all("a change")
    env = {"GITHUB_BASE_REF": "main"}
    for arguments in ((), ("--all",), ("models/a.onnx",)):
        done = onnx_ci("check", *arguments, "--format", "json", cwd=tmp_path, env=env)
        assert len(found(done, "OCI044")) == 1, arguments
    assert not found(onnx_ci("check", "--all", "--format", "json", cwd=tmp_path), "OCI044")
    wrong = onnx_ci("check", "models/a.onnx", cwd=tmp_path, env={"GITHUB_BASE_REF": "gone"})
    assert (wrong.code, "the policy was not compared with the base's" in wrong.out) == (0, True)
    base = ("models/a.onnx", "--policy-from", "base")
    assert onnx_ci("check", *base, cwd=tmp_path, env={"GITHUB_BASE_REF": "gone"}).code == 2


def test_a_nested_policy_that_takes_models_away(tmp_path: Path) -> None:
    group = 'groups:\n  - {name: app, paths: ["models/*"], budget: {size: 1 MB}}\n'
    made = branch(tmp_path, STRICT + group)
    nested = tmp_path / "models" / ".onnx-ci.yaml"
    nested.write_text('version: 1\nmodels:\n  - path: "*"\n    ignore: true\n')
    done = check(made, STRICT + group)
    first, second = sorted(finding["message"] for finding in found(done, "OCI044"))
    assert first.startswith("group 'app' is looser for models/a.onnx: counted before")
    assert second.startswith("ignore is looser for models/a.onnx: false before")
    assert second.endswith(f"true now ({Path('models/.onnx-ci.yaml')}:4)")
    assert check(made, STRICT + group, *SINCE, "--policy-from", "base").json["models"][0]["verdict"] == "ok"
    made.git("checkout", "--quiet", "-B", "main")
    made.git("checkout", "--quiet", "-b", "back")
    nested.unlink()
    assert not found(check(made, STRICT + group), "OCI044"), "stricter again"


def test_a_policy_that_is_removed(tmp_path: Path) -> None:
    made = branch(tmp_path, f"{STRICT}policy_changes: error\n")
    made.git("rm", "--quiet", ".onnx-ci.yaml")
    made.commit_all("no policy")
    done = onnx_ci("check", *SINCE, "--format", "json", cwd=tmp_path)
    keys = {finding["message"].split(" is ")[0] for finding in found(done, "OCI044")}
    assert (done.code, keys) == (1, {"budget size", "policy_changes"}), done.out
    base = onnx_ci("check", *SINCE, "--policy-from", "base", "--format", "json", cwd=tmp_path)
    assert base.json["models"][0]["rule"]["pattern"] == "**/*.onnx"


def test_groups_history_and_overrides(tmp_path: Path) -> None:
    rest = 'groups:\n  - {name: app, paths: ["models/*"], budget: {size: 1 MB}}\nhistory: {budget: 1 MB}\n'
    made = branch(tmp_path, STRICT + rest)
    onnx.save(lean(layers=3), tmp_path / "models" / "a.onnx")
    over = check(made, STRICT + rest)
    assert (over.code, found(over, "OCI044")) == (1, [])
    digest = over.json["models"][0]["before"]["sha256"]
    override = (
        f'overrides:\n  - {{path: models/a.onnx, sha256: "{digest}", reason: "why", until: 2099-01-31}}\n'
    )
    done = check(made, STRICT + rest.replace("1 MB", "2 MB") + override)
    messages = sorted(finding["message"] for finding in found(done, "OCI044"))
    assert [message.split(" before")[0] for message in messages] == [
        "group 'app', budget size is looser: 1 MB",
        "history budget is looser: 1 MB",
        "override for models/a.onnx is looser: none",
    ]
    assert messages[2].endswith("until 2099-01-31 (why) now (.onnx-ci.yaml:10)")
    assert "is over its size budget of 40 kB" in found(done, "OCI045")[0]["message"]
    assert done.code == 0


def test_a_model_that_moves_to_a_looser_rule(tmp_path: Path) -> None:
    policy = f'{STRICT}  - path: "attic/**"\n    budget: {{size: 1 GB}}\n'
    made = branch(tmp_path, policy)
    (tmp_path / "attic").mkdir()
    made.git("mv", "models/a.onnx", "attic/a.onnx")
    done = check(made, policy)
    (finding,) = found(done, "OCI044")
    assert "budget size is looser for attic/a.onnx (was models/a.onnx): 40 kB before" in finding["message"]


def test_a_move_from_where_nothing_is_asked_hides_nothing(tmp_path: Path) -> None:
    policy = f'{STRICT}  - path: "attic/**"\n    ignore: true\n'
    made = branch(tmp_path, policy)
    (tmp_path / "attic").mkdir()
    made.git("mv", "models/a.onnx", "attic/a.onnx")
    made.commit_all("ignored")
    made.git("branch", "--force", "main", "HEAD")
    made.git("mv", "attic/a.onnx", "b.onnx")
    (finding,) = found(check(made, policy.replace("40 kB", "60 GB")), "OCI044")
    assert "budget size is looser for b.onnx: 40 kB before" in finding["message"]


def test_one_finding_for_many_models_and_one_for_all_shards(tmp_path: Path) -> None:
    made = branch(tmp_path)
    for number in range(4):
        onnx.save(lean(seed=number), tmp_path / "models" / f"b{number}.onnx")
    loose = STRICT.replace("40 kB", "60 GB")
    (finding,) = found(check(made, loose), "OCI044")
    assert "for models/a.onnx, models/b0.onnx, models/b1.onnx and 2 more:" in finding["message"]
    assert len(found(check(made, loose, *SINCE, "--shard", "1/2"), "OCI044")) == 1
    assert not found(check(made, loose, *SINCE, "--shard", "2/2"), "OCI044")


def test_methods_that_are_allowed_are_a_note(tmp_path: Path) -> None:
    policy = STRICT.replace("tolerance:", "methods: [exact, fp16-weights]\n    tolerance:")
    done = check(branch(tmp_path), policy)
    (finding,) = found(done, "OCI044")
    assert (finding["severity"], "fp16-weights now" in finding["message"]) == ("note", True)


def test_a_base_whose_policy_is_wrong(tmp_path: Path) -> None:
    made = branch(tmp_path, "version: 1\nmodles: []\n")
    done = check(made, STRICT)
    (finding,) = found(done, "OCI044")
    assert (done.code, finding["severity"]) == (0, "warning")
    assert ":.onnx-ci.yaml:2: unknown key 'modles'" in finding["message"]
    assert check_fails(made, STRICT)


def check_fails(made: Repository, policy: str) -> bool:
    (made.root / ".onnx-ci.yaml").write_text(policy)
    done = onnx_ci("check", *SINCE, "--policy-from", "base", cwd=made.root)
    return done.code == 2 and "unknown key 'modles'" in done.err


def test_a_policy_named_by_the_user(tmp_path: Path) -> None:
    made = branch(tmp_path)
    (tmp_path / "ci.yaml").write_text(STRICT)
    made.commit_all("a policy of another name")
    made.git("branch", "--force", "main", "HEAD")
    (tmp_path / "ci.yaml").write_text(STRICT.replace("40 kB", "60 GB"))
    done = onnx_ci("check", *SINCE, "--policy", "ci.yaml", "--format", "json", cwd=tmp_path)
    (finding,) = found(done, "OCI044")
    assert finding["message"].endswith("60 GB now (ci.yaml:4)")


def scored(folder: Path, name: str = "eval.py") -> str:
    """A rule with a command that leaves a mark where it is run."""
    (folder / name).write_text("open('ran', 'w').close()\nprint('wer: 1')\n")
    command = f"{sys.executable} {name} {{model}}"
    return f'    evaluate: {{command: "{command}", metric: wer, max_increase: 0.1}}\n'


def test_a_command_that_the_change_brings_is_not_run(tmp_path: Path) -> None:
    made = branch(tmp_path)
    onnx.save(bloated(layers=2), tmp_path / "models" / "a.onnx")
    done = check(made, STRICT + scored(tmp_path))
    (finding,) = found(done, "OCI047")
    assert (done.code, finding["severity"]) == (1, "error")
    assert "eval.py {model}' (evaluate), and that is not run" in finding["message"]
    assert done.json["models"][0]["verdict"] == "unverified"
    assert not (tmp_path / "ran").exists()
    softer = check(made, f"{STRICT}{scored(tmp_path)}    severity: warning\n    only_new: true\n")
    assert softer.code == 1
    fixed = onnx_ci("fix", *SINCE, cwd=tmp_path)
    assert (fixed.code, (tmp_path / "ran").exists()) == (1, False)
    onnx_ci("check", "--all", cwd=tmp_path)
    assert (tmp_path / "ran").exists(), "of one's own work it is run"


def test_a_command_that_the_base_knows_or_allows_is_run(tmp_path: Path) -> None:
    made = branch(tmp_path, STRICT + scored(tmp_path))
    onnx.save(bloated(layers=2), tmp_path / "models" / "a.onnx")
    assert not found(check(made, STRICT + scored(tmp_path)), "OCI047")
    assert (tmp_path / "ran").exists()
    assert found(check(made, STRICT + scored(tmp_path, "other.py")), "OCI047")
    made.git("checkout", "--quiet", "main")
    (tmp_path / ".onnx-ci.yaml").write_text(f"{STRICT}{scored(tmp_path)}new_commands: run\n")
    made.commit_all("allowed")
    made.git("checkout", "--quiet", "-B", "feature")
    onnx.save(bloated(layers=2, seed=1), tmp_path / "models" / "a.onnx")
    done = check(made, f"{STRICT}{scored(tmp_path, 'other.py')}new_commands: run\n")
    assert not found(done, "OCI047")


def test_a_command_gets_no_variable_that_the_base_does_not_name(tmp_path: Path) -> None:
    made = branch(tmp_path, STRICT + scored(tmp_path))
    onnx.save(bloated(layers=2), tmp_path / "models" / "a.onnx")
    policy = STRICT + scored(tmp_path).replace("metric:", "env: [TOKEN], metric:")
    (tmp_path / "eval.py").write_text(
        "import os\nopen('seen', 'a').write(str(os.environ))\nprint('wer: 1')\n"
    )
    (tmp_path / ".onnx-ci.yaml").write_text(policy)
    made.commit_all("a change")
    done = onnx_ci("check", *SINCE, "--format", "json", cwd=tmp_path, env={"TOKEN": "a-secret"})
    assert "(evaluate env: TOKEN)" in found(done, "OCI047")[0]["message"]
    seen = tmp_path / "seen"  # under the rule of the base, which is judged as well, it may be run
    assert not seen.exists() or "a-secret" not in seen.read_text()


def test_a_library_that_the_change_brings_is_not_loaded(tmp_path: Path) -> None:
    rule = '    libraries: ["ops.so"]\n'
    made = branch(tmp_path)
    (tmp_path / "ops.so").write_bytes(b"no library")
    done = check(made, STRICT + rule)
    assert "the library 'ops.so'" in found(done, "OCI047")[0]["message"]
    made.git("branch", "--force", "main", "HEAD")
    onnx.save(lean(seed=2), tmp_path / "models" / "a.onnx")
    assert not found(check(made, STRICT + rule), "OCI047")
    (tmp_path / "ops.so").write_bytes(b"another")
    assert found(check(made, STRICT + rule), "OCI047")
    assert found(check(made, STRICT + rule, *SINCE, "--policy-from", "base"), "OCI047")
