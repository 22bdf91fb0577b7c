"""Fuzz targets in the suite, the same few cases every time; `tests/fuzz/run.py` goes on for longer."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import seeds
from tests.fuzz.targets import TARGETS

STARTS = {"container": seeds.models(), "policy": seeds.policies()}
PAST = [(name, data) for name, found in seeds.crashes().items() for data in found]


@st.composite
def damaged(draw: st.DrawFn, starts: list[bytes]) -> bytes:
    """A start with some bytes changed, cut out or doubled."""
    data = bytearray(draw(st.sampled_from(starts)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data)))
        end = at + draw(st.integers(0, 40))
        data[at:end] = draw(st.one_of(st.just(b""), st.binary(max_size=8), st.just(bytes(data[at:end]) * 2)))
    return bytes(data)


@pytest.mark.parametrize(("name", "data"), PAST)
def test_what_once_crashed_does_not(name: str, data: bytes) -> None:
    TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_starts_are_read(name: str) -> None:
    for data in STARTS[name]:
        TARGETS[name](data)


@pytest.mark.sampled(0)
@settings(max_examples=400, derandomize=True, deadline=None, database=None)
@given(damaged(STARTS["container"]))
def test_damaged_models_are_read_or_refused(data: bytes) -> None:
    TARGETS["container"](data)


@settings(max_examples=400, derandomize=True, deadline=None, database=None)
@given(damaged(STARTS["policy"]))
def test_damaged_policies_are_read_or_refused(data: bytes) -> None:
    TARGETS["policy"](data)


if find_spec("atheris"):  # there are wheels for some versions of Python only: pip install -e '.[fuzz]'

    def test_the_long_run_runs() -> None:
        run = Path(__file__).with_name("run.py")
        command = [sys.executable, str(run), "--seconds", "2", "--target", "policy"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "number_of_executed_units" in done.stderr
