"""The frame of an HTML report: one file that loads nothing and runs nothing."""

from __future__ import annotations

from onnx_ci.report.markup import Markup, element, join
from onnx_ci.report.stylesheet import STYLESHEET
from onnx_ci.version import __version__

# The browser is told to hold us to it: no script, no request, nothing but the styles in the page.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(title: str, *content: str) -> str:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(STYLESHEET)),
    )
    foot = element("footer", f"onnx-ci {__version__}")
    body = element("body", element("main", *content), foot)
    return join([Markup("<!doctype html>\n"), element("html", head, body, lang="en"), Markup("\n")])


def figures(*pairs: tuple[str, str]) -> Markup:
    """The few numbers that matter, large."""
    return element(
        "dl",
        *(element("div", element("dt", name), element("dd", value)) for name, value in pairs if value),
        class_="figures",
    )


def badge(word: str, kind: str) -> Markup:
    """`kind` is good, warn, bad or dim; its sign says the same without colour."""
    sign = element("span", {"good": "✓", "warn": "!", "bad": "✕"}.get(kind, "–"), aria_hidden="true")  # noqa: RUF001
    return element("span", sign, " ", word, class_=f"badge {kind}")
