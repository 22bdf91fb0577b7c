"""Data that several models name, and neighbours that can not be read: what builds and check make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from onnx_ci.build.package import Options, packed_for
from tests.support.build_projects import EXACT, POLICY, assert_runs_alike
from tests.support.cli import onnx_ci
from tests.support.models import bloated, lean, save_outside

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12\n"


def shipped(root: Path, *names: str) -> dict[str, bytes]:
    """What a package of these files holds: as a build would pack it."""
    found = {name: root / name for name in names}
    (root / "staging").mkdir()
    packed, _ = packed_for(Options({}, "[t]"), root, found, root / "staging")
    files = {**found, **packed.kept, **packed.files}
    return {name: file.read_bytes() for name, file in files.items() if name not in packed.dropped}


@pytest.mark.parametrize("above", ["", "../"])
@pytest.mark.parametrize("content", [POINTER, "junk"])
def test_a_neighbour_that_can_not_be_read_does_not_switch_shrinking_off(
    tmp_path: Path, content: str, above: str
) -> None:
    (tmp_path / ".onnx-ci.yaml").write_text(EXACT)
    model = tmp_path / "pkg" / "model.onnx"
    model.parent.mkdir()
    save_outside(bloated(), model)
    data = model.with_name("model.onnx.data").read_bytes()
    (model.parent / f"{above}other.onnx").write_text(content)
    assert sum(map(len, shipped(tmp_path, "pkg/model.onnx", "pkg/model.onnx.data").values())) < 25_000
    assert onnx_ci("check", "pkg/model.onnx", cwd=tmp_path).code == 1
    assert onnx_ci("shrink", "pkg/model.onnx", "out.onnx", "--format", "json", cwd=tmp_path).json["written"]
    done = onnx_ci("fix", "pkg/model.onnx", cwd=tmp_path)
    assert (done.code, "other.onnx can't be read and may need it" in done.out) == (0, True), done.out
    assert model.with_name("model.onnx.data").read_bytes() == data


def test_of_two_models_with_one_data_file_the_one_that_stays_keeps_it(tmp_path: Path) -> None:
    (tmp_path / ".onnx-ci.yaml").write_text(f'{POLICY}  - {{path: "pkg/b.onnx", ignore: true}}\n')
    folder = tmp_path / "pkg"
    folder.mkdir()
    save_outside(lean(), folder / "a.onnx")
    (folder / "b.onnx").write_bytes((folder / "a.onnx").read_bytes())
    files = shipped(tmp_path, "pkg/a.onnx", "pkg/b.onnx", "pkg/a.onnx.data")
    assert files["pkg/b.onnx"] == (folder / "b.onnx").read_bytes()
    assert files["pkg/a.onnx"] != (folder / "a.onnx").read_bytes()
    for name in ("a", "b"):
        assert_runs_alike(files, folder / "a.onnx", tmp_path / "unpacked", f"pkg/{name}.onnx")


def test_data_of_two_models_that_would_go_to_one_place_stops_the_build(tmp_path: Path) -> None:
    (tmp_path / ".onnx-ci.yaml").write_text(EXACT)
    for seed, name in enumerate(("one", "two")):
        (tmp_path / name).mkdir()
        location: dict[str, Any] = {
            "save_as_external_data": True,
            "location": "weights.bin",
            "size_threshold": 0,
        }
        onnx.save(lean(seed=seed), tmp_path / name / f"{name}.onnx", **location)
    found = {f"pkg/{name}.onnx": tmp_path / name / f"{name}.onnx" for name in ("one", "two")}
    with pytest.raises(Exception, match=r"pkg/weights.bin would have to be .* and they differ"):
        packed_for(Options({}, "[t]"), tmp_path, found, tmp_path / "staging")
