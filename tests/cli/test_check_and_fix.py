"""`check` and `fix`, as users call them, in real repositories."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support.cli import call, onnx_ci
from tests.support.git_repo import Repository
from tests.support.models import bloated, lean
from tests.traps import FILE_TRAPS, HOSTILE, NAMES, TRAPS, FileTrap

pytestmark = pytest.mark.sampled(144)

POLICY = 'version: 1\nmodels:\n  - path: "**/*.onnx"\n'


def write(folder: Path, policy: str = POLICY, **models: onnx.ModelProto) -> None:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / ".onnx-ci.yaml").write_text(policy)
    for name, model in models.items():
        onnx.save(model, folder / f"{name}.onnx")


def snapshot(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.cold
def test_check_fails_and_changes_nothing_fix_shrinks_check_passes(tmp_path: Path) -> None:
    write(tmp_path, model=bloated())
    before = snapshot(tmp_path)
    checked = onnx_ci("check", cwd=tmp_path)
    assert checked.code == 1
    assert "OCI003 model.onnx" in checked.out
    assert "onnx-ci fix model.onnx" in checked.out
    assert snapshot(tmp_path) == before
    fixed = onnx_ci("fix", cwd=tmp_path)
    assert fixed.code == 0, fixed.out
    assert "shrunk" in fixed.out
    assert (tmp_path / "model.onnx").stat().st_size < len(before["model.onnx"]) / 2
    assert onnx_ci("check", cwd=tmp_path).code == 0


@pytest.mark.parametrize("methods", ["[dedupe, drop-unused]", "[dedupe, int8-weights]", "[fp16-weights]"])
def test_a_second_fix_changes_nothing_byte_for_byte(tmp_path: Path, methods: str) -> None:
    write(tmp_path, f"{POLICY}    methods: {methods}\n", model=bloated())
    assert onnx_ci("fix", cwd=tmp_path).code == 0
    once = snapshot(tmp_path)
    again = onnx_ci("fix", cwd=tmp_path)
    assert again.code == 0
    assert snapshot(tmp_path) == once


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name, f"{POLICY}    methods: [dedupe, int8-weights]\n", model=bloated())
        onnx_ci("fix", cwd=tmp_path / name)
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")


def test_lossy_methods_never_run_on_their_own_output(tmp_path: Path) -> None:
    """fp16, then a rule that wants int8: rounded weights stay where the original is gone, and it is said."""
    write(tmp_path, f"{POLICY}    methods: [fp16-weights]\n", model=lean())
    assert onnx_ci("fix", cwd=tmp_path).code == 0
    once = snapshot(tmp_path)["model.onnx"]
    write(tmp_path, f"{POLICY}    budget: {{size: 10 kB}}\n    methods: [int8-weights]\n")
    tried = onnx_ci("fix", cwd=tmp_path, env={"ONNX_CI_ORIGINALS": str(tmp_path / "none")})
    assert tried.code == 1
    assert "OCI011" in tried.out
    assert "fp16-weights" in tried.out
    assert snapshot(tmp_path)["model.onnx"] == once


def test_a_model_edited_after_it_was_shrunk_is_a_new_source(tmp_path: Path) -> None:
    write(tmp_path, f"{POLICY}    methods: [fp16-weights]\n", model=lean())
    onnx_ci("fix", cwd=tmp_path)
    model = onnx.load(tmp_path / "model.onnx")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "new"))
    onnx.save(model, tmp_path / "model.onnx")
    write(tmp_path, f"{POLICY}    methods: [drop-unused]\n")
    assert onnx_ci("fix", cwd=tmp_path).code == 0
    assert "new" not in {tensor.name for tensor in onnx.load(tmp_path / "model.onnx").graph.initializer}


def test_to_budget_takes_no_more_loss_than_it_needs(tmp_path: Path) -> None:
    policy = f"{POLICY}    budget: {{size: {{}}}}\n    methods: [dedupe, fp16-weights, int8-weights]\n"
    expected = {"20 kB": ["dedupe"], "11 kB": ["dedupe", "fp16-weights"], "7 kB": ["dedupe", "int8-weights"]}
    for size, methods in expected.items():
        folder = tmp_path / size
        write(folder, policy.replace("{}", size), model=bloated())
        done = onnx_ci("fix", "--format", "json", cwd=folder)
        (model,) = done.json["models"]
        useful = [step["method"] for step in model["steps"] if step["size_after"] < step["size_before"]]
        assert (done.code, useful) == (0, methods), size


def test_a_budget_that_no_method_meets_takes_the_exact_savings_only(tmp_path: Path) -> None:
    write(
        tmp_path,
        f"{POLICY}    budget: {{size: 1 kB}}\n    methods: [dedupe, int8-weights]\n",
        model=bloated(),
    )
    done = onnx_ci("fix", cwd=tmp_path)
    assert done.code == 1
    assert "OCI001" in done.out
    assert "within tolerance it can be" in done.out
    types = {tensor.data_type for tensor in onnx.load(tmp_path / "model.onnx").graph.initializer}
    assert types == {onnx.TensorProto.FLOAT}


def test_outside_the_tolerance_nothing_is_written(tmp_path: Path) -> None:
    rule = "    methods: [int8-weights]\n    budget: {size: 20 kB}\n    tolerance: {max_abs: 1e-7}\n"
    policy = POLICY + rule
    write(tmp_path, policy, model=lean())
    before = snapshot(tmp_path)
    done = onnx_ci("fix", cwd=tmp_path)
    assert done.code == 1
    assert "OCI004" in done.out
    assert "max_abs" in done.out
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "trap", [trap for trap in FILE_TRAPS if trap.name != "model_is_folder"], ids=lambda trap: trap.name
)
def test_a_bad_file_is_one_clear_finding_and_the_others_still_run(trap: FileTrap, tmp_path: Path) -> None:
    bad = trap.build(tmp_path)
    repository = bad.parent
    before = snapshot(repository) if trap.probe else {}
    write(repository, good=bloated())
    done = onnx_ci("fix", "--all", cwd=repository)
    assert done.code == 1, done.out
    lines = [line for line in done.out.splitlines() if line.startswith("error") and bad.name in line]
    assert len(lines) == 1, done.out
    for word in trap.words:
        assert word in lines[0].lower()
    assert "good.onnx" in done.out
    assert len(onnx.load(repository / "good.onnx").graph.initializer) == 1
    if trap.probe:
        after = snapshot(repository)
        assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("name", NAMES)
def test_odd_file_names(name: str, tmp_path: Path) -> None:
    try:
        (tmp_path / name).touch()
    except OSError:
        pytest.skip("this file system does not take the name")
    write(tmp_path, 'version: 1\nmodels: [{path: "**"}]\n')
    onnx.save(bloated(), tmp_path / name)
    Repository(tmp_path).commit_all("models")
    done = onnx_ci("fix", "--all", "--format", "json", cwd=tmp_path)
    assert done.code == 0, done.out + done.err
    assert [model["verdict"] for model in done.json["models"]] == ["shrunk"]
    assert done.json["models"][0]["path"] == name


def test_selection_in_git(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    write(tmp_path, old=lean(), changed=lean())
    first = repository.commit_all("models")
    clean = onnx_ci("check", cwd=tmp_path)
    assert clean.code == 0
    assert "no model changed" in clean.out

    def checked(*arguments: str) -> list[str]:
        done = onnx_ci("check", "--format", "json", *arguments, cwd=tmp_path)
        return [model["path"] for model in done.json["models"]]

    assert checked("--all") == ["changed.onnx", "old.onnx"]
    onnx.save(bloated(), tmp_path / "changed.onnx")
    onnx.save(lean(), tmp_path / "new.onnx")
    assert checked() == ["changed.onnx", "new.onnx"]
    repository.git("add", "new.onnx")
    assert checked("--staged") == ["new.onnx"]
    repository.git("checkout", "--quiet", "-b", "branch")
    repository.commit_all("changes")
    assert checked() == []
    assert checked("--since", first) == ["changed.onnx", "new.onnx"]
    assert checked("--since", "main") == ["changed.onnx", "new.onnx"]
    repository.git("update-ref", "refs/remotes/origin/main", first)
    for name, base in {
        "GITHUB_BASE_REF": "main",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": first,
        "SYSTEM_PULLREQUEST_TARGETBRANCH": "refs/heads/main",
        "CHANGE_TARGET": "main",
    }.items():
        found = call("check", "--format", "json", cwd=tmp_path, env={name: base}).json["models"]
        assert [model["path"] for model in found] == ["changed.onnx", "new.onnx"]
    assert checked("old.onnx") == ["old.onnx"]
    shutil.rmtree(tmp_path / ".git")
    assert checked() == ["changed.onnx", "new.onnx", "old.onnx"]


def test_a_changed_policy_means_every_model(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    write(tmp_path, model=lean())
    repository.commit_all("models")
    write(tmp_path, f"{POLICY}    budget: {{size: 1 kB}}\n")
    assert onnx_ci("check", cwd=tmp_path).code == 1


def test_a_changed_data_file_means_its_model(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    write(tmp_path, model=lean())
    onnx.save(
        lean(),
        tmp_path / "outer.onnx",
        save_as_external_data=True,
        location="outer.onnx.data",
        size_threshold=0,
    )
    repository.commit_all("models")
    data = tmp_path / "outer.onnx.data"
    data.write_bytes(bytes(reversed(data.read_bytes())))
    done = onnx_ci("check", "--format", "json", cwd=tmp_path)
    assert [model["path"] for model in done.json["models"]] == ["outer.onnx"]
    named = onnx_ci("check", "--format", "json", "outer.onnx.data", cwd=tmp_path)
    assert [model["path"] for model in named.json["models"]] == ["outer.onnx"]


def test_external_data_is_shrunk_with_its_model(tmp_path: Path) -> None:
    write(tmp_path, f"{POLICY}    methods: [dedupe, int8-weights]\n")
    (tmp_path / "sub").mkdir()
    path = tmp_path / "sub" / "model.onnx"
    onnx.save(bloated(), path, save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    before = path.stat().st_size + (tmp_path / "sub" / "model.onnx.data").stat().st_size
    done = onnx_ci("fix", "--format", "json", cwd=tmp_path)
    assert done.code == 0, done.out
    assert done.json["models"][0]["before"]["size"] == before
    after = sum(file.stat().st_size for file in (tmp_path / "sub").iterdir())
    assert done.json["models"][0]["after"]["size"] == after < before / 4
    assert sorted(file.name for file in (tmp_path / "sub").iterdir()) == ["model.onnx", "model.onnx.data"]


def test_ignored_and_unmatched_models(tmp_path: Path) -> None:
    policy = 'version: 1\nmodels:\n  - path: "models/**"\n  - path: "models/vendor/**"\n    ignore: true\n'
    write(tmp_path, policy)
    for folder in ("models", "models/vendor", "elsewhere"):
        (tmp_path / folder).mkdir()
        onnx.save(bloated(), tmp_path / folder / "m.onnx")
    done = onnx_ci("check", "--format", "json", cwd=tmp_path)
    verdicts = {model["path"]: model["verdict"] for model in done.json["models"]}
    assert verdicts == {
        "models/m.onnx": "would_shrink",
        "models/vendor/m.onnx": "ignored",
        "elsewhere/m.onnx": "ignored",
    }
    assert [f["severity"] for m in done.json["models"] for f in m["findings"] if f["code"] == "OCI015"] == [
        "error"
    ]


def test_growth_against_the_base_version(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    write(tmp_path, f"{POLICY}    budget: {{growth: 5%}}\n", model=lean(layers=2))
    repository.commit_all("small")
    onnx.save(lean(layers=3), tmp_path / "model.onnx")
    done = onnx_ci("check", cwd=tmp_path)
    assert done.code == 1
    assert "OCI002" in done.out


def test_parameters_and_compressed_sizes_count(tmp_path: Path) -> None:
    for limit, code in (("params: 100", "OCI014"), ("gzip: 1 kB", "OCI001"), ("brotli: 1 kB", "OCI001")):
        write(tmp_path, f"{POLICY}    budget: {{{limit}}}\n", model=lean())
        done = onnx_ci("check", cwd=tmp_path)
        assert (done.code, code in done.out) == (1, True), limit
    write(
        tmp_path, f"{POLICY}    budget: {{zstd: 1 MB, gzip: 1 MB, brotli: 1 MB, params: 1M}}\n", model=lean()
    )
    done = onnx_ci("check", "--format", "json", cwd=tmp_path)
    assert done.code == 0
    assert {"gzip", "brotli", "zstd", "params", "sha256"} <= done.json["models"][0]["before"].keys()


def test_a_group_counts_all_its_members(tmp_path: Path) -> None:
    groups = 'groups:\n  - {name: bundle, paths: ["*.onnx"], budget: {size: 50 kB}}\n'
    write(tmp_path, POLICY + groups, a=lean(), b=lean())
    done = onnx_ci("check", "a.onnx", cwd=tmp_path)
    assert done.code == 1
    assert "OCI008" in done.out
    assert "'bundle'" in done.out
    (tmp_path / "b.onnx").unlink()
    assert onnx_ci("check", "a.onnx", cwd=tmp_path).code == 0


@pytest.mark.parametrize(("until", "code"), [("2999-01-01", 0), ("2001-01-01", 1)])
def test_an_override_holds_for_one_content_until_its_day(tmp_path: Path, until: str, code: int) -> None:
    write(tmp_path, model=bloated())
    digest = hashlib.sha256((tmp_path / "model.onnx").read_bytes()).hexdigest()
    override = f"overrides:\n  - {{path: model.onnx, sha256: '{digest}', reason: ships, until: {until}}}\n"
    write(tmp_path, POLICY + override)
    done = onnx_ci("check", cwd=tmp_path)
    assert done.code == code, done.out
    assert "OCI009" in done.out
    onnx_ci("fix", cwd=tmp_path)
    kept = hashlib.sha256((tmp_path / "model.onnx").read_bytes()).hexdigest() == digest
    assert kept is (code == 0), "what is accepted is left as it is"
    onnx.save(bloated(seed=1), tmp_path / "model.onnx")
    assert onnx_ci("check", cwd=tmp_path).code == 1


def test_a_warning_does_not_fail(tmp_path: Path) -> None:
    write(tmp_path, f"{POLICY}    severity: warning\n", model=bloated())
    done = onnx_ci("check", cwd=tmp_path)
    assert done.code == 0
    assert "warning OCI003" in done.out


def test_small_savings_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, f"{POLICY}    minimum_gain: 90%\n", model=bloated())
    assert onnx_ci("check", cwd=tmp_path).code == 0


def test_without_a_policy_built_in_rules_hold_and_it_says_so(tmp_path: Path) -> None:
    onnx.save(bloated(), tmp_path / "model.onnx")
    done = onnx_ci("check", cwd=tmp_path)
    assert done.code == 1
    assert "onnx-ci init" in done.out


def test_several_jobs_give_the_same_report(tmp_path: Path) -> None:
    write(tmp_path, a=bloated(seed=1), b=bloated(seed=2), c=lean())

    def verdicts(*arguments: str) -> list[tuple[str, str]]:
        done = onnx_ci("check", "--format", "json", *arguments, cwd=tmp_path)
        return [(model["path"], model["verdict"]) for model in done.json["models"]]

    assert verdicts("--jobs", "3") == verdicts("--jobs", "1") == verdicts("--jobs", "auto") == verdicts()


def test_a_model_that_crashes_onnxruntime_is_a_finding(tmp_path: Path) -> None:
    trap = next(trap for trap in HOSTILE if trap.name == "crashes_at_load")
    model = onnx.load(trap.build(tmp_path))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(5000, np.float32), "unused"))
    write(tmp_path, good=bloated(), model=model)
    before = (tmp_path / "model.onnx").read_bytes()
    done = onnx_ci("fix", "--format", "json", cwd=tmp_path)
    assert done.code == 1
    verdicts = {model["path"]: model["verdict"] for model in done.json["models"]}
    assert verdicts == {"good.onnx": "shrunk", "model.onnx": "unverified"}
    assert "OCI013" in done.out
    assert (tmp_path / "model.onnx").read_bytes() == before


def test_a_check_that_proves_nothing_is_not_a_pass(tmp_path: Path) -> None:
    """No output depends on the weights: whatever is done to them would pass."""
    trap = next(trap for trap in TRAPS if trap.name == "only_echo")
    write(tmp_path, f"{POLICY}    methods: [int8-weights]\n", model=onnx.load(trap.build(tmp_path)))
    before = (tmp_path / "model.onnx").read_bytes()
    done = onnx_ci("fix", "--format", "json", cwd=tmp_path)
    (model,) = done.json["models"]
    assert (done.code, model["verdict"], model["verification"]["code"]) == (1, "unverified", "OCI005")
    assert "whatever is done to the weights" in model["verification"]["reason"]
    assert (tmp_path / "model.onnx").read_bytes() == before


def test_an_interrupted_fix_is_said_and_finished(tmp_path: Path) -> None:
    """The state in which kill -9 can leave a model: its data under a temporary name, and it loads."""
    write(tmp_path)
    name = ".m.onnx.data.0a1b2c3d.onnx-ci-tmp"
    onnx.save(lean(), tmp_path / "m.onnx", save_as_external_data=True, location=name, size_threshold=0)
    before = onnx.load(tmp_path / "m.onnx")
    checked = onnx_ci("check", cwd=tmp_path)
    assert checked.code == 1
    assert "OCI018" in checked.out
    assert onnx_ci("fix", cwd=tmp_path).code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [".onnx-ci.yaml", "m.onnx", "m.onnx.data"]
    after = onnx.load(tmp_path / "m.onnx")
    assert [t.raw_data for t in after.graph.initializer] == [t.raw_data for t in before.graph.initializer]
    assert onnx_ci("check", cwd=tmp_path).code == 0


def test_a_model_that_another_tool_unpacked_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, f"{POLICY}    methods: [int8-weights]\n", model=lean())
    assert onnx_ci("fix", cwd=tmp_path).code == 0
    shrunk = onnx.load(tmp_path / "model.onnx")
    unpacked = lean()
    unpacked.metadata_props.extend(shrunk.metadata_props)
    write(tmp_path, f"{POLICY}    methods: [dedupe]\n", model=unpacked)
    done = onnx_ci("check", cwd=tmp_path)
    assert "OCI019" in done.out
    assert "int8-weights" in done.out


def test_no_room_for_candidates_is_a_finding(tmp_path: Path) -> None:
    """No file may grow past 8 KiB: what a full disk does, without filling one."""
    write(tmp_path, model=bloated())
    before = snapshot(tmp_path)
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"
        "from onnx_ci.cli.main import main; sys.exit(main(['fix']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "OCI017" in done.stdout
    assert snapshot(tmp_path) == before


def two_heads(path: Path) -> None:
    """A wide output that shows damage, and an offset so large that its second output hides it."""
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[1,64] x) => (float[1,64] features, float[1,64] score) {
            features = MatMul(x, w)
            part = MatMul(x, v)
            score = Add(part, offset)
        }"""
    model = onnx.parser.parse_model(text)
    random = np.random.default_rng(0)
    for name, values in (
        ("w", random.standard_normal((64, 64)) / 8),
        ("v", random.standard_normal((64, 64)) / 8),
        ("offset", np.full(64, 1e6)),
    ):
        model.graph.initializer.append(onnx.numpy_helper.from_array(values.astype(np.float32), name))
    onnx.save(model, path)


def test_one_output_does_not_vouch_for_another(tmp_path: Path) -> None:
    write(tmp_path, f"{POLICY}    methods: [int8-weights]\n")
    two_heads(tmp_path / "model.onnx")
    before = snapshot(tmp_path)
    done = onnx_ci("fix", "--format", "json", cwd=tmp_path)
    (model,) = done.json["models"]
    assert (done.code, model["verdict"], model["verification"]["code"]) == (1, "unverified", "OCI005")
    assert "'score'" in model["verification"]["reason"]
    assert snapshot(tmp_path) == before


def test_external_data_in_hidden_folders_is_refused(tmp_path: Path) -> None:
    Repository(tmp_path)
    write(tmp_path, model=bloated())
    model = onnx.load(tmp_path / "model.onnx")
    onnx.save(model, tmp_path / "evil.onnx", save_as_external_data=True, location="d", size_threshold=0)
    evil = onnx.load(tmp_path / "evil.onnx", load_external_data=False)
    (tmp_path / ".git" / "victim").write_bytes((tmp_path / "d").read_bytes())
    for tensor in evil.graph.initializer:
        tensor.external_data[0].value = ".git/victim"
    (tmp_path / "evil.onnx").write_bytes(evil.SerializeToString())
    before = (tmp_path / ".git" / "victim").read_bytes()
    done = onnx_ci("fix", "evil.onnx", cwd=tmp_path)
    assert done.code == 1
    assert "OCI012" in done.out
    assert (tmp_path / ".git" / "victim").read_bytes() == before


def test_models_that_share_their_data_are_left_as_they_are(tmp_path: Path) -> None:
    write(tmp_path)
    onnx.save(
        bloated(), tmp_path / "a.onnx", save_as_external_data=True, location="a.onnx.data", size_threshold=0
    )
    shutil.copy(tmp_path / "a.onnx", tmp_path / "b.onnx")
    before = snapshot(tmp_path)
    done = onnx_ci("fix", cwd=tmp_path)
    assert done.code == 0
    assert "OCI021" in done.out
    assert snapshot(tmp_path) == before


def test_scales_and_codes_are_no_parameters(tmp_path: Path) -> None:
    write(tmp_path, f"{POLICY}    budget: {{params: 8192}}\n    methods: [int8-weights]\n", model=lean())
    assert onnx_ci("fix", cwd=tmp_path).code == 0
    (again,) = onnx_ci("check", "--format", "json", cwd=tmp_path).json["models"]
    assert again["verdict"] == "ok"
    assert (again["before"]["params"], again["before"]["size"] < 16_000) == (8192, True)


def test_a_few_kilobytes_fail_no_commit(tmp_path: Path) -> None:
    model = lean()
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((9, 99), np.float32), "unused"))
    write(tmp_path, model=model)
    assert onnx_ci("check", cwd=tmp_path).code == 0
    write(tmp_path, f"{POLICY}    minimum_gain: 1%\n", model=model)
    assert onnx_ci("check", cwd=tmp_path).code == 1


def test_what_loading_takes_is_limited(tmp_path: Path) -> None:
    write(tmp_path, f"{POLICY}    budget: {{load_seconds: 60, load_memory: 4 GB}}\n", model=lean())
    assert onnx_ci("check", cwd=tmp_path).code == 0
    write(tmp_path, f"{POLICY}    budget: {{load_seconds: 0.000001}}\n", model=lean())
    done = onnx_ci("check", "--format", "json", cwd=tmp_path)
    (model,) = done.json["models"]
    assert (done.code, model["verdict"]) == (1, "over_budget")
    assert [finding["code"] for finding in model["findings"]] == ["OCI060"]


def test_naming_the_policy_means_every_model(tmp_path: Path) -> None:
    """What a hook does when a commit changes nothing but the policy."""
    write(tmp_path, model=bloated())
    assert onnx_ci("check", ".onnx-ci.yaml", cwd=tmp_path).code == 1


def test_a_deleted_data_file_is_a_change(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    write(tmp_path)
    onnx.save(
        lean(), tmp_path / "m.onnx", save_as_external_data=True, location="m.onnx.data", size_threshold=0
    )
    repository.commit_all("models")
    repository.git("rm", "--quiet", "m.onnx.data")
    for arguments in ([], ["--staged"]):
        done = onnx_ci("check", *arguments, cwd=tmp_path)
        assert done.code == 1
        assert "error OCI012 m.onnx" in done.out
        assert "m.onnx.data" in done.out


def test_an_override_covers_the_data_too(tmp_path: Path) -> None:
    write(tmp_path)
    where: dict[str, Any] = {"save_as_external_data": True, "location": "m.onnx.data", "size_threshold": 0}
    onnx.save(bloated(), tmp_path / "m.onnx", **where)
    digest = onnx_ci("check", "--format", "json", cwd=tmp_path).json["models"][0]["before"]["sha256"]
    override = f"overrides:\n  - {{path: m.onnx, sha256: '{digest}', reason: ships, until: 2999-01-01}}\n"
    write(tmp_path, POLICY + override)
    assert onnx_ci("check", cwd=tmp_path).code == 0
    onnx.save(bloated(seed=1), tmp_path / "m.onnx", **where)
    assert onnx_ci("check", cwd=tmp_path).code == 1


def test_files_named_like_options(tmp_path: Path) -> None:
    write(tmp_path)
    onnx.save(bloated(), tmp_path / "-x.onnx")
    done = onnx_ci("fix", "-x.onnx", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "shrunk" in done.out


def test_nothing_checked_is_said(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "README").write_text("hello")
    (tmp_path / "empty").mkdir()
    for name in ("README", "empty"):
        done = onnx_ci("check", name, cwd=tmp_path)
        assert done.code == 2
        assert name in done.err


def test_growth_follows_a_renamed_data_file(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    write(tmp_path, f"{POLICY}    budget: {{growth: 5%}}\n")
    options: dict[str, Any] = {"save_as_external_data": True, "size_threshold": 0}
    onnx.save(lean(), tmp_path / "m.onnx", location="m.onnx.data", **options)
    repository.commit_all("models")
    (tmp_path / "m.onnx.data").unlink()
    onnx.save(lean(), tmp_path / "m.onnx", location="m_data", **options)
    assert onnx_ci("check", cwd=tmp_path).code == 0


def test_where_output_can_not_go_the_exit_code_tells(tmp_path: Path) -> None:
    write(tmp_path, model=lean())
    command = [sys.executable, "-m", "onnx_ci", "check", "--all"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    assert subprocess.run(closed, cwd=tmp_path, check=False).returncode == 0
