"""The HTML report: well-formed, complete, self-contained, and no name in it can become markup."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import onnx
import pytest

from onnx_ci.report.html import render_info, render_outcome, render_run
from onnx_ci.report.html_page import part
from onnx_ci.results import Base, Measure, Outcome, RunReport
from onnx_ci.util.text import one_line
from tests.support.cli import onnx_ci
from tests.support.markup import Element, read
from tests.support.models import bloated, lean
from tests.support.reports import model_info, outcome, pull_request, run_report, tensors

HOSTILE = '\x00\x1b[31m\u202e</title></style><script>alert(1)</script>"\' onload="x" <!-- &lt; \ud800\n.onnx'

Page = Callable[[str, str], str]
PAGES: dict[str, Page] = {
    "run": lambda path, name: render_run(run_report(path, name)),
    "pull request": lambda path, name: render_run(pull_request(path, name)),
    "outcome": lambda path, name: render_outcome(outcome(path, name), title=f"{path} -> out.onnx"),
    "info": lambda path, name: render_info(model_info(path, name)),
    "empty": lambda path, _: render_run(RunReport(command="check", outcomes=(), policy=path)),
}


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest) -> Page:
    return PAGES[request.param]


def test_is_well_formed_and_links_lead_within(page: Page) -> None:
    root = read(page("models/encoder.onnx", "layer.weight"))
    everything = root.all()
    ids = [element.attributes["id"] for element in everything if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    for link in root.all("a"):
        assert str(link.attributes["href"]).removeprefix("#") in ids


def test_loads_nothing_and_runs_nothing_but_its_own_script(page: Page) -> None:
    document = page("models/encoder.onnx", "layer.weight")
    root = read(document)
    for element in root.all():
        assert element.tag not in ("link", "img", "iframe", "object", "base", "form", "use")
        assert not [name for name in element.attributes if name.startswith("on") or name in ("src", "style")]
    allowed = next(
        str(meta.attributes["content"]) for meta in root.all("meta") if "http-equiv" in meta.attributes
    )
    for tag in ("script", "style"):
        (own,) = root.all(tag)
        digest = b64encode(sha256(own.text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}';" in allowed
    assert allowed.startswith("default-src 'none'; ")
    assert "unsafe" not in allowed
    for word in ("://", "url(", "@import"):
        assert word not in document


def test_tables_have_headers_and_pictures_have_words(page: Page) -> None:
    root = read(page("models/encoder.onnx", "layer.weight"))
    for table in root.all("table"):
        columns = [header for header in table.all("th") if header.attributes["scope"] == "col"]
        assert all(header.text for header in columns)
        for row in table.all("tbody")[0].all("tr"):
            assert [cell.tag for cell in row.children] == ["th"] + ["td"] * (len(columns) - 1)
            assert row.children[0].attributes["scope"] == "row"
    for picture in root.all("svg"):
        said = picture.attributes.get("aria-label") or picture.attributes.get("aria-hidden")
        assert said or picture.children[0].tag == "title"


def test_names_stay_text(page: Page) -> None:
    plain, hostile = read(page("plain", "plain")), read(page(HOSTILE, HOSTILE))
    shape = [(element.tag, sorted(element.attributes)) for element in plain.all()]
    assert [(element.tag, sorted(element.attributes)) for element in hostile.all()] == shape
    assert one_line(HOSTILE) in hostile.text


def test_control_characters_are_spelled_out(page: Page) -> None:
    document = page(HOSTILE, HOSTILE)
    assert all(character.isprintable() or character == "\n" for character in document)
    assert document.encode()


def test_the_same_report_gives_the_same_bytes(page: Page) -> None:
    assert page("models/a.onnx", "w") == page("models/a.onnx", "w")


def rows_of(root: Element, first_column: str, other: str = "") -> list[list[str]]:
    headers = [
        (table, [header.text for header in table.all("thead")[0].all("th")]) for table in root.all("table")
    ]
    tables = [table for table, names in headers if names[0] == first_column and other in ("", *names)]
    return [[cell.text for cell in row.children] for row in tables[0].all("tbody")[0].all("tr")]


def test_a_run_has_totals_a_verdict_and_a_row_a_model() -> None:
    root = read(render_run(run_report()))
    assert root.all("title")[0].text == "onnx-ci check: failed"
    figures = {pair.children[0].text: pair.children[1].text for pair in root.all("dl")[0].children}
    assert figures == {
        "models": "3",
        "size": "30.9 MB",
        "could be": "6.87 MB",
        "saved": "-77.8%",
        "findings": "2 errors, 1 warning",
    }
    rows = rows_of(root, "model")
    assert [row[0] for row in rows] == [
        "models/encoder.onnx",
        "models/broken.onnx",
        "models/fine.onnx",
        "vendor/old.onnx",
    ]
    assert rows[0][1:] == [
        "30.9 MB",
        "124% of 25 MB" * 2,
        "6.87 MB",
        "-77.8%",
        "cosine 0.999531, 30 dB, 0.98x, 0.95 to 1.02",
        "31.5 s",
        "! would shrink",
    ]
    assert rows[1][1:] == ["", "", "", "", "", "", "✕ not readable"]
    text = root.text
    assert "app bundle is over its size budget of 60 MB" in text
    assert "the policy changed, so every model is looked at" in text


def test_a_pull_request_says_what_it_changed() -> None:
    root = read(render_run(pull_request()))
    figures = {pair.children[0].text: pair.children[1].text for pair in root.all("dl")[0].children}
    assert (figures["was"], figures["size"], figures["change"]) == ("32 MB", "35.9 MB", "+3.9 MB, +12.2%")
    rows = {row[0]: row[1:4] for row in rows_of(root, "model")}
    assert rows == {
        "models/encoder.onnx": ["20 MB", "30.9 MB", "+10.9 MB, +54.5%; +10 MB, +55.6% gzip"],
        "models/broken.onnx": ["", "", ""],
        "retrained models/encoder.onnx": ["5 MB", "5 MB", "weights only, outputs cosine 0.99871"],
        "models/fine.onnx": ["", "1 kB", "was old models/encoder.onnx"],
        "new models/encoder.onnx": ["", "400 B", "new"],
        "vendor/old.onnx": ["", "", ""],
        "gone models/encoder.onnx": ["7 MB", "", "gone"],
    }
    maps = [svg.attributes["aria-label"] for svg in root.all("svg") if svg.attributes.get("class") == "map"]
    assert maps[:3] == [
        "was: 32 MB, in 4 parts",
        "now: 35.9 MB, in 4 parts",
        "could be: 11.9 MB, in 4 parts",
    ]
    assert "commit fedcba987654 of 2026-01-02T03:04:05+00:00, onnx-ci 1.2" in root.all("footer")[0].text
    folded = [line.text for line in root.all("summary") if "encoder.onnx" in line.text]
    assert folded == ["retrained models/encoder.onnx ✓ ok 5 MB", "new models/encoder.onnx ✓ ok 400 B"]


def test_of_very_many_models_the_worst_and_the_largest_are_shown_in_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("onnx_ci.report.html.FULL", 4)
    well = replace(outcome(), verdict="ok", findings=(), after=None)
    grown = replace(well, path="grown", base=Base(state="changed"), before=Measure(size=1))
    others = [replace(well, path=f"{n}.onnx") for n in range(18)]
    document = render_run(RunReport(command="check", outcomes=(grown, *others, outcome("bad"))))
    root = read(document)
    assert document.count('class="treemap"') == 1 + 4
    cards = [each for each in root.all("details") if each.attributes.get("class") == "model card"]
    assert [card.all("summary")[0].text.split()[0] for card in cards] == [
        "0.onnx",
        "1.onnx",
        "2.onnx",
        "grown",
    ]
    assert (
        "1 more that failed or changed follow, without maps and proofs; 15 are in the table only" in root.text
    )
    names = {header.text for header in root.all("th") if header.attributes.get("scope") == "row"}
    assert names >= {"grown", "bad", *(each.path for each in others)}, "all are in the table"


def test_what_to_do_comes_first() -> None:
    root = read(render_run(run_report()))
    (first, *_) = root.all("section")
    assert [item.text for item in first.all("li")] == ["✕ OCI003 fix models/encoder.onnx"]


@pytest.mark.sampled(0)
def test_a_map_holds_every_tensor_where_it_is_stored() -> None:
    many = replace(outcome(), tensors=tensors("w", 5_000), plan=None)
    root = read(render_outcome(many, title="m"))
    before, after = [svg for svg in root.all("svg") if svg.attributes.get("class") == "map"]
    boxes = [
        [box for box in each.all("rect") if "box" in str(box.attributes["class"])] for each in (before, after)
    ]
    assert list(map(len, boxes)) == [5_000, 5_001 - 1_666]
    for drawn in boxes:
        sides = [
            [float(str(box.attributes[side]).rstrip("%")) for side in ("width", "height")] for box in drawn
        ]
        assert sum(width * height for width, height in sides) == pytest.approx(10_000, rel=0.02)
    assert boxes[1][0].text.endswith(", float 300 × 250, 300 kB -> 75.3 kB, stored as uint8 and float")  # noqa: RUF001
    assert (before.attributes["height"], after.attributes["height"]) == ("260", "44")


def test_a_model_has_all_that_is_known_of_it() -> None:
    root = read(render_outcome(outcome(), title="in.onnx -> out.onnx"))
    text = root.text
    assert "4 more tensors, 2 of them named" in text
    for said in (
        "OCI003",
        "run: fix models/encoder.onnx",
        "45 tensors: 3 as int8 by channel, 40 as int4, 2 as they were; 51 trials, 21.4 s.",
        "Not all was tried: 33 of 45 tensors were measured when time was up.",
        "on 2 generated inputs",
        "did not move when the weights were damaged",
        "A mix is taken only with a safety margin",
        "31.5 s in this run.",
    ):
        assert said in text
    assert rows_of(root, "measure")[0] == ["size", "30.9 MB", "6.87 MB", "-77.8%"]
    assert [row[2] for row in rows_of(root, "limit")] == ["5.9 MB over", "2,318,706 left"]
    assert rows_of(root, "name")[0] == ["layer.weight", "input", "float[batch,3]"]
    assert ["latency", "12.34 ms", "12.10 ms", "0.98x (0.95 to 1.02, 95%)"] in rows_of(root, "measure")
    assert ["memory to load", "90 MB", "70 MB", ""] in rows_of(root, "measure")
    assert [row[0] for row in rows_of(root, "method")] == ["dedupe", "int4-weights"]
    tried = ["fp16-weights", "15.5 MB", "1.000000", "64.2 dB", "within tolerance"]
    assert rows_of(root, "methods")[0] == tried
    kept = ["layer.weight0", "1.99 MB", "as it was", "it leaves 18.0 dB"]
    assert rows_of(root, "tensor", "form")[0] == kept
    assert rows_of(root, "output")[0][:5] == ["layer.weight", "0.299", "0.5", "0.999531", "30.3 dB"]


def test_where_nothing_was_taken_the_curve_shows_what_was_tried() -> None:
    refused = replace(outcome(), verdict="over_budget", after=None, plan=None, latency=None)
    root = read(render_outcome(refused, title="encoder.onnx"))
    kinds = [svg.attributes["class"] for svg in root.all("svg") if "x" in svg.attributes]
    kinds = [kind for kind in kinds if kind != "label"]
    assert kinds == ["point holds", "point fails"]
    assert rows_of(root, "measure")[0] == ["size", "30.9 MB"]
    assert "rule 'models/**/*.onnx', line 6" in root.text


def test_a_model_without_a_policy_has_no_rule() -> None:
    assert (
        "rule '"
        not in read(render_outcome(replace(outcome(), rule_line=0), title="in.onnx -> out.onnx")).text
    )


def test_columns_with_nothing_in_them_are_left_out() -> None:
    report = run_report()
    bare = replace(report, outcomes=(Outcome(path="vendor/old.onnx", verdict="ignored"),), findings=())
    root = read(render_run(bare))
    assert [header.text for header in root.all("thead")[0].all("th")] == ["model", "verdict"]
    assert root.all("title")[0].text == "onnx-ci check: passed"


def test_what_info_shows() -> None:
    root = read(render_info(model_info(tensors=250)))
    assert rows_of(root, "type")[0][:3] == ["float", "900 kB", "90%"]
    tensors = rows_of(root, "tensor")
    assert tensors[0][:6] == ["layer.weight0", "float", "300 × 250", "2", "300 kB", "30%"]  # noqa: RUF001
    assert len(tensors) == 200
    assert "And 50 more, 15 MB together" in root.text
    assert "300 kB (30%) are copies that dedupe would drop." in root.text


def luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(mode: int) -> None:
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", part("report.css").split(":root")[mode + 1]))
    pairs = [(ink, back) for ink in ("ink", "soft", "accent") for back in ("paper", "card")]
    pairs += [(kind, f"{kind}-back") for kind in ("good", "warn", "bad")] + [("soft", "dim-back")]
    for ink, back in pairs:
        lighter, darker = sorted((luminance(colours[ink]), luminance(colours[back])), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, f"{ink} on {back}"


@pytest.mark.sampled(0)
def test_every_command_that_reports_can_write_it(tmp_path: Path) -> None:
    onnx.save(bloated(), tmp_path / "in.onnx")
    onnx.save(lean(), tmp_path / "lean.onnx")
    (tmp_path / ".onnx-ci.yaml").write_text('version: 1\nmodels: [{path: "*.onnx"}]\n')
    calls = {
        "check --all": "onnx-ci check",
        "fix lean.onnx": "onnx-ci fix",
        "shrink in.onnx out.onnx": "in.onnx -> out.onnx",
        "compare lean.onnx lean.onnx": "lean.onnx against lean.onnx",
        "info in.onnx": "in.onnx",
    }
    for call, heading in calls.items():
        outputs = ["--format", "html", "--output", "report.html", "--format", "html"]
        done = onnx_ci(*call.split(), *outputs, cwd=tmp_path)
        assert done.out == (tmp_path / "report.html").read_text()
        assert read(done.out).all("h1")[0].text.startswith(heading)
        assert re.match("<!doctype html>\n<html", done.out)


@pytest.mark.sampled(0)
def test_a_file_with_a_hostile_name(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>\"'\x1b[2J\n.onnx"
    onnx.save(bloated(), tmp_path / name)
    (tmp_path / ".onnx-ci.yaml").write_text('version: 1\nmodels: [{path: "*.onnx"}]\n')
    root = read(onnx_ci("check", "--all", "--format", "html", cwd=tmp_path).out)
    assert not root.all("img")
    assert rows_of(root, "model")[0][0] == one_line(name)
