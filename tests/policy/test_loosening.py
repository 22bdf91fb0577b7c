"""What counts as looser, rule against rule."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from onnx_ci.policy.load import parse_policy
from onnx_ci.policy.loosening import loosenings
from onnx_ci.policy.schema import Rule
from tests.support.good_policies import Registry

SCORE = 'evaluate: {command: "python eval.py {model}", metric: wer, max_increase: 0.2}'
LOOSER = [
    ("budget: {latency: 110%}", "budget: {latency: 120%}", [("budget latency", "110%", "120%")]),
    ("budget: {growth: 5%}", "", [("budget growth", "5%", "none")]),
    (
        "budget: {size: 25000001 B}",
        "budget: {size: 25000002 B}",
        [("budget size", "25.000001 MB", "25.000002 MB")],
    ),
    ("budget: {params: 1000}", "budget: {params: 12M}", [("budget params", "1,000", "12,000,000")]),
    ("tolerance: {exact: true}", "tolerance: {sqnr: 60}", [("tolerance exact", "true", "false")]),
    ("tolerance: {sqnr: 60}", "tolerance: {sqnr: 30}", [("tolerance sqnr", "60", "30")]),
    ("tolerance: {top1: 99%}", "tolerance: {top1: 98%}", [("tolerance top1", "0.99", "0.98")]),
    ("tolerance: {max_abs: 1e-3}", "tolerance: {max_abs: 1e-2}", [("tolerance max_abs", "0.001", "0.01")]),
    (SCORE, "", [("evaluate", "'python eval.py {model}'", "none")]),
    (SCORE, SCORE.replace("0.2", "0.3"), [("evaluate max_increase", "0.2", "0.3")]),
    (SCORE, SCORE.replace("increase", "decrease"), [("evaluate max_increase", "0.2", "none")]),
    (SCORE, SCORE.replace("metric: wer", "metric: cer"), [("evaluate metric", "'wer'", "'cer'")]),
    (
        SCORE,
        SCORE.replace("metric: wer", "metric: wer, env: [TOKEN]"),
        [("evaluate env", "[]", "[TOKEN]")],
    ),
    ("inputs: {seed: 1}", "inputs: {seed: 2}", [("inputs seed", "1", "2")]),
    (
        "inputs: {samples: [a.npz, b.npz]}",
        "inputs: {samples: [a.npz]}",
        [("inputs samples", "[a.npz, b.npz]", "[a.npz]")],
    ),
    ("inputs: {count: 9}", "", [("inputs count", "9", "2")]),
    ("inputs: {dims: {n: 9}}", "inputs: {dims: {n: 1}}", [("inputs dims", "{'n': 9}", "{'n': 1}")]),
    ('runtimes: ["1.20"]', "", [("runtimes", "[1.20]", "[]")]),
    ("shrink: smallest", "shrink: exact-only", [("shrink", "smallest", "exact-only")]),
    ("severity: error", "severity: warning", [("severity", "error", "warning")]),
    ("load_check: on", "load_check: off", [("load_check", "on", "off")]),
    ("", "ignore: true", [("ignore", "false", "true")]),
    ("ignore: true", "budget: {size: 1 TB}", []),
    ("", "budget: {size: 1 MB}", []),
    ("", "plan_runs: 0\n    limits: {seconds: 1}", []),
]


def rule(text: str) -> Rule:
    policy = f'version: 1\nmodels:\n  - path: "*.onnx"\n    {text}\n'
    return parse_policy(policy, file="p.yaml", methods=Registry()).rules[0]


@pytest.mark.parametrize(("base", "head", "expected"), LOOSER)
def test_looser(base: str, head: str, expected: list[tuple[str, str, str]]) -> None:
    found = loosenings(rule(base), rule(head))
    assert [(one.key, one.old, one.new) for one in found if not one.permits] == expected
    assert loosenings(rule(base), rule(base)) == []


def test_a_model_without_a_rule() -> None:
    assert [one.key for one in loosenings(rule(""), None)] == ["rule"]
    assert loosenings(None, rule("budget: {size: 1 TB}")) == []
    assert [one.key for one in loosenings(None, rule("ignore: true"))] == ["ignore"]
    assert loosenings(None, rule("ignore: true"), unmatched="warning") == []
    assert loosenings(None, None) == []
    assert [one.key for one in loosenings(None, rule("budget: {size: 1 MB}\n    load_check: off"))] == [
        "load_check"
    ]
    assert [one.key for one in loosenings(None, rule("methods: []"))] == ["rule"]
    assert loosenings(None, rule("methods: []\n    budget: {size: 1 MB}")) == []


def test_every_key_of_a_rule_was_thought_of() -> None:
    """A new one has to be put into one of these lists, and into `loosenings` if it belongs there."""
    compared = {
        "ignore",
        "budget",
        "require",
        "methods",
        "shrink",
        "tolerance",
        "inputs",
        "evaluate",
        "runtimes",
    }
    compared |= {"minimum_gain", "severity", "only_new", "load_check"}
    weakens_nothing: dict[str, Any] = {
        "pattern": "which models, not what",
        "line": "where it stands",
        "lines": "where each value stands",
        "named": "which keys it has itself",
        "limits": "less of them fails sooner, more costs only time",
        "libraries": "code: it is not run at all where a change brings it",
        "plan_runs": "how long to look",
        "plan_seconds": "whether to look, in older policies",
    }
    assert {item.name for item in fields(Rule)} == compared | weakens_nothing.keys()
