"""Which rule, group and override hold for a path."""

from __future__ import annotations

from datetime import date

from onnx_ci.policy.load import (
    ended_override,
    group_members,
    idle_rules,
    matching_rules,
    override_for,
    parse_policy,
    rule_for,
)
from onnx_ci.policy.schema import Budget, Gain, Group, Override, Policy, Rule, Tolerance
from tests.support.good_policies import SHA, Registry

POLICY = Policy(
    file="p.yaml",
    rules=(
        Rule(pattern="*.onnx", line=1),
        Rule(pattern="models/**", line=2),
        Rule(pattern="models/vendor/", line=3, ignore=True),
        Rule(pattern="models/vendor/ours.onnx", line=4),
    ),
)


def lines(path: str) -> list[int]:
    return [rule.line for rule in matching_rules(POLICY, path)]


def last(path: str) -> int | None:
    rule = rule_for(POLICY, path)
    return rule.line if rule else None


def test_the_last_match_wins() -> None:
    assert last("a.onnx") == 1
    assert last("models/a.onnx") == 2
    assert last("models/vendor/x/a.onnx") == 3
    assert last("models/vendor/ours.onnx") == 4
    assert last("readme.txt") is None


def test_all_matches_are_told_in_order() -> None:
    assert lines("models/vendor/ours.onnx") == [1, 2, 3, 4]
    assert lines("models/vendor/other.onnx") == [1, 2, 3]
    assert lines("readme.txt") == []


def test_members_of_a_group() -> None:
    group = Group(name="app", paths=("app/*.onnx", "extra.onnx"), budget=Budget(size=1))
    paths = ["app/a b.onnx", "app/x/y.onnx", "d/extra.onnx", "other.onnx"]
    assert group_members(group, paths) == ("app/a b.onnx", "d/extra.onnx")


def override(until: date, *, path: str = "models/big.onnx", sha256: str = SHA) -> Override:
    return Override(path=path, sha256=sha256, reason="r", until=until)


END = date(2027, 1, 31)
AFTER = date(2027, 2, 1)


def test_an_override_holds_through_its_last_day() -> None:
    policy = Policy(file="p", rules=(), overrides=(override(END),))
    assert override_for(policy, "models/big.onnx", SHA, END) == override(END)
    assert override_for(policy, "models/big.onnx", SHA.upper(), END) == override(END)
    assert ended_override(policy, "models/big.onnx", SHA, END) is None
    assert override_for(policy, "models/big.onnx", SHA, AFTER) is None
    assert ended_override(policy, "models/big.onnx", SHA, AFTER) == override(END)


def test_an_override_is_for_this_content_and_path_only() -> None:
    policy = Policy(file="p", rules=(), overrides=(override(END),))
    for path, sha256 in (("models/big.onnx", "cd" * 32), ("models/other.onnx", SHA)):
        assert override_for(policy, path, sha256, END) is None
        assert ended_override(policy, path, sha256, AFTER) is None


def test_a_renewed_override_has_not_ended() -> None:
    policy = Policy(file="p", rules=(), overrides=(override(AFTER), override(END)))
    assert override_for(policy, "models/big.onnx", SHA, AFTER) == override(AFTER)
    assert ended_override(policy, "models/big.onnx", SHA, AFTER) is None


def test_an_override_takes_a_plain_path_as_it_is() -> None:
    policy = Policy(
        file="p", rules=(), overrides=(override(END, path="m[1].onnx"), override(END, path="*.big"))
    )
    assert override_for(policy, "m[1].onnx", SHA, END)
    assert override_for(policy, "d/x.big", SHA, END)


CASCADE = """\
version: 1
defaults:
  methods: [fp16-weights]
  budget: {growth: 5%}
models:
  - path: "*.onnx"
    tolerance: {cosine: 0.9}
    budget:
      size: 2 MB
      gzip: 1 MB
    severity: warning
  - path: "a.onnx"
    budget: {size: 1 MB}
  - path: "b.onnx"
    budget: none
    severity: none
    methods: [dedupe]
  - path: "c.onnx"
    budget: {growth: none}
    ignore: true
  - path: "[cd].onnx"
    minimum_gain: 5%
"""


def effective(path: str) -> Rule:
    rule = rule_for(parse_policy(CASCADE, file="p.yaml", methods=Registry()), path)
    assert rule is not None
    return rule


def test_a_later_rule_changes_what_it_names_and_keeps_the_rest() -> None:
    rule = effective("a.onnx")
    assert rule.budget == Budget(size=10**6, growth=0.05)  # replaced whole; the defaults fill in
    assert rule.tolerance == Tolerance(cosine=0.9)
    assert [choice.name for choice in rule.methods] == ["fp16-weights"]
    assert (rule.severity, rule.pattern, rule.line) == ("warning", "a.onnx", 12)


def test_none_takes_away_what_was_said_before() -> None:
    rule = effective("b.onnx")
    assert rule.budget == Budget()
    assert rule.severity == "error"
    assert [choice.name for choice in rule.methods] == ["dedupe"]
    assert effective("c.onnx").budget == Budget()


def test_ignored_is_a_model_until_a_rule_says_otherwise() -> None:
    rule = effective("c.onnx")
    assert rule.ignore
    assert rule.minimum_gain == Gain(share=0.05)
    policy = parse_policy(CASCADE, file="p.yaml", methods=Registry())
    assert [idle.line for idle in idle_rules(policy, ["a.onnx", "b.onnx", "c.onnx"])] == [21]
    assert idle_rules(policy, ["a.onnx", "b.onnx", "d.onnx"]) == []


def test_each_value_has_the_line_it_stands_on() -> None:
    rule = effective("a.onnx")
    places = [("budget", "size"), ("budget", "growth"), ("tolerance", ""), ("methods", ""), ("shrink", "")]
    assert [rule.line_of(*place) for place in places] == [13, 4, 7, 3, 12]
    assert effective("x.onnx").line_of("budget", "gzip") == 10
    assert "budget gzip" not in rule.lines
