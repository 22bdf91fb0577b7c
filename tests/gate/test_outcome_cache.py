"""The outcome cache: what is known of a content is not worked out again, and nothing forged is believed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_ci import api
from tests.support.cli import onnx_ci
from tests.support.models import bloated, lean

pytestmark = pytest.mark.sampled(40)

RULE = 'version: 1\nmodels:\n  - path: "**/*.onnx"\n'
LOSSY = f"{RULE}    methods: [dedupe, int8-weights]\n"


def project(folder: Path, policy: str = RULE, *, external: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".onnx-ci.yaml").write_text(policy)
    model = folder / "model.onnx"
    onnx.save(bloated(), model, save_as_external_data=external, location="model.onnx.data")
    return model


def entries(cache: Path) -> list[Path]:
    return sorted((cache / "outcomes").glob("*.outcome"))


def report(done: Any) -> Any:
    """All but what the run itself took."""
    models = [{**model, "seconds": 0} for model in done.json["models"]]
    return {**done.json, "models": models, "seconds": 0}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


@pytest.mark.parametrize("external", [False, True])
def test_a_second_check_gives_the_same_report_to_the_last_digit(
    tmp_path: Path, own_cache: Path, external: bool
) -> None:
    project(tmp_path, LOSSY, external=external)
    first = onnx_ci("check", "--format", "json", cwd=tmp_path)
    assert len(entries(own_cache)) == 1
    again = onnx_ci("check", "--format", "json", cwd=tmp_path)
    assert report(again) == report(first)  # the seconds of every step included
    assert again.code == first.code == 1


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize(
    "methods", ["[dedupe]", "[int8-weights]", "[dedupe, {external-data: {threshold: 1 kB}}]"]
)
def test_fix_after_check_writes_the_same_bytes_as_without_a_cache(
    tmp_path: Path, methods: str, external: bool
) -> None:
    for name in ("warm", "cold"):
        project(tmp_path / name, f"{RULE}    methods: {methods}\n", external=external)
    onnx_ci("check", cwd=tmp_path / "warm")
    warm = onnx_ci("fix", "--format", "json", cwd=tmp_path / "warm")
    cold = onnx_ci("fix", "--no-cache", "--format", "json", cwd=tmp_path / "cold")
    assert warm.code == cold.code == 0, warm.out
    assert contents(tmp_path / "warm") == contents(tmp_path / "cold")
    assert warm.json["models"][0]["after"] == cold.json["models"][0]["after"]


def test_no_method_and_no_verification_is_run_again(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = project(tmp_path)
    monkeypatch.chdir(tmp_path)
    first = api.shrink(model, tmp_path / "one.onnx", methods=["dedupe"])
    request.getfixturevalue("idle_gate")
    again = api.shrink(model, tmp_path / "two.onnx", methods=["dedupe"])
    assert again.outcome == first.outcome
    assert (tmp_path / "two.onnx").read_bytes() == (tmp_path / "one.onnx").read_bytes()
    with pytest.raises(AssertionError, match="work was done"):
        api.shrink(model, tmp_path / "three.onnx", methods=["dedupe"], cache=False)


def test_what_gains_nothing_and_what_fails_is_known_as_well(
    tmp_path: Path, own_cache: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".onnx-ci.yaml").write_text(f"{RULE}    budget: {{size: 1 kB}}\n    methods: [dedupe]\n")
    onnx.save(lean(), tmp_path / "lean.onnx")
    monkeypatch.chdir(tmp_path)
    first = api.check(everything=True)
    assert first.outcomes[0].verdict == "over_budget"
    assert len(entries(own_cache)) == 2  # that nothing is gained, and that it runs
    request.getfixturevalue("idle_gate")
    assert api.check(everything=True).outcomes == first.outcomes


@pytest.mark.parametrize(
    "change",
    [
        "    methods: [dedupe, fp16-weights]\n",
        "    tolerance: {cosine: 0.99}\n",
        "    budget: {size: 20 kB}\n",
        "    minimum_gain: 5%\n",
        "    inputs: {seed: 1}\n",
        "    limits: {seconds: 100}\n",
    ],
)
def test_another_rule_is_another_outcome(tmp_path: Path, own_cache: Path, change: str) -> None:
    project(tmp_path)
    onnx_ci("check", cwd=tmp_path)
    (tmp_path / ".onnx-ci.yaml").write_text(RULE + change)
    onnx_ci("check", cwd=tmp_path)
    assert len(entries(own_cache)) == 2


def test_the_rest_of_the_policy_is_read_anew(tmp_path: Path, own_cache: Path) -> None:
    """Severity, lines and overrides are no part of the outcome: the verdict is drawn each time."""
    project(tmp_path)
    assert onnx_ci("check", cwd=tmp_path).code == 1
    (tmp_path / ".onnx-ci.yaml").write_text(f"{RULE}    severity: warning\n")
    assert onnx_ci("check", cwd=tmp_path).code == 0
    digest = onnx_ci("check", "--format", "json", cwd=tmp_path).json["models"][0]["before"]["sha256"]
    override = f'{{path: model.onnx, sha256: "{digest}", reason: waits, until: 2099-01-31}}'
    (tmp_path / ".onnx-ci.yaml").write_text(f"{RULE}overrides:\n  - {override}\n")
    accepted = onnx_ci("check", cwd=tmp_path)
    assert accepted.code == 0
    assert "OCI009" in accepted.out
    assert len(entries(own_cache)) == 1


def test_other_samples_and_other_external_data_are_another_outcome(tmp_path: Path, own_cache: Path) -> None:
    model = project(tmp_path, f'{RULE}    inputs: {{samples: ["*.npz"]}}\n', external=True)
    for number in (1, 2):
        np.savez(tmp_path / "sample.npz", x=np.full((1, 64), number, np.float32))
        onnx_ci("check", cwd=tmp_path)
        assert len(entries(own_cache)) == number
    data = bytearray((tmp_path / "model.onnx.data").read_bytes())
    data[3] ^= 1
    (tmp_path / "model.onnx.data").write_bytes(data)
    onnx_ci("check", cwd=tmp_path)
    assert len(entries(own_cache)) == 3
    assert model.exists()


@pytest.mark.parametrize(
    "more",
    [
        "    budget: {latency: 1000%}\n",
        "    evaluate: {command: 'echo a=1 {model}', metric: a, max_increase: 1}\n",
    ],
)
def test_what_depends_on_more_than_content_is_not_kept(tmp_path: Path, own_cache: Path, more: str) -> None:
    project(tmp_path, RULE + more)
    assert "OCI003" in onnx_ci("check", cwd=tmp_path).out
    assert entries(own_cache) == []


@pytest.mark.parametrize("where", ["header", "model", "end", "whole", "other key", "swapped"])
def test_a_damaged_or_forged_entry_is_not_believed(tmp_path: Path, own_cache: Path, where: str) -> None:
    """Whatever is done to the folder, a fix gives the bytes it gives without a cache."""
    for name in ("plain", "forged"):
        project(tmp_path / name, LOSSY)
    onnx_ci("fix", "--no-cache", cwd=tmp_path / "plain")
    onnx_ci("check", cwd=tmp_path / "forged")
    (entry,) = entries(own_cache)
    _damage(entry, where, tmp_path, own_cache)
    done = onnx_ci("fix", "--format", "json", cwd=tmp_path / "forged")
    assert done.code == 0, done.err
    assert contents(tmp_path / "forged") == contents(tmp_path / "plain")


def _damage(entry: Path, where: str, folder: Path, cache: Path) -> None:
    data = bytearray(entry.read_bytes())
    if where == "whole":
        data = bytearray(b"onnx-ci outcome 1\n" + bytes(40))
    elif where == "end":
        del data[-100:]
    elif where == "other key":
        (cache / "state" / "onnx-ci" / "cache.key").write_bytes(bytes(32))
    elif where == "swapped":  # a real entry, signed here, for something else
        other = project(folder / "other", f"{LOSSY}    minimum_gain: 2%\n")
        onnx_ci("check", cwd=other.parent)
        data = bytearray(next(path for path in entries(cache) if path != entry).read_bytes())
    else:
        at = data.index(b"passed") if where == "header" else len(data) // 2
        data[at] ^= 1
    entry.write_bytes(data)


def test_the_folder_stays_within_its_size_and_the_oldest_go_first(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONNX_CI_CACHE_SIZE", "130 kB")  # each entry counts for 64 KiB at least
    project(tmp_path)
    names = []
    for number in range(3):
        (tmp_path / ".onnx-ci.yaml").write_text(f"{RULE}    inputs: {{seed: {number}}}\n")
        onnx_ci("check", cwd=tmp_path)
        names.append({path.name for path in entries(own_cache)})
    assert [len(found) for found in names] == [1, 1, 1]
    monkeypatch.setenv("ONNX_CI_CACHE_SIZE", "140 kB")
    onnx_ci("check", cwd=tmp_path)  # used again: now the younger of two
    (tmp_path / ".onnx-ci.yaml").write_text(f"{RULE}    inputs: {{seed: 7}}\n")
    onnx_ci("check", cwd=tmp_path)
    assert names[2] < {path.name for path in entries(own_cache)}
    monkeypatch.setenv("ONNX_CI_CACHE_SIZE", "0")
    shutil.rmtree(own_cache / "outcomes")
    onnx_ci("check", cwd=tmp_path)
    assert entries(own_cache) == []


def test_a_folder_that_can_not_be_used_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path / "work")
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    for name in ("ONNX_CI_CACHE", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(blocked / "below"))
        done = onnx_ci("check", cwd=tmp_path / "work")
        assert (done.code, done.err) == (1, "")
    monkeypatch.setenv("ONNX_CI_CACHE_SIZE", "many")
    done = onnx_ci("check", cwd=tmp_path / "work")
    assert done.code == 2
    assert "ONNX_CI_CACHE_SIZE" in done.err
