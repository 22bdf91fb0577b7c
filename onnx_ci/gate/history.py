"""What a branch adds to the history for ever, held against the policy's budget for that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onnx_ci.gate.project import Context
from onnx_ci.policy.schema import History
from onnx_ci.repo.changes import CommitRange, Version, called_after, merge_base
from onnx_ci.repo.git import commit_of
from onnx_ci.repo.select import Owns
from onnx_ci.results import Finding
from onnx_ci.util.sizes import format_size
from onnx_ci.util.text import first_of

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
    findings = []
    for place, limit, in_lfs in (("git", limits.budget, False), ("Git LFS", limits.lfs, True)):
        versions = [version for version in counted if version.in_lfs == in_lfs]
        total = sum(version.size for version in versions)
        if limit is None or total <= limit:
            continue
        allowed = f"{format_size(limit)} ({context.checked.file}:{limits.line})"
        finding = Finding(
            code="OCI026",
            severity="error",
            message=f"this branch adds {format_size(total)} of models to {place} for ever,"
            f" over the history budget of {allowed}: {_largest(versions)}",
            hint=_how_to_squash(branch, versions, limit),
            file=context.policy_name,
            line=limits.line,
        )
        findings.append(finding)
    return findings


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
    names = list(dict.fromkeys(version.name for version in versions))
    changed = [name for name in names if name.lower().endswith(".onnx")]
    models = list(dict.fromkeys([*changed, *there]))
    counted = set(changed)
    for name in set(names) - counted:
        path = branch.repository / name
        near = (branch.repository / model for model in there)
        above = (model for model in near if model.parent in path.parents)
        if called_after(name, models) or any(owns(model, path) for model in above):
            counted.add(name)
    return [version for version in versions if version.name in counted]


def _largest(versions: Sequence[Version]) -> str:
    by_name: dict[str, list[int]] = {}
    for version in versions:
        by_name.setdefault(version.name, []).append(version.size)
    largest = []
    for name, sizes in sorted(by_name.items(), key=lambda item: -sum(item[1])):
        times = f" in {len(sizes)} versions" if len(sizes) > 1 else ""
        largest.append(f"{name}{times} {format_size(sum(sizes))}")
    return first_of(largest, SHOWN, last=", and ")


def _how_to_squash(branch: CommitRange, versions: Sequence[Version], limit: int) -> str:
    last = branch.last()
    left = sum(version.size for version in versions if version.blob in last)
    command = f"git reset --soft {branch.base[:12]} && git commit, then git push --force-with-lease"
    squashed = f"as one commit it adds {format_size(left)}"
    if left > limit:
        return f"even {squashed}: shrink its models (onnx-ci fix), then: {command}"
    return f"{squashed}: {command}; or squash it when it is merged"
