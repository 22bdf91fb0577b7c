"""What a fix came to, on its way into a commit: the report, the files, and what stays out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from onnx_ci.entry.github.tell import Told
from onnx_ci.results import RunReport

OUTSIDE = "fixed in the work tree and left out of the commit, since the last commit does not have them"
_MOST_NAMED = 10


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """Models that were fixed: the report, the files that changed, and the commits before and after."""

    report: RunReport
    names: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()  # models that were fixed and are not for us to commit
    base: str = ""
    commit: str = ""
    refused: str = ""

    @property
    def committed(self) -> RunReport:
        """Without the models that stay out."""
        inside = tuple(outcome for outcome in self.report.outcomes if outcome.file not in self.outside)
        return replace(self.report, outcomes=inside)

    @property
    def after_commit(self) -> RunReport:
        """What a fix leaves to be staged is in the commit by then; not so for models that stay out."""
        outcomes = []
        for outcome in self.report.outcomes:
            left = tuple(finding for finding in outcome.findings if finding.code != "OCI029")
            outcomes.append(outcome if outcome.file in self.outside else replace(outcome, findings=left))
        return replace(self.report, outcomes=tuple(outcomes))

    def told(self, *notes: str) -> Told:
        shown = ", ".join(self.outside[:_MOST_NAMED]) + (", …" if len(self.outside) > _MOST_NAMED else "")
        left = (f"{OUTSIDE}: {shown}",) if self.outside else ()
        return Told(report=self.report, changed=bool(self.names or self.outside), notes=(*left, *notes))
