"""Adds rules at the end of a policy's list of models, and leaves the rest of the text as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import yaml

from onnx_ci.errors import PolicyError
from onnx_ci.policy.load import parse_policy
from onnx_ci.policy.registry import MethodRegistry
from onnx_ci.policy.write import exact_rule


def with_rules(text: str, models: Sequence[tuple[str, int]], methods: MethodRegistry) -> str | None:
    """The text with a rule for each (path, size); None where it is written so that this can't be done."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None:
        return None
    rules = next(value for key, value in root.value if key.value == "models")
    if rules.flow_style:
        return None
    line_end = text.find("\n", max(_ends(rules)))
    before, after = (text[: line_end + 1], text[line_end + 1 :]) if line_end >= 0 else (f"{text}\n", "")
    margin = " " * rules.start_mark.column
    made = "".join(f"{margin}{line[2:]}\n" for model in models for line in exact_rule(*model).splitlines())
    changed = before + (made.replace("\n", "\r\n") if "\r\n" in text else made) + after
    return changed if _only_adds(text, changed, len(models), methods) else None


def _ends(node: yaml.Node) -> Iterator[int]:
    """Where the last words of a list stand; its own end is only where something else begins."""
    if isinstance(node, yaml.ScalarNode) or getattr(node, "flow_style", False):
        yield node.end_mark.index - 1
        return
    for item in node.value:
        for part in item if isinstance(item, tuple) else (item,):
            yield from _ends(part)


def _only_adds(before: str, after: str, count: int, methods: MethodRegistry) -> bool:
    """Aliases and odd layouts could put a rule elsewhere: what was there must still be there, and first."""
    try:
        old, new = (parse_policy(text, file="", methods=methods) for text in (before, after))
    except PolicyError:
        return False
    same = [rule.pattern for rule in old.rules] == [rule.pattern for rule in new.rules[: len(old.rules)]]
    return same and len(new.rules) == len(old.rules) + count
