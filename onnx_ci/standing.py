"""What git adds to a verdict: a fix that had to be left, a model that is as it was, a former name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from onnx_ci.baseline import Baseline
from onnx_ci.findings import Finding
from onnx_ci.job import Job
from onnx_ci.model.container import display_path
from onnx_ci.restage import after_a_fix
from onnx_ci.results import Outcome
from onnx_ci.shell import shell_path
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
        added = (self._left, self._converted, self._renamed)
        findings = (*outcome.findings, *(finding for add in added for finding in add(outcome)))
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

    def _left(self, outcome: Outcome) -> Iterator[Finding]:
        """Staged and unstaged content are never mixed: what was judged is not there to be replaced."""
        converted = any(part.converted for part in self.source.parts)
        if not self.fixing or self.source.in_place or converted or outcome.verdict != "would_shrink":
            return
        path = self.job.known_as or self.job.path
        name = shell_path(path)
        pointer = self.source.parts[0].pointer
        fetched = pointer is not None and pointer.keeper == "Git LFS"
        yield Finding(
            code="OCI023",
            severity=self.job.rule.severity,
            message=f"{self.job.name}: was not fixed: the work tree does not hold what was judged",
            hint=f"run: git lfs checkout {name}"
            if fetched
            else f"stage what is in the work tree (git add {name}), or put it away (git stash --keep-index)",
        )

    def _converted(self, _: Outcome) -> Iterator[Finding]:
        """What a checkout elsewhere gets is what git stored, and no program need be able to read it."""
        for part in self.source.parts:
            if part.converted:
                left = ", and it was not fixed" if self.fixing else ""
                yield Finding(
                    code="OCI028",
                    severity="warning",
                    message=f"{display_path(part.path)}: git changes this file when it is added; what git"
                    f" has was judged, not what is in the work tree{left}",
                    hint=f"put `*{part.path.suffix} -text -filter` in .gitattributes, then:"
                    f" git add --renormalize {shell_path(part.path)}",
                )

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
