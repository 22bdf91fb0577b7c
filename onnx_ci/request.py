"""What to do to one model, without a policy: the arguments of `shrink`, light enough to be read first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from onnx_ci.methods.catalogue import METHODS, Method, method
from onnx_ci.policy.schema import DEFAULT_TOLERANCE, PLAN_SECONDS, MethodChoice, Tolerance

ENCODINGS = 60  # the first stage of methods that encode weights


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to do to one model. Without methods: the exact ones, and the encodings of weights if there is a
    budget; never those that call other libraries or only move bytes to other files."""

    source: Path
    target: Path
    methods: tuple[MethodChoice, ...] = ()
    budget: int | None = None
    tolerance: Tolerance = DEFAULT_TOLERANCE
    samples: tuple[str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    verify: bool = True
    plan_seconds: float = PLAN_SECONDS
    cache: bool = True
    runtimes: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    @property
    def choices(self) -> tuple[MethodChoice, ...]:
        wanted = (known for known in METHODS if known.gains == "size" and self._is_default(known))
        return self.methods or tuple(MethodChoice(name=known.name) for known in wanted)

    def _is_default(self, known: Method) -> bool:
        """Our own methods: other libraries are slow, and may not be installed."""
        encodes = not known.exact and known.stage >= ENCODINGS
        return known.bitwise or (encodes and self.budget is not None)

    @property
    def identify(self) -> bool:
        """Whether the source is hashed, so that it can be found again: if it was run, or is lost."""
        return self.verify or not all(method(choice.name).exact for choice in self.choices)
