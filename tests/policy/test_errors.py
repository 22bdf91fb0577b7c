"""Every wrong policy is refused with its line, what was found, what is right, and an example."""

from __future__ import annotations

import pytest
import yaml

from onnx_ci.errors import PolicyError
from onnx_ci.policy import reader as compose
from onnx_ci.policy.load import parse_policy
from tests.support.bad_policies import BAD, Bad
from tests.support.good_policies import GOOD, Registry, in_rule

LOADERS = ["CSafeLoader", "SafeLoader"]


@pytest.fixture(params=LOADERS)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both of PyYAML's loaders: a machine without libyaml must say the same."""
    if not hasattr(yaml, request.param):
        pytest.skip("PyYAML without libyaml")
    monkeypatch.setattr(compose, "_LOADER", getattr(yaml, request.param))


def refusal(text: str) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, file="p.yaml", methods=Registry())
    return caught.value


@pytest.mark.sampled(7)
@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_wrong_policy_is_refused_with_line_and_example(case: Bad) -> None:
    error = refusal(case.text)
    assert error.message.startswith(f"p.yaml:{case.line}: ")
    assert error.line == case.line
    assert case.message in error.message
    assert case.hint in error.hint
    assert "for example" in error.hint
    assert error.exit_code == 2


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_right_policy_is_read(text: str) -> None:
    assert parse_policy(text, file="p.yaml", methods=Registry()).rules


def test_messages_hold_no_raw_control_characters() -> None:
    error = refusal(in_rule(r'inputs: {dims: {"\e[31m": x}}'))
    assert "\x1b" not in error.message
    assert "\\x1b[31m" in error.message
    assert "\x1b" not in refusal(in_rule(r'inputs: {count: !!int "\e[31m"}')).message


def test_a_long_value_is_cut_in_the_message() -> None:
    assert len(refusal(in_rule(f"severity: {'x' * 5000}")).message) < 200
    assert len(refusal(in_rule(f"{'x' * 1000}: 1")).message) < 300
    assert len(refusal(in_rule(f"inputs: {{samples: [{'9' * 1000}]}}")).message) < 200
