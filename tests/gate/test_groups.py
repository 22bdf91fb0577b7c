"""Budgets over several models: who gives how much, and that no candidate is proven twice for it."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from onnx_ci.gate import attempts
from onnx_ci.gate.candidates import Staged
from onnx_ci.gate.groups import Groups
from onnx_ci.gate.subject import Ledger, Subject
from onnx_ci.policy.schema import Budget, Group, MethodChoice, Mode, Policy, Rule
from onnx_ci.repo.content import Sources
from onnx_ci.results import Proof
from tests.support.cli import call
from tests.support.models import bloated
from tests.traps.base import write

ROUNDS = (MethodChoice(name="dedupe"), MethodChoice(name="fp16-weights"))
MODES: dict[str, Mode] = {"a.onnx": "to-budget", "b.onnx": "to-budget", "c.onnx": "exact-only"}


def groups(folder: Path, limit: int, judged: str = "abc", size: int = 1000) -> Groups:
    """Three models of equal size in one group."""
    for name in MODES:
        (folder / name).write_bytes(bytes(size))
    return Groups(
        policy=Policy(
            file="policy.yaml",
            rules=tuple(Rule(pattern=name, shrink=mode, methods=ROUNDS) for name, mode in MODES.items()),
            groups=(Group(name="app", paths=("*.onnx",), budget=Budget(size=limit), line=3),),
        ),
        judged={f"{letter}.onnx": folder / f"{letter}.onnx" for letter in judged},
        everything=lambda: {name: folder / name for name in MODES},
        sources=Sources(folder),
    )


def targets(found: Groups, by_rule: int = 1000) -> dict[str, int]:
    sizes = dict.fromkeys(found.judged.values(), by_rule)
    return {path.name: size for path, size in found.targets(sizes).items()}


def test_a_group_that_fits_asks_nothing(tmp_path: Path) -> None:
    fits = groups(tmp_path, 3000)
    assert list(fits.dependent()) == []
    assert targets(fits) == {}


def test_what_is_too_much_is_taken_from_those_that_may_give(tmp_path: Path) -> None:
    found = groups(tmp_path, 2000)
    assert [[path.name for path in paths] for paths in found.dependent()] == [["a.onnx", "b.onnx", "c.onnx"]]
    assert targets(found) == {"a.onnx": 500, "b.onnx": 500}


def test_only_what_is_judged_is_asked_to_give(tmp_path: Path) -> None:
    assert targets(groups(tmp_path, 2000, judged="a")) == {"a.onnx": 500}


def test_nobody_is_asked_for_more_than_there_is(tmp_path: Path) -> None:
    assert targets(groups(tmp_path, 1000)) == {}


def test_nobody_is_asked_where_own_rules_do(tmp_path: Path) -> None:
    assert targets(groups(tmp_path, 2000), by_rule=600) == {}


def test_sizes_are_held_against_the_budget(tmp_path: Path) -> None:
    (size,) = groups(tmp_path, 2000).sizes({})
    assert (size.members, size.before, size.after, size.limit) == (3, 3000, 3000, 2000)
    (finding,) = size.findings()
    assert (finding.code, finding.severity, finding.line) == ("OCI008", "error", 3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", ["check", "fix"])
@pytest.mark.parametrize("methods", ["[dedupe]", "[dedupe, int8-weights]"])
def test_no_candidate_of_a_member_is_proven_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, methods: str
) -> None:
    for number in range(2):
        write(partial(bloated, seed=number), tmp_path, f"m{number}.onnx")
    # What dedupe leaves is still too much: members are asked for more than their own rules do.
    (tmp_path / ".onnx-ci.yaml").write_text(
        f"version: 1\nmodels: [{{path: '*.onnx', methods: {methods}}}]\n"
        "groups: [{name: app, paths: ['*.onnx'], budget: {size: 20 kB}}]\n"
    )
    proven = tmp_path / "proven"  # a file: models are judged in processes of their own
    prove = attempts._prove

    def noted(subject: Subject, staged: Staged, ledger: Ledger) -> Proof:
        with proven.open("a") as file:
            file.write(f"{subject.task.name}: {staged.candidate.names}, {staged.measure.size}\n")
        return prove(subject, staged, ledger)

    monkeypatch.setattr(attempts, "_prove", noted)
    done = call(command, "--all", "--no-cache", "--format", "json", cwd=tmp_path)
    counts = Counter(proven.read_text().splitlines())
    assert set(counts.values()) == {1}, counts
    assert {line.split(":")[0] for line in counts} == {"m0.onnx", "m1.onnx"}
    verdict = "would_shrink" if command == "check" else "shrunk"
    assert [model["verdict"] for model in done.json["models"]] == [verdict] * 2
