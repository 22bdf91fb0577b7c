"""The table of a build hook: what it may say, and which models of a package it means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from onnx_ci.build.package import Options, packed_for
from onnx_ci.errors import BuildStopped, UsageError
from tests.support.build_projects import POLICY
from tests.support.models import bloated

ROOT = Path("/project")
FOUND = {
    name: ROOT / "src" / name for name in ("pkg/a.onnx", "pkg/sub/B.ONNX", "pkg/a.onnx.data", "pkg/c.py")
}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"polycy": "x"}, "[t]: unknown key 'polycy', did you mean 'policy'?"),
        ({"policy": 1}, "[t]: policy can't be 1"),
        ({"models": "a.onnx"}, "[t]: models can't be 'a.onnx'"),
        ({"models": [1]}, "[t]: models can't be [1]"),
        ({"sdist": "yes"}, "[t]: unknown key 'sdist'"),
        ([], "[t] is [], expected a table"),
    ],
)
def test_a_wrong_table(table: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        Options(table, "[t]", "policy", "models")
    assert error.value.message.startswith(message)
    assert error.value.hint


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], ["pkg/a.onnx", "pkg/sub/B.ONNX"]),
        (["src/pkg/*.onnx"], ["pkg/a.onnx"]),
        (["sub/", "a.onnx"], ["pkg/a.onnx", "pkg/sub/B.ONNX"]),
    ],
)
def test_the_models_that_are_meant(patterns: list[str], expected: list[str]) -> None:
    assert list(Options({"models": patterns}, "[t]", "models").chosen(FOUND, ROOT)) == expected


def test_a_pattern_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(UsageError, match="no model of the package matches 'src/pkg/other"):
        Options({"models": ["a.onnx", "src/pkg/other.onnx"]}, "[t]", "models").chosen(FOUND, ROOT)


def test_a_policy_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no policy file"):
        packed_for(Options({"policy": "no.yaml"}, "[t]", "policy"), tmp_path, {}, tmp_path)


def test_a_package_without_any_rule_is_not_built(tmp_path: Path) -> None:
    """The policy that was named is beside the models, not above them."""
    model = tmp_path / "pkg" / "model.onnx"
    for file in (model, tmp_path / "sub" / "p.yaml"):
        file.parent.mkdir()
    onnx.save(bloated(), model)
    (tmp_path / "sub" / "p.yaml").write_text(POLICY)
    options = Options({"policy": "sub/p.yaml"}, "[t]", "policy")
    with pytest.raises(BuildStopped) as error:
        packed_for(options, tmp_path, {"pkg/model.onnx": model}, tmp_path / "staging")
    assert "no model of the package has a rule" in error.value.message
    assert "is not below the folder of sub/p.yaml" in error.value.message
