"""What is said of noise: how random models were compared, and how far the original is from itself."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_ci.report.style import one_line
from onnx_ci.shown import Noise, Verification

_METHODS = {
    "seeded": "its random nodes were given the same seeds in copies of both models, made to be run",
    "distribution": "its outputs are random, and were compared by how they are distributed over many runs",
}
_SOURCES = {"runs": "from run to run", "threads": "with another number of threads"}
_SHOWN = 3


def noise_words(verification: Verification) -> Iterator[str]:
    if verification.method in _METHODS:
        yield _METHODS[verification.method]
    moved = [one for one in verification.noise if one.source]
    if verification.noise and not moved:
        yield "noise: none; a second run with another number of threads gave the same outputs"
    for one in moved[:_SHOWN]:
        yield f"noise: {_words(one)}"
    if len(moved) > _SHOWN:
        yield f"noise: and {len(moved) - _SHOWN} outputs more"


def _words(one: Noise) -> str:
    far = one_line(one.problem) or f"max_abs {one.max_abs:.3g}, {one.sqnr:.0f} dB"
    return f"output {one_line(one.name)} of the original differs from itself {_SOURCES[one.source]}: {far}"
