"""All that a report may know: findings with stable codes that users may filter on, and what was run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from onnx_ci.util.advice import KEEP_IN_FLOAT32, RECORD, Audience, command_of, hint_for
from onnx_ci.util.sizes import format_size
from onnx_ci.util.text import counted, first_of

BUG = "OCI052"  # about one model: the run goes on, and ends with exit code 4
COULD_NOT = "OCI041"  # about the run: it has no verdict on any model
OVERFLOWS = "OCI056"
_SHOWN = 3


@cache
def codes() -> dict[str, dict[str, str]]:
    """Return for each code its title, what it means, the usual cause and what helps, as Markdown."""
    import json

    texts: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("codes.json").read_bytes())
    return texts


Code = Annotated[str, "one of codes(), or of a later version"]
CodeOrNone = Annotated[str, "a code, or nothing"]
Severity = Literal["error", "warning", "note"]
Verdict = Literal[
    "ok",
    "shrunk",
    "would_shrink",
    "over_budget",
    "outputs_changed",
    "unverified",
    "unfit",
    "unreadable",
    "ignored",
]
# What a report is of: a command, or a mode of the GitHub Action.
Command = Literal["check", "fix", "build", "shrink", "compare", "commit", "pull-request", "comment"]
Place = Literal["", "history", "objects", "lfs", "dvc", "folder"]  # of an original; "": it was not found


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One sentence about one model, and what to do next."""

    code: Code
    severity: Severity
    message: str
    hint: str = ""
    file: str = ""  # of the policy, where it is not the rule of a model that is broken
    line: int = 0

    @property
    def title(self) -> str:
        """What its code stands for; the code itself where that is of a later version."""
        return codes()[self.code]["title"] if self.code in codes() else self.code

    @property
    def command(self) -> str:
        """What the hint asks to run; empty where it says something else."""
        return command_of(self.hint)


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

SPREAD = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
PICKS = ("ArgMax", "ArgMin", "TopK")  # functions that tell which of their values, not how much
# What is said of an output that shows little or nothing of the weights.
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
    behind: str = ""  # the function at its end; what that is given was compared as well
    worst_input: int | None = None  # the number of the input where it is furthest off, counted from 0
    problem: str = ""  # what is outside the tolerance, in words; empty when all holds
    sensitive: bool = True
    kind: OutputKind = ""
    # How many values are off by how much: not at all, then by the limits of SPREAD, in shares of the largest.
    histogram: tuple[int, ...] = ()
    # Of the original against itself: whether two runs alike differ, or another number of threads is to blame.
    source: NoiseSource = ""
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
        how = "" if self.optimizations == "default" else " without optimizations"
        return f"onnxruntime {self.version}{how}"


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
class Peak:
    """The largest magnitude that one value of a graph has on all inputs."""

    name: str
    op: str
    node: str
    magnitude: float

    @property
    def words(self) -> str:
        node = self.op if self.node in self.name else f"{self.op} {self.node!r}"
        return f"{self.name!r} ({node}) comes to {self.magnitude:.3g}"


@dataclass(frozen=True, kw_only=True)
class Float16Range:
    """What the values that a model computes in float16 come to where the same is computed in float32."""

    values: int = 0  # how many were looked at; none: it does not compute in float16
    samples: int = 0
    over: tuple[Peak, ...] = ()  # infinite in float16, the largest first
    near: tuple[Peak, ...] = ()  # less than a factor of two from it
    unseen: str = ""  # why not all could be looked at

    @property
    def words(self) -> str:
        """What is to be said of it; nothing where all is well."""
        parts = []
        if self.over:
            parts.append(
                f"{len(self.over)} of {self.values} values would be infinite on hardware that does, since its"
                f" largest number is 65504 (the CPU computed them in float32, which does not show it here)."
                f" On {counted(self.samples, 'input')} {_peaks(self.over)}"
            )
        if self.near:
            parts.append(f"less than a factor of two from 65504, where it ends: {_peaks(self.near)}")
        if self.unseen:
            parts.append(f"whether that overflows could not be looked at: {self.unseen}")
        return f"computes in float16: {'; '.join(parts)}" if parts else ""

    def findings(self, name: str) -> tuple[Finding, ...]:
        if not self.words:
            return ()
        severity: Severity = "warning" if self.over else "note"
        hint = KEEP_IN_FLOAT32 if self.over or self.near else ""
        message = f"{name}: {self.words}"
        return (Finding(code=OVERFLOWS, severity=severity, message=message, hint=hint),)


def _peaks(peaks: tuple[Peak, ...]) -> str:
    return ", ".join(peak.words for peak in peaks[:_SHOWN]) + (", …" if len(peaks) > _SHOWN else "")


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What running both models showed. `not_run` never counts as passed."""

    status: Status
    reason: str = ""
    inputs: InputSource = "generated"
    samples: int = 0
    made_up: int = 0  # inputs that were made up beside the user's samples
    recorded: str = ""  # the folder that samples come from, where `onnx-ci record` wrote them
    outputs: tuple[OutputDelta, ...] = ()
    code: CodeOrNone = ""  # the finding this leads to, where it is not the usual one
    hint: str = ""
    coverage: Coverage | None = None  # None where nothing was lost: values are the same by construction
    runtimes: tuple[RuntimeRun, ...] = ()  # every version and setting that both were run with
    optimized: Optimized | None = None
    float16: Float16Range | None = None  # None where the candidate does not compute in float16
    method: Comparison = "plain"
    # How far each output of the original is from itself in a second session: nothing finer can be told.
    noise: tuple[OutputDelta, ...] = ()
    # Outputs that no made-up input moves away from what a blank one and noise give.
    asleep: tuple[str, ...] = ()
    needed: bool = field(default=True, compare=False)  # False: nothing was changed; not part of a report

    def __repr__(self) -> str:
        worst = min((output.cosine for output in self.outputs), default=None)
        figures = "" if worst is None else f", cosine {worst:.6f} on {self.samples} inputs"
        return f"<Verification {self.status}{figures}>"

    def findings(self, name: str) -> tuple[Finding, ...]:
        """What is to be said of a candidate that passed: it is what will be there."""
        if self.status != "passed":
            return ()
        found = self.float16.findings(name) if self.float16 else ()
        if not self.asleep:
            return found
        message = f"{name}: on inputs that were made up, {asleep_words(self.asleep)}: a pass shows little"
        return (*found, Finding(code="OCI057", severity="note", message=message, hint=RECORD))


def asleep_words(outputs: Sequence[str]) -> str:
    named = first_of([repr(output) for output in outputs], _SHOWN)
    return f"output {named} gives for all of them what it gives for a blank input or for noise"


ENOUGH = 16  # samples of the user's own; fewer can't vouch for all that the model will be fed


def trust(samples: int) -> float:
    """Return how much so many samples of the user's own can vouch for, from 0 to 1."""
    return min(1.0, samples / ENOUGH)


def noise_share(samples: int) -> float:
    """Return how much of the noise within a tolerance a search along its edge may use up: 6 dB less than all
    of it where inputs are made up, 3 dB where there are enough of the user's own."""
    return 0.25 + 0.25 * trust(samples)


NOT_RUN = Verification(
    status="not_run", reason="nothing was changed, so there was nothing to verify", needed=False
)


@dataclass(frozen=True, kw_only=True)
class Proof:
    """`accepted` only if everything that was asked for was run and held."""

    accepted: bool
    verification: Verification
    latency: Latency | None = None


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The numbers of one model file; a compressed size is None where no budget asked for it."""

    size: int
    sha256: str = ""
    params: int | None = None
    gzip: int | None = None
    brotli: int | None = None
    zstd: int | None = None


@dataclass(frozen=True, kw_only=True)
class Limit:
    """One limit of a model's budget, as a number: bytes, or parameters."""

    name: str  # size, gzip, brotli, zstd, growth or params
    limit: int

    def used(self, measure: Measure) -> int | None:
        """What a model takes of it; None where that was not measured."""
        used: int | None = getattr(measure, "size" if self.name == "growth" else self.name, None)
        return used


BaseState = Literal["new", "changed", "unchanged"]


@dataclass(frozen=True, kw_only=True)
class Base:
    """What a model was in the commit that the run is compared with."""

    state: BaseState
    measure: Measure | None = None  # None: there was none
    path: str = ""  # its name then, where it had another
    diff: ModelDiff | None = None  # of a model that changed: what in it did, at least the largest of it
    undiffed: str = ""  # why that is not known


@dataclass(frozen=True, kw_only=True)
class GoneModel:
    """A model that is no longer there."""

    path: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Moved:
    """How far outputs moved since the base; `output` is the one that moved most, empty if none did."""

    comparable: bool = False  # the same model but for the values of its weights, and it could be run
    output: str = ""
    cosine: float = 1.0
    max_abs: float = 0.0
    odd: bool = False  # it has NaN or infinity at other places than before
    samples: int = 0


@dataclass(frozen=True, kw_only=True)
class TensorBytes:
    """A stored tensor, its bytes before and after, and what was done to it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    before: int  # 0 where it is new
    after: int | None = None  # None where nothing was made of the model
    stored: str = ""  # the type it is stored as after, where that is another
    done: str = ""  # in words; empty where it is as it was


@dataclass(frozen=True, kw_only=True)
class Port:
    """An input or an output of a model, and its type as people write it."""

    name: str
    type: str


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What a report is of, and what made it. The date is that of the commit: it does not change."""

    repository: str = ""
    commit: str = ""
    date: str = ""
    versions: tuple[str, ...] = ()


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


AlternativeState = Literal["", "refused", "too_large", "within"]  # "": not verified, or not said


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """A candidate that was tried: its methods, its size, and what became of it."""

    methods: tuple[str, ...]
    size: int
    verdict: str  # in words
    state: AlternativeState = ""
    cosine: float | None = None  # of the worst output, where it was run
    sqnr: float | None = None
    estimated: bool = False  # the size, in trials: nothing was written, and no receipt is counted

    @property
    def size_words(self) -> str:
        return f"about {format_size(self.size)}" if self.estimated else format_size(self.size)


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
    kept: tuple[KeptTensor, ...]  # not all, where there are many
    trials: int
    seconds: float
    untried: str = ""  # what there was no time for
    unseen: tuple[str, ...] = ()  # tensors that no output tells of: left as they are
    curve: tuple[Point, ...] = ()
    larger: int = 0  # tensors that are not in the smallest form; 0 also in reports that do not say

    @property
    def unnamed(self) -> int:
        """How many of these `kept` leaves out."""
        return max(0, self.larger - len(self.kept))


@dataclass(frozen=True, kw_only=True)
class Work:
    """What looking at one model cost in this run: sessions loaded, runs of one input each, and the seconds of
    these, of comparing outputs, and of the rest of planning."""

    loads: int = 0
    runs: int = 0
    loading: float = 0.0
    running: float = 0.0
    comparing: float = 0.0
    planning: float = 0.0

    @property
    def words(self) -> str:
        runs = f"{counted(self.runs, 'run')} {self.running:.1f} s"
        loads = f"{counted(self.loads, 'load')} {self.loading:.1f} s"
        return f"{runs}, {loads}, comparing {self.comparing:.1f} s, other planning {self.planning:.1f} s"


@dataclass(frozen=True, kw_only=True)
class OriginalState:
    """Where the original of a shrunk model is, and whether the model was run against it in this run."""

    sha256: str
    place: Place = ""
    where: str = ""  # what to call it there: a revision, a ref, a file
    verified: bool = False


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """All that is known of one model after the run."""

    path: str
    verdict: Verdict
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
    work: Work | None = None  # None where nothing was run
    seconds: float = field(default=0.0, compare=False)  # all that judging it took in this run
    limits: tuple[Limit, ...] = ()
    base: Base | None = None  # None where it is compared with nothing
    moved: Moved | None = None  # None where more than weights changed, or nothing
    tensors: tuple[TensorBytes, ...] = ()  # the largest first, and not all where there are very many
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()

    @property
    def now(self) -> Measure | None:
        """What is there once the run has ended."""
        return self.after if self.written and self.after else self.before

    @property
    def errors(self) -> list[Code]:
        return [finding.code for finding in self.findings if finding.severity == "error"]

    @property
    def is_well(self) -> bool:
        """Whether there is nothing to tell but that it is well."""
        told = any(finding.severity != "note" for finding in self.findings)
        return self.verdict in ("ok", "ignored") and not told

    def __repr__(self) -> str:
        sizes = ""
        if self.before:
            last = format_size((self.after or self.before).size)
            sizes = f" {format_size(self.before.size)} -> {last}" if self.after else f" {last}"
        codes = "".join(f" {code}" for code in dict.fromkeys(one.code for one in self.findings))
        return f"<Outcome {self.path}: {self.verdict}{sizes}, {self.verification!r}{codes}>"

    def told_to(self, audience: Audience) -> Outcome:
        """The same with every hint in the words of one audience."""
        return replace(
            self,
            verification=replace(self.verification, hint=hint_for(audience, self.verification.hint)),
            findings=tuple(replace(one, hint=hint_for(audience, one.hint)) for one in self.findings),
        )


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

    def findings(self, *, fixed: bool = False) -> tuple[Finding, ...]:
        """What is wrong with it; once all was `fixed`, only other rules help."""
        if self.after <= self.limit:
            return ()
        hint = "shrink its largest models: onnx-ci fix --all, or raise the group's budget"
        if fixed:
            hint = "allow stronger methods (onnx-ci survey shows what they give), or raise the group's budget"
        takes = "takes" if self.members == 1 else "take"
        over = Finding(
            code="OCI008",
            severity="error",
            message=f"group {self.name!r}: {counted(self.members, 'model')} {takes} {format_size(self.after)}"
            f" ({self.measure}), over the budget of {format_size(self.limit)} ({self.policy}:{self.line})",
            hint=hint,
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

    command: Command
    outcomes: tuple[Outcome, ...]
    findings: tuple[Finding, ...] = ()
    policy: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())
    shard: Shard | None = None
    groups: tuple[GroupSize, ...] = ()  # of a shard: judged when all are together
    base: str = ""  # the commit that models are compared with
    gone: tuple[GoneModel, ...] = ()  # since then
    provenance: Provenance | None = None

    @property
    def compared(self) -> tuple[int, int] | None:
        """What all models took in the base, and what they take now; None where nothing is another."""
        pairs = [(each.base, each.now) for each in self.outcomes if each.base and each.now]
        pairs = [(base, now) for base, now in pairs if base.measure or base.state == "new"]
        if not self.gone and all(base.state == "unchanged" for base, _ in pairs):
            return None
        was = sum(base.measure.size for base, _ in pairs if base.measure)
        return was + sum(each.size for each in self.gone), sum(now.size for _, now in pairs)

    @property
    def commands(self) -> list[str]:
        """What findings ask to run, errors first, each once."""
        ranks = {"error": 0, "warning": 1, "note": 2}
        ordered = sorted(self.all_findings, key=lambda finding: ranks[finding.severity])
        return list(dict.fromkeys(each.command for each in ordered if each.command))

    def __repr__(self) -> str:
        severities = [finding.severity for finding in self.all_findings]
        found = f"errors: {severities.count('error')}, warnings: {severities.count('warning')}"
        return f"<RunReport {self.command}, models: {len(self.outcomes)}, {found}, exit: {self.exit_code}>"

    @property
    def all_findings(self) -> list[Finding]:
        """Those about one model, then those about several."""
        return [*(finding for outcome in self.outcomes for finding in outcome.findings), *self.findings]

    @property
    def exit_code(self) -> int:
        if any(finding.code == BUG for finding in self.all_findings):
            return 4
        return int(any(finding.severity == "error" for finding in self.all_findings))

    @property
    def size_before(self) -> int:
        return sum(o.before.size for o in self.outcomes if o.before)

    @property
    def size_after(self) -> int:
        last = [outcome.after or outcome.before for outcome in self.outcomes]
        return sum(measure.size for measure in last if measure)


Level = Literal["exact", "fp16", "int8", "smallest"]  # what a survey shows


@dataclass(frozen=True, kw_only=True)
class SurveyedForm:
    """One form that a model could have: what it would weigh, and what running it showed."""

    level: Level
    methods: tuple[str, ...]  # those that were of use
    size: int
    verification: Verification

    @property
    def proven(self) -> bool:
        return self.verification.status == "passed"


@dataclass(frozen=True, kw_only=True)
class Surveyed:
    """What could be had of one model."""

    path: str
    matched: str  # its name relative to its policy, for patterns
    size: int
    forms: tuple[SurveyedForm, ...] = ()  # those that are smaller than the model
    problem: str = ""  # why there are none, or not all


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
class ValueInfo:
    """An input or an output with its shape; a size that is open is a name, or "?"."""

    name: str
    type: str
    shape: tuple[int | str, ...] | None  # None: the model does not say


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
    inputs: tuple[ValueInfo, ...] = ()  # without those that have a stored value
    outputs: tuple[ValueInfo, ...] = ()
    opsets: dict[str, int] = field(default_factory=dict)  # of domains beside the standard one
    attributes: dict[str, int] = field(default_factory=dict)  # bytes, by kind of node
    estimated: bool = False  # the compressed size is from samples of the bytes, and nothing was hashed

    @property
    def attribute_rows(self) -> list[tuple[str, int]]:
        """The kinds of nodes whose attributes weigh something, as rows among the types of tensors."""
        return [(f"in {op}", size) for op, size in self.attributes.items()]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that is not what it was. None where it was not there before, or is not any more."""

    name: str
    before: str | int | None
    after: str | int | None


@dataclass(frozen=True, kw_only=True)
class ValueShift:
    """How far the values of a tensor are from what they were. Where it is not `exact`, it is from samples of
    the elements at the same places."""

    share: float  # of the elements: those that differ
    relative: float | None  # the root mean square of the differences, over that of the values before
    max_abs: float | None
    not_finite: int  # elements that were numbers and are NaN or infinite now
    exact: bool


@dataclass(frozen=True, kw_only=True)
class ValueSpread:
    """How the values of a tensor are spread: counts in bins of one width, from low to high."""

    low: float
    high: float
    before: tuple[int, ...]
    after: tuple[int, ...]


TensorState = Literal["added", "gone", "renamed", "changed"]


@dataclass(frozen=True, kw_only=True)
class TensorChange:
    """One stored tensor that is not what it was; `before` and `after` are its type and shape."""

    name: str
    state: TensorState
    layer: str
    before: str | None
    after: str | None
    size_before: int
    size_after: int
    former: str = ""  # its name before, if that was another
    moved: ValueShift | None = None
    values: ValueSpread | None = None  # of the largest that changed


@dataclass(frozen=True, kw_only=True)
class LayerChange:
    """The tensors whose names begin alike: those that differ, and the bytes of all of them."""

    prefix: str
    tensors: int
    size_before: int
    size_after: int
    relative: float | None  # of the values that could be compared and differ


@dataclass(frozen=True, kw_only=True)
class ChangeCounts:
    """Nodes or tensors that are in one model only, are the same under another name, or another under the
    same name."""

    added: int = 0
    gone: int = 0
    renamed: int = 0
    changed: int = 0


@dataclass(frozen=True, kw_only=True)
class ModelDiff:
    """What is different between two models, without running them."""

    before: str
    after: str
    size_before: int
    size_after: int
    params_before: int
    params_after: int
    interface: tuple[Difference, ...] = ()
    opsets: tuple[Difference, ...] = ()
    header: tuple[Difference, ...] = ()  # IR version, producer and the like
    metadata: tuple[Difference, ...] = ()
    operators: tuple[Difference, ...] = ()  # how many nodes there are of each
    nodes: tuple[Difference, ...] = ()  # that give the same output in another way
    node_counts: ChangeCounts = ChangeCounts()
    tensor_counts: ChangeCounts = ChangeCounts()
    tensors: tuple[TensorChange, ...] = ()
    layers: tuple[LayerChange, ...] = ()
    same_tensors: int = 0
    exact: bool = True  # all values were compared, not samples of them
    notes: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        parts = (self.interface, self.opsets, self.header, self.metadata, self.operators, self.nodes)
        size = self.size_before != self.size_after and not self.notes  # data that is not here has none
        return size or self.node_counts != ChangeCounts() or any(parts) or bool(self.tensors)


KeptBy = Literal["Git LFS", "DVC", "git"]


@dataclass(frozen=True, kw_only=True)
class HistoryEntry:
    """What one commit made of a model, or of all models together. No commit: what is not committed yet."""

    commit: str
    date: str
    subject: str
    size: int | None  # with all its data; None where it is gone, or where git does not have it
    delta: int | None  # to what the commit started from; None where that is nothing, or not known
    names: tuple[str, ...]  # of the models that changed
    keeper: KeptBy = "git"


@dataclass(frozen=True, kw_only=True)
class SizeHistory:
    """Every version in git, oldest first."""

    title: str
    entries: tuple[HistoryEntry, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Gap:
    """How far an inner tensor is from the first model's; `weights` are the nearest ones that changed."""

    name: str
    op: str
    sqnr: float
    relative: float | None
    weights: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """Where two models part, in the order in which the first computes. `skip` are the weights that would be
    left as they are first."""

    compared: int
    first: Gap | None = None
    worst: tuple[Gap, ...] = ()
    skip: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One of several models that are compared: what it weighs, takes, and how far the worst of its outputs is
    from the first model's. The first has no verdict."""

    path: str
    verdict: Verdict | None = None
    problem: str = ""
    size: int | None = None
    gzip: int | None = None
    estimated: bool = False  # the compressed size, from samples of the bytes
    params: int | None = None
    seconds: float | None = None  # one inference, the median
    ratio: float | None = None  # of that to the first model's, between `low` and `high` with 95% confidence
    low: float | None = None
    high: float | None = None
    load: float | None = None
    memory: int | None = None
    max_abs: float | None = None
    cosine: float | None = None
    sqnr: float | None = None
    top1: float | None = None
    score: float | None = None
    divergence: Divergence | None = None
