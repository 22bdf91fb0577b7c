"""The report at a terminal: complete, narrow where it has to be, and what to do comes last."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from onnx_ci.report.text import render_run
from onnx_ci.results import GoneModel, Measure, Outcome, RunReport, Verification
from onnx_ci.util.text import Style
from tests.support.reports import delta, pull_request, run_report

ROWS = (
    "model  was  now  change  budget  could be  saved  outputs  verdict",
    "models/encoder.onnx  20 MB  30.9 MB  +10.9 MB, +54.5%; +10 MB, +55.6% gzip"
    "  [##########] 124% of 25 MB, 93.3% of 30 MB gzip, 76.8% of 10,000,000 params"
    "  6.87 MB  -77.8%  cosine 0.999531, 30 dB, 0.98x, 0.95 to 1.02  would shrink",
    "models/broken.onnx  not readable",
    "vendor/old.onnx  ignored",
    "models/fine.onnx  1 kB  was old models/encoder.onnx  ok",
    "retrained models/encoder.onnx  5 MB  5 MB  weights only, outputs cosine 0.99871  ok",
    "new models/encoder.onnx  400 B  new  ok",
    "gone models/encoder.onnx  7 MB  gone",
)
TOTALS = (
    "5 models checked, 1 gone, 32 MB -> 35.9 MB (+3.9 MB, +12.2%), 24 MB of 35.9 MB could be saved: failed"
)


def well(count: int) -> tuple[Outcome, ...]:
    return tuple(
        Outcome(path=f"models/{number:02}.onnx", verdict="ok", before=Measure(size=1_000))
        for number in range(count)
    )


def test_a_pull_request_has_was_now_change_budget_and_totals() -> None:
    lines = render_run(pull_request(), Style()).splitlines()
    assert [re.sub("   +", "  ", line) for line in lines[: len(ROWS)]] == list(ROWS)
    assert {line.index(word) for line, word in zip(lines[:2], ("change", "+10.9"), strict=True)} == {47}
    assert TOTALS in lines


def test_columns_that_are_empty_for_all_are_left_out() -> None:
    first, *_ = render_run(RunReport(command="check", outcomes=well(2)), Style()).splitlines()
    assert first.split() == ["model", "size", "verdict"]


@pytest.mark.parametrize("count", [10, 11, 200])
def test_models_that_are_well_are_folded_past_ten(count: int) -> None:
    bad = run_report().outcomes[:2]
    shown = render_run(RunReport(command="check", outcomes=(*well(count), *bad)), Style())
    rows = [line for line in shown.splitlines() if line.startswith("models/") and line.endswith("  ok")]
    assert len(rows) == 8
    assert f"and {count - 8} more models, {count - 8} kB: nothing is wrong with them\n" in shown
    assert "would shrink" in shown
    assert "not readable" in shown


def test_a_narrow_terminal_has_it_all_one_below_the_other() -> None:
    wide, narrow = (render_run(pull_request(), Style(width=width)) for width in (0, 60))
    lines = narrow.split("\n\n")[0].splitlines()
    table = [line for line in lines[: lines.index("gone models/encoder.onnx") + 2] if "params" not in line]
    assert max(map(len, table)) <= 60
    assert table[:2] == ["models/encoder.onnx  would shrink", "  was 20 MB  now 30.9 MB"]
    for word in set(wide.split()) - {"model", "verdict"}:
        assert word in narrow.split()


def test_only_what_fails_is_red() -> None:
    shown = render_run(pull_request(), Style(colour=True))
    red = re.findall(r"\x1b\[31m(.*?)\x1b", shown)
    assert [word.strip() for word in red] == [
        "-77.8%",
        "not readable",
        "error OCI003",
        "error OCI006",
        "failed",
    ]


def test_what_to_do_comes_last() -> None:
    assert render_run(run_report(), Style()).endswith("saved: failed\nto do:\n  fix models/encoder.onnx\n")
    one = replace(run_report(), outcomes=run_report().outcomes[3:], findings=())
    assert render_run(one, Style()).endswith("1 model checked: passed\n")


def test_it_is_plain_ascii() -> None:
    assert render_run(pull_request(), Style()).isascii()


def test_a_run_that_only_lost_models_says_so() -> None:
    gone = GoneModel(path="models/a.onnx", size=2_000)
    shown = render_run(RunReport(command="check", outcomes=(), base="0a", gone=(gone,)), Style())
    assert shown.splitlines()[1].split() == ["models/a.onnx", "2", "kB", "gone"]
    assert "0 models checked, 1 gone, 2 kB -> 0 B (-2 kB, -100%): passed" in shown


def test_samples_are_told_where_they_came_from() -> None:
    proof = Verification(
        status="passed", inputs="samples", samples=20, recorded=".onnx-ci/samples/m", outputs=(delta("y"),)
    )
    model = Outcome(path="m.onnx", verdict="shrunk", before=Measure(size=2), verification=proof)
    shown = render_run(RunReport(command="fix", outcomes=(model,)), Style())
    assert "m.onnx: verification passed on 20 samples recorded in .onnx-ci/samples/m\n" in shown
