"""The verdict as a table: what was measured, what came of trying, and what is said of it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import cast

import pytest

from onnx_ci.gate.candidates import Candidate, Choice, Staged
from onnx_ci.gate.decide import Measured, decide, over_limits
from onnx_ci.gate.subject import InPlace, Task
from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Run
from onnx_ci.model.model import Model
from onnx_ci.policy.schema import (
    DEFAULT_TOLERANCE,
    Budget,
    MethodChoice,
    Override,
    Policy,
    Rule,
    RuleSeverity,
    Tolerance,
)
from onnx_ci.results import (
    NOT_RUN,
    Alternative,
    AlternativeState,
    Finding,
    Measure,
    OutputDelta,
    Step,
    Verification,
)

HERE = Path("/models")
MODEL = cast(Model, None)  # a verdict never looks into one
FAILED = Verification(status="failed", reason="cosine is 0.9")
FAILED_ON_SAMPLES = Verification(status="failed", reason="cosine is 0.9", inputs="samples", samples=4)
SURE = OutputDelta(
    name="y",
    max_abs=1e-9,
    max_rel=0.1,
    mean_abs=0.0,
    cosine=0.7,
    sqnr=3.0,
    top1=1.0,
    exact=False,
    behind="Softmax",
)
SURE_ON_SAMPLES = replace(FAILED_ON_SAMPLES, outputs=(SURE,))
SLOW = Verification(status="failed", reason="too slow", code="OCI010")
OVERSIZED = Verification(status="failed", reason="ran out", code="OCI013")
WORSE = Verification(status="failed", reason="the score got worse", code="OCI016")
PASSED = Verification(status="passed")
NO_INPUTS = Verification(status="not_run", reason="no inputs run it", code="OCI005")
STALE = Finding(code="OCI011", severity="error", message="its rule does not allow int8-weights")
OVERRIDE = Override(path="a.onnx", sha256="0" * 64, reason="a demo", until=date(2999, 1, 1))
LOSSY = (MethodChoice(name="int8-weights"),)


def staged(size: int, *names: str, moved: int = 0, gzip: int | None = None) -> Staged:
    runs = tuple(Run(method(name), {}) for name in names)
    steps = [Step(method=name, size_before=100, size_after=size, tensors=1, seconds=0.0) for name in names]
    if moved:
        runs += (Run(method("external-data"), {}),)
        note = "moved to a.onnx.data"
        steps.append(
            Step(
                method="external-data", size_before=size, size_after=size, tensors=moved, seconds=0, note=note
            )
        )
    candidate = Candidate(MODEL, runs, tuple(steps), size)
    return Staged(candidate, MODEL, "digest", HERE, Measure(size=size, gzip=gzip))


def tried(state: AlternativeState, size: int, cosine: float | None = None) -> Alternative:
    words = {"refused": "refused: cosine is 0.9", "within": "within tolerance", "too_large": "too large"}
    return Alternative(methods=("int8-weights",), size=size, verdict=words[state], state=state, cosine=cosine)


SHRUNK = Choice(staged(40, "dedupe"), PASSED, ())
NOTHING = Choice(None, NOT_RUN, ())
NO_BUDGET = Budget()
BEFORE = Measure(size=100, params=10, gzip=80)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row: what is given, and what is expected."""

    title: str
    choice: Choice = NOTHING
    budget: Budget = NO_BUDGET
    base_size: int | None = None
    before: Measure = BEFORE
    methods: tuple[MethodChoice, ...] = (MethodChoice(name="dedupe"),)
    tolerance: Tolerance = DEFAULT_TOLERANCE
    severity: RuleSeverity = "error"
    writes: bool = False
    insists: bool = False
    override: Override | None = None
    largest: tuple[tuple[str, int], ...] = ()
    verdict: str
    findings: tuple[str, ...] = ()  # code and severity of each
    says: tuple[str, ...] = ()  # parts of the messages and hints
    says_not: tuple[str, ...] = ()


SIZE = Budget(size=50)
CASES = [
    Case(title="nothing to do", verdict="ok"),
    Case(title="fits its budget", budget=Budget(size=100), verdict="ok"),
    Case(title="saves something", choice=SHRUNK, verdict="would_shrink", findings=("OCI003 error",)),
    Case(title="saves and is written", choice=SHRUNK, writes=True, verdict="shrunk"),
    Case(title="says how much", choice=SHRUNK, verdict="would_shrink", findings=("OCI003 error",),
         says=("can be 40 B instead of 100 B (-60%) with dedupe", "run: onnx-ci fix")),
    Case(title="was over, and would fit", choice=SHRUNK, budget=SIZE, verdict="would_shrink",
         findings=("OCI003 error",), says=("is over its size budget (policy.yaml:7), but can be",)),
    Case(title="was over, and fits once written", choice=SHRUNK, budget=SIZE, writes=True, verdict="shrunk"),
    Case(title="saves only when compressed", verdict="would_shrink", findings=("OCI003 error",),
         choice=Choice(staged(100, "float-levels", gzip=60), PASSED, ()), says=("instead of 80 B (gzip)",)),
    Case(title="would be stored elsewhere", choice=Choice(staged(100, moved=2), PASSED, ()),
         verdict="would_shrink", findings=("OCI020 error",), says=("would move 2 tensors: moved to",)),
    Case(title="is moved and smaller", choice=Choice(staged(40, "dedupe", moved=1), PASSED, ()),
         verdict="would_shrink", findings=("OCI003 error",)),
    Case(title="over its size", budget=SIZE, verdict="over_budget", findings=("OCI001 error",),
         says=("100 B (100 bytes) is over its size budget of 50 B", "allow a stronger method")),
    Case(title="over though written", budget=Budget(size=30), choice=SHRUNK, writes=True,
         verdict="over_budget", findings=("OCI001 error",), says=("40 B (40 bytes) is over",)),
    Case(title="over a compressed size", budget=Budget(gzip=70), verdict="over_budget",
         findings=("OCI001 error",), says=("over its gzip budget of 70 B",)),
    Case(title="more than a place takes", before=Measure(size=27_000_000), verdict="over_budget",
         budget=Budget(size=28_000_000, fits=("github", "cloudflare-pages")), findings=("OCI001 error",),
         says=("budget of 26.2 MB (26,214,400 bytes), all that cloudflare-pages takes as of 20",)),
    Case(title="grew too much", budget=Budget(growth=0.1), base_size=50, verdict="over_budget",
         findings=("OCI002 error",), says=("over its growth limit of 55 B",)),
    Case(title="grew as much as allowed", budget=Budget(growth=1.0), base_size=50, verdict="ok"),
    Case(title="growth of a new model", budget=Budget(growth=0.1), verdict="ok"),
    Case(title="too many parameters", budget=Budget(params=5), verdict="over_budget",
         findings=("OCI014 error",), says=("10 parameters is over its params budget of 5 parameters",)),
    Case(title="over two limits", budget=Budget(size=50, params=5), verdict="over_budget",
         findings=("OCI001 error", "OCI014 error")),
    Case(title="a limit that nothing was measured for", budget=Budget(zstd=1), verdict="ok"),
    Case(title="over, and names the largest tensors", budget=SIZE, largest=(("w", 90),),
         verdict="over_budget", findings=("OCI001 error",), says=("its largest tensors: w (90 B)",)),
    Case(title="over with quantizing methods", budget=SIZE, methods=LOSSY, verdict="over_budget",
         findings=("OCI001 error",), says=("raise the budget, loosen the tolerance",
         "(for example methods: [exact, int8-weights, int4-weights])")),
    Case(title="over with fp16", budget=SIZE, methods=(MethodChoice(name="fp16-weights"),),
         verdict="over_budget", findings=("OCI001 error",),
         says=("(for example methods: [exact, fp16-weights, int8-weights])",)),
    Case(title="over with all that store weights small", budget=SIZE, verdict="over_budget",
         methods=(*LOSSY, MethodChoice(name="int4-weights")), findings=("OCI001 error",),
         says=("raise the budget, loosen the tolerance",), says_not=("stronger",)),
    Case(title="over, with what a stronger method would not mend", budget=SIZE, methods=LOSSY,
         choice=Choice(None, NOT_RUN, (tried("refused", 30, 0.9),)), verdict="over_budget",
         findings=("OCI001 error",), says=("raise the budget",), says_not=("stronger",)),
    Case(title="over, and what fits was refused", budget=SIZE, methods=LOSSY, verdict="over_budget",
         choice=Choice(None, FAILED, (tried("refused", 30, 0.9),)),
         findings=("OCI001 error", "OCI004 error"), says=("at a cosine of 0.90000 it would be 30 B",)),
    Case(title="over, and what fits was refused for another limit", budget=SIZE, methods=LOSSY,
         tolerance=Tolerance(top1=0.99), verdict="over_budget", findings=("OCI001 error",),
         choice=Choice(None, NOT_RUN, (replace(tried("refused", 30, 0.9999), verdict="refused: top1 0.9"),)),
         says=("30 B with int8-weights was refused: top1 0.9",), says_not=("at a cosine",)),
    Case(title="over, and what holds is too large", budget=SIZE, methods=LOSSY, verdict="over_budget",
         choice=Choice(None, NOT_RUN, (tried("within", 60),)), findings=("OCI001 error",),
         says=("within tolerance it can be 60 B with int8-weights",)),
    Case(title="over, and holds short of what is refused", budget=SIZE, verdict="over_budget",
         choice=Choice(None, NOT_RUN, (tried("within", 60), tried("refused", 30, 0.8))),
         findings=("OCI001 error",), says=("it can be 60 B with int8-weights; at a cosine of 0.80000",)),
    Case(title="over, and the closest was too large", budget=SIZE, verdict="over_budget",
         choice=Choice(None, NOT_RUN, (tried("too_large", 60),)), findings=("OCI001 error",),
         says=("the closest was 60 B",)),
    Case(title="shrunk, with others left out", verdict="would_shrink",
         choice=Choice(staged(40, "dedupe"), PASSED, (tried("refused", 30), tried("too_large", 60))),
         findings=("OCI003 error", "OCI004 note"), says=("int8-weights left out: refused: cosine is 0.9",)),
    Case(title="none holds, and nobody insists", choice=Choice(None, FAILED, ()), verdict="ok",
         findings=("OCI004 note",),
         says=("cosine is 0.9", "these inputs were made up: record real ones", "allow milder methods")),
    Case(title="none holds on the samples given", choice=Choice(None, FAILED_ON_SAMPLES, ()), verdict="ok",
         findings=("OCI004 note",), says=("allow milder methods, or loosen the tolerance",)),
    Case(title="over, and what held in trials was refused", budget=SIZE, verdict="over_budget",
         choice=Choice(None, NOT_RUN, (tried("within", 60), tried("refused", 60, 0.8))),
         findings=("OCI001 error",), says_not=("within tolerance it can be",)),
    Case(title="over, and what held in trials can't be verified", budget=SIZE, verdict="over_budget",
         choice=Choice(None, NO_INPUTS, (tried("within", 40), tried("refused", 30))),
         findings=("OCI001 error", "OCI005 error"),
         says=("the closest was 30 B", "a smaller form was found but not verified: no inputs run it"),
         says_not=("it can be", "loosen the tolerance")),
    Case(title="none holds where it is undecided, on samples", verdict="ok", findings=("OCI004 note",),
         choice=Choice(None, SURE_ON_SAMPLES, ()),
         says=("in its own units the output moved by 1e-09 at most: tolerance: {max_abs: 0.001} instead",)),
    Case(title="none holds, and the user insists", choice=Choice(None, FAILED, ()), insists=True,
         verdict="outputs_changed", findings=("OCI004 error",)),
    Case(title="an exact method failed", choice=Choice(None, FAILED, (), failed_exact=True),
         verdict="outputs_changed", findings=("OCI004 error",)),
    Case(title="too slow", choice=Choice(None, SLOW, ()), verdict="ok", findings=("OCI010 note",),
         says=("allow more time",)),
    Case(title="ran out", choice=Choice(None, OVERSIZED, ()), verdict="ok", findings=("OCI013 note",),
         says=("give the model more room",)),
    Case(title="a worse score", choice=Choice(None, WORSE, ()), insists=True, verdict="outputs_changed",
         findings=("OCI016 error",), says=("allow a larger difference",)),
    Case(title="not verified", choice=Choice(None, NO_INPUTS, ()), verdict="unverified",
         findings=("OCI005 error",), says=("a smaller form was found but not verified: no inputs run it",)),
    Case(title="not verified as it is", choice=Choice(None, NO_INPUTS, (), as_it_is=True),
         verdict="unverified", findings=("OCI005 error",), says=("against its original",)),
    Case(title="may not stay, and nothing replaces it", choice=Choice(None, PASSED, (), stale=STALE),
         verdict="outputs_changed", findings=("OCI011 error",)),
    Case(title="may not stay, and would be replaced", verdict="would_shrink", findings=("OCI011 error",),
         choice=Choice(staged(40, "dedupe"), PASSED, (), stale=STALE)),
    Case(title="may not stay, and was replaced", writes=True, verdict="shrunk",
         choice=Choice(staged(40, "dedupe"), PASSED, (), stale=STALE)),
    Case(title="may not stay, and is over", budget=SIZE, choice=Choice(None, PASSED, (), stale=STALE),
         verdict="over_budget", findings=("OCI011 error", "OCI001 error")),
    Case(title="errors are warnings", budget=SIZE, severity="warning", verdict="over_budget",
         findings=("OCI001 warning",)),
    Case(title="notes stay notes", choice=Choice(None, FAILED, ()), severity="warning", verdict="ok",
         findings=("OCI004 note",)),
    Case(title="accepted by an override", budget=SIZE, override=OVERRIDE, verdict="over_budget",
         findings=("OCI009 note", "OCI001 note"), says=("accepted until 2999-01-01: a demo",)),
    Case(title="an override of what is fine", override=OVERRIDE, verdict="ok", findings=("OCI009 note",)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_the_verdict(case: Case) -> None:
    rule = Rule(
        pattern="*.onnx",
        line=7,
        budget=case.budget,
        methods=case.methods,
        tolerance=case.tolerance,
        severity=case.severity,
    )
    task = Task(
        path=HERE / "a.onnx",
        name="a.onnx",
        rule=rule,
        root=HERE,
        home=HERE,
        policy=Policy(file="policy.yaml", rules=(rule,)),
        output=InPlace(HERE) if case.writes else None,
        insists=case.insists,
        base_size=case.base_size,
    )
    model = Measured(
        task=task, before=case.before, limits=task.limits, override=case.override, largest=case.largest
    )
    verdict, findings = decide(model, case.choice)
    assert verdict == case.verdict
    assert tuple(f"{finding.code} {finding.severity}" for finding in findings) == case.findings
    text = "\n".join(f"{finding.message}\n{finding.hint}" for finding in findings)
    for part in case.says:
        assert part in text
    for part in case.says_not:
        assert part not in text
    assert decide(model, case.choice) == (verdict, findings)  # nothing is remembered


def test_a_group_and_growth_are_held_against_the_size() -> None:
    assert over_limits(Measure(size=5), {"group": 4, "growth": 6}) == {"group": 5}


def test_a_verdict_loads_no_model_library() -> None:
    code = "import sys, onnx_ci.gate.decide; sys.exit(bool({'onnx', 'numpy'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
