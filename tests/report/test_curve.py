"""The curve of size against error: every point where it belongs, told apart by shape, with its numbers."""

from __future__ import annotations

import pytest

from onnx_ci.report.html_page import Scale, curve
from onnx_ci.results import Point
from tests.support.markup import Element, read
from tests.support.reports import points


def marks(drawn: str) -> list[Element]:
    plot = next(svg for svg in read(drawn).all("svg") if svg.attributes.get("class") == "curve")
    return [svg for svg in plot.all("svg") if str(svg.attributes["class"]).startswith("point")]


def place(mark: Element) -> tuple[float, float]:
    return float(str(mark.attributes["x"]).rstrip("%")), float(str(mark.attributes["y"]))


def test_each_point_says_its_numbers() -> None:
    titles = [mark.all("title")[0].text for mark in marks(curve(points()))]
    assert len(titles) == len(points())
    assert "4.55 MB, 15.1 dB, cosine 0.984679: outside tolerance" in titles
    assert titles[-1] == "6.87 MB, 30.3 dB, cosine 0.999531: taken"


def test_kinds_differ_in_shape() -> None:
    shapes = {
        str(mark.attributes["class"]): [(child.tag, child.attributes.get("d")) for child in mark.children]
        for mark in marks(curve(points()))
    }
    assert set(shapes) == {"point holds", "point fails", "point chosen"}
    assert len(set(map(str, shapes.values()))) == 3


def test_smaller_is_left_and_closer_is_low() -> None:
    small, large = (
        Point(size=10, cosine=0.9, sqnr=5, holds=False),
        Point(size=90, cosine=1, sqnr=60, holds=True),
    )
    (left, high), (right, low) = map(place, marks(curve([small, large])))
    assert left < right
    assert high < low  # SVG counts from the top


def test_identical_outputs_stand_at_the_edge() -> None:
    (_, near), (_, far) = map(
        place, marks(curve([Point(size=n, cosine=1, sqnr=s, holds=True) for n, s in ((1, 50), (9, 300))]))
    )
    assert 0 <= near < far <= 240


def test_one_point_is_no_curve() -> None:
    assert curve(points()[:1]) == ""
    assert curve([]) == ""


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([4.55e6, 30.9e6], [0.0, 10e6, 20e6, 30e6, 40e6]),
        ([-64.2, -15.1], [-80.0, -60.0, -40.0, -20.0, 0.0]),
        ([-35.0, -5.0], [-40.0, -30.0, -20.0, -10.0, 0.0]),
        ([7.0, 7.0], [7.0]),
        ([0.12, 0.16], [0.12, 0.13, 0.14, 0.15, 0.16]),
    ],
)
def test_ticks_are_round_and_few(values: list[float], ticks: list[float]) -> None:
    scale = Scale.over(values, steps=4, unit=1)
    assert list(scale.ticks) == pytest.approx(ticks)
    assert all(0 <= scale.place(value) <= 1 for value in values)
