"""Which files the user's samples are, without reading them: apart, so that a cached check loads no numpy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from glob import escape
from itertools import takewhile
from pathlib import Path, PurePosixPath

RECORDED = (
    ".onnx-ci/samples"  # beside the policy: a folder for each model, called as it is without its ending
)


def recorded_folder(model: str, folder: str = RECORDED) -> str:
    """Return where the recorded samples of a model are; both are named from the policy's folder."""
    return f"{folder}/{PurePosixPath(model).with_suffix('')}"


def recorded_samples(model: str, home: Path) -> tuple[str, ...]:
    """Return the pattern of the samples that were recorded for a model; none where there are none."""
    folder = recorded_folder(model)
    try:
        found = any(path.suffix == ".npz" for path in (home / folder).iterdir())
    except OSError:
        found = False
    return (f"{escape(folder)}/*.npz",) if found else ()


def orphans(home: Path) -> Iterator[str]:
    """Yield the models, without their endings, that have recorded samples and are not there."""
    top = home / RECORDED
    for folder in sorted({path.parent for path in top.rglob("*.npz")} - {top}):
        model = folder.relative_to(top)
        beside = (home / model).parent
        there = beside.iterdir() if beside.is_dir() else ()
        if not any(path.name.startswith(f"{model.name}.") for path in there):
            yield model.as_posix()


def recorded_from(patterns: Sequence[str]) -> str:
    """Return the folder of the samples, if they were recorded."""
    folders = [
        str(PurePosixPath(pattern).parent) for pattern in patterns if pattern.startswith(f"{RECORDED}/")
    ]
    return folders[0] if folders else ""


def sample_folders(patterns: Sequence[str], home: Path) -> Iterator[Path]:
    """Yield folders below home in which a new file may be a new sample; in home itself much else changes."""
    for pattern in patterns:
        fixed = takewhile(lambda part: not set(part) & set("*?["), Path(pattern).parts)
        start = home.joinpath(*fixed)
        paths = [start, *home.glob(pattern), *(path.parent for path in home.glob(pattern))]
        yield from dict.fromkeys(path for path in sorted(paths) if path.is_dir() and path != home)


def sample_files(patterns: Sequence[str], home: Path) -> Iterator[Path]:
    """Yield sample files in the order in which they are fed; of a folder of ONNX test data, its inputs."""
    for pattern in patterns:
        for path in sorted(home.glob(pattern)):
            files = sorted(path.rglob("input_*.pb")) if path.is_dir() else [path]
            yield from (file for file in files if file.is_file())
