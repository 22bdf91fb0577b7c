"""Damaged models, many in one run: each gets a verdict, none ends the run. benchmarks/flips.py does more."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.cli import call

FLIPS = 80


@pytest.fixture(scope="module")
def flips() -> ModuleType:
    place = Path(__file__).parents[2] / "benchmarks" / "flips.py"
    spec = importlib.util.spec_from_file_location("flips", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.sampled(0)
def test_every_damaged_model_gets_a_verdict(flips: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "originals").mkdir()
    models = flips.sources(tmp_path / "originals")
    (folder,) = flips.folders(models, tmp_path, FLIPS, FLIPS, seed=13)
    done = call("check", "--all", "--jobs", "2", "--format", "json", cwd=folder)
    assert done.code == 1, done.err
    outcomes = json.loads(done.out)["models"]
    assert len(outcomes) == FLIPS
    codes = {finding["code"] for outcome in outcomes for finding in outcome["findings"]}
    assert "OCI052" not in codes
    assert {"unreadable", "ok"} <= {outcome["verdict"] for outcome in outcomes}


def test_undamaged_ones_work(flips: ModuleType, tmp_path: Path) -> None:
    """Otherwise flips of them would show little."""
    (tmp_path / ".onnx-ci.yaml").write_text(flips.POLICY)
    flips.sources(tmp_path)
    done = call("check", "--all", "--format", "json", cwd=tmp_path)
    verdicts = {outcome["path"]: outcome["verdict"] for outcome in done.json["models"]}
    assert set(verdicts.values()) <= {"ok", "would_shrink"}, done.out
