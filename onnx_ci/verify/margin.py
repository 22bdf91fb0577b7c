"""A distance from the limit: what is chosen on some inputs has to hold on others, too."""

from __future__ import annotations

import math
from dataclasses import replace

from onnx_ci.policy.schema import Tolerance

GENERATED = 0.25  # of the noise that the tolerance allows, where inputs are made up: 6 dB
SAMPLES = 0.5  # where they are the user's own: 3 dB


USUAL = 27.0  # dB; what a cosine of 0.999 stands for


def least_sqnr(tolerance: Tolerance) -> float:
    """How many dB a rounded weight has to hold where inputs are made up: as many as outputs have to. Such
    inputs may miss what weights are for, so what they seem to forgive is not all believed."""
    asked = [tolerance.sqnr] if tolerance.sqnr is not None else []
    if tolerance.cosine is not None:
        asked.append(-10 * math.log10(max(2 * (1 - tolerance.cosine), 1e-30)))
    return max(asked, default=USUAL)


def with_margin(tolerance: Tolerance, *, samples: bool) -> Tolerance:
    """The tolerance with so much of its room that a search along its edge would use up."""
    share = SAMPLES if samples else GENERATED
    part = math.sqrt(share)  # of a difference, where the share is of its square
    differences = {name: getattr(tolerance, name) for name in ("max_abs", "max_rel", "mean_abs")}
    likeness = {name: getattr(tolerance, name) for name in ("cosine", "top1")}
    return replace(
        tolerance,
        sqnr=None if tolerance.sqnr is None else tolerance.sqnr - 10 * math.log10(share),
        **{name: value * part for name, value in differences.items() if value is not None},
        **{name: 1 - (1 - value) * share for name, value in likeness.items() if value is not None},
    )
