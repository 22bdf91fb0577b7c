"""What to do to one model, without a policy: the arguments of `shrink`, light enough to be read first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from onnx_ci.methods.catalogue import METHODS, method
from onnx_ci.policy.schema import DEFAULT_TOLERANCE, MethodChoice, Tolerance


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to do to one model. Without methods: the exact ones, or all of them if there is a budget."""

    source: Path
    target: Path
    methods: tuple[MethodChoice, ...] = ()
    budget: int | None = None
    tolerance: Tolerance = DEFAULT_TOLERANCE
    samples: tuple[str, ...] = ()
    verify: bool = True

    @property
    def choices(self) -> tuple[MethodChoice, ...]:
        lossy = self.budget is not None  # of the size on disk
        wanted = (known for known in METHODS if known.exact or (lossy and known.gains == "size"))
        return self.methods or tuple(MethodChoice(name=known.name) for known in wanted)

    @property
    def identify(self) -> bool:
        """Whether the source is hashed, so that it can be found again: if it was run, or is lost."""
        return self.verify or not all(method(choice.name).exact for choice in self.choices)
