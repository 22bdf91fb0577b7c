"""The action's environment of its own: named after what is in it, made once, and never half made."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.support.action import call
from tests.support.workflows import PROJECT, Act, tools

pytestmark = pytest.mark.real

START = PROJECT / "onnx_ci" / "action" / "start.py"
FORK = {"pull_request": {"head": {"ref": "x", "sha": "y", "repo": {"full_name": "stranger/models"}}}}


def test_the_environment_is_there_and_knows_itself(act: Act) -> None:
    python = act.environment_folder / "bin" / "python"
    asked = [str(python), "-I", "-c", "import onnx_ci, sys; print(onnx_ci.__file__, sys.prefix)"]
    file, prefix = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    assert Path(file).is_relative_to(act.environment_folder)
    assert Path(prefix) == act.environment_folder
    command = act.environment_folder / "command" / "onnx-ci"
    done = subprocess.run([str(command), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("onnx-ci ")
    assert [path.name for path in tools(act.home / "machine").joinpath("onnx-ci").iterdir()] == [
        act.environment_folder.name
    ]


def test_environments_that_nobody_uses_any_more_go(act: Act) -> None:
    home = act.environment_folder.parent
    for name, age in (("onnx-ci-0.0.1-old", 61), ("onnx-ci-0.0.2-recent", 59)):
        (home / name).mkdir()
        (home / name / "complete").touch()
        then = time.time() - age * 24 * 3600
        os.utime(home / name / "complete", (then, then))
    act.install()
    assert not (home / "onnx-ci-0.0.1-old").exists()
    (home / "onnx-ci-0.0.2-recent" / "complete").unlink()
    (home / "onnx-ci-0.0.2-recent").rmdir()


def test_what_is_prepared_depends_on_what_is_asked(tmp_path: Path) -> None:
    plain = call(tmp_path, step="prepare").outputs
    assert (plain["install"], plain["cache"]) == ("true", "true")
    assert call(tmp_path, step="prepare").outputs == plain
    assert call(tmp_path, step="prepare", extras="simplify").outputs["key"] != plain["key"]
    assert call(tmp_path, step="prepare", cache="false").outputs["cache"] == "false"
    fork = call(tmp_path, "pull_request", FORK, step="prepare")
    assert fork.outputs["cache"] == "false"
    assert "no cache is used" in fork.log
    light = call(tmp_path, mode="comment", step="prepare").outputs
    assert (light["python"], light["install"], light["cache"]) == (sys.executable, "false", "false")


def test_wrong_inputs_stop_it_before_anything_is_installed(tmp_path: Path) -> None:
    done = call(tmp_path, step="prepare", fail_on="sometimes")
    assert done.outputs["exit-code"] == "2"
    assert "input 'fail-on': found 'sometimes'" in done.log


def test_an_extra_that_there_is_not_is_named(tmp_path: Path) -> None:
    done = call(tmp_path, step="install", extras="keywords")
    assert done.outputs["exit-code"] == "2"
    assert "input 'extras': found 'keywords', expected one that onnx-ci has" in done.log
    assert not list((tmp_path.parent / f"runner-of-{tmp_path.name}" / "tools").rglob("complete"))


def test_an_index_that_is_out_of_reach_leaves_nothing_half_made(tmp_path: Path) -> None:
    nowhere = {"PIP_NO_INDEX": "1", "PATH": "/usr/bin:/bin", "PIP_CONFIG_FILE": "/dev/null"}
    done = call(tmp_path, step="install", also=nowhere)
    assert done.outputs["exit-code"] == "3"
    assert "could not install onnx-ci with pip" in done.log
    assert not list((tmp_path.parent / f"runner-of-{tmp_path.name}" / "tools").rglob("*"))[1:]


def test_an_old_python_is_told_what_to_do(tmp_path: Path) -> None:
    """The real check, with a Python that says it is old."""
    told = "import sys, runpy; sys.version_info = (3, 8, 10); sys.argv = ['x', 'prepare'];"
    pretend = f"{told} runpy.run_path({str(START)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-I", "-c", pretend], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "::error title=onnx-ci::this runner's python3 is Python 3.8.10" in done.stdout
    assert "python-version" in done.stdout


def test_inputs_and_outputs_are_those_that_were_promised() -> None:
    action = yaml.safe_load((PROJECT / "action.yml").read_text())
    inputs = "mode policy policy-from paths since all fail-on comment commit-message"
    inputs += " branch status push-attempts token"
    assert list(action["inputs"]) == [*inputs.split(), "python-version", "cache", "extras"]
    outputs = "exit-code changed committed commit-sha bytes-before bytes-after bytes-saved errors warnings"
    outputs += " pull-request report comment-body"
    assert list(action["outputs"]) == outputs.split()
    given = {step["id"]: step.get("env", {}) for step in action["runs"]["steps"] if "id" in step}["run"]
    named = {
        name.removeprefix("INPUT_").lower().replace("_", "-") for name in given if name.startswith("INPUT_")
    }
    assert named == set(action["inputs"]) - {"python-version"}  # which is for another step


def test_the_set_up_action_has_the_steps_of_the_action_itself() -> None:
    whole, alone = (
        {step["name"]: step for step in yaml.safe_load((PROJECT / name).read_text())["runs"]["steps"]}
        for name in ("action.yml", "setup/action.yml")
    )
    for name, step in alone.items():
        same = {**whole[name]}
        if "run" in step:
            same["run"] = same["run"].replace("$GITHUB_ACTION_PATH/", "$GITHUB_ACTION_PATH/../")
            same["env"] = {key: value for key, value in same["env"].items() if key in step["env"]}
        if name == "Install onnx-ci":
            del same["if"]
        assert step == same
