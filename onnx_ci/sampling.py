"""The inputs that verification would use for a model, with the reasons for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx_ci.inputs.generate import FIRST, deriver_of
from onnx_ci.model.container import values_beside
from onnx_ci.model.load import open_model
from onnx_ci.policy.schema import InputSpec, Limits
from onnx_ci.verify.client import Runner
from onnx_ci.verify.verifier import Verifier


@dataclass(frozen=True, kw_only=True)
class Made:
    """Samples that run; why the inputs are what they are; the branches that no sample takes, in words."""

    samples: Sequence[dict[str, Any]]
    reasons: dict[str, str]
    untaken: Sequence[str]


def make_samples(path: Path, spec: InputSpec) -> Made:
    with open_model(path) as model, Runner() as runner:
        stored = values_beside(model)
        verifier = Verifier(
            runner, path, model.proto, spec=spec, limits=Limits(), root=path.parent, stored=stored
        )
        feeds = verifier.feeds()
        deriver = deriver_of(verifier.asked(), spec)
        return Made(
            samples=[{k: v for k, v in sample.items() if k not in stored} for sample in feeds],
            reasons=deriver.reasons(FIRST),
            untaken=[side.words for side in verifier.untaken],
        )
