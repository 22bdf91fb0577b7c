"""setuptools with `[tool.onnx-ci]`, in real builds, whichever way a model gets into the package."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx
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
from tests.support.models import bloated

pytestmark = pytest.mark.real

PYPROJECT = """
[build-system]
requires = ["setuptools", "onnx-ci"]
build-backend = "setuptools.build_meta"
[project]
name = "pkg"
version = "1.0"
[tool.setuptools]
packages = ["pkg"]
{}
[tool.onnx-ci]
"""
PACKAGE_DATA = PYPROJECT.format(
    'include-package-data = false\n[tool.setuptools.package-data]\npkg = ["*.onnx*"]'
)
MANIFEST = PYPROJECT.format("include-package-data = true")


@pytest.mark.parametrize("external", ["", "model.onnx.data"])
@pytest.mark.parametrize("pyproject", [PACKAGE_DATA, MANIFEST])
def test_a_wheel_carries_the_shrunk_model(tmp_path: Path, pyproject: str, external: str) -> None:
    root = tmp_path / "p"
    model = write_project(root, pyproject, external=external)
    (root / "MANIFEST.in").write_text("include pkg/*.onnx*\n")
    before = tree(root / "pkg")
    files = built(root)
    assert {name for name in files if ".onnx" in name} == {
        f"pkg/{name}" for name in before if ".onnx" in name
    }
    assert sum(map(len, files.values())) < 15_000
    assert_runs_alike(files, model, tmp_path / "unpacked")
    assert tree(root / "pkg") == before


def test_a_second_build_and_one_through_an_sdist_give_the_same_model(tmp_path: Path) -> None:
    root = tmp_path / "p"
    write_project(root, MANIFEST)
    (root / "MANIFEST.in").write_text("include pkg/*.onnx\n")
    first = built(root)
    shutil.rmtree(root / "dist")
    again = built(root)  # over the build folder that the first has left
    shutil.rmtree(root / "dist")
    done = build(root, "--sdist", "--wheel")
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (root / "dist").glob("*.whl")
    shutil.rmtree(root / "build")
    (root / "dist" / "pkg-1.0.tar.gz").rename(tmp_path / "pkg-1.0.tar.gz")
    assert again == first
    assert opened(wheel)["pkg/model.onnx"] == first["pkg/model.onnx"]
    source = opened(tmp_path / "pkg-1.0.tar.gz")
    assert source["pkg/model.onnx"] == (root / "pkg" / "model.onnx").read_bytes()
    assert ".onnx-ci.yaml" in source


def test_data_that_the_shrunk_model_does_not_need_is_not_shipped(tmp_path: Path) -> None:
    policy = POLICY.replace("int8-weights]", "int8-weights, {external-data: {embed: true}}]")
    model = write_project(tmp_path / "p", PACKAGE_DATA, policy=policy, external="model.onnx.data")
    files = built(tmp_path / "p")
    assert "pkg/model.onnx.data" not in files
    assert_runs_alike(files, model, tmp_path / "unpacked")


def test_without_the_table_nothing_happens(tmp_path: Path) -> None:
    plain = PACKAGE_DATA.replace("[tool.onnx-ci]", "[tool.onnx_ci]")
    model = write_project(tmp_path / "p", plain, policy="this: is not a policy\n")
    done = build(tmp_path / "p")
    assert "did you mean [tool.onnx-ci]?" in done.stdout + done.stderr
    assert opened(next((tmp_path / "p" / "dist").iterdir()))["pkg/model.onnx"] == model.read_bytes()


def test_an_editable_install_is_left_alone(tmp_path: Path) -> None:
    model = write_project(tmp_path / "p", PACKAGE_DATA, policy="this: is not a policy\n")
    before = model.read_bytes()
    install_editable(tmp_path / "p", tmp_path / "site")
    assert model.read_bytes() == before


def test_a_build_stops_with_the_finding_that_check_prints(tmp_path: Path) -> None:
    root = tmp_path / "p"
    write_project(root, PACKAGE_DATA, policy=f"{POLICY}    budget: {{size: 2 kB}}\n")
    assert found_by_check(root, "OCI001") in stopped(root)


def test_a_wrong_table_is_said_in_one_line(tmp_path: Path) -> None:
    write_project(tmp_path / "p", f"{PACKAGE_DATA}sdist = true\n")
    assert "[tool.onnx-ci]: unknown key 'sdist'" in stopped(tmp_path / "p")


def test_a_model_that_ships_as_it_is_ships_with_its_data(tmp_path: Path) -> None:
    write_project(tmp_path / "p", PACKAGE_DATA.replace("*.onnx*", "*.onnx"))
    model = leave_data_out(tmp_path / "p")
    files = built(tmp_path / "p")
    assert files["pkg/model.onnx"] == model.read_bytes()
    assert_runs_alike(files, model, tmp_path / "unpacked")


def test_the_nearest_policy_rules(tmp_path: Path) -> None:
    root = tmp_path / "p"
    write_project(root, PACKAGE_DATA.replace("*.onnx*", "**/*.onnx"))
    under_a_nearer_policy(root)
    assert found_by_check(root, "OCI001") in stopped(root)
    assert "pkg/near/.onnx-ci.yaml" in built(root, "--sdist")


def test_what_an_earlier_build_left_is_not_shipped(tmp_path: Path) -> None:
    root = tmp_path / "p"
    model = write_project(root, PACKAGE_DATA, external="model.onnx.data")
    assert "pkg/model.onnx.data" in built(root)
    shutil.rmtree(root / "dist")
    (root / "pkg" / "model.onnx.data").unlink()
    onnx.save(bloated(), model)
    assert "pkg/model.onnx.data" not in built(root)
    shutil.rmtree(root / "dist")
    (root / ".onnx-ci.yaml").write_text(POLICY.replace("methods: [dedupe, int8-weights]", "ignore: true"))
    assert built(root)["pkg/model.onnx"] == model.read_bytes()
    shutil.copyfile(model, root / "build" / "lib" / "pkg" / "gone.onnx")
    done = build(root)
    assert done.returncode == 1
    assert "gone.onnx was left by an earlier build" in done.stdout + done.stderr


def test_models_that_a_build_py_of_its_own_makes(tmp_path: Path) -> None:
    root = tmp_path / "p"
    model = write_project(root, PACKAGE_DATA)
    (root / "setup.py").write_text(
        "import shutil, setuptools\nfrom distutils.command.build_py import build_py\n"
        "class Export(build_py):\n"
        "    def run(self):\n"
        "        shutil.copyfile('pkg/model.onnx', 'pkg/before.onnx')\n"
        "        super().run()\n"
        "        shutil.copyfile('pkg/model.onnx', f'{self.build_lib}/pkg/after.onnx')\n"
        "setuptools.setup(cmdclass={'build_py': Export})\n"
    )
    files = built(root)
    for name in ("pkg/model.onnx", "pkg/after.onnx"):
        assert_runs_alike(files, model, tmp_path / "unpacked", name)
    assert all(len(content) < 15_000 for content in files.values())
