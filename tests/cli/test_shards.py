"""A run in parts: spread the same way on every machine, and merged into what one run would have said."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_ci.errors import UsageError
from onnx_ci.gate.groups import Unit, joined, split
from onnx_ci.gate.shares import estimated_seconds, with_learned
from onnx_ci.report.json import render_run
from onnx_ci.report.read import merged
from onnx_ci.results import GroupSize, RunReport, Shard
from tests.support.cli import Done, call
from tests.support.git_repo import Repository, write_policy
from tests.support.models import bloated, lean
from tests.support.reports import outcome, run_report

pytestmark = pytest.mark.sampled(12)

WIDTHS = {"a/one.onnx": 128, "a/two.onnx": 112, "b/three.onnx": 32, "b/four.onnx": 24, "five.onnx": 16}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of five models, two of them bloated, without a policy."""
    root = tmp_path_factory.mktemp("repository")
    repository = Repository(root)
    for name, width in WIDTHS.items():
        (root / name).parent.mkdir(exist_ok=True)
        made = bloated(width=width) if name.startswith("a/") else lean(width=width, seed=width)
        onnx.save(made, root / name)
    repository.commit_all("models")
    return root


@pytest.fixture
def place(bare: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bare, tmp_path / "here"))


def sharded(command: str, place: Path, count: int, *selection: str) -> list[Path]:
    """Reports of all shards, each made in a copy of its own, as CI jobs do."""
    reports = []
    for index in range(1, count + 1):
        copy = Path(shutil.copytree(place, place.parent / f"job{index}"))
        report = place.parent / f"{index}.json"
        shard = ("--shard", f"{index}/{count}", "--format", "json", "--output", str(report))
        call(command, *(selection or ["--all"]), *shard, cwd=copy)
        reports.append(report)
    return reports


def merge(reports: list[Path], place: Path) -> Done:
    return call("merge", *reports, "--format", "json", cwd=place)


def timeless(document: Any) -> Any:
    """Without what differs from one run to the next."""
    times = ("seconds", "latency", "loading", "running", "comparing", "planning")
    if isinstance(document, dict):
        return {key: timeless(value) for key, value in document.items() if key not in times}
    return [timeless(item) for item in document] if isinstance(document, list) else document


@pytest.mark.parametrize("command", ["check", "fix"])
def test_shards_together_say_what_one_run_says(command: str, place: Path) -> None:
    total = sum((place / name).stat().st_size for name in WIDTHS)
    # Fits only once both bloated models were shrunk: no shard alone can know.
    groups = f"groups:\n  - {{name: all, paths: ['**'], budget: {{gzip: {int(total * 0.4)}}}}}\n"
    write_policy(place, rest=groups)
    reports = sharded(command, place, 3)
    for report in reports:
        found = json.loads(report.read_text())
        assert found["findings"] == []
        assert {group["name"] for group in found["groups"]} == {"all"}
    together = merge(reports, place)
    alone = call(command, "--all", "--format", "json", cwd=place)
    assert timeless(together.json) == timeless(alone.json)
    assert together.code == alone.code == (command == "check")
    assert len(together.json["findings"]) == (command == "check")


def test_what_a_group_leaves_to_each_is_worked_out_over_all_of_it(place: Path) -> None:
    members = ["b/four.onnx", "b/three.onnx", "five.onnx"]
    total = sum((place / name).stat().st_size for name in members)
    groups = f"groups:\n  - {{name: g, paths: ['b/*', five.onnx], budget: {{size: {total * 2 // 3}}}}}\n"
    write_policy(place, "    shrink: to-budget\n    methods: [dedupe, int8-weights]\n", groups)
    plan = call("plan", "--shards", "5", "--all", "--format", "json", cwd=place).json["shards"]
    assert members in [shard["models"] for shard in plan]
    assert [shard["shard"] for shard in plan] == ["1/3", "2/3", "3/3"]
    reports = sharded("check", place, 3)
    alone = call("check", "--all", "--format", "json", cwd=place)
    assert timeless(merge(reports, place).json) == timeless(alone.json)
    shrunk = [model["file"] for model in alone.json["models"] if model["verdict"] == "would_shrink"]
    assert set(members) & set(shrunk)


def test_the_history_of_a_branch_is_judged_once(place: Path) -> None:
    repository = Repository(place)
    write_policy(place, rest="history: {budget: 1 kB, since: main}\n")
    repository.git("switch", "--quiet", "--create", "work")
    onnx.save(lean(width=40, seed=9), place / "new.onnx")
    repository.commit_all("more")
    reports = sharded("check", place, 2)
    codes = [[f["code"] for f in json.loads(report.read_text())["findings"]] for report in reports]
    assert codes == [["OCI026"], []]
    found = merge(reports, place).json["findings"]
    assert [(f["code"], f["file"], f["line"]) for f in found] == [("OCI026", ".onnx-ci.yaml", 4)]


def test_also_that_of_policies_whose_models_are_in_other_shards(place: Path) -> None:
    repository = Repository(place)
    for folder in ("a", "b"):
        write_policy(place / folder, rest="history: {budget: 1 kB, since: main}\n")
    repository.git("switch", "--quiet", "--create", "work")
    models = ["a/new.onnx", "b/new.onnx"]
    for name, width in zip(models, (80, 40), strict=True):
        onnx.save(lean(width=width, seed=9), place / name)
    repository.commit_all("more")
    reports = sharded("check", place, 2, *models)
    alone = call("check", *models, "--format", "json", cwd=place).json
    assert len(alone["findings"]) == 2
    assert timeless(merge(reports, place).json) == timeless(alone)


def test_a_matrix_is_one_line_and_never_empty(place: Path) -> None:
    def matrix(*arguments: str) -> Any:
        done = call("plan", *arguments, "--format", "github-matrix", cwd=place)
        assert done.code == 0
        assert done.out.count("\n") == 1
        return [entry["shard"] for entry in done.json["include"]]

    assert matrix("--shards", "3", "--all") == ["1/3", "2/3", "3/3"]
    assert matrix("--shards", "99", "--all") == [f"{n}/5" for n in range(1, 6)]
    assert matrix("--shards", "4", "a") == ["1/2", "2/2"]
    assert matrix("--shards", "4", "--since", "HEAD") == ["1/1"]
    text = call("plan", "--shards", "2", "a", cwd=place).out
    assert text.startswith("1/2  1 model, ")
    assert "\n  a/one.onnx\n" in text


def test_every_model_is_in_one_shard_from_wherever_it_is_called(place: Path) -> None:
    plan = call("plan", "--shards", "3", "--all", "--format", "json", cwd=place).json["shards"]
    assert sorted(name for shard in plan for name in shard["models"]) == sorted(WIDTHS)
    assert call("plan", "--shards", "3", "--all", "--format", "json", cwd=place / "a").json["shards"] == plan
    done = call("check", "--all", "--shard", "2/3", "--format", "json", cwd=place).json
    assert [model["file"] for model in done["models"]] == sorted(plan[1]["models"])
    assert (done["shard"]["index"], done["shard"]["count"]) == (2, 3)
    assert "this is shard 2/3" in call("check", "--all", "--shard", "2/3", cwd=place).out


def test_a_shard_without_models_passes(place: Path) -> None:
    done = call("check", "a", "--shard", "3/3", cwd=place)
    assert (done.code, done.out) == (
        0,
        "no .onnx-ci.yaml found: models are checked by built-in rules"
        " (all exact methods); `onnx-ci init` writes one\nthere is no model for shard 3/3\n",
    )


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1/0", "1", "a/b", "1/257", "-1/3", "1/3/5", ""])
def test_what_is_no_shard_is_refused(shard: str, place: Path) -> None:
    done = call("check", "--all", f"--shard={shard}", cwd=place)
    assert done.code == 2
    assert f"expected I/N with I from 1 to N, found '{shard}'" in done.err


def report_of(index: int, count: int = 3, split_: str = "x", **also: Any) -> RunReport:
    shard = Shard(index=index, count=count, split=split_)
    report = RunReport(command="check", outcomes=(outcome(f"{index}.onnx"),), shard=shard)
    return replace(report, **also)


def named(*reports: RunReport) -> list[tuple[str, RunReport]]:
    return [(f"{number}.json", report) for number, report in enumerate(reports)]


def test_a_missing_shard_fails() -> None:
    clean: dict[str, Any] = {"outcomes": ()}
    report = merged(named(report_of(3, **clean), report_of(1, **clean)))
    assert report.exit_code == 1
    assert "no report of shard 2 of 3: its models were not judged" in report.findings[0].message
    assert merged(named(*(report_of(n, **clean) for n in (3, 1, 2)))).exit_code == 0


def test_shards_of_different_splits_do_not_complete_each_other() -> None:
    report = merged(named(report_of(1), report_of(2), report_of(3, split_="y")))
    assert sum(finding.code == "OCI040" for finding in report.findings) == 2


def test_a_shard_twice_counts_once_and_must_be_the_same() -> None:
    first = [report_of(n) for n in (1, 2, 3)]
    assert merged(named(*first, first[0])) == merged(named(*first))
    with pytest.raises(UsageError, match=r"0\.json and 1\.json are both shard 1/3, and they differ"):
        merged(named(first[0], replace(first[0], outcomes=())))


@pytest.mark.parametrize(("index", "count"), [(0, 3), (4, 3), (1, 2**62)])
def test_a_shard_that_can_not_be_is_refused(index: int, count: int) -> None:
    with pytest.raises(UsageError, match="there is no shard"):
        merged(named(report_of(index, count)))


def test_reports_of_several_policies_are_put_side_by_side() -> None:
    first, second = run_report(), replace(run_report("x/m.onnx"), policy="x/.onnx-ci.yaml")
    both = merged(named(first, second, first))
    assert both.policy == ".onnx-ci.yaml, x/.onnx-ci.yaml"
    assert len(both.outcomes) == 5
    assert both.findings == first.findings
    with pytest.raises(UsageError, match="reports of check and fix can't be merged"):
        merged(named(first, replace(first, command="fix")))


def test_what_shards_gained_adds_up() -> None:
    group = GroupSize(name="g", policy="p", line=3, limit=100, members=4, before=130, after=115)
    other = replace(group, after=113)
    assert merged(named(report_of(1, groups=(group,)), report_of(2, 2, groups=()))).findings
    reports = [report_of(1, 2, outcomes=(), groups=(group,)), report_of(2, 2, outcomes=(), groups=(other,))]
    assert merged(named(*reports)).findings == ()
    grown = [replace(reports[0], groups=(replace(group, after=125),)), reports[1]]
    assert [finding.code for finding in merged(named(*grown)).findings] == ["OCI008"]
    assert (
        "4 models take 108 B (size), over the budget of 100 B (p:3)"
        in merged(named(*grown)).findings[0].message
    )


def test_merge_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"version": 1, "models": [], "shard": {"index": "1"}}')
    (tmp_path / "good.json").write_text(render_run(report_of(1, 1)))
    assert call("merge", "good.json", "--format", "markdown", cwd=tmp_path).code == 1
    done = call("merge", "good.json", "bad.json", cwd=tmp_path)
    assert done.code == 2
    assert "bad.json: the report.command is missing" in done.err
    assert call("merge", "none.json", cwd=tmp_path).code == 2


SIZES = st.dictionaries(st.text("abc/", min_size=1, max_size=6), st.integers(0, 10**9), max_size=12)


@given(SIZES, st.integers(1, 5), st.randoms())
def test_a_split_is_complete_even_and_the_same_in_any_order(
    sizes: dict[str, int], count: int, rng: Any
) -> None:
    names = sorted(sizes)
    bound = [names[: len(names) // 3], names[len(names) // 4 : len(names) // 2]]
    units = list(joined(sizes, [some for some in bound if some], costs_of(sizes)))
    parts = split(units, count)
    shuffled = list(units)
    rng.shuffle(shuffled)
    assert split(shuffled, count) == parts
    assert sorted(name for part in parts for unit in part for name in unit.names) == names
    for some in bound:
        assert sum(bool(set(some) & set(names_in(part))) for part in parts) <= 1
    loads = [sum(unit.cost for unit in part) for part in parts]
    assert max(loads) - min(loads) <= max((unit.cost for unit in units), default=0) * 1.000001
    assert len([part for part in parts if part]) == min(count, len(units))


def names_in(part: list[Unit]) -> Iterator[str]:
    return (name for unit in part for name in unit.names)


def costs_of(sizes: dict[str, int]) -> dict[str, float]:
    return {name: estimated_seconds(size, runs=40) for name, size in sizes.items()}


def test_many_small_models_count() -> None:
    sizes = {**{str(n): 1_000 for n in range(10)}, "large": 20_000_000}
    parts = split(joined(sizes, [], costs_of(sizes)), 2)
    assert [len(list(names_in(part))) for part in parts] == [3, 8]


def longest_over_mean(seed: int, count: int, *, learned: bool) -> float:
    """Of a thousand models between 10 kB and 500 MB. Estimates are off by a factor that differs from model
    to model, two thirds of them by less than 1.35; times that were learned by up to a tenth."""
    rng = random.Random(seed)
    sizes = {f"{n}.onnx": int(min(5e8, 10 ** rng.gauss(6.3, 0.9))) for n in range(1000)}
    costs = costs_of(sizes)
    took = {name: seconds * rng.lognormvariate(0, 0.3) for name, seconds in costs.items()}
    if learned:
        times = {name: seconds * rng.uniform(0.9, 1.1) for name, seconds in took.items()}
        costs = with_learned(costs, {name: name for name in sizes}, times)
    loads = [sum(took[name] for name in names_in(part)) for part in split(joined(sizes, [], costs), count)]
    return max(loads) / (sum(loads) / count)


@pytest.mark.parametrize("count", [4, 8])
def test_a_thousand_models_take_every_shard_about_as_long(count: int) -> None:
    assert max(longest_over_mean(seed, count, learned=True) for seed in range(10)) <= 1.1
    assert median(longest_over_mean(seed, count, learned=False) for seed in range(10)) <= 1.1


def test_a_plan_by_the_times_of_an_earlier_run_is_followed_by_every_shard(place: Path) -> None:
    write_policy(place, "    methods: [dedupe]\n")
    alone = call("check", "--all", "--format", "json", cwd=place)
    outcomes = Path(os.environ["ONNX_CI_CACHE"]) / "outcomes"
    (times,) = outcomes.glob("times.json")
    known = json.loads(times.read_text())
    assert set(known) == {f"here/{name}" for name in WIDTHS}
    times.write_text(json.dumps({**known, "here/five.onnx": 1000}))  # small, and takes longest
    planning = ("plan", "--shards", "2", "--all", "--learned", "--format", "json")
    call(*planning, "--output", "plan.json", cwd=place)
    plan = json.loads((place / "plan.json").read_text())["shards"]
    assert ["five.onnx"] in [shard["models"] for shard in plan]
    reports = []
    for index in (1, 2):
        reports.append(place / f"{index}.json")
        also = ("--plan", "plan.json", "--format", "json", "--output", str(reports[-1]))
        call("check", "--all", "--shard", f"{index}/2", *also, cwd=place)
    assert timeless(merge(reports, place).json) == timeless(alone.json)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "can't be read"),
        ("[]", "is no plan"),
        (
            '{"shards": [{"models": ["a/one.onnx"], "size": 1}, {"models": [], "size": 0}]}',
            "of other models: a/two",
        ),
        ('{"shards": [{"models": [], "size": 0}]}', "of other models"),
    ],
)
def test_a_plan_of_something_else_is_refused(content: str | None, message: str, place: Path) -> None:
    if content is not None:
        (place / "plan.json").write_text(content)
    done = call("check", "--all", "--shard", "1/2", "--plan", "plan.json", cwd=place)
    assert done.code == 2
    assert message in done.err
    assert call("check", "--all", "--plan", "plan.json", cwd=place).code == 2
