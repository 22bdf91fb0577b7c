"""What is to be said of where a model's content is: not in the work tree, changed by git, or lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.gate.subject import Task
from onnx_ci.model.model import display_path
from onnx_ci.model.replace import data_of
from onnx_ci.repo.baseline import Baseline
from onnx_ci.repo.content import ENDING, Part, Source, Sources
from onnx_ci.results import Finding, Outcome
from onnx_ci.util.text import shell_path


def left_alone(task: Task, source: Source, sources: Sources) -> Finding:
    """Staged and unstaged content are never mixed: what was judged is not there to be replaced."""
    return Finding(
        code="OCI023",
        severity=task.rule.severity,
        message=f"{task.name}: was not fixed: the work tree does not hold what was judged",
        hint=_how_to_place(source, sources),
    )


def _how_to_place(source: Source, sources: Sources) -> str:
    waiting = [part for part in source.parts if part.waits]
    if waiting and waiting[0].pointer and waiting[0].pointer.keeper == "DVC":
        return f"run: dvc checkout {' '.join(shell_path(sources.home / part.tracked) for part in waiting)}"
    if waiting:
        return f"run: git lfs checkout {' '.join(shell_path(part.path) for part in waiting)}"
    if sources.tree is not None and sources.tree.commit:
        return "check out the branch that is pushed, run onnx-ci fix there, commit, and push again"
    name = shell_path(source.parts[0].path)
    return f"stage what is in the work tree (git add {name}), or put it away (git stash --keep-index)"


def unmerged(task: Task, source: Source) -> Iterator[Finding]:
    if source.unmerged:
        name = shell_path(source.parts[0].path)
        yield Finding(
            code="OCI023",
            severity="error",
            message=f"{task.name}: a merge left it in conflict, so nothing is staged that could be judged",
            hint=f"choose a side (git checkout --ours {name}, or --theirs), then: git add {name}",
        )


def unstaged_data(source: Source, sources: Sources) -> Iterator[Finding]:
    """A model that is staged as it is, with other data than the work tree has: often one was forgotten."""
    if sources.tree is None or sources.tree.commit or source.parts[0].content != source.parts[0].path:
        return
    for part in source.parts[1:]:
        if part.content != part.path and part.path.is_file() and not (part.converted or part.waits):
            yield Finding(
                code="OCI023",
                severity="note",
                message=f"{display_path(part.path)}: what is in the work tree is not staged",
                hint=f"if it belongs to the model that is: git add {shell_path(part.path)}",
            )


def converted(source: Source, *, fixing: bool) -> Iterator[Finding]:
    """What a checkout elsewhere gets is what git stored, and no program need be able to read it."""
    for part in source.parts:
        if part.converted:
            left = ", and it was not fixed" if fixing else ""
            yield Finding(
                code="OCI028",
                severity="warning",
                message=f"{display_path(part.path)}: git changes this file when it is added; what git"
                f" has was judged, not what is in the work tree{left}",
                hint=f"put `*{part.path.suffix} -text -filter` in .gitattributes, then:"
                f" git add --renormalize {shell_path(part.path)}",
            )


def unclear_dvc(source: Source, sources: Sources) -> Iterator[Finding]:
    """A `.dvc` file that stands for a model and does not say how large it is, or what it is called."""
    for part in source.parts:
        if part.unclear:
            name = display_path(sources.home / part.tracked)
            yield Finding(
                code="OCI006",
                severity="error",
                message=f"{name}: does not say what it stands for; expected"
                f" `outs:` with `path: {part.path.name}`, `md5` and `size`",
                hint=f"write it again, where the model is: dvc add {shell_path(part.path)}",
            )


def lost_data(task: Task, source: Source, baseline: Baseline) -> Iterator[Finding]:
    """Where the content of a model is not here, nobody can say whether it needs data that was removed."""
    first = source.parts[0]
    former = baseline.former_name(first.path) if first.content is None else None
    if former is None:
        return
    then = baseline.sources.of(former).parts
    same = _digest(then[0]) == _digest(first)
    names = {part.path.name for part in source.parts}
    for part in then[1:]:
        if part.path.name not in names:
            yield Finding(
                code="OCI012",
                severity=task.rule.severity if same else "warning",
                message=f"{task.name}: its data {display_path(part.path)} was there in {baseline.name} and is"
                " gone; the model itself has not been downloaded, so it can't be told whether it needs it",
                hint=f"put it back, or see: git lfs pull --include {shell_path(first.path)}",
            )


def _digest(part: Part) -> str:
    return part.pointer.digest if part.pointer else ""


def after_a_fix(name: str, source: Source, sources: Sources) -> Iterator[Finding]:
    """With what is staged or pushed judged, that still breaks its rule: whoever runs this has to stop."""
    model = source.parts[0]
    by_dvc = model.tracked.endswith(ENDING)
    if sources.tree is not None:
        what = "pushed" if sources.tree.commit else "staged"
        yield Finding(
            code="OCI029",
            severity="error",
            message=f"{name}: was fixed in the work tree; what is {what} is still as it was",
            hint=f"run: {_told(source, by_dvc)}{' && git commit' if what == 'pushed' else ''}",
        )
    elif by_dvc:
        yield Finding(
            code="OCI024",
            severity="note",
            message=f"{name}: is kept by DVC, which still has the content from before",
            hint=f"run: dvc add {shell_path(model.path)}",
        )
    elif sources.repository is not None and (new := _new_data(source)):
        yield Finding(
            code="OCI029",
            severity="note",
            message=f"{name}: has data in a new file, which belongs in the same commit",
            hint=f"run: git add {_words([model.path, *new])}",
        )


def _told(source: Source, by_dvc: bool) -> str:
    if by_dvc:
        kept = [part.path for part in source.parts if part.path.is_file()]
        beside = [path.with_name(path.name + ENDING) for path in kept]
        return f"dvc add {_words(kept)} && git add {_words(beside)}"
    gone = [part.path for part in source.parts if part.tracked and not part.path.exists()]
    return f"git add {_words(dict.fromkeys([source.path, *_data(source), *gone]))}"


def _words(paths: Iterable[Path]) -> str:
    return " ".join(map(shell_path, paths))


def _new_data(source: Source) -> list[Path]:
    before = {part.path for part in source.parts}
    return [path for path in _data(source) if path not in before]


def _data(source: Source) -> list[Path]:
    try:
        return [source.path.parent / name for name in data_of(source.path)]
    except ModelError:  # replaced by somebody else meanwhile: what it says now is not ours to tell
        return []


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
        findings = (*outcome.findings, *self._about_content(outcome), *self._renamed(outcome))
        done = replace(outcome, findings=findings)
        if self.only_new or self.task.rule.only_new:
            done = self._as_it_was(done)
        return self._after(done) if self.fixing else done

    def _after(self, outcome: Outcome) -> Outcome:
        """After a fix counts what is there, not what could have been."""
        to_do = after_a_fix(self.task.name, self.source, self.sources) if self.wrote else ()
        after = outcome.after if outcome.written else None
        return replace(outcome, after=after, findings=(*outcome.findings, *to_do))

    def _about_content(self, outcome: Outcome) -> Iterator[Finding]:
        left = self.fixing and not self.source.in_place and outcome.verdict == "would_shrink"
        if left and not self.source.unmerged and not any(part.converted for part in self.source.parts):
            yield left_alone(self.task, self.source, self.sources)
        yield from unmerged(self.task, self.source)
        yield from unstaged_data(self.source, self.sources)
        yield from converted(self.source, fixing=self.fixing)
        yield from unclear_dvc(self.source, self.sources)
        yield from lost_data(self.task, self.source, self.baseline)

    def _renamed(self, outcome: Outcome) -> Iterator[Finding]:
        if not any(finding.code == "OCI002" for finding in outcome.findings):
            return
        former = self.baseline.former_name(self.task.user_path)
        if former is not None and former != self.task.known_as:
            yield Finding(
                code="OCI027",
                severity="note",
                message=f"{self.task.name}: was {display_path(former)} before, and is compared with that",
            )

    def _as_it_was(self, outcome: Outcome) -> Outcome:
        errors = [finding for finding in outcome.findings if finding.severity == "error"]
        if not errors or not self.baseline.unchanged(self.task.user_path):
            return outcome
        note = Finding(
            code="OCI025",
            severity="note",
            message=f"{self.task.name}: did not change since {self.baseline.name},"
            " so what is wrong with it is a warning (only-new)",
        )
        softer = (replace(f, severity="warning") if f in errors else f for f in outcome.findings)
        return replace(outcome, findings=(*softer, note))
