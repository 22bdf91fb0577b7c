"""What the documents say is what the program does. Run as a program, it renews the generated parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from onnx_ci.methods.catalogue import METHODS, Catalogue
from onnx_ci.policy.load import parse_policy
from onnx_ci.results import CODES

PROJECT = Path(__file__).resolve().parent.parent
BEGIN = "<!-- methods: made from the catalogue; tests/test_docs.py fails when it is stale -->\n"
END = "<!-- end of methods -->\n"


def method_table() -> str:
    rows = [f"| `{method.name}` | {method.fidelity} | {method.summary} |" for method in METHODS]
    return "\n".join(["| method | fidelity | what it does |", "|---|---|---|", *rows, ""])


def with_table(text: str) -> str:
    before, rest = text.split(BEGIN)
    return before + BEGIN + method_table() + END + rest.split(END)[1]


def test_the_method_table_is_up_to_date() -> None:
    text = (PROJECT / "README.md").read_text()
    assert text == with_table(text), "run: python tests/test_docs.py"


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
    readme = PROJECT / "README.md"
    readme.write_text(with_table(readme.read_text()))
