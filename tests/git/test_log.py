"""`onnx-ci log` and `onnx-ci badge`: sizes over the history, from git alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import onnx
import pytest

from tests.support.cli import call
from tests.support.git_repo import Repository, write_policy
from tests.support.models import lean, save_outside

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"
HOSTILE = '"><script>alert(1)</script>]]>&|::error::\x1b[31m @all'


@pytest.fixture
def history(tmp_path: Path) -> Repository:
    """A model that was renamed, grew on a branch that was merged, became a pointer, and is not alone."""
    made = Repository(tmp_path)
    onnx.save(lean(), tmp_path / "old.onnx")
    made.commit_all("first")
    made.git("mv", "old.onnx", "m.onnx")
    made.commit_all("renamed")
    made.git("checkout", "--quiet", "-b", "side")
    onnx.save(lean(layers=3), tmp_path / "m.onnx")
    made.commit_all("grew")
    made.git("checkout", "--quiet", "main")
    save_outside(lean(seed=3), tmp_path / "other.onnx")
    made.commit_all("another")
    made.git("merge", "--quiet", "--no-ff", "-m", "merged", "side")
    (tmp_path / "m.onnx").write_text(POINTER.format("0" * 64, 20_000))
    made.commit_all(HOSTILE)
    return made


def entries(repository: Repository, *arguments: str) -> list[dict[str, Any]]:
    done = call("log", *arguments, "--format", "json", cwd=repository.root)
    found: list[dict[str, Any]] = done.json["entries"]
    return found


def svg(text: str, kind: str) -> list[ElementTree.Element]:
    """All elements of a kind."""
    return list(ElementTree.fromstring(text).iter(f"{{http://www.w3.org/2000/svg}}{kind}"))  # noqa: S314 - our own


def test_every_version_of_a_model_with_what_it_changed(history: Repository) -> None:
    sizes = {layers: len(lean(layers=layers).SerializeToString()) for layers in (2, 3)}
    found = entries(history, "m.onnx")
    assert [(entry["subject"], entry["size"], entry["delta"]) for entry in found] == [
        ("first", sizes[2], None),
        ("renamed", sizes[2], 0),
        ("grew", sizes[3], sizes[3] - sizes[2]),
        (HOSTILE, 20_000, 20_000 - sizes[3]),
    ]
    assert [entry["keeper"] for entry in found] == ["git", "git", "git", "Git LFS"]
    assert found[0]["names"] == ["old.onnx"]
    onnx.save(lean(), history.root / "m.onnx")
    last = entries(history, "m.onnx")[-1]
    assert (last["commit"], last["size"], last["delta"]) == ("", sizes[2], sizes[2] - 20_000)


def test_all_models_together_with_their_data(history: Repository) -> None:
    outside = sum(path.stat().st_size for path in history.root.glob("other.onnx*"))
    sizes = {layers: len(lean(layers=layers).SerializeToString()) for layers in (2, 3)}
    found = entries(history)
    assert [(entry["subject"], entry["size"]) for entry in found] == [
        ("first", sizes[2]),
        ("renamed", sizes[2]),
        ("another", sizes[2] + outside),
        ("merged", sizes[3] + outside),
        (HOSTILE, 20_000 + outside),
    ]
    assert entries(history, "other.onnx")[0]["size"] == outside


def test_what_dvc_keeps_counts_and_what_is_gone_is_told(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    onnx.save(lean(), tmp_path / "m.onnx")
    made.commit_all("in git")
    (tmp_path / "m.onnx").unlink()
    (tmp_path / "m.onnx.dvc").write_text("outs:\n- md5: " + "0" * 32 + "\n  size: 500\n  path: m.onnx\n")
    made.commit_all("in DVC")
    made.git("rm", "--quiet", "m.onnx.dvc")
    made.commit_all("gone")
    found = entries(made, "m.onnx")
    assert [entry["size"] for entry in found[1:]] == [500, None]
    assert found[1]["keeper"] == "DVC"
    assert found[2]["delta"] == -500


def test_chart_and_table_are_inert_and_the_same_each_time(history: Repository) -> None:
    for kind in ("text", "markdown", "html", "svg"):
        shown = call("log", "m.onnx", "--format", kind, cwd=history.root).out
        assert shown == call("log", "m.onnx", "--format", kind, cwd=history.root).out
        assert "\x1b" not in shown
        assert "<script>alert" not in shown or kind == "text", kind
        assert shown.count("<script") == {"text": shown.count("<script"), "html": 1}.get(kind, 0), kind
        assert not any(line.startswith("::") for line in shown.splitlines())
    drawn = svg(call("log", "m.onnx", "--format", "svg", cwd=history.root).out, "circle")
    dots = [dot.findtext("{*}title") or "" for dot in drawn]
    assert len(dots) == 4
    assert dots[-1].endswith("\\x1b[31m @all")


def test_a_badge_says_the_size_and_whether_it_fits(tmp_path: Path) -> None:
    Repository(tmp_path)
    onnx.save(lean(), tmp_path / "m.onnx")
    onnx.save(lean(seed=2), tmp_path / "n.onnx")
    told = {"schemaVersion": 1, "label": "model size", "message": "65.9 kB", "color": "blue"}
    assert call("badge", "--format", "json", cwd=tmp_path).json == told
    params = call("badge", "m.onnx", "--of", "params", "--format", "json", cwd=tmp_path)
    assert params.json["message"] == "8.19k"
    for budget, colour in (("50 kB", "brightgreen"), ("20 kB", "red")):
        write_policy(tmp_path, f"    budget: {{size: {budget}}}\n")
        assert call("badge", "m.onnx", "--format", "json", cwd=tmp_path).json["color"] == colour
    texts = [element.text for element in svg(call("badge", "--label", HOSTILE, cwd=tmp_path).out, "text")]
    assert texts == [HOSTILE.replace("\x1b", "\\x1b"), "65.9 kB"]


def test_what_there_is_no_history_of(tmp_path: Path) -> None:
    done = call("log", cwd=tmp_path)
    assert (done.code, "no git repository" in done.err) == (2, True)
    made = Repository(tmp_path / "r")
    assert "no version of any model" in call("log", cwd=made.root).err
    onnx.save(lean(), made.root / "m.onnx")
    made.commit_all("first")
    made.commit_all("second")
    made.git("clone", "--quiet", "--depth=1", made.root.as_uri(), str(tmp_path / "shallow"))
    assert "git fetch --unshallow" in call("log", cwd=tmp_path / "shallow").out
    assert "no version of 'x.onnx'" in call("log", "x.onnx", cwd=made.root).err
