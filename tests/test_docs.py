"""What the documents say is what the program does. Run as a program, it renews the generated parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from onnx_ci.methods.catalogue import METHODS, Catalogue, option_schemas
from onnx_ci.policy.fields import RUNTIMES, SCHEMA_URL, json_schema
from onnx_ci.policy.load import parse_policy
from onnx_ci.report.json import dumps
from onnx_ci.results import CODES
from onnx_ci.util.sizes import PLACES, PLACES_AS_OF, format_size

PROJECT = Path(__file__).resolve().parent.parent
SCHEMA = PROJECT / "docs" / "policy.schema.json"
FITTING = {"size": "as it is", "gzip": "compressed with gzip"}


def shown(limit: int) -> str:
    return f"{limit >> 20} MiB" if limit % 2**20 == 0 else format_size(limit)


# The table of a name stands between two comments.
TABLES: dict[tuple[str, str], list[tuple[str, ...]]] = {
    ("README.md", "methods"): [
        ("method", "fidelity", "what it does"),
        *((f"`{method.name}`", method.fidelity, method.summary) for method in METHODS),
    ],
    ("docs/policy.md", "places"): [
        ("name", "limit", "of what"),
        *(
            (f"`{name}`", f"{shown(limit)} {FITTING[measure]}", about)
            for name, (measure, limit, about) in PLACES.items()
        ),
    ],
    ("docs/policy.md", "runtimes"): [
        ("name", "IR version", "opset", "opset of ai.onnx.ml"),
        *(
            (f"`{name}`", *map(str, most))
            for name, most in RUNTIMES.items()
            if name.startswith("onnxruntime@")
        ),
    ],
}


def with_table(text: str, name: str, rows: Sequence[tuple[str, ...]]) -> str:
    before, begin, rest = re.split(rf"(<!-- {name}: made .*? -->\n)", text)
    end = f"<!-- end of {name} -->\n"
    lines = ["| " + " | ".join(row) + " |" for row in [rows[0], *rows[1:]]]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    return before + begin + "\n".join([*lines, ""]) + end + rest.split(end)[1]


@pytest.mark.parametrize(("file", "name"), TABLES)
def test_generated_tables_are_up_to_date(file: str, name: str) -> None:
    text = (PROJECT / file).read_text()
    assert text == with_table(text, name, TABLES[file, name]), "run: python tests/test_docs.py"


def test_the_schema_for_editors_is_up_to_date() -> None:
    assert SCHEMA.read_text() == dumps(json_schema(option_schemas())), "run: python tests/test_docs.py"
    assert f"as of {PLACES_AS_OF}" in (PROJECT / "docs" / "policy.md").read_text()
    assert SCHEMA_URL.endswith(SCHEMA.relative_to(PROJECT).as_posix())


def test_every_method_has_a_section() -> None:
    text = (PROJECT / "docs" / "methods.md").read_text()
    for method in METHODS:
        assert f"## {method.name} ({method.fidelity})" in text


def test_every_finding_is_listed() -> None:
    text = (PROJECT / "docs" / "verification.md").read_text()
    for code, meaning in CODES.items():
        assert f"| `{code}` | {meaning} |" in text


@pytest.mark.parametrize(
    "name", ["README.md", "docs/policy.md", "docs/verification.md", "docs/git.md", "docs/ci.md"]
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
    for (file, name), rows in TABLES.items():
        path = PROJECT / file
        path.write_text(with_table(path.read_text(), name, rows))
