"""The HTML report in a real browser: nothing is blocked or wider than the screen, on a phone as on a desk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onnx_ci.report.html import render_info, render_outcome, render_run
from tests.support.browser import needs_browser, seen_in
from tests.support.hostile_names import EVERYTHING
from tests.support.reports import model_info, outcome, pull_request, tensors

pytestmark = pytest.mark.real

LONG = "model/" + "a_very_long_name_without_any_space." * 6
PAGES = {
    "run": lambda: render_run(pull_request(f"{LONG}.onnx", LONG)),
    "outcome": lambda: render_outcome(outcome(f"{LONG}.onnx", LONG), title=f"{LONG}.onnx -> out.onnx"),
    "info": lambda: render_info(model_info(f"{LONG}.onnx", LONG)),
}
# The page is looked at from a frame around it: its own policy lets no other script run in it.
AROUND = """<!doctype html><iframe src="report.html" width="{width}" height="900"></iframe>
<pre id="seen"></pre>
<script>
onload = () => {{
  const page = frames[0].document, root = page.documentElement;
  const wide = [...page.querySelectorAll("body *:not(.label, .label *)")].filter(
    e => e.getBoundingClientRect().right > {width} || e.getBoundingClientRect().left < 0);
  const curve = page.querySelector(".curve");
  document.getElementById("seen").textContent = JSON.stringify({{
    width: root.scrollWidth,
    beyond: wide.map(e => e.tagName + "." + e.getAttribute("class")),
    height: root.scrollHeight,
    curve: curve && curve.getBoundingClientRect().width,
    heading: page.querySelector("h1").textContent,
    scripts: page.scripts.length,
    alive: root.classList.contains("js"),
  }});
}};
</script>"""
USED = """<!doctype html><iframe src="report.html" width="1280" height="900"></iframe>
<pre id="seen"></pre>
<script>
onload = async () => {
  const view = frames[0], page = view.document, seen = {};
  const next = () => new Promise(done => setTimeout(done, 300));
  const table = page.querySelector("table"), first = () => table.tBodies[0].rows[0].cells[0].textContent;
  const head = name => [...table.tHead.rows[0].cells].find(cell => cell.textContent === name);
  const sorted = [];
  for (const name of ["model", "model", "now", "now"]) {
    head(name).querySelector("button").click();
    sorted.push([first(), head(name).getAttribute("aria-sort")]);
  }
  seen.sorted = sorted;
  const map = [...page.querySelectorAll(".map")].pop(), told = map.parentNode.querySelector("output");
  const press = key => map.dispatchEvent(new view.KeyboardEvent("keydown", {key, bubbles: true}));
  map.focus();
  seen.focus = page.activeElement === map;
  seen.first = told.textContent;
  press("ArrowRight");
  seen.right = told.textContent;
  press("Home");
  seen.home = told.textContent === seen.first;
  const began = performance.now(), boxes = map.querySelectorAll(".box");
  for (let n = 0; n < 20; n++) press(n % 2 ? "ArrowRight" : "ArrowDown");
  seen.slow = (performance.now() - began) / 20;
  const last = boxes[boxes.length - 1];
  last.dispatchEvent(new view.PointerEvent("pointerover", {bubbles: true}));
  seen.hovered = told.textContent === last.textContent && last.classList.contains("at");
  const models = page.querySelector(".map");
  models.focus();
  models.dispatchEvent(new view.KeyboardEvent("keydown", {key: "End", bubbles: true}));
  models.dispatchEvent(new view.KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
  await next();
  const target = page.getElementById(view.location.hash.slice(1));
  seen.followed = target.tagName + (target.tagName === "DETAILS" ? target.open : "");
  const field = page.querySelector("#search input");
  const find = async words => {
    field.value = words;
    field.dispatchEvent(new view.Event("input"));
    await next();
    return [...table.tBodies[0].rows].filter(row => !row.hidden).map(row => row.cells[0].textContent);
  };
  seen.found = await find("RETRAINED only");
  seen.all = (await find("")).length;
  document.getElementById("seen").textContent = JSON.stringify(seen);
};
</script>"""


def seen(document: str, width: int, folder: Path) -> tuple[dict[str, Any], str]:
    (folder / "report.html").write_text(document)
    (folder / "around.html").write_text(AROUND.format(width=width))
    return seen_in(folder / "around.html")


@needs_browser
@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("name", PAGES)
def test_a_browser_shows_all_of_it(name: str, width: int, tmp_path: Path) -> None:
    found, log = seen(PAGES[name](), width, tmp_path)
    assert "CONSOLE" not in log
    assert found["beyond"] == []
    assert found["width"] <= width
    assert found["height"] > 300
    assert LONG in found["heading"] or name == "run"
    assert (found["scripts"], found["alive"]) == (1, True)
    assert found["curve"] is None if name == "info" else found["curve"] > width / 2


@needs_browser
@pytest.mark.parametrize("name", ["layer.weight", EVERYTHING])
def test_it_can_be_sorted_searched_and_read_with_keys(name: str, tmp_path: Path) -> None:
    report = pull_request("m.onnx", name)
    large = replace(report.outcomes[0], tensors=tensors(f"{name}.", 5_000))
    found = replace(report, outcomes=(large, *report.outcomes[1:]))
    (tmp_path / "report.html").write_text(render_run(found))
    (tmp_path / "around.html").write_text(USED)
    seen, log = seen_in(tmp_path / "around.html", "--virtual-time-budget=20000")
    assert "CONSOLE" not in log
    assert seen["sorted"] == [
        ["gone m.onnx", "ascending"],
        ["vendor/old.onnx", "descending"],
        ["m.onnx", "descending"],
        ["new m.onnx", "ascending"],
    ]
    assert seen["focus"]
    assert "300 kB -> 75.3 kB, stored as uint8 and float" in seen["first"]
    assert seen["right"] != seen["first"]
    assert seen["home"]
    assert seen["hovered"]
    assert seen["followed"] in ("SECTION", "DETAILStrue")
    assert seen["slow"] < 100, "milliseconds for a key in a map of 5,000 tensors"
    assert (seen["found"], seen["all"]) == (["retrained m.onnx"], 7)
