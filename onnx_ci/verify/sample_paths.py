"""Which files the user's samples are, without reading them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path


def sample_files(patterns: Sequence[str], home: Path) -> Iterator[Path]:
    """In the order in which they are fed; of a folder of ONNX test data, its inputs."""
    for pattern in patterns:
        for path in sorted(home.glob(pattern)):
            files = sorted(path.rglob("input_*.pb")) if path.is_dir() else [path]
            yield from (file for file in files if file.is_file())
