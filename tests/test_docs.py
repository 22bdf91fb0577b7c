"""What the documents say is what the program does. Run as a program, it renews the generated parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from onnx_ci.methods.catalogue import METHODS, Catalogue, option_schemas
from onnx_ci.policy.fields import RUNTIMES, SCHEMA_URL, json_schema
from onnx_ci.policy.load import parse_policy
from onnx_ci.report.json import dumps
from onnx_ci.results import codes
from onnx_ci.util.sizes import PLACES, PLACES_AS_OF, format_size

PROJECT = Path(__file__).resolve().parent.parent
SCHEMA = PROJECT / "docs" / "policy.schema.json"
FITTING = {"size": "as it is", "gzip": "compressed with gzip"}


def shown(limit: int) -> str:
    return f"{limit >> 20} MiB" if limit % 2**20 == 0 else format_size(limit)


def table(*rows: tuple[str, ...]) -> list[str]:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return [lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]


def about_findings() -> Iterator[str]:
    """A section for each code, which links can name."""
    for code, texts in codes().items():
        meaning = texts["title"]
        yield from (
            "",
            f"### {code}",
            "",
            f"**{meaning[0].upper()}{meaning[1:]}.** {texts['description']}",
            "",
        )
        yield from (f"- *Usually*: {texts['cause']}", f"- *What helps*: {texts['advice']}")
    yield ""


# The lines of a name stand between two comments.
GENERATED: dict[tuple[str, str], list[str]] = {
    ("docs/methods.md", "methods"): table(
        ("method", "fidelity", "what it does"),
        *((f"`{method.name}`", method.fidelity, method.summary) for method in METHODS),
    ),
    ("docs/policy.md", "places"): table(
        ("name", "limit", "of what"),
        *(
            (f"`{name}`", f"{shown(limit)} {FITTING[measure]}", about)
            for name, (measure, limit, about) in PLACES.items()
        ),
    ),
    ("docs/policy.md", "runtimes"): table(
        ("name", "IR version", "opset", "opset of ai.onnx.ml"),
        *(
            (f"`{name}`", *map(str, most))
            for name, most in RUNTIMES.items()
            if name.startswith("onnxruntime@")
        ),
    ),
    ("docs/troubleshooting.md", "findings"): [*about_findings()],
}


def with_part(text: str, name: str, lines: Sequence[str]) -> str:
    before, begin, rest = re.split(rf"(<!-- {name}: made .*? -->\n)", text)
    end = f"<!-- end of {name} -->\n"
    return before + begin + "\n".join([*lines, ""]) + end + rest.split(end)[1]


@pytest.mark.parametrize(("file", "name"), GENERATED)
def test_generated_parts_are_up_to_date(file: str, name: str) -> None:
    text = (PROJECT / file).read_text()
    assert text == with_part(text, name, GENERATED[file, name]), "run: python tests/test_docs.py"


def test_the_schema_for_editors_is_up_to_date() -> None:
    assert SCHEMA.read_text() == dumps(json_schema(option_schemas())), "run: python tests/test_docs.py"
    assert f"as of {PLACES_AS_OF}" in (PROJECT / "docs" / "policy.md").read_text()
    assert SCHEMA_URL.endswith(SCHEMA.relative_to(PROJECT).as_posix())


def test_every_method_has_a_section() -> None:
    text = (PROJECT / "docs" / "methods.md").read_text()
    for method in METHODS:
        assert f"## {method.name} ({method.fidelity})" in text


@pytest.mark.parametrize(
    "name",
    ["README.md", "docs/policy.md", "docs/verification.md", "docs/git.md", "docs/ci.md", "docs/recipes.md"],
)
def test_every_policy_shown_is_valid(name: str) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (PROJECT / name).read_text(), re.DOTALL)
    policies = [block for block in blocks if block.startswith("version: 1")]
    for block in policies:
        parse_policy(block, file=name, methods=Catalogue())
    for block in blocks:
        yaml.safe_load(block)
    assert blocks


def test_links_lead_somewhere() -> None:
    for page in [*PROJECT.glob("*.md"), *PROJECT.glob("docs/*.md")]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert link.startswith("http") or (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_modules_that_are_named_exist(name: str) -> None:
    rooms = "|".join(path.parent.name for path in PROJECT.glob("onnx_ci/*/__init__.py"))
    text = (PROJECT / name).read_text()
    named = re.findall(rf"`(?:onnx_ci/)?((?:{rooms})/[a-z0-9_]+)(?:\.py)?`", text)
    missing = [module for module in named if not (PROJECT / "onnx_ci" / f"{module}.py").exists()]
    assert named
    assert not missing


if __name__ == "__main__":
    SCHEMA.write_text(dumps(json_schema(option_schemas())))
    for (file, name), lines in GENERATED.items():
        path = PROJECT / file
        path.write_text(with_part(path.read_text(), name, lines))
