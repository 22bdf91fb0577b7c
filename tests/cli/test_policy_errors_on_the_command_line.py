"""A wrong policy or a wrong call: exit 2 (or 3), one clear sentence, nothing done."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.support.cli import onnx_ci
from tests.support.models import bloated

pytestmark = pytest.mark.sampled(3)

CASES = [
    ("version: 1\nmodels:\n  - path: '*.onnx'\n    budgt: {size: 1 MB}\n", 4, "budget"),
    ("version: 1\nmodels:\n  - path: '*.onnx'\n    methods: [dedup]\n", 4, "dedupe"),
    (
        "version: 1\nmodels:\n  - path: '*.onnx'\n    methods: [{int8-weights: {granularity: chanel}}]\n",
        4,
        "channel",
    ),
    ("version: 1\nmodels:\n  - path: '*.onnx'\n    budget: {size: 25 MX}\n", 4, "MB"),
    ("version: 1\nmodels: [\n", 3, ""),
]


@pytest.mark.parametrize(("policy", "line", "word"), CASES)
@pytest.mark.parametrize("command", ["check", "fix", "explain"])
def test_a_wrong_policy(tmp_path: Path, command: str, policy: str, line: int, word: str) -> None:
    (tmp_path / ".onnx-ci.yaml").write_text(policy)
    onnx.save(bloated(), tmp_path / "m.onnx")
    before = (tmp_path / "m.onnx").read_bytes()
    done = onnx_ci(command, "m.onnx", cwd=tmp_path)
    assert done.code == 2
    assert f".onnx-ci.yaml:{line}:" in done.err
    assert word in done.err
    assert done.out == ""
    assert (tmp_path / "m.onnx").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chek"], "check"),
        (["check", "--no-such-option"], "has no option"),
        (["check", "missing.onnx"], "missing.onnx"),
        (["check", "--policy", "missing.yaml"], "missing.yaml"),
        (["check", "--since", "main"], "git"),
        (["check", "--jobs", "0"], "whole number"),
        (["check", "--format", "yaml"], "invalid choice"),
        (["check", "--output", "x"], "--format"),
        (["check", "m.onnx", "--all"], "together"),
        (["shrink", "missing.onnx", "out.onnx"], "missing.onnx"),
        (["shrink", "m.onnx", "out.onnx", "--methods", "dedup"], "dedupe"),
        (["shrink", "m.onnx", "out.onnx", "--methods", "int8-weights:min_element=3"], "min_elements"),
        (["shrink", "m.onnx", "out.onnx", "--budget", "25 XB"], "25 XB"),
        (["shrink", "m.onnx", "out.onnx", "--tolerance", "cosin=1"], "cosine"),
        (["shrink", "m.onnx", "out.onnx", "--tolerance", "cosine=abc"], "abc"),
        (["compare", "m.onnx", "m.onnx", "--tolerance", "cosine=nan"], "nan"),
        (["compare", "m.onnx", "m.onnx", "--tolerance", "exact=false"], "tolerance"),
        (["check", "--since", ""], "revision"),
        (["compare", "m.onnx", "missing.onnx"], "missing.onnx"),
        (["info", "missing.onnx"], "missing.onnx"),
        ([], "usage"),
    ],
)
def test_a_wrong_call(tmp_path: Path, arguments: list[str], words: str) -> None:
    onnx.save(bloated(), tmp_path / "m.onnx")
    done = onnx_ci(*arguments, cwd=tmp_path)
    assert done.code == 2, done
    assert words in done.err + done.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    onnx.save(bloated(), tmp_path / "m.onnx")
    done = onnx_ci("shrink", "m.onnx", "no/such/out.onnx", cwd=tmp_path)
    assert done.code == 3
    assert "mkdir" in done.err


def test_help_and_version(tmp_path: Path) -> None:
    top = onnx_ci("--help", cwd=tmp_path)
    assert top.code == 0
    for name in ("check", "fix", "shrink", "compare", "info", "init", "explain", "methods", "schema", "demo"):
        assert f"  {name} " in top.out
        assert onnx_ci(name, "--help", cwd=tmp_path).code == 0
    assert onnx_ci("--version", cwd=tmp_path).out.startswith("onnx-ci ")
