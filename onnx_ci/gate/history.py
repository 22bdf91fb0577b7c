"""What a branch adds to the history for ever, held against the policy's budget for that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from onnx_ci.gate.project import Context
from onnx_ci.policy.schema import History
from onnx_ci.repo.changes import CommitRange, Version, called_after, merge_base
from onnx_ci.repo.git import commit_of
from onnx_ci.repo.select import Owns
from onnx_ci.results import Finding
from onnx_ci.util.sizes import format_size

SHOWN = 3


def history_findings(context: Context, base: str, owns: Owns) -> list[Finding]:
    """What the policy of a context has to say about the branch; `base` is what the run is compared with."""
    limits, repository = context.policy.history, context.repository
    if limits is None or repository is None:
        return []
    branch = _branch(context, repository, limits, base)
    if branch is None:
        return []
    counted = _counted(branch, context.folder, owns)
    kinds = (("git", limits.budget, False), ("Git LFS", limits.lfs, True))
    over = (
        _over(context, branch, [version for version in counted if version.in_lfs == in_lfs], limit, place)
        for place, limit, in_lfs in kinds
    )
    return [finding for finding in over if finding]


def _branch(context: Context, repository: Path, limits: History, base: str) -> CommitRange | None:
    head = commit_of(repository, (context.tree.commit if context.tree else "") or "HEAD")
    if head is None:
        return None
    staged = context.tree is not None and not context.tree.commit
    if base in ("", "HEAD"):
        base = merge_base(repository, limits.since, head) if limits.since else head
    return CommitRange(repository, base, head, staged=staged) if staged or base != head else None


def _counted(branch: CommitRange, folder: Path, owns: Owns) -> list[Version]:
    """Models and their data below the folder of a policy."""
    versions = [v for v in branch.versions() if (branch.repository / v.name).is_relative_to(folder)]
    there = branch.models()
    models = list(dict.fromkeys([*(v.name for v in versions if _is_model(v.name)), *there]))

    def is_data(name: str) -> bool:
        path = branch.repository / name
        near = (branch.repository / model for model in there)
        return called_after(name, models) or any(
            owns(model, path) for model in near if model.parent in path.parents
        )

    data = {name for name in {v.name for v in versions} if not _is_model(name) and is_data(name)}
    return [version for version in versions if _is_model(version.name) or version.name in data]


def _is_model(name: str) -> bool:
    return name.lower().endswith(".onnx")


def _over(
    context: Context, branch: CommitRange, versions: Sequence[Version], limit: int | None, place: str
) -> Finding | None:
    total = sum(version.size for version in versions)
    if limit is None or total <= limit or context.policy.history is None:
        return None
    allowed = f"{format_size(limit)} ({context.checked.file}:{context.policy.history.line})"
    return Finding(
        code="OCI026",
        severity="error",
        message=f"this branch adds {format_size(total)} of models to {place} for ever,"
        f" over the history budget of {allowed}: {', '.join(_largest(versions))}",
        hint=_how_to_squash(branch, versions, limit),
        file=context.policy_name,
        line=context.policy.history.line,
    )


def _largest(versions: Sequence[Version]) -> Iterator[str]:
    by_name: dict[str, list[int]] = {}
    for version in versions:
        by_name.setdefault(version.name, []).append(version.size)
    ordered = sorted(by_name.items(), key=lambda item: -sum(item[1]))
    for name, sizes in ordered[:SHOWN]:
        times = f" in {len(sizes)} versions" if len(sizes) > 1 else ""
        yield f"{name}{times} {format_size(sum(sizes))}"
    if len(ordered) > SHOWN:
        yield f"and {len(ordered) - SHOWN} more"


def _how_to_squash(branch: CommitRange, versions: Sequence[Version], limit: int) -> str:
    last = branch.last()
    left = sum(version.size for version in versions if version.blob in last)
    command = f"git reset --soft {branch.base[:12]} && git commit, then git push --force-with-lease"
    squashed = f"as one commit it adds {format_size(left)}"
    if left > limit:
        return f"even {squashed}: shrink its models (onnx-ci fix), then: {command}"
    return f"{squashed}: {command}; or squash it when it is merged"
