"""The verdict on one model: a pure function of what was measured, what was verified, and the rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from onnx_ci.policy.schema import Override, Rule
from onnx_ci.results import Alternative, Finding, Latency, Measure, Severity, Verdict, Verification, gain
from onnx_ci.util.advice import GIVE_SAMPLES, LOOSEN_TOLERANCE, OR_OVERRIDE, RAISE_BUDGET, allow_stronger
from onnx_ci.util.sizes import format_percent, format_size

# What a limit is called, and the finding it leads to when it is broken.
LIMIT_CODES = {"growth": "OCI002", "params": "OCI014", "latency": "OCI010"}


DEFAULT_HINT = LOOSEN_TOLERANCE + ", or allow milder methods"
REFUSED_HINTS = {
    "OCI010": "allow more time (budget: {latency: ...}), or milder methods",
    "OCI013": "give the model more room: limits: {seconds: ..., memory: ...}",
    "OCI016": "allow a larger difference (evaluate: {max_increase: ...}), or milder methods",
}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that the verdict depends on. `after` is the verified candidate, if there is one."""

    name: str
    call: str = ""  # how to name the model on the command line
    rule: Rule
    policy_file: str = ""
    before: Measure
    after: Measure | None = None
    methods: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()  # what would be stored elsewhere, in words
    verification: Verification
    writes: bool = False
    insists: bool = False  # the user named the methods: that none holds is an error, not a choice
    limits: Mapping[str, int] = field(default_factory=dict)
    latency: Latency | None = None
    alternatives: tuple[Alternative, ...] = ()
    failed_exact: bool = False
    largest: tuple[tuple[str, int], ...] = ()  # tensors and their bytes
    override: Override | None = None
    stale: Finding | None = None  # why the model may not stay as it is, whatever its size
    as_it_is: bool = False  # what was verified is the model that is there, against its original


def limits_of(rule: Rule, base_size: int | None) -> dict[str, int]:
    """The limits a file has to meet, as absolute numbers."""
    limits = dict(rule.budget.size_like)
    if rule.budget.growth is not None and base_size is not None:
        limits["growth"] = int(base_size * (1 + rule.budget.growth))
    if rule.budget.params is not None:
        limits["params"] = rule.budget.params
    return limits


def over_limits(measure: Measure, limits: Mapping[str, int]) -> dict[str, int]:
    """The limits that are broken, with what was measured."""
    found = {name: measure.size if name in ("growth", "group") else getattr(measure, name) for name in limits}
    return {name: value for name, value in found.items() if value is not None and value > limits[name]}


def decide(facts: Facts) -> tuple[Verdict, tuple[Finding, ...]]:
    """The verdict, and a finding for everything the user has to know."""
    verdict, findings = _decide(facts)
    if facts.rule.severity == "warning":
        findings = [replace(f, severity="warning") if f.severity == "error" else f for f in findings]
    if facts.override is not None:
        findings = _accepted(findings, facts.override)
    return verdict, tuple(findings)


def _decide(facts: Facts) -> tuple[Verdict, list[Finding]]:
    broken = over_limits(facts.after or facts.before, facts.limits)
    stale = [facts.stale] if facts.stale else []
    if broken:
        return "over_budget", [*stale, *_over_budget(facts, broken), *_left_out(facts, "error")]
    if facts.after is not None:
        shrunk = [] if facts.writes else stale or [_would_shrink(facts, facts.after)]
        return ("shrunk" if facts.writes else "would_shrink"), [*shrunk, *_left_out(facts, "warning")]
    if stale:
        return "outputs_changed", stale
    if facts.verification.status == "failed":
        if facts.failed_exact or facts.insists:
            return "outputs_changed", list(_left_out(facts, "error"))
        return "ok", list(_left_out(facts, "note"))
    if facts.verification.code:
        return "unverified", [_unverified(facts)]
    return "ok", []


def _over_budget(facts: Facts, broken: Mapping[str, int]) -> Iterator[Finding]:
    for name, value in broken.items():
        limit = facts.limits[name]
        closest = _closest(facts, limit) if name in ("size", "growth") else ""
        yield Finding(
            code=LIMIT_CODES.get(name, "OCI001"),
            severity="error",
            message=f"{facts.name}: {_amount(name, value)} is over its {_limit_name(name)} of"
            f" {_amount(name, limit)}{_where(facts)}{closest}",
            hint=_budget_hint(facts) + _largest(facts),
        )


def _closest(facts: Facts, limit: int) -> str:
    """How near it came: the smallest within tolerance, and what the tolerance would have to be to fit."""
    held = [one for one in facts.alternatives if one.verdict.startswith("within")]
    best = min(held, key=lambda one: one.size, default=None)
    said = f"; within tolerance it can be {_described(best)}" if best else ""
    small = [one for one in facts.alternatives if one.size <= limit and one.cosine is not None]
    mildest = max(small, key=lambda one: one.cosine or 0.0, default=None)
    if mildest is not None and mildest.verdict.startswith("refused"):
        return f"{said}; at a cosine of {mildest.cosine:.5f} it would be {_described(mildest)}"
    tried = min(facts.alternatives, key=lambda one: one.size, default=None)
    if said or tried is None:
        return said
    return f"; the closest was {_described(tried)}"


def _described(one: Alternative) -> str:
    return f"{format_size(one.size)} with {', '.join(one.methods)}"


def _amount(name: str, value: int) -> str:
    return f"{value:,} parameters" if name == "params" else f"{format_size(value)} ({value:,} bytes)"


def _limit_name(name: str) -> str:
    return {"size": "size budget", "growth": "growth limit"}.get(name, f"{name} budget")


def _largest(facts: Facts) -> str:
    named = [f"{name} ({format_size(size)})" for name, size in facts.largest]
    return f"; its largest tensors: {', '.join(named)}" if named else ""


def _budget_hint(facts: Facts) -> str:
    approximate = any(choice.name.endswith(("-weights", "-int8")) for choice in facts.rule.methods)
    if not approximate and facts.verification.status != "failed":
        stronger = allow_stronger("dedupe", "drop-unused", "int8-weights")
        return stronger + ", " + RAISE_BUDGET + OR_OVERRIDE
    return RAISE_BUDGET + ", " + LOOSEN_TOLERANCE + OR_OVERRIDE


def _would_shrink(facts: Facts, after: Measure) -> Finding:
    hint = f"run: onnx-ci fix {facts.call or facts.name}"
    if facts.moved and after.size >= facts.before.size:
        message = f"{facts.name}: would move {' and '.join(facts.moved)}{_where(facts)}"
        return Finding(code="OCI020", severity="error", message=message, hint=hint)
    name, old, new = gain(facts.before, after)
    measured = "" if name == "size" else f" ({name})"
    over = over_limits(facts.before, facts.limits)
    why = f"is over its {' and '.join(map(_limit_name, over))}{_where(facts)}, but " if over else ""
    return Finding(
        code="OCI003",
        severity="error",
        message=f"{facts.name}: {why}can be {format_size(new)} instead of {format_size(old)}{measured}"
        f" (-{format_percent(1 - new / old)}) with {', '.join(facts.methods)}",
        hint=hint,
    )


def _left_out(facts: Facts, severity: Severity) -> Iterator[Finding]:
    """Say which candidates were refused for their outputs."""
    if facts.verification.status == "failed":
        yield Finding(
            code=facts.verification.code or "OCI004",
            severity=severity,
            message=f"{facts.name}: {facts.verification.reason}",
            hint=facts.verification.hint or REFUSED_HINTS.get(facts.verification.code, DEFAULT_HINT),
        )
        return
    refused = [alternative for alternative in facts.alternatives if alternative.verdict.startswith("refused")]
    for alternative in refused if severity == "warning" else []:
        yield Finding(
            code="OCI004",
            severity="note",
            message=f"{facts.name}: {', '.join(alternative.methods)} left out: {alternative.verdict}",
        )


def _unverified(facts: Facts) -> Finding:
    what = "a smaller form was found but not verified"
    if facts.as_it_is:
        what = "was shrunk, and could not be verified against its original"
    return Finding(
        code=facts.verification.code,
        severity="error",
        message=f"{facts.name}: {what}: {facts.verification.reason}",
        hint=facts.verification.hint or "give inputs that run it: " + GIVE_SAMPLES,
    )


def _where(facts: Facts) -> str:
    return f" ({facts.policy_file}:{facts.rule.line})" if facts.policy_file else ""


def _accepted(findings: list[Finding], override: Override) -> list[Finding]:
    note = Finding(
        code="OCI009",
        severity="note",
        message=f"{override.path}: accepted until {override.until.isoformat()}: {override.reason}",
    )
    return [note, *(replace(f, severity="note") if f.severity == "error" else f for f in findings)]
