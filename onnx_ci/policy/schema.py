"""The policy as frozen values: what a rule may say, and what it means when it says nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Literal

from onnx_ci.util.codec import build
from onnx_ci.util.scalars import EXACT_METHODS
from onnx_ci.util.sizes import PLACES, format_size

TOTAL = 20  # times `limits.seconds`, which one run may take: all work on one model, with every run it needs
Mode = Literal["to-budget", "smallest", "exact-only"]  # how far to go with approximate methods
RuleSeverity = Literal["error", "warning"]
Missing = Literal["error", "warning", "fetch"]
Unmatched = Literal["error", "warning", "ignore"]
PolicyFrom = Literal["head", "base"]  # the policies that are here, or those of the base
NewCommands = Literal["refuse", "run"]
Scalar = bool | int | float | str | list[str] | None


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits in bytes (size and compressed sizes), in parameters, and as fractions (0.05 is 5%)."""

    size: int | None = None
    gzip: int | None = None
    brotli: int | None = None
    zstd: int | None = None
    growth: float | None = None  # allowed growth against the base version: 0.05
    params: int | None = None
    latency: float | None = None  # allowed ratio to the original: 1.1
    load_seconds: float | None = None
    load_memory: int | None = None
    fits: tuple[str, ...] = ()  # names in PLACES

    @property
    def size_like(self) -> dict[str, int]:
        """The limits that a smaller file can meet, by name; of several the tightest."""
        limits = [(name, getattr(self, name)) for name in ("size", "gzip", "brotli", "zstd")]
        limits += [PLACES[name][:2] for name in self.fits]
        found: dict[str, int] = {}
        for name, limit in limits:
            if limit is not None:
                found[name] = min(limit, found.get(name, limit))
        return found

    def place_of(self, measure: str) -> str:
        """The name of the place that sets a limit, where no tighter one is given."""
        limit = self.size_like.get(measure)
        return next((name for name in self.fits if (measure, limit) == PLACES[name][:2]), "")

    @property
    def loading(self) -> bool:
        """Whether what loading takes is limited."""
        return self.load_seconds is not None or self.load_memory is not None

    @property
    def timed(self) -> bool:
        """Whether a limit depends on the machine, and on what else it does."""
        return self.loading or self.latency is not None


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What a saving has to be, at least: of the size, and in bytes."""

    share: float = 0.0
    size: int = 0

    @property
    def words(self) -> str:
        given = [f"{self.share * 100:.10g}%"] if self.share or not self.size else []
        return " and ".join([*given, *([format_size(self.size)] if self.size else [])])


DEFAULT_GAIN = Gain(share=0.01, size=4_000)


AT_MOST = ("max_abs", "max_rel", "mean_abs")  # the limits of a tolerance from above
AT_LEAST = ("cosine", "sqnr", "top1")  # and those from below


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far outputs may move; all that are given must hold. sqnr in dB, top1 as a fraction."""

    max_abs: float | None = None
    max_rel: float | None = None
    mean_abs: float | None = None
    cosine: float | None = None
    sqnr: float | None = None
    top1: float | None = None
    exact: bool = False


DEFAULT_TOLERANCE = Tolerance(cosine=0.999)
PLAN_RUNS = 240


@dataclass(frozen=True, kw_only=True)
class MethodChoice:
    """A method by its name in the catalogue, with the options the policy gives it."""

    name: str
    options: Mapping[str, Scalar] = field(default_factory=dict)


DEFAULT_METHODS = tuple(MethodChoice(name=name) for name in EXACT_METHODS)


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """Where the inputs for verification come from; without samples they are derived from the graph."""

    samples: tuple[str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    count: int = 2
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """The user's own score: `command` prints `metric`, for the original and for the candidate."""

    command: str
    metric: str
    max_increase: float | None = None
    max_decrease: float | None = None
    env: tuple[str, ...] = ()  # names of variables that the command gets beside the usual ones


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What running one untrusted model may cost."""

    seconds: float = 300.0
    memory: int | None = None  # bytes; None lets the worker choose by the model's size
    total_seconds: float | None = None  # all work on it; None: as long as its runs may take


@dataclass(frozen=True, kw_only=True)
class Versions:
    """Versions from one to another, both included."""

    low: int = 0
    high: int | None = None

    def __contains__(self, version: int) -> bool:
        return self.low <= version and (self.high is None or version <= self.high)

    def within(self, other: Versions) -> bool:
        return self.low in other and (
            other.high is None or (self.high is not None and self.high <= other.high)
        )

    @property
    def words(self) -> str:
        if self.low == self.high:
            return str(self.low)
        least = [f">={self.low}"] if self.low else []
        return ", ".join([*least, *([] if self.high is None else [f"<={self.high}"])])


@dataclass(frozen=True, kw_only=True)
class Operators:
    """Patterns of operators that a model may not have, and of those that it may."""

    deny: tuple[str, ...] = ()
    allow: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Require:
    """What a model has to be, as its file tells without a run."""

    opset: Versions | None = None
    ir: Versions | None = None
    domains: tuple[str, ...] | None = None
    operators: Operators = Operators()
    metadata: tuple[str, ...] = ()  # entries that have to be there
    dynamic_batch: bool | None = None
    runtimes: tuple[str, ...] = ()  # names in RUNTIMES


@dataclass(frozen=True, kw_only=True)
class Rule:
    """All that holds for the models one pattern matches, or for one that several match."""

    pattern: str
    line: int = 0
    named: tuple[str, ...] = field(default=(), compare=False)  # the keys that the rule itself has
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)  # of each value: "budget size"
    ignore: bool = False
    budget: Budget = Budget()
    require: Require = Require()
    methods: tuple[MethodChoice, ...] = DEFAULT_METHODS
    shrink: Mode | None = None  # None: what is usual for its budget
    tolerance: Tolerance = DEFAULT_TOLERANCE
    inputs: InputSpec = InputSpec()
    evaluate: Evaluate | None = None
    limits: Limits = Limits()
    runtimes: tuple[str, ...] = ()  # versions of onnxruntime beside the installed one: "1.20", "1.23.2"
    libraries: tuple[str, ...] = ()  # files with custom operators
    plan_runs: int = PLAN_RUNS  # of one input each, for finding out which tensor may be stored how
    plan_seconds: float | None = None  # of older policies: 0 does not plan, nothing else has a meaning
    load_check: bool = True  # a model that nothing is done to is loaded and run once all the same
    minimum_gain: Gain = DEFAULT_GAIN
    severity: RuleSeverity = "error"
    only_new: bool = False  # what is wrong with a model that did not change is a warning

    def line_of(self, key: str, name: str = "") -> int:
        """Where the policy says something; the line of the rule where it does not."""
        return self.lines.get(f"{key} {name}") or self.lines.get(key) or self.line

    @property
    def total_seconds(self) -> float:
        """How long all work on one model may take, our own included."""
        return self.limits.total_seconds or TOTAL * self.limits.seconds

    @property
    def runs_to_plan(self) -> int:
        return 0 if self.plan_seconds == 0 else self.plan_runs

    @property
    def mode(self) -> Mode:
        return self.shrink or ("to-budget" if self.budget.size_like else "smallest")


@dataclass(frozen=True, kw_only=True)
class Group:
    """A budget over several models together."""

    name: str
    paths: tuple[str, ...]
    budget: Budget
    line: int = 0


@dataclass(frozen=True, kw_only=True)
class Override:
    """A broken rule that is accepted for exactly this content, until a date."""

    path: str
    sha256: str
    reason: str
    until: date
    line: int = 0


@dataclass(frozen=True, kw_only=True)
class History:
    """What a branch may add to the repository for ever, all versions of all models together."""

    budget: int | None = None
    lfs: int | None = None
    since: str = ""
    line: int = 0


@dataclass(frozen=True, kw_only=True)
class Lfs:
    """What becomes of a model whose content is needed and was not downloaded."""

    missing: Missing = "error"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One policy file, whole. `file` is how messages name it."""

    file: str
    rules: tuple[Rule, ...]
    groups: tuple[Group, ...] = ()
    overrides: tuple[Override, ...] = ()
    history: History | None = None
    lfs: Lfs = Lfs()
    unmatched: Unmatched = "error"  # what a model is that no rule matches
    policy_changes: RuleSeverity = "warning"  # what a change to this policy loosens
    new_commands: NewCommands = "refuse"  # those that a change adds to this policy


def build_policy(file: str, values: dict[str, Any]) -> Policy:
    """The policy from what was read: each rule starts from the defaults."""
    defaults = values.get("defaults", {})
    rules = [_with_defaults(rule, defaults) for rule in values["models"]]
    policy: Policy = build(Policy, {**values, "file": file, "rules": rules})
    return policy


def _with_defaults(rule: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    merged = {**defaults, **rule}
    lines = {**defaults.get("lines", {}), **rule.get("lines", {})}
    for key in ("budget", "require", "inputs", "limits"):
        parts = [part for part in (defaults.get(key), rule.get(key)) if part]
        if key in rule and rule[key] is None:
            parts = []
        for part in parts:
            lines.update({f"{key} {name}": line for name, line in part.get("lines", {}).items()})
        merged[key] = _given({name: value for part in parts for name, value in part.items()})
    named = tuple(key for key in rule.get("lines", ()) if key != "path")
    return {**_given(merged), "pattern": rule["path"], "named": named, "lines": lines}


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Without what `none` takes away: there the usual holds."""
    return {key: value for key, value in values.items() if value is not None}


def cascade(rules: Sequence[Rule]) -> Rule:
    """What holds where all of these rules match: of each key what the last rule says that names it."""
    last = rules[-1]
    deciding = {key: rule for rule in rules for key in rule.named}
    lines = {
        name: line
        for rule in rules
        for name, line in rule.lines.items()
        if deciding.get(name.split()[0], last) is rule
    }
    values = {key: getattr(rule, key) for key, rule in deciding.items()}
    return replace(last, **values, named=tuple(deciding), lines=lines)
