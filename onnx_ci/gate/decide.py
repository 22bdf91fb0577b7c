"""The verdict on one model: a pure function of what was measured, what was verified, and the rule."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from onnx_ci.policy.schema import Override, Tolerance
from onnx_ci.results import Alternative, Finding, Measure, Severity, Verdict, Verification, gain
from onnx_ci.util.advice import (
    GIVE_SAMPLES,
    LOOSEN_TOLERANCE,
    OR_OVERRIDE,
    RAISE_BUDGET,
    RECORD,
    Hint,
    allow_stronger,
    set_tolerance,
    set_tolerances,
    to_run,
)
from onnx_ci.util.scalars import EXACT
from onnx_ci.util.sizes import PLACES_AS_OF, format_percent, format_size

if TYPE_CHECKING:
    from onnx_ci.gate.candidates import Choice, Staged
    from onnx_ci.gate.subject import Task

# What a limit is called, and the finding it leads to when it is broken.
LIMIT_CODES = {"growth": "OCI002", "params": "OCI014", "latency": "OCI010"}
# Methods that store weights small, and those that compute in 8 bits as well.
_OWN_UNITS = 0.001  # of outputs from 0 to 1: nobody minds
_ABOUT = 1.05  # sizes in trials are estimates
_AT_LEAST = {"cosine": 1e4, "sqnr": 10, "top1": 1e4}  # limits from below, and the parts they are rounded to
_LEAST_COSINE = 0.5  # what keeps less has nothing to do with the original
STORES_SMALL = ("fp16-weights", "int8-weights", "int4-weights")
QUANTIZES = (*STORES_SMALL, "dynamic-int8", "static-int8")

LOADING_HINT = "allow more (budget: {load_seconds: ..., load_memory: ...}), or milder methods"
REFUSED_HINTS = {
    "OCI060": LOADING_HINT,
    "OCI010": "allow more time (budget: {latency: ...}), or milder methods",
    "OCI013": "give the model more room: limits: {seconds: ..., memory: ...}",
    "OCI016": "allow a larger difference (evaluate: {max_increase: ...}), or milder methods",
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What is asked of a model, and what was measured of it; the rest of a verdict is in the choice."""

    task: Task
    before: Measure
    limits: Mapping[str, int] = field(default_factory=dict)
    override: Override | None = None
    largest: tuple[tuple[str, int], ...] = ()  # tensors and their bytes

    def where(self, limit: str = "") -> str:
        """The rule, or one of its limits, where a policy has it."""
        policy, rule = self.task.policy, self.task.rule
        line = (
            rule.line_of("budget", "fits" if rule.budget.place_of(limit) else limit) if limit else rule.line
        )
        return f" ({policy.file}:{line})" if policy and policy.file else ""


def over_limits(measure: Measure, limits: Mapping[str, int]) -> dict[str, int]:
    """The limits that are broken, with what was measured."""
    found = {name: measure.size if name in ("growth", "group") else getattr(measure, name) for name in limits}
    return {name: value for name, value in found.items() if value is not None and value > limits[name]}


def decide(model: Measured, choice: Choice) -> tuple[Verdict, tuple[Finding, ...]]:
    """The verdict, and a finding for everything the user has to know."""
    verdict, findings = _decide(model, choice)
    if model.task.rule.severity == "warning":
        findings = softened(findings, "warning")
    override = model.override
    if override is not None:
        accepted = f"accepted until {override.until.isoformat()}: {override.reason}"
        note = Finding(code="OCI009", severity="note", message=f"{override.path}: {accepted}")
        findings = [note, *softened(findings, "note")]
    return verdict, tuple(findings)


def softened(findings: Iterable[Finding], severity: Severity) -> list[Finding]:
    """The same findings, with this severity in place of errors."""
    return [replace(one, severity=severity) if one.severity == "error" else one for one in findings]


def _decide(model: Measured, choice: Choice) -> tuple[Verdict, list[Finding]]:
    staged, writes = choice.staged, model.task.output is not None
    broken = over_limits(staged.measure if staged else model.before, model.limits)
    stale = [choice.stale] if choice.stale else []
    if broken:
        over = [*_over_budget(model, choice, broken), *_left_out(model, choice, "error")]
        return "over_budget", [*stale, *over]
    if staged is not None:
        shrunk = [] if writes else stale or [_would_shrink(model, choice, staged)]
        return ("shrunk" if writes else "would_shrink"), [*shrunk, *_left_out(model, choice, "warning")]
    if stale:
        return "outputs_changed", stale
    if choice.verification.status == "failed":
        if choice.failed_exact or model.task.insists:
            return "outputs_changed", list(_left_out(model, choice, "error"))
        return "ok", list(_left_out(model, choice, "note"))
    if _is_unverified(choice):
        return "unverified", [_unverified(model, choice)]
    return "ok", []


def _over_budget(model: Measured, choice: Choice, broken: Mapping[str, int]) -> Iterator[Finding]:
    for name, value in broken.items():
        limit = model.limits[name]
        closest = _closest(choice, limit, model.task.rule.tolerance) if name in ("size", "growth") else ""
        place = model.task.rule.budget.place_of(name)
        taken = f", all that {place} takes as of {PLACES_AS_OF}" if place else ""
        over = f"{_amount(name, value)} is over its {_limit_name(name)} of {_amount(name, limit)}{taken}"
        hint = _budget_hint(model, choice) + _largest(model) if choice.searched else _to_search(model)
        code = LIMIT_CODES.get(name, "OCI001")
        yield model.task.finding(code, "error", f"{over}{model.where(name)}{closest}", hint)


def _closest(choice: Choice, limit: int, tolerance: Tolerance) -> str:
    """How near it came: the smallest within tolerance, and what the mildest that fits has, or breaks."""
    refused = [one for one in choice.alternatives if one.state == "refused"]
    held = [
        one
        for one in choice.alternatives
        if one.state == "within"  # in trials, which what was written and refused overrules
        and not choice.verification.code
        and not any(other.methods == one.methods and one.size <= _ABOUT * other.size for other in refused)
    ]
    best = min(held, key=lambda one: one.size, default=None)
    said = f"; in trials, within tolerance it can be {_described(best)}" if best else ""
    small = [one for one in choice.alternatives if one.size <= limit and one.cosine is not None]
    mildest = max(small, key=lambda one: one.cosine or 0.0, default=None)
    if mildest is not None and mildest.state == "refused":
        if (mildest.cosine or 0.0) < (tolerance.cosine or 0.0):
            return f"{said}; at a cosine of {mildest.cosine:.5f} it would be {_described(mildest)}"
        return f"{said}; {_described(mildest)} was {mildest.verdict}"
    tried = min(choice.alternatives, key=lambda one: one.size, default=None)
    if said or tried is None:
        return said
    return f"; the closest was {_described(tried)}"


def _described(one: Alternative) -> str:
    return f"{one.size_words} with {', '.join(one.methods)}"


def _amount(name: str, value: int) -> str:
    return f"{value:,} parameters" if name == "params" else f"{format_size(value)} ({value:,} bytes)"


def _limit_name(name: str) -> str:
    return {"size": "size budget", "growth": "growth limit"}.get(name, f"{name} budget")


def _largest(model: Measured) -> str:
    named = [f"{name} ({format_size(size)})" for name, size in model.largest]
    return f"; its largest tensors: {', '.join(named)}" if named else ""


def _budget_hint(model: Measured, choice: Choice) -> str:
    if _is_unverified(choice):
        return RAISE_BUDGET + OR_OVERRIDE
    quantizing = [one.name for one in model.task.rule.methods if one.name in QUANTIZES]
    failed = choice.verification.status == "failed"
    refused = failed or any(one.state == "refused" for one in choice.alternatives)
    hint = RAISE_BUDGET
    if quantizing or failed:
        hint = hint + ", " + LOOSEN_TOLERANCE
    hint = hint + OR_OVERRIDE
    stronger = "int4-weights" if set(quantizing) - {"fp16-weights"} else "int8-weights"
    if not refused and stronger not in quantizing:
        hint = allow_stronger(EXACT, *quantizing, stronger) + ", " + hint
    return RECORD + "; then " + hint if failed and choice.verification.inputs == "generated" else hint


def _to_search(model: Measured) -> Hint:
    command = f"onnx-ci fix {model.task.call}"
    return Hint(f"run: {command}   to see how small it gets", command=command)


def _would_shrink(model: Measured, choice: Choice, staged: Staged) -> Finding:
    candidate, before, after = staged.candidate, model.before, staged.measure
    hint = to_run(f"onnx-ci fix {model.task.call}")
    if candidate.moved and after.size >= before.size:
        message = f"would move {' and '.join(candidate.moved)}{model.where()}"
        return model.task.finding("OCI020", "error", message, hint)
    name, old, new = gain(before, after)
    measured = "" if name == "size" else f" ({name})"
    over = over_limits(before, model.limits)
    names = " and ".join(map(_limit_name, over))
    why = f"is over its {names}{model.where(next(iter(over)))}, but " if over else ""
    sizes = f"{format_size(new)} instead of {format_size(old)}{measured} (-{format_percent(1 - new / old)})"
    proof = "" if choice.searched or choice.verification.outputs else ", not verified yet"
    message = f"{why}can be {sizes} with {', '.join(candidate.names)}{proof}"
    return model.task.finding("OCI003", "error", message, hint)


def _left_out(model: Measured, choice: Choice, severity: Severity) -> Iterator[Finding]:
    """Say which candidates were refused for their outputs, or could not be verified."""
    found = choice.verification
    if _is_unverified(choice) and severity == "error":
        yield _unverified(model, choice)
    if found.status == "failed":
        hint = found.hint or REFUSED_HINTS.get(found.code) or refused_hint(found, model.task.rule.tolerance)
        yield model.task.finding(found.code or "OCI004", severity, found.reason, hint)
        return
    taken = set(choice.staged.candidate.names) if choice.staged else set()
    for one in choice.alternatives:
        # What was taken for some tensors was only refused for all of them.
        if severity == "warning" and one.state == "refused" and not taken.issuperset(one.methods):
            message = f"{', '.join(one.methods)} left out: {one.verdict}"
            yield model.task.finding("OCI004", "note", message)


def refused_hint(found: Verification, tolerance: Tolerance, *, methods: bool = True) -> Hint:
    """What helps most first: real inputs, where these were made up; the tolerance it keeps comes last."""
    kept = _kept_limits(found, tolerance)
    last = LOOSEN_TOLERANCE
    if kept:
        last = last + ": on these inputs it keeps " + set_tolerances(kept)
    hint = "allow milder methods, or " + last if methods else "" + last
    if found.inputs == "generated":
        return RECORD + "; or " + hint
    moved = max((output.max_abs for output in found.outputs), default=1.0)
    if moved <= _OWN_UNITS and all(output.behind for output in found.outputs):
        own = set_tolerance("max_abs", f"{_OWN_UNITS:g}") + " instead of a cosine holds only that"
        hint = hint + f"; in its own units the output moved by {moved:.3g} at most: " + own
    return hint


def _kept_limits(found: Verification, tolerance: Tolerance) -> dict[str, str]:
    """What outputs hold of the limits that they broke; nothing where no limit would do."""
    failing = [output for output in found.outputs if output.problem]
    if min((output.cosine for output in found.outputs), default=0.0) < _LEAST_COSINE:
        return {}
    kept: dict[str, str] = {}
    for name in ("max_abs", "max_rel", "mean_abs", *_AT_LEAST):
        limit, values = getattr(tolerance, name), [getattr(output, name) for output in failing]
        if limit is None or not values:
            continue
        parts = _AT_LEAST.get(name)
        if parts and min(values) < limit:
            kept[name] = f"{math.floor(min(values) * parts) / parts:g}"
        elif not parts and max(values) > limit:
            kept[name] = f"{1.05 * max(values):.2g}"  # no less, once it is rounded
    return kept


def _is_unverified(choice: Choice) -> bool:
    return choice.verification.status == "not_run" and bool(choice.verification.code)


def _unverified(model: Measured, choice: Choice) -> Finding:
    what = "a smaller form was found but not verified"
    if choice.as_it_is:
        what = "was shrunk, and could not be verified against its original"
    found = choice.verification
    hint = found.hint or "give inputs that run it: " + GIVE_SAMPLES
    return model.task.finding(found.code, "error", f"{what}: {found.reason}", hint)
