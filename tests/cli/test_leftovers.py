"""A run that is stopped cleans up; of one that is killed, the next run removes what it left."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from tests.support.cli import Done, as_from_a_terminal, onnx_ci, plain_environment
from tests.support.git_repo import write_policy
from tests.support.models import bloated, lean

pytestmark = pytest.mark.sampled(20)

WAITS = 'import sys, time; open(sys.argv[1], "w").close(); time.sleep(600)'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with models, and one for what is temporary."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "models").mkdir()
    write_policy(tmp_path / "models", "    methods: [dedupe]\n")
    onnx.save(bloated(), tmp_path / "models" / "m.onnx")
    return tmp_path / "models"


def environment(place: Path) -> dict[str, str]:
    return {**plain_environment(), "TMPDIR": str(place.parent / "temporary")}


def run(*arguments: str, place: Path) -> Done:
    return onnx_ci(*arguments, cwd=place, env={"TMPDIR": str(place.parent / "temporary")})


def left(place: Path) -> list[str]:
    """What is in the temporary folder; onnxruntime itself writes the first of these there."""
    return sorted(path.name for path in (place.parent / "temporary").iterdir() if path.name != ".ses")


def in_the_middle(place: Path, *options: str, ignores: int = 0) -> subprocess.Popen[str]:
    """A fix that waits for the user's own score, with a worker and scratch folders of its own."""
    script = place.parent / "score.py"
    script.write_text(WAITS)
    command = f"{sys.executable} {script} {place.parent / 'waiting'} {{model}}"
    rule = f'    methods: [dedupe]\n    evaluate: {{command: "{command}", metric: score, max_increase: 1}}\n'
    write_policy(place, rule)
    child = subprocess.Popen(
        [sys.executable, "-m", "onnx_ci", "fix", "--all", "--no-cache", *options],
        cwd=place,
        env=environment(place),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=as_from_a_terminal(ignores),
    )
    ends = time.monotonic() + 60
    while not (place.parent / "waiting").exists():
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < ends
        time.sleep(0.02)
    return child


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("options", [(), ("--jobs", "2")])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_all_and_leaves_nothing(name: str, options: tuple[str, ...], place: Path) -> None:
    onnx.save(bloated(seed=1), place / "n.onnx")
    before = {path.name: path.read_bytes() for path in place.glob("*.onnx")}
    child = in_the_middle(place, *options)
    below = children_of(child.pid)
    number = signal.Signals[name]
    child.send_signal(number)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 128 + number
    assert "interrupted; no model was left half written" in err
    assert "Traceback" not in err
    assert left(place) == []
    assert not any(map(is_running, below))
    assert {path.name: path.read_bytes() for path in place.glob("*.onnx")} == before
    assert sorted(path.name for path in place.iterdir()) == [".onnx-ci.yaml", "m.onnx", "n.onnx"]


def test_nohup_holds(place: Path) -> None:
    """Where SIGHUP is ignored when we start, it stays so."""
    child = in_the_middle(place, ignores=signal.SIGHUP)
    child.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert child.poll() is None
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=30)
    assert child.returncode == 143


def test_folders_of_a_killed_run_go_and_those_of_a_living_one_stay(place: Path) -> None:
    child = in_the_middle(place)
    (folder,) = left(place)
    write_policy(place, "    methods: []\n")
    assert run("check", "--all", place=place).code == 0
    assert left(place) == [folder], "it belongs to a run that goes on"
    child.kill()
    child.communicate()
    assert run("check", "--all", "--no-cache", place=place).code == 0
    assert left(place) == []


def test_only_what_is_certainly_ours_is_removed(place: Path) -> None:
    temporary = place.parent / "temporary"
    (temporary / "onnx-ci-run-link").symlink_to(place)
    (temporary / "onnx-ci-other").mkdir()
    (temporary / "onnx-ci-run-file").write_text("a file")
    kept = [".m.onnx.tmp", ".m.onnx.0a1b2c3d.onnx-ci-tmp.bak", "m.onnx.0a1b2c3d.onnx-ci-tmp"]
    for name in kept:
        (place / name).write_text("mine")
    (place / ".m.onnx.data.0a1b2c3d.onnx-ci-tmp").symlink_to(place / "m.onnx")
    assert run("fix", "--all", place=place).code == 0
    assert left(place) == ["onnx-ci-other", "onnx-ci-run-file", "onnx-ci-run-link"]
    assert all((place / name).exists() for name in kept)
    assert (place / ".m.onnx.data.0a1b2c3d.onnx-ci-tmp").is_symlink()


@pytest.mark.parametrize("command", ["check", "fix"])
def test_files_of_a_dead_run_go_whatever_their_age(command: str, place: Path) -> None:
    stray = place / ".m.onnx.data.0a1b2c3d.onnx-ci-tmp"
    held = place / ".m.onnx.0a1b2c3e.onnx-ci-tmp"
    stray.write_bytes(b"half")
    held.write_bytes(b"half")
    with held.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        run(command, "--all", place=place)
        assert not stray.exists()
        assert held.exists(), "another run is still at it"
    run(command, "--all", "--no-cache", place=place)
    assert not held.exists()


def test_data_that_an_unfinished_replacement_needs_stays(place: Path) -> None:
    """In its own folder and in one below, whichever model a run is about."""
    (place / "below").mkdir()
    for name in (".m.onnx.data.0a1b2c3d.onnx-ci-tmp", "below/.w.data.0a1b2c3d.onnx-ci-tmp"):
        model = place / f"{len(name)}.onnx"
        onnx.save(lean(), model, save_as_external_data=True, location=name, size_threshold=0)
    onnx.save(lean(), place / "below" / "n.onnx")
    run("check", "--all", place=place)
    run("check", "m.onnx", "below/n.onnx", "--no-cache", place=place)
    for model in place.glob("[0-9]*.onnx"):
        onnx.load(model)
    assert run("fix", "m.onnx", "below/n.onnx", place=place).code == 0
    for model in place.glob("[0-9]*.onnx"):
        onnx.load(model)
