"""JSON reports read back: the same report, or a clear refusal; never anything else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_ci.errors import UsageError
from onnx_ci.report import annotations as github
from onnx_ci.report import annotations as gitlab
from onnx_ci.report import annotations as junit
from onnx_ci.report import html, markdown, sarif, text
from onnx_ci.report.json import render_run
from onnx_ci.report.read import LARGEST_FILE, parse_report, read_report
from onnx_ci.results import GroupSize, OpCount, Optimized, RunReport, RuntimeRun, Shard, Verification
from onnx_ci.util.text import Style
from tests.support.cli import call
from tests.support.hostile_names import HOSTILE
from tests.support.models import bloated
from tests.support.reports import delta, outcome, pull_request, run_report


def document() -> Any:
    return json.loads(render_run(run_report()))


def parsed(value: Any) -> RunReport:
    return parse_report(json.dumps(value).encode(), "r.json")


@pytest.mark.parametrize("name", ["layer.weight", *HOSTILE])
def test_a_report_is_the_same_again(name: str) -> None:
    report = run_report(f"{name}.onnx", name)
    refused = Verification(status="not_run", reason="why", code="OCI005", hint="do")
    placed = replace(report.findings[0], file="sub/.onnx-ci.yaml", line=7)
    other = replace(outcome(), file="sub/m.onnx", rule_file="sub/.onnx-ci.yaml", verification=refused)
    checked = Verification(
        status="passed",
        method="seeded",
        runtimes=(RuntimeRun(version="1.20", optimizations="disabled", status="passed", cosine=1.0),),
        optimized=Optimized(nodes_before=3, nodes_after=4, lost=(OpCount(op=name, before=1, after=0),)),
        noise=(replace(delta(name), source="threads", histogram=()),),
    )
    third = replace(outcome(f"other {name}"), verification=checked)
    full = replace(report, outcomes=(*report.outcomes, other, third), findings=(placed,))
    group = GroupSize(name=name, policy="p", limit=1, members=2, before=5, after=4)
    part = replace(full, shard=Shard(index=1, count=2, split="0a"), groups=(group,))
    assert parse_report(render_run(part).encode(), "r.json") == part
    assert parse_report(render_run(full).encode(), "r.json") == full


def strict(schema: Any) -> Any:
    """The schema without room for what it does not name."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {}
    return {**{key: strict(value) for key, value in schema.items()}, **closed}


def test_every_key_of_a_report_is_in_the_schema_that_is_published(tmp_path: Path) -> None:
    schema = call("schema", "--report", cwd=tmp_path).json
    jsonschema.Draft202012Validator.check_schema(schema)
    onnx.save(bloated(), tmp_path / "m.onnx")
    real = call("check", "--format", "json", cwd=tmp_path).json
    part = replace(
        pull_request(),
        shard=Shard(index=1, count=2, split="0a"),
        groups=(GroupSize(name="g", policy="p", limit=1, members=2, before=5, after=4),),
    )
    for found in (document(), real, json.loads(render_run(part))):
        jsonschema.Draft202012Validator(strict(schema)).validate(found)


def test_what_changed_is_the_same_again() -> None:
    report = pull_request()
    assert parse_report(render_run(report).encode(), "r.json") == report
    value = json.loads(render_run(report))
    assert value["totals"]["size_base"] == 32_001_000
    assert value["models"][0]["base"]["measure"]["gzip"] == 18_000_000


def test_a_command_is_one_again_and_old_reports_have_none() -> None:
    value = document()
    (stated,) = (finding for finding in value["models"][0]["findings"] if finding["code"] == "OCI003")
    assert stated["command"] == "fix models/encoder.onnx"
    assert [finding.command for finding in parsed(value).outcomes[0].findings] == [stated["command"], ""]
    del stated["command"]
    assert parsed(value) == run_report()
    assert not any(finding.command for finding in parsed(value).all_findings)


def test_a_runtime_that_tells_half_of_what_it_measured_can_be_shown() -> None:
    value = document()
    half = {"version": "1.20", "optimizations": "default", "status": "passed", "samples": 2, "max_abs": 0.1}
    for more in ({"cosine": 1.0, "sqnr": None}, {"cosine": None, "sqnr": 40.0}, {"cosine": 0.5}):
        value["models"][0]["verification"]["runtimes"] = [{**half, **more}]
        for show in SHOWN:
            assert show(parsed(value))
        assert text.render_outcome(parsed(value).outcomes[0], Style(), title="m")


def test_the_verdict_is_worked_out_anew() -> None:
    forged = document()
    forged["exit_code"] = 0
    forged["totals"] = {"size_before": -1, "size_after": "x"}
    assert parsed(forged).exit_code == 1


def test_keys_of_later_versions_do_no_harm() -> None:
    later = document()
    later["more"] = later["models"][0]["more"] = later["models"][0]["steps"][0]["more"] = [1]
    assert parsed(later) == run_report()


def set_at(value: Any, path: list[Any], new: Any) -> Any:
    changed = copy.deepcopy(value)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return changed


WRONG: list[tuple[list[Any], Any, str]] = [
    (["version"], 2, "the report.version: expected 1, found 2"),
    (["models"], {}, "the report.models: expected a list of at most 100,000, found an object"),
    (["models", 0], 7, "the report.models[0]: expected an object, found 7"),
    (["models", 0, "verdict"], "fine", "the report.models[0].verdict: expected ok or shrunk or"),
    (["models", 0, "path"], None, "the report.models[0].path is missing"),
    (["models", 0, "path"], "x" * 20_001, "text of at most 20,000 characters, found 'xxx"),
    (["models", 0, "before", "size"], -1, "before.size: expected a whole number from 0, found -1"),
    (["models", 0, "before", "size"], 2**63, "expected a whole number from 0"),
    (["models", 0, "before", "size"], True, "expected a whole number from 0, found True"),
    (["models", 0, "before", "size"], 1.5, "expected a whole number from 0, found 1.5"),
    (["models", 0, "written"], 1, "written: expected true or false, found 1"),
    (["models", 0, "rule"], [], "the report.models[0].rule: expected an object, found a list"),
    (["models", 0, "plan", "forms"], {"int4": "x"}, "plan.forms[0]: expected a whole number"),
    (["models", 0, "steps", 1, "seconds"], "1", "steps[1].seconds: expected a number, found '1'"),
    (["models", 0, "latency", "before"], 10**400, "latency.before: expected a number"),
    (["models", 0, "verification", "status"], "ok", "expected passed or failed or not_run"),
    (["models", 0, "findings", 0, "severity"], "fatal", "expected error or warning or note"),
    (["models", 0, "findings", 0, "code"], "OCI003\n", "expected a code like OCI001, found 'OCI003\\n'"),
    (["models", 0, "findings", 0, "code"], "", "expected a code like OCI001, found ''"),
    (["models", 0, "findings"], [{}] * 100_001, "expected a list of at most 100,000"),
    (["models", 0, "findings", 0, "command"], ["rm"], "findings[0].command: expected text of at most"),
    (["command"], "rm", "the report.command: expected check or fix"),
    (["findings", 0], "x", "the report.findings[0]: expected an object, found 'x'"),
]


@pytest.mark.parametrize(("path", "new", "told"), WRONG)
def test_what_is_wrong_is_refused_with_its_place(path: list[Any], new: Any, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        parsed(set_at(document(), path, new))
    assert refused.value.message.startswith("r.json: ")
    assert told in refused.value.message
    assert len(refused.value.message) < 300
    assert refused.value.hint


@pytest.mark.parametrize(
    "content", [b"", b"x", b"[]", b"null", b"{}", b"\xff", b'{"version": NaN}', b"[" * 100_000, b"9" * 5_000]
)
def test_what_is_no_report_is_refused(content: bytes) -> None:
    with pytest.raises(UsageError, match=r"r\.json: "):
        parse_report(content, "r.json")


def test_a_file_that_is_too_large_or_not_there_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    for path in (large, tmp_path / "none.json", tmp_path):
        with pytest.raises(UsageError):
            read_report(path)


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if here:
        yield here
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*here, key))


SHOWN: tuple[Callable[[RunReport], str], ...] = (
    render_run,
    html.render_run,
    github.render_github,
    markdown.render_run,
    sarif.render_run,
    junit.render_junit,
    gitlab.render_gitlab,
    lambda report: text.render_run(report, Style()),
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["ok", "OCI001"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.sampled(0)
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_whatever_is_changed_is_refused_or_can_be_shown(data: st.DataObject) -> None:
    original = document()
    place = data.draw(st.sampled_from(sorted(places(original), key=str)))
    changed = set_at(original, list(place), data.draw(ANYTHING))
    try:
        report = parsed(changed)
    except UsageError:
        return
    for show in SHOWN:
        assert show(report)
