"""What running two models showed, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Status = Literal["passed", "failed", "not_run"]
InputSource = Literal["generated", "samples"]
Comparison = Literal["plain", "seeded", "distribution"]  # seeded: random nodes were given the same seeds
Optimizations = Literal["default", "disabled"]
NoiseSource = Literal["", "runs", "threads"]
OutputKind = Literal["", "echo", "constant", "nan", "empty", "saturated", "not reached"]
# What is wrong with an output: what code asks, where `problem` is what people read.
Breach = Literal[
    "missing", "type", "shape", "unequal", "integers", "odd values", "limit", "scale", "bits", "spread"
]

KINDS: dict[OutputKind, str] = {
    "echo": "repeats an input",
    "constant": "is the same for every input",
    "nan": "is NaN everywhere",
    "empty": "has no elements",
    "saturated": "is saturated: nothing but 0 and 1, or -1 and 1",
    "not reached": "is not reached from any weight that was damaged",
}


@dataclass(frozen=True, kw_only=True)
class OutputDelta:
    """How far one output moved, the worst over all samples. `sensitive` is False for an output
    that did not move at all when the weights were damaged on purpose: it proves nothing. `kind` is one of
    KINDS for such an output; a saturated one may move, and still tells little."""

    name: str
    max_abs: float
    max_rel: float
    mean_abs: float
    cosine: float
    sqnr: float
    top1: float
    exact: bool
    drift: float = 0.0  # the share by which the length of the whole changed
    problem: str = ""  # what is outside the tolerance, in words; empty when all holds
    sensitive: bool = True
    kind: OutputKind = ""
    # The same as `problem`, as values; not part of a report.
    breaches: tuple[Breach, ...] = field(default=(), compare=False)


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Median seconds of one inference, original against candidate. `ratio` is the median of the ratios of
    runs taken in turns, and lies between `low` and `high` with 95% confidence. Loading is measured in a
    process of its own each time: seconds, and bytes of memory at the worst moment."""

    before: float
    after: float
    ratio: float
    low: float
    high: float
    rounds: int = 0
    load_before: float | None = None
    load_after: float | None = None
    memory_before: int | None = None
    memory_after: int | None = None

    @property
    def words(self) -> str:
        return f"{self.ratio:.2f}x, {self.low:.2f} to {self.high:.2f}"


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Which of the changed tensors a pass speaks for: each was damaged on purpose, by itself or with
    neighbours in the same graph, to see whether the check would notice."""

    changed: int  # stored tensors that are not there bit for bit any more
    noticed: int = 0  # damage to them was outside the tolerance
    faint: tuple[str, ...] = ()  # outputs moved, but within the tolerance whatever was done to these
    blind: tuple[str, ...] = ()  # the same, and these are still there and not near what they were
    unseen: tuple[str, ...] = ()  # no output moved at all
    runs: int = 0  # how often a damaged model was run
    alone: bool = True  # every tensor by itself
    hurried: bool = False  # it took too long: what is left was damaged together


@dataclass(frozen=True, kw_only=True)
class RuntimeRun:
    """Original against candidate in one version of onnxruntime under one setting: the worst output."""

    version: str
    optimizations: Optimizations
    status: Status
    samples: int = 0
    reason: str = ""
    max_abs: float | None = None
    cosine: float | None = None
    sqnr: float | None = None

    @property
    def setting(self) -> str:
        return f"onnxruntime {self.version}" + (
            "" if self.optimizations == "default" else " without optimizations"
        )


@dataclass(frozen=True, kw_only=True)
class OpCount:
    """How many nodes of one kind onnxruntime runs, original against candidate."""

    op: str
    before: int
    after: int


@dataclass(frozen=True, kw_only=True)
class Optimized:
    """What onnxruntime makes of both graphs: the nodes it runs, and those of them that do at every run what
    it usually does once, since they depend on stored tensors only."""

    nodes_before: int
    nodes_after: int
    lost: tuple[OpCount, ...] = ()  # fused in the original, and less or not at all in the candidate
    instead: tuple[OpCount, ...] = ()  # what runs in their place
    repeated: tuple[OpCount, ...] = ()
    repeated_values: int = 0  # numbers that are computed anew each time, more than in the original


@dataclass(frozen=True, kw_only=True)
class Noise(OutputDelta):
    """How far one output of the original is from itself in a second session: nothing finer can be told.
    `source` is "runs" where two runs alike differ, "threads" where another number of threads is to blame."""

    source: NoiseSource = ""


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What running both models showed. `not_run` never counts as passed."""

    status: Status
    reason: str = ""
    inputs: InputSource = "generated"
    samples: int = 0
    outputs: tuple[OutputDelta, ...] = ()
    code: str = ""  # the finding this leads to, where it is not the usual one
    hint: str = ""
    coverage: Coverage | None = None  # None where nothing was lost: values are the same by construction
    runtimes: tuple[RuntimeRun, ...] = ()  # every version and setting that both were run with
    optimized: Optimized | None = None
    method: Comparison = "plain"
    noise: tuple[Noise, ...] = ()  # of the original, measured before anything was compared with it
    needed: bool = field(default=True, compare=False)  # False: nothing was changed; not part of a report


NOT_RUN = Verification(
    status="not_run", reason="nothing was changed, so there was nothing to verify", needed=False
)


@dataclass(frozen=True, kw_only=True)
class Proof:
    """`accepted` only if everything that was asked for was run and held."""

    accepted: bool
    verification: Verification
    latency: Latency | None = None
