"""The HTML report in a real browser: nothing is blocked or wider than the screen, on a phone as on a desk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onnx_ci.report.html import render_info, render_outcome, render_run
from tests.support.browser import needs_browser, seen_in
from tests.support.reports import model_info, outcome, run_report

pytestmark = pytest.mark.real

LONG = "model/" + "a_very_long_name_without_any_space." * 6
PAGES = {
    "run": lambda: render_run(run_report(f"{LONG}.onnx", LONG)),
    "outcome": lambda: render_outcome(outcome(f"{LONG}.onnx", LONG), title=f"{LONG}.onnx -> out.onnx"),
    "info": lambda: render_info(model_info(f"{LONG}.onnx", LONG)),
}
# The page is looked at from a frame around it: its own policy lets no script run in it.
AROUND = """<!doctype html><iframe src="report.html" width="{width}" height="900"></iframe>
<pre id="seen"></pre>
<script>
onload = () => {{
  const page = frames[0].document, root = page.documentElement;
  const wide = [...page.querySelectorAll("body *")].filter(
    e => e.getBoundingClientRect().right > {width} || e.getBoundingClientRect().left < 0);
  const curve = page.querySelector(".curve");
  document.getElementById("seen").textContent = JSON.stringify({{
    width: root.scrollWidth,
    beyond: wide.map(e => e.tagName + "." + e.getAttribute("class")),
    height: root.scrollHeight,
    curve: curve && curve.getBoundingClientRect().width,
    heading: page.querySelector("h1").textContent,
    scripts: page.scripts.length,
  }});
}};
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
    assert found["scripts"] == 0
    assert found["curve"] is None if name == "info" else found["curve"] > width / 2
