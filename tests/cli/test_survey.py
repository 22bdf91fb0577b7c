"""`onnx-ci survey` and what `init` says: what could be had of every model, proven, and how to ask for it."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import yaml

from onnx_ci.cli.inspect import survey_table
from onnx_ci.gate.attempts import LEVELS
from onnx_ci.methods.catalogue import Catalogue
from onnx_ci.policy.load import parse_policy
from onnx_ci.results import Level, Surveyed, SurveyedForm, Verification
from onnx_ci.util.text import Style
from tests.support.cli import call
from tests.support.git_repo import Repository
from tests.support.models import bloated, lean
from tests.support.reports import delta

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{1:064}\nsize 12345678\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Repository(tmp_path)
    (tmp_path / "models").mkdir()
    onnx.save(bloated(), tmp_path / "models" / "m.onnx")
    return tmp_path


@pytest.mark.sampled(0)
def test_every_form_is_proven_and_comes_with_its_rule(folder: Path) -> None:
    model = folder / "models" / "m.onnx"
    before = model.read_bytes()
    done = call("survey", "--format", "json", "--format", "text", cwd=folder)
    text = done.out[done.out.index("model ") :]
    assert done.code == 0
    assert all(word in text for word in ("exact", "fp16", "int8", "smallest", "made up", "not looked at"))
    assert '- {path: "models/m.onnx", methods: [exact, int8-weights], shrink: smallest}' in text
    (surveyed,) = yaml.safe_load(done.out[: -len(text)])["models"]
    assert [form["level"] for form in surveyed["forms"]] == ["exact", "fp16", "int8", "smallest"]
    sizes = [form["size"] for form in surveyed["forms"]]
    assert sizes == sorted(sizes, reverse=True)
    assert {form["status"] for form in surveyed["forms"]} == {"passed"}
    assert model.read_bytes() == before
    for form in surveyed["forms"]:
        policy = f"version: 1\nmodels:\n  {form['rule']}\n"
        (rule,) = parse_policy(policy, file="", methods=Catalogue()).rules
        assert {"dedupe", *form["methods"]} <= {choice.name for choice in rule.methods}
    # What a rule promises, `fix` keeps.
    (folder / ".onnx-ci.yaml").write_text(f"version: 1\nmodels:\n  {surveyed['forms'][2]['rule']}\n")
    assert call("fix", "--all", cwd=folder).code == 0
    assert model.stat().st_size < sizes[2] + 100, "its receipt tells more of how it was found"
    again = call("survey", "models", cwd=folder)
    assert (again.code, "rounded before" in again.out) == (1, True)


def test_a_narrow_terminal_has_one_model_below_the_other() -> None:
    proof = Verification(status="passed", outputs=(delta("y"),))
    sizes: dict[Level, int] = {"exact": 29_000_000, "fp16": 15_000_000, "int8": 8_000_000}
    forms = [
        SurveyedForm(level=level, methods=(), size=size, verification=proof) for level, size in sizes.items()
    ]
    models = [
        Surveyed(path=f"models/encoders/large-{number}.onnx", matched="", size=30_900_000, forms=tuple(forms))
        for number in range(2)
    ]
    wide, narrow = ([*survey_table(models, Style(width=width))] for width in (0, 80))
    assert max(map(len, wide)) > 80 >= max(map(len, narrow))
    assert narrow[0] == "models/encoders/large-0.onnx"
    assert [cell for line in wide[1:] for cell in line.split()] == [
        word for line in narrow for word in line.split() if word not in ("now", *LEVELS)
    ]


def test_what_is_outside_the_tolerance_is_refused_in_words(folder: Path) -> None:
    done = call("survey", "--tolerance", "max_abs=1e-9", cwd=folder)
    assert "refused" in done.out
    assert "models/m.onnx: fp16 refused: " in done.out


@pytest.mark.sampled(0)
def test_init_leaves_room_and_names_what_it_can_not_read(folder: Path) -> None:
    (folder / "broken.onnx").write_text("garbage")
    (folder / "far.onnx").write_text(POINTER)
    onnx.save(lean(), folder / "b.onnx")
    done = call("init", cwd=folder)
    assert done.code == 0
    assert "for 2 models" in done.out
    assert "no rule for broken.onnx: " in done.out
    assert "no rule for far.onnx: " in done.out
    assert "git lfs pull" in done.out
    assert "int8" in done.out, "the survey"
    policy = parse_policy((folder / ".onnx-ci.yaml").read_text(), file="", methods=Catalogue())
    assert [rule.pattern for rule in policy.rules] == ["**/*.onnx", "/b.onnx", "models/m.onnx"]
    size, limit = (folder / "b.onnx").stat().st_size, policy.rules[1].budget.size
    assert limit is not None
    assert 1.05 * size <= limit < 1.06 * size
    assert call("init", "--force", "--headroom", "0%", "--no-survey", cwd=folder).code == 0
    assert call("init", "--force", "--headroom", "5", cwd=folder).code == 2, "500% or 5%?"
    assert call("init", "--force", "--headroom", "5%", "--ratchet", cwd=folder).code == 2
