"""The picture of before and after, drawn by the real Mermaid in a real browser."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pytest

from onnx_ci.report.markdown import SHOWN, picture
from onnx_ci.results import Measure, Outcome
from tests.support.browser import needs_browser, seen_in
from tests.support.hostile_names import EVERYTHING, HOSTILE
from tests.support.node import node_module
from tests.support.reports import outcome

pytestmark = pytest.mark.real

DRAWN = """<!doctype html><div id="pictures">{pictures}</div><pre id="seen"></pre>
<script src="{mermaid}"></script>
<script>
mermaid.initialize({{startOnLoad: false, securityLevel: "strict"}});
mermaid.run({{querySelector: ".mermaid"}}).finally(() => {{
  document.getElementById("seen").textContent = JSON.stringify(
    [...document.querySelectorAll(".mermaid")].map(one => ({{
      texts: [...one.querySelectorAll("text")].map(text => text.textContent),
      bars: [...one.querySelectorAll("[class^=bar-plot]")].map(plot =>
        [...plot.querySelectorAll("rect")].map(bar => Math.round(bar.getBBox().width))),
      links: one.querySelectorAll("a, image, foreignObject script").length,
    }})));
}});
</script>"""


def model(path: str, before: int, after: int | None) -> Outcome:
    return replace(
        outcome(path),
        before=Measure(size=before),
        after=None if after is None else Measure(size=after),
    )


def test_nothing_changes_nothing_is_drawn() -> None:
    assert picture([], "after") == ""
    assert picture([model("a.onnx", 5, None), model("b.onnx", 5, 5)], "after") == ""


def test_labels_are_plain_short_and_different() -> None:
    paths = [*HOSTILE, "x" * 99, "x" * 98]
    for start in range(0, len(paths), SHOWN):
        shown = picture([model(path, 10, 5) for path in paths[start : start + SHOWN]], "after")
        axis = next(line for line in shown.split("\n") if "x-axis" in line)
        labels = re.findall(r'"([^"]*)"', axis)
        assert f"  x-axis [{', '.join(json.dumps(label) for label in labels)}]" == axis
        assert len(set(labels)) == len(labels) == len(paths[start : start + SHOWN])
        assert all(re.fullmatch(r"[A-Za-z0-9._/ -]{1,31}", label) for label in labels)


@needs_browser
def test_a_browser_draws_what_is_in_the_report(tmp_path: Path) -> None:
    many = [model(f"models/{name}", 30_000_000 // (n + 1), 6_000_000) for n, name in enumerate(HOSTILE)]
    pictures = [
        picture([model("m.onnx", 40_000, 10_000), model("grown.onnx", 20_000, 30_000)], "after"),
        picture([model(EVERYTHING, 3, 2)], "could be"),
        picture(many, "could be"),
    ]
    seen = drawn(pictures, tmp_path)
    assert [one["links"] for one in seen] == [0, 0, 0]
    assert "kB before (grey), after (blue)" in seen[0]["texts"]
    assert {"m.onnx", "grown.onnx"} <= set(seen[0]["texts"])
    (m, grown), (m_now, grown_now) = seen[0]["bars"]
    assert m == pytest.approx(4 * m_now, rel=0.1)
    assert grown < grown_now < m
    assert [len(bars) for bars in seen[2]["bars"]] == [SHOWN, SHOWN]
    assert f"MB before (grey), could be (blue), the {SHOWN} largest" in seen[2]["texts"]


def drawn(pictures: list[str], folder: Path) -> Any:
    library = node_module("mermaid") / "dist" / "mermaid.min.js"
    blocks = [re.fullmatch(r"```mermaid\n(.*)\n```\n\n", one, re.DOTALL) for one in pictures]
    shown = "".join(f'<pre class="mermaid">{escape(block[1])}</pre>' for block in blocks if block)
    page = folder / "page.html"
    page.write_text(DRAWN.format(pictures=shown, mermaid=library.as_uri()))
    found, _ = seen_in(page, "--virtual-time-budget=20000")
    return found
