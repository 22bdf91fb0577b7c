"""What is to be said of where a model's content is: not in the work tree, changed by git, or lost."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_ci.baseline import Baseline
from onnx_ci.findings import Finding
from onnx_ci.job import Job
from onnx_ci.model.container import display_path
from onnx_ci.shell import shell_path
from onnx_ci.sources import Part, Source, Sources


def left_alone(job: Job, source: Source, sources: Sources) -> Finding:
    """Staged and unstaged content are never mixed: what was judged is not there to be replaced."""
    return Finding(
        code="OCI023",
        severity=job.rule.severity,
        message=f"{job.name}: was not fixed: the work tree does not hold what was judged",
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


def unmerged(job: Job, source: Source) -> Iterator[Finding]:
    if source.unmerged:
        name = shell_path(source.parts[0].path)
        yield Finding(
            code="OCI023",
            severity="error",
            message=f"{job.name}: a merge left it in conflict, so nothing is staged that could be judged",
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


def lost_data(job: Job, source: Source, baseline: Baseline) -> Iterator[Finding]:
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
                severity=job.rule.severity if same else "warning",
                message=f"{job.name}: its data {display_path(part.path)} was there in {baseline.name} and is"
                " gone; the model itself has not been downloaded, so it can't be told whether it needs it",
                hint=f"put it back, or see: git lfs pull --include {shell_path(first.path)}",
            )


def _digest(part: Part) -> str:
    return part.pointer.digest if part.pointer else ""
