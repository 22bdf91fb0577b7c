"""What is to be said of where a model's content is: not in the work tree, changed by git, or lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from onnx_ci.gate.subject import Task
from onnx_ci.model.model import display_path
from onnx_ci.model.replace import readable_data
from onnx_ci.repo.baseline import Baseline
from onnx_ci.repo.content import ENDING, Source, Sources
from onnx_ci.results import Finding, Outcome
from onnx_ci.util.advice import to_run
from onnx_ci.util.text import shell_path


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One judged model, and where it and what it is compared with come from."""

    task: Task
    source: Source
    sources: Sources
    baseline: Baseline
    fixing: bool
    wrote: bool  # something was put in place, if only an interrupted fix that was finished
    only_new: bool

    def apply(self, outcome: Outcome) -> Outcome:
        findings = [*outcome.findings, *self._about_content(outcome), *self._renamed(outcome)]
        if (self.only_new or self.task.rule.only_new) and any(f.severity == "error" for f in findings):
            findings = self._as_it_was(findings)
        if self.fixing:  # then counts what is there, not what could have been
            findings += self._to_do() if self.wrote else ()
            outcome = replace(outcome, after=outcome.after if outcome.written else None)
        return replace(outcome, findings=tuple(findings))

    def _about_content(self, outcome: Outcome) -> Iterator[Finding]:
        left = self.fixing and not self.source.in_place and outcome.verdict == "would_shrink"
        if self.source.unmerged:
            yield self._unmerged()
        elif left and not any(part.converted for part in self.source.parts):
            yield self._left_alone()
        yield from self._unstaged_data()
        yield from self._converted()
        yield from self._unclear_dvc()
        yield from self._lost_data()

    def _left_alone(self) -> Finding:
        """Staged and unstaged content are never mixed: what was judged is not there to be replaced."""
        message = f"{self.task.name}: was not fixed: the work tree does not hold what was judged"
        waiting = [part for part in self.source.parts if part.waits]
        name = shell_path(self.source.parts[0].path)
        if waiting and waiting[0].pointer and waiting[0].pointer.keeper == "DVC":
            hint: str = to_run(f"dvc checkout {_words(self.sources.home / part.tracked for part in waiting)}")
        elif waiting:
            hint = to_run(f"git lfs checkout {_words(part.path for part in waiting)}")
        elif self.sources.tree is not None and self.sources.tree.commit:
            hint = "check out the branch that is pushed, run onnx-ci fix there, commit, and push again"
        else:
            hint = f"stage what is in the work tree (git add {name}), or put it away (git stash --keep-index)"
        return Finding(code="OCI023", severity=self.task.rule.severity, message=message, hint=hint)

    def _unmerged(self) -> Finding:
        name = shell_path(self.source.parts[0].path)
        message = f"{self.task.name}: a merge left it in conflict, so nothing is staged that could be judged"
        hint = f"choose a side (git checkout --ours {name}, or --theirs), then: git add {name}"
        return Finding(code="OCI023", severity="error", message=message, hint=hint)

    def _unstaged_data(self) -> Iterator[Finding]:
        """A model that is staged as it is, with other data than the work tree: often one was forgotten."""
        model, *data = self.source.parts
        if self.sources.tree is None or self.sources.tree.commit or model.content != model.path:
            return
        for part in data:
            if part.content != part.path and part.path.is_file() and not (part.converted or part.waits):
                message = f"{display_path(part.path)}: what is in the work tree is not staged"
                hint = f"if it belongs to the model that is: git add {shell_path(part.path)}"
                yield Finding(code="OCI023", severity="note", message=message, hint=hint)

    def _converted(self) -> Iterator[Finding]:
        """What a checkout elsewhere gets is what git stored, and no program need be able to read it."""
        judged = "what git has was judged, not what is in the work tree"
        left = ", and it was not fixed" if self.fixing else ""
        for part in self.source.parts:
            if part.converted:
                message = f"{display_path(part.path)}: git changes this file when it is added; {judged}{left}"
                renormalize = f"git add --renormalize {shell_path(part.path)}"
                hint = f"put `*{part.path.suffix} -text -filter` in .gitattributes, then: {renormalize}"
                yield Finding(code="OCI028", severity="warning", message=message, hint=hint)

    def _unclear_dvc(self) -> Iterator[Finding]:
        """A `.dvc` file that stands for a model and does not say how large it is, or what it is called."""
        for part in self.source.parts:
            if part.unclear:
                name = display_path(self.sources.home / part.tracked)
                expected = f"`outs:` with `path: {part.path.name}`, `md5` and `size`"
                message = f"{name}: does not say what it stands for; expected {expected}"
                hint = f"write it again, where the model is: dvc add {shell_path(part.path)}"
                yield Finding(code="OCI006", severity="error", message=message, hint=hint)

    def _lost_data(self) -> Iterator[Finding]:
        """Where the content of a model is not here, nobody can say whether it needs data that was removed."""
        first = self.source.parts[0]
        former = self.baseline.former_name(first.path) if first.content is None else None
        if former is None:
            return
        model, *data = self.baseline.sources.of(former).parts
        digests = {part.pointer.digest if part.pointer else "" for part in (model, first)}
        severity = self.task.rule.severity if len(digests) == 1 else "warning"
        names = {part.path.name for part in self.source.parts}
        for part in data:
            if part.path.name not in names:
                gone = f"its data {display_path(part.path)} was there in {self.baseline.name} and is gone"
                unknown = "the model itself has not been downloaded, so it can't be told whether it needs it"
                message = f"{self.task.name}: {gone}; {unknown}"
                hint = f"put it back, or see: git lfs pull --include {shell_path(first.path)}"
                yield Finding(code="OCI012", severity=severity, message=message, hint=hint)

    def _renamed(self, outcome: Outcome) -> Iterator[Finding]:
        if not any(finding.code == "OCI002" for finding in outcome.findings):
            return
        former = self.baseline.former_name(self.task.user_path)
        if former is not None and former != self.task.known_as:
            message = f"{self.task.name}: was {display_path(former)} before, and is compared with that"
            yield Finding(code="OCI027", severity="note", message=message)

    def _as_it_was(self, findings: list[Finding]) -> list[Finding]:
        if not self.baseline.unchanged(self.task.user_path):
            return findings
        softer = [replace(f, severity="warning") if f.severity == "error" else f for f in findings]
        since = f"did not change since {self.baseline.name}"
        message = f"{self.task.name}: {since}, so what is wrong with it is a warning (only-new)"
        return [*softer, Finding(code="OCI025", severity="note", message=message)]

    def _to_do(self) -> Iterator[Finding]:
        """After a fix. With what is staged or pushed judged, that still breaks its rule: whoever runs this
        has to stop."""
        name, model = self.task.name, self.source.parts[0]
        by_dvc = model.tracked.endswith(ENDING)
        new = [path for path in self._data() if path not in {part.path for part in self.source.parts}]
        if self.sources.tree is not None:
            what = "pushed" if self.sources.tree.commit else "staged"
            message = f"{name}: was fixed in the work tree; what is {what} is still as it was"
            commands = self._added_by_dvc() if by_dvc else self._added_by_git()
            hint = to_run(f"{commands}{' && git commit' if what == 'pushed' else ''}")
            yield Finding(code="OCI029", severity="error", message=message, hint=hint)
        elif by_dvc:
            message = f"{name}: is kept by DVC, which still has the content from before"
            hint = to_run(f"dvc add {shell_path(model.path)}")
            yield Finding(code="OCI024", severity="note", message=message, hint=hint)
        elif self.sources.repository is not None and new:
            message = f"{name}: has data in a new file, which belongs in the same commit"
            hint = to_run(f"git add {_words([model.path, *new])}")
            yield Finding(code="OCI029", severity="note", message=message, hint=hint)

    def _added_by_dvc(self) -> str:
        kept = [part.path for part in self.source.parts if part.path.is_file()]
        beside = [path.with_name(path.name + ENDING) for path in kept]
        return f"dvc add {_words(kept)} && git add {_words(beside)}"

    def _added_by_git(self) -> str:
        gone = [part.path for part in self.source.parts if part.tracked and not part.path.exists()]
        return f"git add {_words(dict.fromkeys([self.source.path, *self._data(), *gone]))}"

    def _data(self) -> list[Path]:
        return [self.source.path.parent / name for name in readable_data(self.source.path)]


def _words(paths: Iterable[Path]) -> str:
    return " ".join(map(shell_path, paths))
