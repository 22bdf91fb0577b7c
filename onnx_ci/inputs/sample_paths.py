"""Which files the user's samples are, without reading them: apart, so that a cached check loads no numpy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path


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
