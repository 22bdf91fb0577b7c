"""Files of a commit that Git LFS keeps: added as pointers, and their content sent before the commit is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onnx_ci.entry.github.branch import REMOTE
from onnx_ci.model.pointers import LARGEST, read_pointer
from onnx_ci.targets.git import ask_in_parts, complaint_of
from onnx_ci.targets.tree import Tree


def kept_by_lfs(root: Path, names: Sequence[str]) -> list[str]:
    """The files that .gitattributes gives to Git LFS; those that are gone need nothing."""
    found = ask_in_parts(root, "check-attr", "-z", "filter", names=names)
    told = zip(found[::3], found[2::3], strict=True)
    return [name for name, value in told if value == "lfs" and (root / name).exists()]


def staged_objects(root: Path, names: Sequence[str]) -> dict[str, str]:
    """The files among these that are staged as pointers, with the name of the content each stands for."""
    tree = Tree(root)
    try:
        tree.look_up(names)
        entries = {name: entry for name in names if (entry := tree.entry(name)) is not None}
        texts = {name: tree.read(entry) for name, entry in entries.items() if tree.size(entry) <= LARGEST}
    finally:
        tree.close()
    found = {name: read_pointer(text) for name, text in texts.items()}
    return {name: p.digest for name, p in found.items() if p is not None and p.keeper == "Git LFS"}


def send(root: Path, names: Sequence[str]) -> str | None:
    """The contents themselves: the hook that would send them is not there in every clone. What went wrong."""
    objects = staged_objects(root, kept_by_lfs(root, names))
    if not objects:
        return None
    return complaint_of(root, "lfs", "push", "--object-id", REMOTE, *dict.fromkeys(objects.values()))
