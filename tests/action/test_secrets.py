"""The token of the action stays with the action: nothing that a repository makes it run can read it."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.support.action import step_environment, told
from tests.support.pull_requests import Hosted
from tests.support.workflows import PROJECT

THIEF = """
import os, pathlib, subprocess, sys
found = []
for process in pathlib.Path("/proc").glob("[0-9]*"):
    for name in ("environ", "cmdline"):
        try:
            content = (process / name).read_bytes()
        except OSError:
            continue
        if os.environ["LOOK_FOR"][::-1].encode() in content:
            found.append(f"{process.name} {name}")
here = pathlib.Path(__file__).parent
with (here / "found.txt").open("a") as file:
    file.write("".join(f"{line}\\n" for line in found))
(here / "variables.txt").write_text("\\n".join(sorted(os.environ)))
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
with (here / "left.txt").open("a") as file:
    file.write(f"{left.pid}\\n")
print("score: 1")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux'")
def test_the_token_is_in_no_process_that_evaluate_can_see(tmp_path: Path) -> None:
    host = Hosted(tmp_path / "host")
    host.add_model()
    host.push("a bloated model")
    host.clone("clone")
    clone = host.home / "clone"
    policy = clone / ".onnx-ci.yaml"
    command = f"{sys.executable} thief.py {{model}}"
    policy.write_text(
        policy.read_text()
        + f'    evaluate: {{command: "{command}", metric: score, max_decrease: 0, env: [LOOK_FOR]}}\n'
    )
    (clone / "thief.py").write_text(THIEF)
    token = secrets.token_hex(20)
    also = {
        "ONNX_CI_JOB_TOKEN": token,
        "ONNX_CI_PYTHON": sys.executable,
        "ONNX_CI_CACHE": str(tmp_path / "cache"),
    }
    also |= {
        "GITHUB_ACTION_PATH": str(PROJECT),
        "LOOK_FOR": token[::-1],
        "SOME_SECRET": "s",
        "GITHUB_TOKEN": "t",
    }
    environment = step_environment(clone, also=also, token=token, paths="models/a.onnx")
    steps = yaml.safe_load((PROJECT / "action.yml").read_text())["runs"]["steps"]
    (run,) = (step["run"] for step in steps if step.get("id") == "run")
    script = tmp_path / "step.sh"
    script.write_text(run)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    log = done.stdout + done.stderr
    assert told(environment, log).code == "1", log
    assert "OCI003" in log
    assert (clone / "found.txt").read_text() == "", log
    variables = (clone / "variables.txt").read_text().split()
    assert "LOOK_FOR" in variables
    assert not {"SOME_SECRET", "GITHUB_TOKEN", "INPUT_TOKEN", "ONNX_CI_JOB_TOKEN"} & set(variables)
    for pid in (clone / "left.txt").read_text().split():
        assert not _is_running(int(pid))


def _is_running(pid: int) -> bool:
    for _ in range(20):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return True
