"""Markdown through the parser that GitHub uses: complete, within limits, and no name in it does anything."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from onnx_ci.report.markdown import COMMENT, render_run
from onnx_ci.results import Base, Finding, Outcome, RunReport
from onnx_ci.util.advice import to_run
from onnx_ci.util.text import one_line
from tests.support.github_markdown import CALLS, html, shape, uncoded
from tests.support.hostile_names import EVERYTHING, HOSTILE
from tests.support.reports import difference, outcome, pull_request, run_report

WIDTHLESS = "\u200b"


def test_a_run_has_its_verdict_sizes_findings_and_details() -> None:
    root = html(render_run(run_report()))
    assert root.all("h3")[0].text == "❌ onnx-ci failed: 3 models checked, 24 MB of 30.9 MB could be saved"
    rows = [[cell.text for cell in row.all("td")] for row in root.all("tbody")[0].all("tr")]
    assert rows[0] == [
        "❌",  # what is found is an error
        "models/encoder.onnx",
        "30.9 MB",
        "██████████ 124% of 25 MB, 76.8% of 10,000,000 params",
        "6.87 MB",
        "-77.8%",
        "cosine 0.999531, 30 dB, 0.98x, 0.95 to 1.02",
        "would shrink",
    ]
    assert [row[1] for row in rows[1:]] == ["models/broken.onnx", "vendor/old.onnx", "models/fine.onnx"]
    said = [item.text for item in root.all("li")]
    assert "OCI003 models/encoder.onnx: can be 6.87 MB" in said[0]
    assert "→ run fix models/encoder.onnx" in said[0]
    assert "app bundle is over its size budget of 60 MB" in root.text
    assert "the policy changed, so every model is looked at" in root.all("blockquote")[0].text
    assert [e.text for e in root.all("summary")] == ["models/encoder.onnx"]
    assert "33 of 45 tensors were measured" in root.all("pre")[1].text


def test_a_run_without_models_says_so() -> None:
    root = html(render_run(RunReport(command="check", outcomes=(), notes=("no model changed",))))
    assert root.all("h3")[0].text == "✅ onnx-ci passed: there was no model to look at"
    assert "no model changed" in root.text


@pytest.mark.parametrize("name", [*HOSTILE, EVERYTHING])
def test_names_do_nothing(name: str) -> None:
    plain = html(render_run(pull_request("plain", "plain")))
    document = render_run(pull_request(name, name))
    hostile = html(document)
    assert shape(hostile) == shape(plain)
    assert {element.tag for element in hostile.all()}.isdisjoint({"a", "img", "script", "h1", "s"})
    assert not CALLS.search(uncoded(hostile))
    assert len(document) <= COMMENT
    first = hostile.all("tbody")[0].all("tr")[0].all("td")[1].text
    assert first.replace(WIDTHLESS, "").split() == one_line(name).split()


def test_long_names_are_cut_off_and_keep_to_the_limit() -> None:
    document = render_run(run_report("a" * 30_000, "b" * 30_000))
    assert len(document) <= COMMENT
    assert "a…</code>" in document


def test_a_command_can_be_copied_as_it_is() -> None:
    command = "onnx-ci fix 'a @b #1 `c`.onnx'"
    finding = Finding(code="OCI003", severity="error", message="m", hint=to_run(command))
    report = RunReport(
        command="check", outcomes=(Outcome(path="m.onnx", verdict="would_shrink", findings=(finding,)),)
    )
    assert command in [code.text for code in html(render_run(report)).all("code")]


def crowd(count: int) -> RunReport:
    first = run_report()
    return replace(first, outcomes=tuple(outcome(f"models/{n}.onnx") for n in range(count)))


@pytest.mark.parametrize("limit", [1_000, 2_000, 5_000, 20_000, 65_536])
def test_what_matters_least_is_left_out_first(limit: int) -> None:
    document = render_run(crowd(60), limit)
    root = html(document)
    assert len(document.encode()) <= limit
    assert "onnx-ci failed: 60 models checked" in root.text
    told = re.search(r"Shortened: (.*) left out; the JSON or HTML report has all", root.text)
    assert told
    counts = {thing.rstrip("s"): int(number) for number, thing in re.findall(r"(\d+) ([a-z' ]+)", told[1])}
    assert counts["model's detail"] == 60 - len(root.all("details"))
    kept = [len(root.all("li")), len(root.all("tbody")[0].all("tr")) if root.all("tbody") else 0]
    if root.all("details"):
        assert kept == [121, 60]  # an error and a note a model, and the warning of the group
    if kept[1]:
        assert "error" not in counts
    assert counts.get("row", 0) == 60 - kept[1]


def test_differences_are_folded_and_left_out_first() -> None:
    pointer = Base(state="changed", undiffed="only a pointer is here")
    base = Base(state="changed", diff=difference("m.onnx", "w", 40))
    others = tuple(outcome(f"{n}.onnx") for n in range(20))
    report = replace(
        run_report(), outcomes=(*(replace(one, base=base) for one in others), outcome("p"), outcome("q"))
    )
    report = replace(
        report, outcomes=(*report.outcomes[:-2], *(replace(o, base=pointer) for o in report.outcomes[-2:]))
    )
    whole = render_run(report, 2**20)
    root = html(whole)
    assert "what changed in 0.onnx" in [summary.text for summary in root.all("summary")]
    assert "what changed in p, q is not shown: only a pointer is here" in root.text
    assert whole.count("onnx-ci diff 0123456789:m.onnx m.onnx lists all") == 20
    short = render_run(report, len(whole.encode()) - 5_000)
    assert re.search(r"Shortened: \d+ folded differences left out", short)


def test_rows_of_models_with_findings_stay_longest() -> None:
    fine = [Outcome(path=f"models/fine{n}.onnx", verdict="ok") for n in range(60)]
    report = replace(run_report(), outcomes=(*fine, *run_report().outcomes))
    document = render_run(report, 3_000)
    assert "| <code>models/broken.onnx</code> |" in document
    assert "<code>models/fine59.onnx</code>" not in document
    assert re.search(r"\d+ passing rows", document)


def test_what_fits_is_left_as_it_is() -> None:
    assert "Shortened" not in render_run(run_report())
    assert render_run(run_report()) == render_run(run_report())
