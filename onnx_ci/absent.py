"""A model whose content is not here, only a pointer of Git LFS or DVC: judged by the size that it names."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

from onnx_ci.decide import Facts, decide, limits_of
from onnx_ci.findings import Finding
from onnx_ci.job import Job
from onnx_ci.model.container import display_path
from onnx_ci.policy.match import override_for
from onnx_ci.policy.schema import Override, Rule
from onnx_ci.results import Measure, Outcome
from onnx_ci.shell import shell_path
from onnx_ci.shown import NOT_RUN
from onnx_ci.sources import Part, Source
from onnx_ci.targets.dvc import ENDING

FROM_A_POINTER = ("size", "growth")  # the limits that need no content


def judge_absent(job: Job, source: Source) -> Outcome:
    """Size and growth are judged without a download; where more is asked for, say what is missing."""
    before = Measure(size=source.size, sha256=_digest(source))
    override = _override(job, before)
    known = {k: v for k, v in limits_of(job.rule, job.base_size).items() if k in FROM_A_POINTER}
    facts = Facts(
        name=job.name,
        call=job.call,
        rule=job.rule,
        policy_file=job.policy.file if job.policy else "",
        before=before,
        verification=NOT_RUN,
        limits=known,
        override=override,
    )
    verdict, findings = decide(facts)
    outcome = Outcome(
        path=job.name,
        verdict=verdict,
        rule_pattern=job.rule.pattern,
        rule_line=job.rule.line,
        before=before,
        findings=findings,
    )
    if override is not None or not needs_content(job.rule):
        return outcome
    missing = tuple(_finding(job, part) for part in source.absent)
    return replace(
        outcome,
        verdict="unreadable" if verdict == "ok" else verdict,
        findings=(*findings, *missing),
    )


def needs_content(rule: Rule) -> bool:
    """Whether a rule asks for more than a pointer can tell."""
    budget = rule.budget
    return bool(rule.methods or budget.params or [n for n in budget.size_like if n not in FROM_A_POINTER])


def _digest(source: Source) -> str:
    """Git LFS names a content by its sha256, which is that of a model without external data."""
    (pointer, *others) = [part.pointer for part in source.parts]
    return pointer.digest if pointer and pointer.keeper == "Git LFS" and not others else ""


def _override(job: Job, before: Measure) -> Override | None:
    if job.policy is None or not before.sha256:
        return None
    return override_for(job.policy, job.matched, before.sha256, date.today())


def _finding(job: Job, part: Part) -> Finding:
    keeper = part.pointer.keeper if part.pointer else ""
    missing = job.policy.lfs.missing if job.policy else ""
    data = "" if part.path == (job.known_as or job.path) else f"{job.name}: "
    return Finding(
        code="OCI007",
        severity="warning" if missing == "warning" else job.rule.severity,
        message=f"{data}{display_path(part.path)}: is a {keeper} pointer for {part.size:,} bytes, the content"
        " has not been downloaded, so only its size was judged",
        hint=how_to_get(part.path, keeper, fetching=missing == "fetch"),
    )


def how_to_get(path: Path, keeper: str, *, fetching: bool) -> str:
    if keeper == "DVC":
        return f"run: dvc pull {shell_path(path.with_name(path.name + ENDING))}"
    call = f"git lfs pull --include {shell_path(path)}"
    if fetching:
        return f"it could not be fetched; try: {call}"
    return f"run: {call}; or let onnx-ci fetch what it needs: lfs: {{missing: fetch}} in the policy"
