"""The runtimes that users have: without optimizations, and other versions, each installed for real."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from onnx_ci.errors import EnvironmentFault
from onnx_ci.policy.schema import Limits
from onnx_ci.sandbox import versions
from onnx_ci.sandbox.runner import Runner
from onnx_ci.sandbox.versions import is_installed, packages_of, requirements, version_in
from tests.support.cli import Done, call
from tests.support.models import bloated
from tests.support.text_models import model, save

pytestmark = pytest.mark.real

OTHER = "1.21" if is_installed("1.20") else "1.20"
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "UV_OFFLINE": "1"}
NEW = '<ir_version: 11, opset_import: ["": 23]>\n'  # later than what OTHER knows
OLD = '<ir_version: 8, opset_import: ["": 17]>\n'
WEIGHT = "<float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}>"
PLAIN = f"g (float[N,4] x, double[3] u) => (float[N,3] y) {WEIGHT} {{ y = MatMul(x, w) }}"
# Only the shape of something is used that no processor computes: optimized, nothing is left of it.
ONLY_OPTIMIZED = """g (float[N,4] x, double[3] u) => (float[N,3] y)
    <float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}, int64[1] three = {3}> {
        lost = Acos(u) s = Shape(lost) d = Sub(s, three) zero = Cast<to = 1>(d)
        m = MatMul(x, w) y = Add(m, zero) }"""


@pytest.fixture(scope="session")
def other_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of environments, one of them made: shared by all processes that run tests."""
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "other-runtimes"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONNX_CI_CACHE", str(home))
        try:
            packages_of(OTHER)
        except EnvironmentFault as fault:
            pytest.skip(f"no other onnxruntime: {fault.message}")
    return home / "runtimes"


@pytest.fixture
def others(other_version: Path, own_cache: Path) -> Path:
    (own_cache / "runtimes").symlink_to(other_version, target_is_directory=True)
    return other_version


def compare(folder: Path, first: str, second: str, *more: str, heads: tuple[str, str] = (OLD, OLD)) -> Done:
    save(model(first, heads[0]), folder / "a.onnx")
    save(model(second, heads[1]), folder / "b.onnx")
    return call("compare", "a.onnx", "b.onnx", "--format", "json", *more, cwd=folder, env=OFFLINE)


def runs(done: Done) -> list[tuple[str, str, str]]:
    found = done.json["verification"]["runtimes"]
    return [(run["version"], run["optimizations"], run["status"]) for run in found]


def test_default_optimizations_and_none(tmp_path: Path) -> None:
    save(bloated(), tmp_path / "m.onnx")
    done = call("shrink", "m.onnx", "o.onnx", "--format", "json", cwd=tmp_path)
    ours = version_in()
    assert runs(done) == [(ours, "default", "passed"), (ours, "disabled", "passed")]


def test_what_runs_with_optimizations_only_is_refused(tmp_path: Path) -> None:
    done = compare(tmp_path, PLAIN, ONLY_OPTIMIZED)
    assert done.code == 1
    assert [status for *_, status in runs(done)] == ["passed", "failed"]
    (finding,) = done.json["findings"]
    assert finding["code"] == "OCI004"
    assert "without optimizations: the candidate could not be run" in finding["message"]


def test_an_original_that_needs_optimizations_is_no_fault_of_the_candidate(tmp_path: Path) -> None:
    done = compare(tmp_path, ONLY_OPTIMIZED, ONLY_OPTIMIZED)
    assert done.code == 0
    assert [status for *_, status in runs(done)] == ["passed", "not_run"]


def test_another_version(tmp_path: Path, others: Path) -> None:
    save(bloated(), tmp_path / "m.onnx")
    done = call(
        "shrink", "m.onnx", "o.onnx", "--runtime", OTHER, "--format", "json", cwd=tmp_path, env=OFFLINE
    )
    assert done.code == 0
    assert [version.startswith(f"{OTHER}.") for version, *_ in runs(done)] == [False, False, True, True]
    assert {status for *_, status in runs(done)} == {"passed"}
    last = done.json["verification"]["runtimes"][-1]
    assert last["samples"] == 2
    assert last["sqnr"] == 300


def test_a_candidate_that_another_version_can_not_run(tmp_path: Path, others: Path) -> None:
    done = compare(tmp_path, PLAIN, PLAIN, "--runtime", OTHER, heads=(OLD, NEW))
    assert done.code == 1
    assert done.json["verdict"] == "outputs_changed"
    assert f"in onnxruntime {OTHER}." in done.json["findings"][0]["message"]
    assert [status for *_, status in runs(done)] == ["passed", "passed", "failed"]


def test_an_original_that_another_version_can_not_run(tmp_path: Path, others: Path) -> None:
    """The policy asks for it, so silence would pass for proof; but the candidate is not to blame."""
    made = bloated()
    made.ir_version = 11
    made.opset_import[0].version = 23
    save(made, tmp_path / "m.onnx")
    rule = f'- {{path: "*.onnx", methods: [dedupe], runtimes: ["{OTHER}"]}}'
    (tmp_path / ".onnx-ci.yaml").write_text(f"version: 1\nmodels:\n  {rule}\n")
    done = call("fix", "m.onnx", "--format", "json", cwd=tmp_path, env=OFFLINE)
    (outcome,) = done.json["models"]
    assert done.code == 1
    assert outcome["verdict"] == "unverified"
    assert not outcome["written"]
    (finding,) = outcome["findings"]
    assert finding["code"] == "OCI005"
    assert f"nothing is known of onnxruntime {OTHER}." in finding["message"]
    assert "out of runtimes" in finding["hint"]


def test_the_version_that_is_installed_needs_no_environment(tmp_path: Path, own_cache: Path) -> None:
    series = ".".join(version_in().split(".")[:2])
    done = compare(tmp_path, PLAIN, PLAIN, "--runtime", series)
    assert done.code == 0
    assert len(runs(done)) == 2
    assert not (own_cache / "runtimes").exists()


def test_without_an_index_it_is_the_environment_that_is_wrong(tmp_path: Path, own_cache: Path) -> None:
    done = compare(tmp_path, PLAIN, PLAIN, "--runtime", "1.22.0")
    assert done.code == 3
    assert "onnxruntime 1.22.0 can't be installed" in done.err
    assert not list((own_cache / "runtimes").iterdir())


@pytest.mark.parametrize("wrong", ["newest", "1", "1.20 --pre", "1.20;1.21", "-r"])
def test_what_is_no_version(tmp_path: Path, wrong: str) -> None:
    done = call("check", f"--runtime={wrong}", cwd=tmp_path)
    assert done.code == 2
    assert "is not a version of onnxruntime" in done.err


def test_versions_that_nothing_would_be_run_in(tmp_path: Path) -> None:
    save(bloated(), tmp_path / "m.onnx")
    done = call("shrink", "m.onnx", "o.onnx", "--no-verify", "--runtime", OTHER, cwd=tmp_path)
    assert done.code == 2
    assert "can't be given together" in done.err


def test_an_installation_that_breaks_off_leaves_nothing(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(folder: Path, _: str) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(versions, "_install", break_off)
    with pytest.raises(KeyboardInterrupt):
        packages_of("1.22")
    assert not list((own_cache / "runtimes").iterdir())


def test_of_two_that_install_at_once_one_wins(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def be_late(folder: Path, wanted: str) -> None:
        (folder / "mine").touch()
        theirs = folder.parent.parent / f"{wanted}-{sys.implementation.cache_tag}-{platform.machine()}"
        theirs.mkdir()
        (theirs / "theirs").touch()

    monkeypatch.setattr(versions, "_install", be_late)
    found = packages_of("1.22")
    assert [path.name for path in found.iterdir()] == ["theirs"]
    assert list((own_cache / "runtimes").iterdir()) == [found]


def test_packages_of_ours_are_not_seen_there(tmp_path: Path) -> None:
    path = save(model(PLAIN), tmp_path / "m.onnx")
    (tmp_path / "packages").mkdir()
    with Runner(tmp_path / "packages") as runner, pytest.raises(EnvironmentFault) as caught:
        runner.run(path, [{}], limits=Limits(seconds=30))
    assert "No module named 'onnxruntime'" in caught.value.message
    assert str(tmp_path / "packages") in caught.value.hint


def test_versions_before_numpy_2_get_numpy_1() -> None:
    assert requirements("1.18.1") == ["onnxruntime==1.18.1", "numpy>=1.26,<2"]
    assert requirements("1.20") == ["onnxruntime==1.20.*", "numpy>=1.26"]


def test_what_is_in_an_environment(others: Path) -> None:
    assert version_in(packages_of(OTHER)).startswith(f"{OTHER}.")
