"""What git adds to a verdict: a fix that had to be left, a model that is as it was, a former name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from onnx_ci.baseline import Baseline
from onnx_ci.findings import Finding
from onnx_ci.job import Job
from onnx_ci.misplaced import converted, left_alone, lost_data, unclear_dvc, unmerged, unstaged_data
from onnx_ci.model.container import display_path
from onnx_ci.restage import after_a_fix
from onnx_ci.results import Outcome
from onnx_ci.sources import Source, Sources


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One judged model, and where it and what it is compared with come from."""

    job: Job
    source: Source
    sources: Sources
    baseline: Baseline
    fixing: bool
    wrote: bool  # something was put in place, if only an interrupted fix that was finished
    only_new: bool

    def apply(self, outcome: Outcome) -> Outcome:
        findings = (*outcome.findings, *self._about_content(outcome), *self._renamed(outcome))
        done = replace(outcome, findings=tuple(map(self._in_users_words, findings)))
        if self.only_new or self.job.rule.only_new:
            done = self._as_it_was(done)
        return self._after(done) if self.fixing else done

    def _after(self, outcome: Outcome) -> Outcome:
        """After a fix counts what is there, not what could have been."""
        to_do = after_a_fix(self.job.name, self.source, self.sources) if self.wrote else ()
        after = outcome.after if outcome.written else None
        return replace(outcome, after=after, findings=(*outcome.findings, *to_do))

    def _in_users_words(self, finding: Finding) -> Finding:
        words = self.sources.in_users_words
        return replace(finding, message=words(finding.message), hint=words(finding.hint))

    def _about_content(self, outcome: Outcome) -> Iterator[Finding]:
        left = self.fixing and not self.source.in_place and outcome.verdict == "would_shrink"
        if left and not self.source.unmerged and not any(part.converted for part in self.source.parts):
            yield left_alone(self.job, self.source, self.sources)
        yield from unmerged(self.job, self.source)
        yield from unstaged_data(self.source, self.sources)
        yield from converted(self.source, fixing=self.fixing)
        yield from unclear_dvc(self.source, self.sources)
        yield from lost_data(self.job, self.source, self.baseline)

    def _renamed(self, outcome: Outcome) -> Iterator[Finding]:
        if not any(finding.code == "OCI002" for finding in outcome.findings):
            return
        former = self.baseline.former_name(self.job.known_as or self.job.path)
        if former is not None and former != self.job.known_as:
            yield Finding(
                code="OCI027",
                severity="note",
                message=f"{self.job.name}: was {display_path(former)} before, and is compared with that",
            )

    def _as_it_was(self, outcome: Outcome) -> Outcome:
        errors = [finding for finding in outcome.findings if finding.severity == "error"]
        if not errors or not self.baseline.unchanged(self.job.known_as or self.job.path):
            return outcome
        note = Finding(
            code="OCI025",
            severity="note",
            message=f"{self.job.name}: did not change since {self.baseline.name},"
            " so what is wrong with it is a warning (only-new)",
        )
        softer = (replace(f, severity="warning") if f in errors else f for f in outcome.findings)
        return replace(outcome, findings=(*softer, note))
