"""What there is to say of one model beside the verdict: each a finding, or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from onnx_ci.findings import Finding
from onnx_ci.job import Job
from onnx_ci.model.container import Model, display_path
from onnx_ci.model.ownership import other_users
from onnx_ci.model.replace import left_behind
from onnx_ci.results import Planned, Step
from onnx_ci.shell import shell_word
from onnx_ci.shown import OpCount, Verification

LEAVE_OUT = "leave the method out for this model, or report the failure to the library it comes from"

FUSIONS_HINT = (
    "its outputs hold, it may only be slower: `onnx-ci compare` times it, budget: {latency: 110%} bounds it;"
    " or leave the method out"
)


def about_sharers(job: Job, sharers: Sequence[Path]) -> Iterator[Finding]:
    """Models that have a data file in common with this one."""
    if sharers:
        others = ", ".join(display_path(path) for path in sharers[:3])
        yield Finding(
            code="OCI021",
            severity="note",
            message=f"{job.name}: has a data file in common with {others}, so it is left as it is:"
            " shrunk alone it would need data of its own",
        )


def about_failures(job: Job, steps: Iterable[Step]) -> Iterator[Finding]:
    """Libraries that broke down on the model; the other methods went on without them."""
    for step in steps:
        if step.failed:
            message = f"{job.name}: {step.note}"
            yield Finding(code="OCI022", severity="warning", message=message, hint=LEAVE_OUT)


def about_unseen(job: Job, plan: Planned | None) -> Iterator[Finding]:
    """Weights that nothing vouches for are not rounded; that is no fault, but it costs bytes."""
    if plan is not None and plan.unseen:
        count = len(plan.unseen)
        names = ", ".join(plan.unseen[:2]) + (", …" if count > 2 else "")
        yield Finding(
            code="OCI005",
            severity="note",
            message=f"{job.name}: {count} tensor{'s'[: count != 1]} left as they are, since no output moves"
            f" whatever is done to them: {names}",
            hint="give inputs that reach them: inputs: {samples: [...]}",
        )


def about_dims(job: Job, model: Model) -> Iterator[Finding]:
    """Names that mean nothing here. A rule for many models may name what only some of them have."""
    if not job.rule.inputs.dims:
        return
    from onnx_ci.inputs.graph import unknown_dims

    wrong = unknown_dims(model.proto, job.rule.inputs.dims)
    if wrong:
        alone = job.rule.pattern.lstrip("/") == job.matched
        yield Finding(
            code="OCI005",
            severity="warning" if alone else "note",
            message=f"{job.name}: inputs.dims of its rule: {wrong}",
            hint="correct the name, or leave it out" if alone else "",
        )


def about_left_behind(job: Job, original: Model, written: Path) -> Iterator[Finding]:
    """Files that are not called after the model are never touched; say so, and how to be rid of them."""
    names = left_behind(original, written) if original.path.resolve() == written else []
    if names:
        files = " ".join(shell_word(name) for name in names)
        users = [user for name in names for user in other_users(written.parent / name, written, job.root)]
        why = (
            f"it stays, for {display_path(users[0])} can't be read and may need it"
            if users
            else "onnx-ci removes only data files that are called after their model"
        )
        yield Finding(
            code="OCI021",
            severity="note",
            message=f"{job.name}: no longer needs {', '.join(names)}; {why}",
            hint=f"if nothing else needs it, in {display_path(written.parent)}: git rm {files}",
        )


def about_fusions(name: str, verification: Verification) -> Iterator[Finding]:
    """At most one finding for a model: lost fusions first, then work that is done at every run."""
    found = verification.optimized
    if found is None:
        return
    parts = []
    if found.lost or found.instead:
        parts.append(
            f"onnxruntime fuses less of it than of its original ({found.nodes_before} nodes before,"
            f" {found.nodes_after} after): {_counts([*found.lost, *found.instead])}"
        )
    if found.repeated:
        parts.append(
            f"stored tensors are computed anew at every run instead of once"
            f" ({found.repeated_values:,} values): {_counts(found.repeated)}"
        )
    if parts:
        severity = "warning" if found.lost or found.instead else "note"
        message = f"{name}: {'; '.join(parts)}"
        yield Finding(code="OCI030", severity=severity, message=message, hint=FUSIONS_HINT)


def _counts(counts: Sequence[OpCount]) -> str:
    return ", ".join(f"{one.op} {one.before} to {one.after}" for one in counts)
