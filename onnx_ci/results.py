"""What a run produced, as plain values: every report is drawn from these and from nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

from onnx_ci.findings import BUG, Finding
from onnx_ci.shown import NOT_RUN, Latency, Verification
from onnx_ci.sizes import format_size


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The numbers of one model file; a compressed size is None where no budget asked for it."""

    size: int
    sha256: str = ""
    params: int | None = None
    gzip: int | None = None
    brotli: int | None = None
    zstd: int | None = None


def gain(before: Measure, after: Measure) -> tuple[str, int, int]:
    """What a change is for, with its size before and after: on disk, or else compressed."""
    for name in ("size", "gzip", "brotli", "zstd"):
        old, new = getattr(before, name), getattr(after, name)
        if old is not None and new is not None and new < old:
            return name, old, new
    return "size", before.size, after.size


@dataclass(frozen=True, kw_only=True)
class Step:
    """One method that was run: what it did to the size, and how many tensors it touched."""

    method: str
    size_before: int
    size_after: int
    tensors: int
    seconds: float
    note: str = ""  # why the step was undone, or what it left alone
    failed: bool = False  # the method broke down, as the note says; the model stayed as it was

    @property
    def kept(self) -> bool:
        """What is undone touches nothing and leaves the size as it was."""
        return self.tensors > 0 or self.size_after < self.size_before


# What an output is that shows little or nothing of the weights, and what is said of it.
@dataclass(frozen=True, kw_only=True)
class Alternative:
    """A candidate that was tried: its methods, its size, and what became of it."""

    methods: tuple[str, ...]
    size: int
    verdict: str
    cosine: float | None = None  # of the worst output, where it was run
    sqnr: float | None = None


@dataclass(frozen=True, kw_only=True)
class KeptTensor:
    """A tensor that is not stored as small as it could be, and why."""

    name: str
    form: str
    size: int  # bytes before
    why: str


@dataclass(frozen=True, kw_only=True)
class Point:
    """One mix of forms that was tried: its size, about, and how far the worst output moved."""

    size: int
    cosine: float
    sqnr: float
    holds: bool
    chosen: bool = False


@dataclass(frozen=True, kw_only=True)
class Planned:
    """How a mix was found: which tensor is stored how is in the model, this is why."""

    tensors: int
    forms: tuple[tuple[str, int], ...]  # how many tensors have each
    kept: tuple[KeptTensor, ...]
    trials: int
    seconds: float
    untried: str = ""  # what there was no time for
    unseen: tuple[str, ...] = ()  # tensors that no output tells of: left as they are
    curve: tuple[Point, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OriginalState:
    """Where the original of a shrunk model is, and whether the model was run against it in this run."""

    sha256: str
    place: str = ""  # "history" | "objects" | "lfs" | "dvc" | "folder"; "": it was not found
    where: str = ""  # what to call it there: a revision, a ref, a file
    verified: bool = False


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """All that is known of one model after the run."""

    path: str
    verdict: str
    rule_pattern: str = ""
    rule_line: int = 0
    rule_file: str = ""  # the policy, and the model: both as named from the top of the repository
    file: str = ""
    before: Measure | None = None
    after: Measure | None = None
    steps: tuple[Step, ...] = ()
    verification: Verification = NOT_RUN
    findings: tuple[Finding, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    plan: Planned | None = None
    latency: Latency | None = None
    written: bool = False
    original: OriginalState | None = None


@dataclass(frozen=True, kw_only=True)
class GroupSize:
    """What the models of a group take together, before and after a run, and the budget for that."""

    name: str
    policy: str  # as messages name it
    file: str = ""  # as named from the top of the repository
    line: int = 0
    measure: str = "size"  # or what it is compressed with
    limit: int
    members: int
    before: int
    after: int

    def findings(self) -> tuple[Finding, ...]:
        if self.after <= self.limit:
            return ()
        over = Finding(
            code="OCI008",
            severity="error",
            message=f"group {self.name!r}: {self.members} models take {format_size(self.after)}"
            f" ({self.measure}), over the budget of {format_size(self.limit)} ({self.policy}:{self.line})",
            hint="shrink its largest models: onnx-ci fix --all, or raise the group's budget",
            file=self.file or self.policy,
            line=self.line,
        )
        return (over,)


@dataclass(frozen=True, kw_only=True)
class Shard:
    """Which part of a run this was. `split` stands for all parts: what each holds, and how large it is."""

    index: int  # from 1
    count: int
    split: str

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """One run over all targets; findings about several models together stand here."""

    command: str
    outcomes: tuple[Outcome, ...]
    findings: tuple[Finding, ...] = ()
    policy: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())
    shard: Shard | None = None
    groups: tuple[GroupSize, ...] = ()  # of a shard: judged when all are together

    @property
    def exit_code(self) -> int:
        everything = [*self.findings, *(f for outcome in self.outcomes for f in outcome.findings)]
        if any(finding.code == BUG for finding in everything):
            return 4
        return int(any(finding.severity == "error" for finding in everything))

    @property
    def size_before(self) -> int:
        return sum(o.before.size for o in self.outcomes if o.before)

    @property
    def size_after(self) -> int:
        last = [outcome.after or outcome.before for outcome in self.outcomes]
        return sum(measure.size for measure in last if measure)


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """One stored tensor: `copies` counts the tensors with the same content, itself included."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    share: float
    copies: int


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """The numbers `onnx-ci info` shows."""

    path: str
    measure: Measure
    opset: int
    ir_version: int
    producer: str
    nodes: int
    ops: dict[str, int]
    types: dict[str, int]
    tensor_bytes: int
    other_bytes: int
    duplicate_bytes: int
    tensors: tuple[TensorInfo, ...]
    shrunk_by: tuple[str, ...]
