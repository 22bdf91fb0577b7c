"""The CMake module with Ninja and Make: right dependencies, an embedded model, and scikit-build-core."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import onnx
import pytest

from onnx_ci.version import __version__
from tests.support.build_projects import (
    POLICY,
    assert_runs_alike,
    build,
    built,
    found_by_check,
    needs,
    run,
    tree,
    write_project,
)
from tests.support.cli import onnx_ci
from tests.support.models import bloated

pytestmark = pytest.mark.real

LISTS = """\
cmake_minimum_required(VERSION 3.20)
project(demo LANGUAGES NONE)
find_package(OnnxCi 0.1 REQUIRED)
onnx_ci_shrink(
  TARGET models MODELS models/one.onnx "models/two words.onnx" POLICY .onnx-ci.yaml OUTPUT_DIR out)
"""
GENERATORS = ["Ninja", "Unix Makefiles"]
MODELS = ("one.onnx", "two words.onnx")


def project(folder: Path, lists: str = LISTS, policy: str = POLICY) -> None:
    (folder / "models").mkdir(parents=True)
    (folder / "CMakeLists.txt").write_text(lists)
    (folder / ".onnx-ci.yaml").write_text(policy)
    for number, name in enumerate(MODELS):
        model = bloated(seed=number)
        external: dict[str, Any] = (
            {"save_as_external_data": True, "location": f"{name}.data"} if number else {}
        )
        onnx.save(model, folder / "models" / name, **external)


def configure(folder: Path, *more: str) -> str:
    where = onnx_ci("cmake-dir", cwd=folder).out.strip()
    done = run("cmake", "-S", ".", "-B", "b", *(more or ["-G", "Ninja"]), f"-DOnnxCi_DIR={where}", cwd=folder)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def rebuilt(folder: Path) -> list[str]:
    """The models that a build works on."""
    done = run("cmake", "--build", "b", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(re.findall(r"Shrinking (.*\.onnx)", done.stdout))


@pytest.mark.parametrize("generator", GENERATORS)
def test_only_what_changed_is_built_again(tmp_path: Path, generator: str) -> None:
    needs("make")
    project(tmp_path / "p")
    before = tree(tmp_path / "p" / "models")
    assert configure(tmp_path / "p", "-G", generator) == ""
    assert rebuilt(tmp_path / "p") == list(MODELS)
    for name in MODELS:
        out = {f"pkg/{key}": value for key, value in tree(tmp_path / "p" / "b" / "out").items()}
        assert_runs_alike(out, tmp_path / "p" / "models" / name, tmp_path / "un packed", f"pkg/{name}")
    assert sum(map(len, out.values())) < sum(map(len, before.values())) / 4
    assert rebuilt(tmp_path / "p") == []
    for touched, expected in (
        ("models/one.onnx", ["one.onnx"]),
        ("models/two words.onnx", ["two words.onnx"]),
        ("models/two words.onnx.data", ["two words.onnx"]),
        (".onnx-ci.yaml", list(MODELS)),
    ):
        newest = max(file.stat().st_mtime for file in (tmp_path / "p" / "b" / "out").iterdir())
        os.utime(tmp_path / "p" / touched, (newest + 2, newest + 2))
        assert rebuilt(tmp_path / "p") == expected, touched
        os.utime(tmp_path / "p" / touched, (newest - 100, newest - 100))
        assert rebuilt(tmp_path / "p") == [], touched
    assert tree(tmp_path / "p" / "models") == before


def test_cleaning_takes_the_data_along(tmp_path: Path) -> None:
    project(tmp_path)
    assert configure(tmp_path) == ""
    rebuilt(tmp_path)
    before = tree(tmp_path / "b" / "out")
    assert run("cmake", "--build", "b", "--target", "clean", cwd=tmp_path).returncode == 0
    assert tree(tmp_path / "b" / "out") == {}
    rebuilt(tmp_path)
    assert tree(tmp_path / "b" / "out") == before


def test_the_nearest_policy_rules_also_one_that_is_added_later(tmp_path: Path) -> None:
    project(tmp_path, LISTS.replace("POLICY .onnx-ci.yaml ", ""))
    assert configure(tmp_path) == ""
    rebuilt(tmp_path)
    (tmp_path / "models" / ".onnx-ci.yaml").write_text(f"{POLICY}    budget: {{size: 2 kB}}\n")
    done = run("cmake", "--build", "b", cwd=tmp_path)
    assert done.returncode != 0
    assert "OCI001" in done.stdout + done.stderr


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_broken_rule_stops_the_build(tmp_path: Path, generator: str) -> None:
    needs("make")
    policy = f'{POLICY}  - path: "models/one.onnx"\n    budget: {{size: 2 kB}}\n'
    project(tmp_path, policy=policy)
    finding = found_by_check(tmp_path, "OCI001")
    assert configure(tmp_path, "-G", generator) == ""
    done = run("cmake", "--build", "b", cwd=tmp_path)
    assert done.returncode != 0
    assert finding in done.stdout + done.stderr
    assert not (tmp_path / "b" / "out" / "one.onnx").exists()
    (tmp_path / ".onnx-ci.yaml").write_text("version: 1\nmodels: [{path: a, budgit: 1}]\n")
    done = run("cmake", "--build", "b", cwd=tmp_path)
    assert done.returncode != 0
    assert ".onnx-ci.yaml:2: models: unknown key 'budgit'" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("onnx_ci_shrink(TARGET t MODELS models/one.onnx)", "OUTPUT_DIR is missing"),
        ("onnx_ci_shrink(TARGET t MODELS a.onnx OUTPUT_DIR o POLICY no.yaml)", "there is no policy file"),
        ("onnx_ci_shrink(TARGET t MODELS a.onnx b/a.onnx OUTPUT_DIR o)", "two models are called a.onnx"),
        (
            "foreach(t IN ITEMS a b)\n  onnx_ci_shrink(TARGET ${t} MODELS m.onnx OUTPUT_DIR o)\nendforeach()",
            "another target writes",
        ),
        ("onnx_ci_shrink(TARGET t EMBED MODELS a-b.onnx a_b.onnx OUTPUT_DIR o)", "the same name in C"),
        ("onnx_ci_shrink(OTHER TARGET t MODELS a.onnx OUTPUT_DIR o)", "unknown argument: OTHER"),
    ],
)
def test_wrong_calls(tmp_path: Path, call: str, message: str) -> None:
    project(tmp_path, LISTS.split("onnx_ci_shrink")[0] + call)
    assert message in configure(tmp_path)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    project(tmp_path)
    assert "no such program" in configure(tmp_path, "-G", "Ninja", "-DONNX_CI_EXECUTABLE=/nope")


def test_a_missing_model_stops_the_build_and_leaves_nothing(tmp_path: Path) -> None:
    project(tmp_path)
    assert configure(tmp_path) == ""
    (tmp_path / "models" / "one.onnx").unlink()
    (tmp_path / "models" / "two words.onnx.data").unlink()
    done = run("cmake", "--build", "b", "--", "-k", "0", cwd=tmp_path)
    assert done.returncode != 0
    assert "one.onnx" in done.stdout + done.stderr
    assert tree(tmp_path / "b" / "out") == {}


def test_a_program_that_carries_its_model(tmp_path: Path) -> None:
    needs("cc")
    lists = (
        'enable_language(C)\nonnx_ci_shrink(TARGET embedded EMBED MODELS "models/one.onnx" OUTPUT_DIR out)\n'
        "add_executable(main main.c)\ntarget_link_libraries(main PRIVATE embedded)\n"
    )
    project(tmp_path, LISTS.split("onnx_ci_shrink")[0] + lists)
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "one_onnx.h"\n'
        "int main(void) { return fwrite(one_onnx, 1, one_onnx_size, stdout) == 0; }\n"
    )
    assert configure(tmp_path) == ""
    assert rebuilt(tmp_path) == ["one.onnx"]
    assert run("sh", "-c", "b/main > printed.onnx", cwd=tmp_path).returncode == 0
    printed = (tmp_path / "printed.onnx").read_bytes()
    assert printed == (tmp_path / "b" / "out" / "one.onnx").read_bytes()
    assert len(printed) < (tmp_path / "models" / "one.onnx").stat().st_size / 4
    assert rebuilt(tmp_path) == []


def test_the_module_path_and_a_version_that_is_too_new(tmp_path: Path) -> None:
    where = onnx_ci("cmake-dir", cwd=tmp_path).out.strip()
    call = LISTS.replace("find_package", f'list(APPEND CMAKE_MODULE_PATH "{where}")\nfind_package')
    for name, lists in (("found", call), ("new", call.replace("OnnxCi 0.1", "OnnxCi 99"))):
        project(tmp_path / name, lists)
        done = run("cmake", "-S", ".", "-B", "b", "-G", "Ninja", cwd=tmp_path / name)
        assert (done.returncode == 0) == (name == "found"), done.stderr
    assert "99" in done.stderr


def test_the_version_of_the_module_is_that_of_the_package(tmp_path: Path) -> None:
    where = Path(onnx_ci("cmake-dir", cwd=tmp_path).out.strip())
    assert f'set(PACKAGE_VERSION "{__version__}")' in (where / "OnnxCiConfigVersion.cmake").read_text()


SCIKIT = """
[build-system]
requires = ["scikit-build-core", "onnx-ci"]
build-backend = "scikit_build_core.build"
[project]
name = "pkg"
version = "1.0"
[tool.scikit-build]
wheel.packages = []
"""


def test_scikit_build_core_finds_the_module(tmp_path: Path) -> None:
    model = write_project(tmp_path / "p", SCIKIT)
    (tmp_path / "p" / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(pkg LANGUAGES NONE)\nfind_package(OnnxCi REQUIRED)\n"
        "onnx_ci_shrink(TARGET models MODELS pkg/model.onnx OUTPUT_DIR models)\n"
        "install(FILES ${CMAKE_CURRENT_BINARY_DIR}/models/model.onnx DESTINATION pkg)\n"
    )
    files = built(tmp_path / "p")
    assert len(files["pkg/model.onnx"]) < model.stat().st_size / 4
    assert_runs_alike(files, model, tmp_path / "unpacked")
    (tmp_path / "p" / ".onnx-ci.yaml").write_text(f"{POLICY}    budget: {{size: 2 kB}}\n")
    done = build(tmp_path / "p")
    assert done.returncode != 0
    assert "OCI001 pkg/model.onnx" in done.stdout + done.stderr
