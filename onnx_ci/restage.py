"""What is still to be done after a fix: git and DVC keep what they were given before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.findings import Finding
from onnx_ci.model.ownership import data_of
from onnx_ci.shell import shell_path
from onnx_ci.sources import Source, Sources
from onnx_ci.targets.dvc import ENDING


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
