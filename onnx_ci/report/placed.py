"""Every finding of a run with where it belongs: the model, and the line of the policy that it breaks."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnx_ci.findings import CODES, Finding
from onnx_ci.results import Outcome, RunReport

SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True, kw_only=True)
class Placed:
    """One finding. `file` is the model, or the policy where it is about several models together;
    `policy` and `line` say where the rule is, if one is known. Names go by the top of the repository."""

    finding: Finding
    file: str
    policy: str = ""
    line: int = 0
    size: int = 0  # of the model: what large models do matters most

    @property
    def is_about_a_model(self) -> bool:
        return self.file != self.policy

    @property
    def title(self) -> str:
        code = self.finding.code
        return f"{code} {CODES[code]}" if code in CODES else code


def placed(report: RunReport) -> list[Placed]:
    """The most important first: errors before warnings, what is about several models, then by size."""
    everything = [*_across(report), *(one for outcome in report.outcomes for one in _of(report, outcome))]
    rank = {severity: number for number, severity in enumerate(SEVERITIES)}
    return sorted(everything, key=lambda one: (rank[one.finding.severity], one.is_about_a_model, -one.size))


def _across(report: RunReport) -> Iterator[Placed]:
    for finding in report.findings:
        policy = finding.file or report.policy
        yield Placed(finding=finding, file=policy, policy=policy, line=finding.line)


def _of(report: RunReport, outcome: Outcome) -> Iterator[Placed]:
    policy = (outcome.rule_file or report.policy) if outcome.rule_line else ""
    for finding in outcome.findings:
        yield Placed(
            finding=finding,
            file=outcome.file or outcome.path,
            policy=policy,
            line=outcome.rule_line,
            size=outcome.before.size if outcome.before else 0,
        )


def fingerprinted(findings: Sequence[Placed]) -> Iterator[tuple[Placed, str]]:
    """Each with a name that stays the same while it is there, whatever the numbers in its message do."""
    seen: Counter[tuple[str, str]] = Counter()
    for one in findings:
        key = (one.finding.code, one.file)
        told = "\0".join([*key, str(seen[key])])
        seen[key] += 1
        yield one, hashlib.sha256(told.encode(errors="backslashreplace")).hexdigest()
