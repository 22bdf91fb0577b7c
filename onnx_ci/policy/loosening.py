"""What one policy asks less of a model than another: field by field, with the old value and the new one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import date

from onnx_ci.policy.edit import exact_size
from onnx_ci.policy.schema import (
    Budget,
    Evaluate,
    Group,
    History,
    InputSpec,
    Override,
    Policy,
    Rule,
    Tolerance,
    Unmatched,
)

NONE = "none"
# From the strictest to the loosest.
_SETTINGS = {
    "unmatched": ("error", "warning", "ignore"),
    "policy_changes": ("error", "warning"),
    "new_commands": ("refuse", "run"),
}
_DEMANDS = ("smallest", "to-budget", "exact-only")
_LEAST = ("cosine", "sqnr", "top1")  # limits from below; the other ones are from above


@dataclass(frozen=True)
class Loosening:
    """One thing that is asked less of a model than before. `line` is that of the new value, where it has one
    that is not its rule's; `permits` marks what weakens no verdict, but lets `fix` do more."""

    key: str
    old: str
    new: str
    line: int = 0
    permits: bool = False


def loosenings(base: Rule | None, head: Rule | None, *, unmatched: Unmatched = "error") -> list[Loosening]:
    """What the rule of a model asks less than the one it had. None is no rule at all, of which the base's
    policy says by `unmatched` what that means."""
    if base is None:
        hidden = head is not None and head.ignore and unmatched == "error"
        return [Loosening("ignore", "no rule, which is an error", "true")] if hidden else []
    if base.ignore:
        return []
    if head is None:
        return [Loosening("rule", repr(base.pattern), NONE)]
    if head.ignore:
        return [Loosening("ignore", "false", "true")]
    return [
        *_budget(base.budget, head.budget),
        *_tolerance(base.tolerance, head.tolerance),
        *_evaluate(base.evaluate, head.evaluate),
        *_inputs(base.inputs, head.inputs),
        *_methods(base, head),
        *_strictness(base, head),
    ]


def setting_loosenings(base: Policy, head: Policy) -> list[Loosening]:
    """The same for what a policy says of all its models."""
    found = [
        Loosening(key, getattr(base, key), getattr(head, key))
        for key, order in _SETTINGS.items()
        if order.index(getattr(head, key)) > order.index(getattr(base, key))
    ]
    if head.lfs.missing == "warning" != base.lfs.missing:
        found.append(Loosening("lfs missing", base.lfs.missing, "warning"))
    return found


def history_loosenings(base: History | None, head: History | None) -> list[Loosening]:
    """What a branch may add more to the history."""
    if base is None:
        return []
    line = head.line if head else 0
    limits = ((key, getattr(base, key), getattr(head, key, None)) for key in ("budget", "lfs"))
    return [one for key, old, new in limits for one in _raised(f"history {key}", old, new, _size, line)]


def group_loosenings(base: Group, head: Group | None) -> list[Loosening]:
    """What the budget of a group allows more."""
    if head is None:
        return [Loosening(f"group {base.name!r}", "a budget", NONE)]
    name = f"group {base.name!r}, budget"
    return [
        Loosening(f"{name} {found.key.removeprefix('budget ')}", found.old, found.new, head.line)
        for found in _budget(base.budget, head.budget)
    ]


def new_overrides(base: Iterable[Override], head: Sequence[Override]) -> Iterator[Loosening]:
    """Overrides for a content that had none, or had one for a shorter time."""
    until: dict[str, date] = {}
    for override in base:
        known = until.get(override.sha256, override.until)
        until[override.sha256] = max(known, override.until)
    for override in head:
        old = until.get(override.sha256)
        if old is None or override.until > old:
            new = f"until {override.until.isoformat()} ({override.reason})"
            before = f"until {old.isoformat()}" if old else NONE
            yield Loosening(f"override for {override.path}", before, new, override.line)


def _budget(base: Budget, head: Budget) -> Iterator[Loosening]:
    for item in fields(base):
        old, new = getattr(base, item.name), getattr(head, item.name)
        yield from _raised(f"budget {item.name}", old, new, _WORDS.get(item.name, _size))


def _raised(
    key: str, old: float | None, new: float | None, words: Callable[[float], str], line: int = 0
) -> list[Loosening]:
    """A limit from above that allows more, or is gone."""
    if old is None or (new is not None and new <= old):
        return []
    return [Loosening(key, words(old), NONE if new is None else words(new), line)]


def _tolerance(base: Tolerance, head: Tolerance) -> Iterator[Loosening]:
    if head.exact:
        return
    if base.exact:
        yield Loosening("tolerance exact", "true", "false")
    for item in fields(base):
        old, new = getattr(base, item.name), getattr(head, item.name)
        if item.name in _LEAST and old is not None and new is not None and new < old:
            yield Loosening(f"tolerance {item.name}", _number(old), _number(new))
        elif item.name in _LEAST and new is not None:
            continue
        elif item.name != "exact":
            yield from _raised(f"tolerance {item.name}", old, new, _number)


def _evaluate(base: Evaluate | None, head: Evaluate | None) -> Iterator[Loosening]:
    if base is None:
        return
    if head is None:
        yield Loosening("evaluate", repr(base.command), NONE)
        return
    if not set(head.env) <= set(base.env):
        yield Loosening("evaluate env", _list(base.env), _list(head.env))
    for key in ("command", "metric"):
        if getattr(base, key) != getattr(head, key):
            yield Loosening(f"evaluate {key}", repr(getattr(base, key)), repr(getattr(head, key)))
    for key in ("max_increase", "max_decrease"):
        yield from _raised(f"evaluate {key}", getattr(base, key), getattr(head, key), _number)


def _inputs(base: InputSpec, head: InputSpec) -> Iterator[Loosening]:
    """Other inputs may show less: which do, nobody knows before."""
    if not set(base.samples) <= set(head.samples):
        yield Loosening("inputs samples", _list(base.samples), _list(head.samples))
    if head.count < base.count and not head.samples:
        yield Loosening("inputs count", str(base.count), str(head.count))
    if head.seed != base.seed and not head.samples:
        yield Loosening("inputs seed", str(base.seed), str(head.seed))
    for key in ("dims", "ranges"):
        old, new = dict(getattr(base, key)), dict(getattr(head, key))
        if old != new:
            yield Loosening(f"inputs {key}", str(old or NONE), str(new or NONE))


def _methods(base: Rule, head: Rule) -> Iterator[Loosening]:
    """A method that is gone no longer finds savings; one that is new may be used by `fix`."""
    old = {choice.name: dict(choice.options) for choice in base.methods}
    new = {choice.name: dict(choice.options) for choice in head.methods}
    if not old.keys() <= new.keys():
        yield Loosening("methods", _list(old), _list(new))
    yield from (Loosening("method", NONE, name, permits=True) for name in new if name not in old)
    for name, options in new.items():
        if options != old.get(name, options):
            yield Loosening(f"method {name}", str(old[name] or NONE), str(options or NONE), permits=True)


def _strictness(base: Rule, head: Rule) -> Iterator[Loosening]:
    if base.severity == "error" != head.severity:
        yield Loosening("severity", base.severity, head.severity)
    if base.load_check and not head.load_check:
        yield Loosening("load_check", "on", "off")
    if head.only_new and not base.only_new:
        yield Loosening("only_new", "false", "true")
    # Without a word of it, a budget that is new changes how far to go, and that is no loosening.
    if head.shrink and _DEMANDS.index(head.shrink) > _DEMANDS.index(base.mode):
        yield Loosening("shrink", base.mode, head.shrink)
    yield from _raised("minimum_gain", base.minimum_gain, head.minimum_gain, _percent)
    if not set(base.runtimes) <= set(head.runtimes):
        yield Loosening("runtimes", _list(base.runtimes), _list(head.runtimes))


def _size(value: float) -> str:
    return exact_size(int(value))


def _number(value: float) -> str:
    return f"{value:.10g}"


def _percent(value: float) -> str:
    return f"{value * 100:.10g}%"


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"


_WORDS = {"params": "{:,}".format, "growth": _percent, "latency": _percent}
