"""The traps are what they say: they build, they run (or not), and they catch what they are made for."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from tests.traps import (
    FILE_TRAPS,
    GOOD_FILES,
    HOSTILE,
    HUGE_FILES,
    NAMES,
    TRAPS,
    Feed,
    FileTrap,
    Trap,
    feeds_for,
)
from tests.traps.good_files import layers
from tests.traps.naive import BROKEN_BY

EVERY = (*TRAPS, *GOOD_FILES)
BY_NAME = {trap.name: trap for trap in EVERY}
POSIX = sys.platform != "win32"
RECENT = tuple(map(int, ort.__version__.split(".")[:2])) >= (1, 31)  # older ones let a few more through


def named(traps: tuple[Any, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("trap", traps, ids=[trap.name for trap in traps])


def run(model: str | bytes, feeds: list[Feed]) -> list[list[Any]]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    quiet = ort.RunOptions()
    quiet.log_severity_level = 4
    return [session.run(None, feed, quiet) for feed in feeds]


def bits(value: Any) -> object:
    """Something that is equal exactly when the outputs are the same, NaNs and zeros included."""
    if isinstance(value, list):
        return [bits(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tolist() if value.dtype == object else value.tobytes()
    return value


def arrays(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [found for item in value for found in arrays(item)]
    return [value] if isinstance(value, np.ndarray) and value.dtype != object else []


def test_each_has_a_name_and_a_reason() -> None:
    everything: tuple[Trap | FileTrap, ...] = (*EVERY, *HUGE_FILES, *HOSTILE, *FILE_TRAPS)
    names = [trap.name for trap in everything]
    assert len(names) == len(set(names))
    assert all(trap.why.endswith(".") for trap in everything)
    assert all(word == word.lower() for trap in FILE_TRAPS for word in trap.words)


@pytest.mark.sampled(5)
@named(tuple(trap for trap in EVERY if trap.runs))
def test_runs(trap: Trap, tmp_path: Path) -> None:
    path = trap.build(tmp_path)
    feeds = feeds_for(trap, path)
    ort.set_seed(1)
    once = run(str(path), feeds)
    ort.set_seed(2)  # sessions of one process draw the same numbers otherwise
    again = run(str(path), feeds)
    assert (bits(once) == bits(again)) is trap.repeats
    assert all(np.isfinite(array).all() for array in arrays(once)) is trap.finite
    for other in trap.also:
        assert bits(run(str(tmp_path / other), feeds)) != bits(once)


@named(tuple(trap for trap in EVERY if not trap.runs))
def test_onnxruntime_says_no(trap: Trap, tmp_path: Path) -> None:
    path = trap.build(tmp_path)
    feeds = feeds_for(trap, path)
    assert _refuses(lambda file: run(file, feeds), str(path)) or not RECENT


@pytest.mark.sampled(3)
@named(tuple(trap for trap in EVERY if trap.checks))
def test_checker_says_yes(trap: Trap, tmp_path: Path) -> None:
    onnx.checker.check_model(str(trap.build(tmp_path)))


@pytest.mark.sampled(4)
@named(tuple(trap for trap in EVERY if trap.name != "external_past_4_gib"))
def test_same_bytes_each_time(trap: Trap, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        trap.build(folder)
    one, two = ({p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in folders)
    assert one == two


@named(tuple(trap for trap in FILE_TRAPS if trap.probe))
def test_file_is_refused(trap: FileTrap, tmp_path: Path) -> None:
    """By onnx.load or by onnxruntime: each alone lets some through."""
    path = trap.build(tmp_path)
    readers: tuple[Callable[[str], object], ...] = (onnx.load, lambda file: run(file, []))
    assert any(_refuses(reader, str(path)) for reader in readers) or not RECENT


def _refuses(reader: Callable[[Any], object], what: object) -> bool:
    try:
        reader(what)
    except Exception:  # noqa: BLE001 - whatever they raise
        return True
    return False


@pytest.mark.skipif(not POSIX, reason="Windows forbids most of these names")
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_name_is_usable(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(layers().SerializeToString())
    assert [found.name for found in tmp_path.iterdir()] == [name]
    assert onnx.load(path).graph.node


@pytest.mark.real
@pytest.mark.skipif(not POSIX, reason="sparse files")
@named(HUGE_FILES)
def test_huge_file_takes_no_room(trap: Trap, tmp_path: Path) -> None:
    status = trap.build(tmp_path).stat()
    assert status.st_size > 2**31
    assert status.st_blocks * 512 < 2**20


RUN = """
import sys, numpy, onnxruntime
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))
except ImportError:
    pass
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
session.run(None, dict(numpy.load(sys.argv[2])))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory, and of a crash on x86")
@pytest.mark.sampled(0)
def test_hostile(tmp_path: Path) -> None:
    """All at once, to wait only once."""
    children = {}
    for trap in HOSTILE:
        folder = tmp_path / trap.name
        folder.mkdir()
        path = trap.build(folder)
        feed: dict[str, Any] = feeds_for(trap, path)[0]
        np.savez(folder / "feed.npz", **feed)
        arguments = [sys.executable, "-c", RUN, str(path), str(folder / "feed.npz")]
        children[trap.name] = subprocess.Popen(
            arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    began = time.monotonic()
    # What is not meant to hang is given all the time a busy machine may need.
    ends = {
        name: _end(child, began + (6 if name.startswith("hangs") else 120))
        for name, child in children.items()
    }
    x86 = platform.machine() == "x86_64"
    crash = "killed" if x86 else "ran"
    assert ends == {
        "crashes_at_load": crash,
        "crashes_at_run": crash,
        "hangs_at_load": "hung",
        "hangs_at_run": "hung",
        "wants_all_memory": "failed",
        "eats_memory": "failed",
        "fails_at_run": "failed",
    }


def _end(child: subprocess.Popen[bytes], deadline: float) -> str:
    try:
        code = child.wait(timeout=max(0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return "hung"
    return "ran" if code == 0 else "killed" if code < 0 else "failed"


@pytest.mark.parametrize(
    ("method", "name"),
    [(method, name) for method, names in BROKEN_BY.items() for name in names],
    ids=[f"{method.__name__}-{name}" for method, names in BROKEN_BY.items() for name in names],
)
def test_trap_has_teeth(method: Callable[[onnx.ModelProto], None], name: str, tmp_path: Path) -> None:
    trap = BY_NAME[name]
    path = trap.build(tmp_path)
    feeds = feeds_for(trap, path)
    try:
        model = onnx.load(path)
        method(model)
        changed = run(model.SerializeToString(), feeds)
    except Exception:  # noqa: BLE001 - broken as well
        return
    before = run(str(path), feeds)
    lossy = method.__name__.startswith(("fp16", "int8", "uint8"))
    same = _close(before, changed) if lossy else bits(before) == bits(changed)
    assert not same or _refuses(partial(onnx.checker.check_model, full_check=True), model)


@pytest.mark.parametrize("method", BROKEN_BY, ids=[method.__name__ for method in BROKEN_BY])
def test_plain_model_survives(method: Callable[[onnx.ModelProto], None]) -> None:
    """Without this, the traps could be catching anything at all."""
    model = layers(same=True)
    feeds = [{"x": np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)}]
    before = run(model.SerializeToString(), feeds)
    method(model)
    assert _close(before, run(model.SerializeToString(), feeds))


def _close(before: list[Any], after: list[Any]) -> bool:
    """Each output within 5% of its own size."""
    for one, two in zip(arrays(before), arrays(after), strict=True):
        if one.shape != two.shape or one.dtype != two.dtype or not np.isfinite(two).all():
            return False
        error = np.abs(one.astype(np.float64) - two.astype(np.float64)).max(initial=0)
        if error > 0.05 * np.abs(one.astype(np.float64)).max(initial=0):
            return False
    return True
