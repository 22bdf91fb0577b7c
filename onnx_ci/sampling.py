"""The inputs that verification would use for a model, with the reasons for them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx_ci.inputs.generate import FIRST, deriver_of
from onnx_ci.model.load import open_model
from onnx_ci.policy.schema import InputSpec, Rule
from onnx_ci.sandbox.runner import Runner
from onnx_ci.verify.prove import Prover


@dataclass(frozen=True, kw_only=True)
class Made:
    """Samples that run; why the inputs are what they are; the branches that no sample takes, in words."""

    samples: Sequence[dict[str, Any]]
    reasons: dict[str, str]
    untaken: Sequence[str]


def make_samples(path: Path, spec: InputSpec) -> Made:
    rule = Rule(pattern=str(path), inputs=spec)
    with (
        open_model(path) as model,
        Runner() as runner,
        tempfile.TemporaryDirectory(prefix="onnx-ci-") as scratch,
    ):
        reference = Prover(rule, model, runner, Path(scratch), home=path.parent).reference
        own = reference.stored
        return Made(
            samples=[{k: v for k, v in sample.items() if k not in own} for sample in reference.feeds()],
            reasons=deriver_of(reference.proto_to_feed(), spec).reasons(FIRST),
            untaken=[side.words for side in reference.untaken],
        )
