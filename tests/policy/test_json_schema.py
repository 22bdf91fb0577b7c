"""The JSON schema says what the loader says, and has every key of the dataclasses."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, get_args

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from onnx_ci.policy import fields, schema
from onnx_ci.policy.fields import COUNT, SIZE, Kind, fraction, json_schema
from onnx_ci.policy.reader import Place, Reading
from onnx_ci.util.sizes import parse_count, parse_fraction, parse_size
from tests.support.bad_policies import BAD
from tests.support.good_policies import GOOD, Registry
from tests.support.known import known

SCHEMA = json_schema(Registry().schemas())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
EDITOR_SEES = {name: case for name, case in BAD.items() if case.editor}


def as_json(text: str) -> Any:
    return json.loads(json.dumps(yaml.safe_load(text), default=str))


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA, allow_nan=False)) == SCHEMA


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_right_policies_are_accepted(text: str) -> None:
    VALIDATOR.validate(as_json(text))


@pytest.mark.parametrize("name", EDITOR_SEES)
def test_wrong_policies_are_rejected(name: str) -> None:
    assert not VALIDATOR.is_valid(as_json(BAD[name].text))


def test_most_mistakes_are_seen_in_the_editor() -> None:
    assert len(EDITOR_SEES) > 0.7 * len(BAD)


@pytest.mark.parametrize(
    ("table", "made", "renamed"),
    [
        (fields.BUDGET, schema.Budget, {}),
        (fields.TOLERANCE, schema.Tolerance, {}),
        (fields.REQUIRE, schema.Require, {}),
        (fields.INPUTS, schema.InputSpec, {}),
        (fields.EVALUATE, schema.Evaluate, {}),
        (fields.LIMITS, schema.Limits, {}),
        (fields.RULE, schema.Rule, {"path": "pattern"}),
        (fields.GROUP, schema.Group, {}),
        (fields.OVERRIDE, schema.Override, {}),
        (fields.POLICY, schema.Policy, {"models": "rules"}),
    ],
)
def test_the_table_has_every_field(table: Kind, made: Any, renamed: dict[str, str]) -> None:
    given_by_reading = {"line", "lines", "named", "file", "version", "defaults", "$schema"}
    keys = {renamed.get(key, key) for key in table.keys} - given_by_reading
    assert keys == {field.name for field in dataclasses.fields(made)} - given_by_reading


def examples(table: Kind, prefix: str = "") -> dict[str, tuple[Kind, str]]:
    return {prefix + key: (field.kind, field.example) for key, field in table.keys.items()}


ALL = {
    key: value
    for name in ("BUDGET", "TOLERANCE", "INPUTS", "EVALUATE", "LIMITS", "RULE", "GROUP", "OVERRIDE", "POLICY")
    for key, value in examples(getattr(fields, name), f"{name}.").items()
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", [name for name in ALL if name != "POLICY.overrides"])
def test_every_example_in_a_hint_is_right(name: str) -> None:
    kind, example = ALL[name]
    kind.read(Place(Reading("p.yaml", Registry()), known(yaml.compose(example)), "", example=""))
    jsonschema.validate(as_json(example), {**kind.schema, "$defs": SCHEMA["$defs"]})


numbers = st.from_regex(r"[0-9_.eE+-]{1,6}", fullmatch=True)
units = st.sampled_from(["", "B", "kB", "Kb", "MB", "MiB", "iB", "M", "k", "K", "%", "TB", "x"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "parse"),
    [(SIZE, parse_size), (COUNT, parse_count), (fraction(), parse_fraction)],
    ids=["size", "count", "%"],
)
@given(number=numbers, unit=units, space=st.sampled_from(["", " "]))
def test_written_quantities_agree_with_the_parser(
    kind: Kind, parse: Any, number: str, unit: str, space: str
) -> None:
    written = f"{number}{space}{unit}".strip()
    fits = re.search(kind.schema["anyOf"][1]["pattern"], written) is not None
    refused = refusal(parse, written)
    # What a pattern can't say: 0.5 bytes is no size, and 9e99 is too many.
    assert fits is (not refused or "whole number" in refused or "too large" in refused)


def refusal(parse: Any, written: str) -> str:
    try:
        parse(written)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("table", "key", "values"),
    [
        (fields.RULE, "shrink", schema.Mode),
        (fields.RULE, "severity", schema.RuleSeverity),
        (fields.LFS, "missing", schema.Missing),
        (fields.POLICY, "unmatched", schema.Unmatched),
        (fields.POLICY, "policy_changes", schema.RuleSeverity),
        (fields.POLICY, "new_commands", schema.NewCommands),
    ],
)
def test_the_words_of_a_key_are_the_values_of_its_field(table: Kind, key: str, values: Any) -> None:
    assert set(table.keys[key].kind.schema["enum"]) == set(get_args(values))
