"""A starter policy loads, and each of its rules matches what it was written for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_ci.methods.catalogue import METHODS, Catalogue
from onnx_ci.policy.edit import EVERY_MODEL, starter_policy
from onnx_ci.policy.load import matching_rules, parse_policy, rule_for
from onnx_ci.policy.schema import DEFAULT_METHODS, Policy

SPECIAL = [
    "m.onnx",
    "a b/it's.onnx",
    'quote".onnx',
    "new\nline.onnx",
    "tab\t.onnx",
    "back\\slash.onnx",
    "[1]*?.onnx",
    "!not.onnx",
    "#hash: {x}.onnx",
    "~/home.onnx",
    "C:/drive.onnx",
    "tmp/in repo.onnx",
    ".hidden/é\u2028\x85\x7f😀.onnx",
    "trailing ",
    "- x: y.onnx",
]


def written(models: list[tuple[str, int]]) -> Policy:
    text = starter_policy(models)
    text.encode()
    return parse_policy(text, file="p.yaml", methods=Catalogue())


def test_few_models_get_a_rule_each() -> None:
    text = starter_policy([("models/b.onnx", 47_123_456), ("a.onnx", 512)])
    assert '  - path: "/a.onnx"\n    budget: {size: 512 B}  # now 512 B\n' in text
    assert '  - path: "models/b.onnx"\n    budget: {size: 47.2 MB}  # now 47.1 MB\n' in text
    rule = written([("a.onnx", 512)]).rules[0]
    exact = [method.name for method in METHODS if method.bitwise and method.gains == "size"]
    assert [choice.name for choice in rule.methods] == exact == [one.name for one in DEFAULT_METHODS]
    assert "budget: {size: 525 B}  # now 500 B" in starter_policy([("a.onnx", 500)], headroom=0.05)
    assert rule.tolerance.cosine == 0.999


def test_special_names_match_themselves_alone() -> None:
    for path in SPECIAL:
        policy = written([(path, 1), ("other/m.onnx", 1)])
        own = [rule.budget.size for rule in matching_rules(policy, path) if rule.pattern != EVERY_MODEL]
        assert own == [1], path
        other = rule_for(policy, "x/" + path)
        assert other is None or other is policy.rules[0], path


def test_a_name_that_is_no_utf_8_still_matches() -> None:
    assert rule_for(written([("bad\udcff.onnx", 1)]), "bad\udcff.onnx")


def test_many_models_get_a_rule_a_folder() -> None:
    models = [(f"app/x[{n}]/m.onnx", 1000 + n) for n in (1, 2)]
    models += [(f"lib/{n}.onnx", n * 10**6) for n in range(1, 12)] + [("top.onnx", 7)]
    policy = written(models)
    assert [(rule.pattern, rule.budget.size) for rule in policy.rules] == [
        ("**/*.onnx", 11_000_000),
        ("/*.onnx", 7),
        ("app/x[[]1]/**/*.onnx", 1010),
        ("app/x[[]2]/**/*.onnx", 1010),
        ("lib/**/*.onnx", 11_000_000),
    ]


def test_many_folders_are_taken_together() -> None:
    policy = written([(f"models/{n}/v1/m.onnx", 5000) for n in range(40)] + [("models/top.onnx", 10**6)])
    assert [rule.pattern for rule in policy.rules] == ["**/*.onnx", "models/**/*.onnx"]


def test_a_folder_inside_a_folder_wins() -> None:
    models = [(f"m/{n}.onnx", 10) for n in range(9)] + [(f"m/big/{n}.onnx", 10**6) for n in range(9)]
    rule = rule_for(written(models), "m/big/1.onnx")
    assert rule is not None
    assert rule.budget.size == 10**6


def test_no_models_yet() -> None:
    assert rule_for(written([]), "new/m.onnx")


names = st.text(min_size=1, max_size=8).filter(lambda name: "/" not in name and name not in (".", ".."))
paths = st.lists(names, min_size=1, max_size=4).map("/".join)


@pytest.mark.sampled(0)
@settings(deadline=None)
@given(st.dictionaries(paths, st.integers(0, 10**13), max_size=14))
def test_every_model_is_within_its_budget_and_that_is_tight(models: dict[str, int]) -> None:
    policy = written(list(models.items()))
    for path, size in models.items():
        rule = rule_for(policy, path)
        assert rule is not None
        assert rule.budget.size is not None
        assert rule.budget.size >= size
        if len(models) == 1:
            assert rule.budget.size <= max(size * 1.01, size + 1)
