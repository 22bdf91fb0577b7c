"""What to say where onnxruntime makes less of a candidate's graph than of its original's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_ci.findings import Finding
from onnx_ci.shown import OpCount, Verification

HINT = (
    "its outputs hold, it may only be slower: `onnx-ci compare` times it, budget: {latency: 110%} bounds it;"
    " or leave the method out"
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
        yield Finding(code="OCI030", severity=severity, message=message, hint=HINT)


def _counts(counts: Sequence[OpCount]) -> str:
    return ", ".join(f"{one.op} {one.before} to {one.after}" for one in counts)
