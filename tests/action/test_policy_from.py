"""A pull request that loosens its policy: told in the comment, and no use where the base's decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.support.action import Called, call
from tests.support.git_repo import write_policy
from tests.support.models import lean
from tests.support.pull_requests import POLICY, Hosted


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Hosted, dict[str, Any]]:
    """A pull request with a model that is over the budget of its base, which it raises."""
    host = Hosted(tmp_path_factory.mktemp("host"))
    write_policy(host.author.root, f"    budget: {{size: 20 kB}}\n{POLICY}")
    host.push("a budget")
    write_policy(host.author.root, f"    budget: {{size: 60 GB}}\n{POLICY}")
    (host.author.root / "models").mkdir()
    onnx.save(lean(), host.author.root / "models" / "a.onnx")
    event = host.pull_request("feature")
    clone = host.clone("clone", "--depth=1")
    clone.git("fetch", "--quiet", "--depth=1", "origin", "refs/pull/7/merge")
    clone.git("checkout", "--quiet", "--detach", "FETCH_HEAD")
    return host, event


def check(
    hosted: tuple[Hosted, dict[str, Any]], cache: Path, name: str = "pull_request", **inputs: Any
) -> Called:
    host, event = hosted
    also = {"GITHUB_BASE_REF": "main", "ONNX_CI_CACHE": str(cache)} if name == "pull_request" else {}
    return call(host.home / "clone", name, event, also=also, **inputs)


@pytest.mark.sampled(0)
def test_what_is_loosened_is_in_the_comment(hosted: tuple[Hosted, dict[str, Any]], tmp_path: Path) -> None:
    done = check(hosted, tmp_path)
    assert (done.code, done.outputs["verdict"]) == ("0", "0"), done.log
    assert "::warning file=.onnx-ci.yaml,line=4,title=OCI044" in done.log
    for words in ("OCI044", "20 kB before", "60 GB now", "OCI045", "is over its size budget of 20 kB"):
        assert words in done.outputs["comment-body"]
    assert check(hosted, tmp_path, fail_on="warning").outputs["verdict"] == "1"
    assert "OCI044" in check(hosted, tmp_path, paths="models/a.onnx").log, "named models are no way around"


@pytest.mark.parametrize("how", [{}, {"all": "true"}, {"paths": "models/a.onnx"}])
def test_the_base_decides(hosted: tuple[Hosted, dict[str, Any]], how: dict[str, str], tmp_path: Path) -> None:
    done = check(hosted, tmp_path, policy_from="base", **how)
    assert (done.code, done.outputs["verdict"]) == ("1", "1"), done.log
    assert "title=OCI001" in done.log
    assert "OCI044" in done.outputs["comment-body"]


def test_a_push_is_not_compared(hosted: tuple[Hosted, dict[str, Any]], tmp_path: Path) -> None:
    host, event = hosted
    before = {**event, "before": host.author.git("rev-parse", "main").strip()}
    done = check((host, before), tmp_path, "push")
    assert (done.code, "OCI044" in done.log) == ("0", False), done.log
