"""The hatchling hook in real builds: the wheel has the shrunk model, which runs, and the sources stay."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.build_projects import (
    POLICY,
    assert_runs_alike,
    build,
    built,
    found_by_check,
    install_editable,
    leave_data_out,
    opened,
    stopped,
    tree,
    under_a_nearer_policy,
    write_project,
)

pytestmark = pytest.mark.real

PYPROJECT = """
[build-system]
requires = ["hatchling", "onnx-ci"]
build-backend = "hatchling.build"
[project]
name = "pkg"
version = "1.0"
[tool.hatch.build.hooks.onnx-ci]
"""


@pytest.mark.parametrize("external", ["", "model.onnx.data"])
def test_a_wheel_carries_the_shrunk_model(tmp_path: Path, external: str) -> None:
    model = write_project(tmp_path / "p", PYPROJECT, external=external)
    before = tree(tmp_path / "p")
    files = built(tmp_path / "p")
    assert {n for n in files if n.startswith("pkg/")} == {n for n in before if n.startswith("pkg/")}
    assert sum(map(len, files.values())) < 15_000 < sum(map(len, before.values()))
    assert_runs_alike(files, model, tmp_path / "unpacked")
    shutil.rmtree(tmp_path / "p" / "dist")
    assert tree(tmp_path / "p") == before


def test_two_builds_and_a_build_through_an_sdist_give_the_same_bytes(tmp_path: Path) -> None:
    for name, options in (("one", ["--wheel"]), ("two", ["--wheel"]), ("sdist", ["--sdist", "--wheel"])):
        write_project(tmp_path / name, PYPROJECT)
        done = build(tmp_path / name, *options)
        assert done.returncode == 0, done.stdout + done.stderr
    wheels = [next((tmp_path / name / "dist").glob("*.whl")).read_bytes() for name in ("one", "two", "sdist")]
    assert wheels[0] == wheels[1] == wheels[2]


def test_an_sdist_is_shrunk_only_if_asked(tmp_path: Path) -> None:
    model = write_project(tmp_path / "plain", PYPROJECT)
    write_project(tmp_path / "asked", f"{PYPROJECT}sdist = true\n")
    assert built(tmp_path / "plain", "--sdist")["pkg/model.onnx"] == model.read_bytes()
    files = built(tmp_path / "asked", "--sdist")
    assert len(files["pkg/model.onnx"]) < model.stat().st_size / 4
    assert ".onnx-ci.yaml" in files
    assert_runs_alike(files, model, tmp_path / "unpacked")
    done = build(tmp_path / "asked", "--sdist", "--wheel")  # the wheel from the sdist: not shrunk twice
    assert done.returncode == 0, done.stderr
    wheel = opened(next((tmp_path / "asked" / "dist").glob("*.whl")))
    assert wheel["pkg/model.onnx"] == files["pkg/model.onnx"]


def test_data_that_the_shrunk_model_does_not_need_is_not_shipped(tmp_path: Path) -> None:
    policy = POLICY.replace("int8-weights]", "int8-weights, {external-data: {embed: true}}]")
    model = write_project(tmp_path / "p", PYPROJECT, policy=policy, external="model.onnx.data")
    files = built(tmp_path / "p")
    assert "pkg/model.onnx.data" not in files
    assert_runs_alike(files, model, tmp_path / "unpacked")


def test_models_that_are_included_by_force_or_from_a_source_folder(tmp_path: Path) -> None:
    """Their path in the wheel is not their path in the tree."""
    extra = (
        '[tool.hatch.build.targets.wheel]\npackages = ["src/pkg"]\n'
        '[tool.hatch.build.targets.wheel.force-include]\n"other/model.onnx" = "pkg/forced.onnx"\n'
        '"folder" = "pkg/folder"\n'
    )
    root = tmp_path / "p"
    model = write_project(root, PYPROJECT + extra)
    for name in ("other", "folder"):
        shutil.copytree(root / "pkg", root / name)
    shutil.copytree(root / "pkg", root / "src" / "pkg")
    shutil.rmtree(root / "pkg")
    files = built(root)
    original = (root / "other" / "model.onnx").read_bytes()
    for name in ("pkg/model.onnx", "pkg/forced.onnx", "pkg/folder/model.onnx"):
        assert len(files[name]) < len(original) / 4
        assert_runs_alike(files, root / "other" / "model.onnx", tmp_path / "unpacked", name)
    assert not model.exists()


def test_a_model_that_another_hook_has_made(tmp_path: Path) -> None:
    root = tmp_path / "p"
    model = write_project(
        root, PYPROJECT.replace("hooks.onnx-ci", "hooks.custom]\n[tool.hatch.build.hooks.onnx-ci")
    )
    (root / "hatch_build.py").write_text(
        "from hatchling.builders.hooks.plugin.interface import BuildHookInterface\n"
        "class Export(BuildHookInterface):\n"
        "    def initialize(self, version, build_data):\n"
        "        build_data['force_include']['pkg/model.onnx'] = 'pkg/made.onnx'\n"
    )
    files = built(root)
    assert len(files["pkg/made.onnx"]) < model.stat().st_size / 4
    assert_runs_alike(files, model, tmp_path / "unpacked", "pkg/made.onnx")


def test_an_editable_install_is_left_alone(tmp_path: Path) -> None:
    model = write_project(tmp_path / "p", PYPROJECT, policy="this: is not a policy\n")
    before = model.read_bytes()
    install_editable(tmp_path / "p", tmp_path / "site")
    assert model.read_bytes() == before
    assert not list((tmp_path / "site").rglob("*.onnx"))


def test_a_build_stops_with_the_finding_that_check_prints(tmp_path: Path) -> None:
    root = tmp_path / "p"
    write_project(root, PYPROJECT, policy=f"{POLICY}    budget: {{size: 2 kB}}\n")
    assert found_by_check(root, "OCI001") in stopped(root)


def test_a_broken_policy_is_said_in_one_line(tmp_path: Path) -> None:
    write_project(tmp_path / "p", PYPROJECT, policy="version: 1\nmodels: [{path: a, budgit: 1}]\n")
    assert ".onnx-ci.yaml:2: models: unknown key 'budgit'" in stopped(tmp_path / "p")


def test_missing_data_and_a_missing_policy_stop_the_build(tmp_path: Path) -> None:
    write_project(tmp_path / "data", PYPROJECT, external="model.onnx.data")
    (tmp_path / "data" / "pkg" / "model.onnx.data").unlink()
    assert found_by_check(tmp_path / "data", "OCI012") in stopped(tmp_path / "data")
    write_project(tmp_path / "bare", PYPROJECT)
    (tmp_path / "bare" / ".onnx-ci.yaml").unlink()
    assert "there is no .onnx-ci.yaml" in stopped(tmp_path / "bare")


@pytest.mark.parametrize(
    "table",
    [
        'exclude = ["*.data"]',
        'force-include = {"pkg/model.onnx" = "pkg/model.onnx", "pkg/__init__.py" = "pkg/__init__.py"}\n'
        'packages = []\ninclude = ["nothing"]',
    ],
)
def test_a_model_that_ships_as_it_is_ships_with_its_data(tmp_path: Path, table: str) -> None:
    write_project(tmp_path / "p", f"{PYPROJECT}[tool.hatch.build.targets.wheel]\n{table}\n")
    model = leave_data_out(tmp_path / "p")
    files = built(tmp_path / "p")
    assert files["pkg/model.onnx"] == model.read_bytes()
    assert_runs_alike(files, model, tmp_path / "unpacked")


def test_the_nearest_policy_rules(tmp_path: Path) -> None:
    root = tmp_path / "p"
    write_project(root, PYPROJECT)
    under_a_nearer_policy(root)
    assert found_by_check(root, "OCI001") in stopped(root)
    (root / "pyproject.toml").write_text(f'{PYPROJECT}policy = ".onnx-ci.yaml"\n')
    assert len(built(root)["pkg/near/model.onnx"]) < 15_000
