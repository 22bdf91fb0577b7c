"""Gets from Git LFS what a run needs: only for its own models, downloaded only where the policy says so."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from onnx_ci.sources import Sources
from onnx_ci.targets import lfs

ROUNDS = 2  # a model first, then the data that it turns out to name


def obtain(models: Iterable[Path], sources: Sources) -> str:
    """Download the content of these models; what went wrong, in words, or nothing."""
    wanted = list(models)
    for _ in range(ROUNDS):
        parts = [part for model in wanted for part in sources.of(model).absent]
        names = [part.tracked for part in parts if part.pointer and part.pointer.keeper == "Git LFS"]
        if not names or sources.repository is None:
            return ""
        commit = (sources.tree.commit if sources.tree else "") or "HEAD"
        complaint = lfs.fetch(sources.repository, names, commit=commit)
        if complaint is not None:
            return f"Git LFS could not fetch {len(names)} files: {complaint}"
        sources.forget()
    return ""


def check_out(models: Iterable[Path], sources: Sources) -> str:
    """Content that is in the store of this clone, to where its pointers are: a fix works on files."""
    whole = (source for source in map(sources.of, models) if not source.absent)
    parts = [part for source in whole for part in source.parts if part.waits]
    names = [part.tracked for part in parts if part.pointer and part.pointer.keeper == "Git LFS"]
    if not names or sources.repository is None:
        return ""
    complaint = lfs.check_out(sources.repository, names)
    sources.forget()
    return f"Git LFS could not check out {len(names)} files: {complaint}" if complaint else ""
