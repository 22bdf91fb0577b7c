"""What one policy asks less of a model than another: field by field, with the old value and the new one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date

from onnx_ci.policy.edit import exact_size
from onnx_ci.policy.schema import (
    AT_LEAST,
    AT_MOST,
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
_SEVERITIES = {"severity": ("error", "warning")}
_DEMANDS = ("smallest", "to-budget", "exact-only")


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
        return _unasked(head) if head is not None and unmatched == "error" else []
    if base.ignore:
        return []
    if head is None:
        return [Loosening("rule", repr(base.pattern), NONE)]
    if head.ignore:
        return [Loosening("ignore", "false", "true")]
    return [
        *_limits("budget", base.budget, head.budget, _BUDGETS),
        *_tolerance(base.tolerance, head.tolerance),
        *_evaluate(base.evaluate, head.evaluate),
        *_inputs(base.inputs, head.inputs),
        *_methods(base, head),
        *_strictness(base, head),
    ]


def setting_loosenings(base: Policy, head: Policy) -> list[Loosening]:
    """The same for what a policy says of all its models."""
    loosened = list(_steps(base, head, _SETTINGS))
    if head.lfs.missing == "warning" != base.lfs.missing:
        loosened.append(Loosening("lfs missing", base.lfs.missing, "warning"))
    return loosened


def history_loosenings(base: History | None, head: History | None) -> list[Loosening]:
    """What a branch may add more to the history."""
    if base is None:
        return []
    return list(_limits("history", base, head, ("budget", "lfs"), head.line if head else 0))


def group_loosenings(base: Group, head: Group | None) -> list[Loosening]:
    """What the budget of a group allows more."""
    if head is None:
        return [Loosening(f"group {base.name!r}", "a budget", NONE)]
    return list(_limits(f"group {base.name!r}, budget", base.budget, head.budget, _BUDGETS, head.line))


def new_overrides(base: Iterable[Override], head: Sequence[Override]) -> Iterator[Loosening]:
    """Overrides for a content that had none, or had one for a shorter time."""
    until: dict[str, date] = {}
    for override in base:
        latest = until.get(override.sha256, override.until)
        until[override.sha256] = max(latest, override.until)
    for override in head:
        old = until.get(override.sha256)
        if old is None or override.until > old:
            new = f"until {override.until.isoformat()} ({override.reason})"
            before = f"until {old.isoformat()}" if old else NONE
            yield Loosening(f"override for {override.path}", before, new, override.line)


def _limits(
    section: str, base: object, head: object, names: Iterable[str], line: int = 0
) -> Iterator[Loosening]:
    """Limits that allow more, or are gone."""
    for name in names:
        old, new = getattr(base, name), getattr(head, name, None)
        if _allows_more(name, old, new):
            words = _WORDS.get(name, _number)
            yield Loosening(
                f"{section} {name}".strip(), words(old), NONE if new is None else words(new), line
            )


def _allows_more(name: str, old: float | None, new: float | None) -> bool:
    if old is None:
        return False
    if new is None:
        return True
    return new < old if name in AT_LEAST else new > old


def _steps(base: object, head: object, orders: Mapping[str, Sequence[str]]) -> Iterator[Loosening]:
    """Settings with a word that stands further down its list."""
    for key, order in orders.items():
        old, new = getattr(base, key), getattr(head, key)
        if order.index(new) > order.index(old):
            yield Loosening(key, old, new)


def _fewer(key: str, old: Collection[str], new: Collection[str]) -> Iterator[Loosening]:
    """A list that lacks something."""
    if not set(old) <= set(new):
        yield Loosening(key, f"[{', '.join(old)}]", f"[{', '.join(new)}]")


def _unasked(head: Rule) -> list[Loosening]:
    """What a rule leaves out for a model that had none, where that is an error."""
    unruled = "no rule, which is an error"
    if head.ignore:
        return [Loosening("ignore", unruled, "true")]
    if not head.load_check:
        return [Loosening("load_check", unruled, "off")]
    if not head.methods and head.budget == Budget():
        return [Loosening("rule", unruled, "one without methods and budget")]
    return []


def _tolerance(base: Tolerance, head: Tolerance) -> Iterator[Loosening]:
    if head.exact:
        return
    if base.exact:
        yield Loosening("tolerance exact", "true", "false")
    yield from _limits("tolerance", base, head, (*AT_MOST, *AT_LEAST))


def _evaluate(base: Evaluate | None, head: Evaluate | None) -> Iterator[Loosening]:
    if base is None:
        return
    if head is None:
        yield Loosening("evaluate", repr(base.command), NONE)
        return
    if not set(head.env) <= set(base.env):
        yield Loosening("evaluate env", f"[{', '.join(base.env)}]", f"[{', '.join(head.env)}]")
    for key in ("command", "metric"):
        if getattr(base, key) != getattr(head, key):
            yield Loosening(f"evaluate {key}", repr(getattr(base, key)), repr(getattr(head, key)))
    yield from _limits("evaluate", base, head, ("max_increase", "max_decrease"))


def _inputs(base: InputSpec, head: InputSpec) -> Iterator[Loosening]:
    """Other inputs may show less: which do, nobody knows before."""
    yield from _fewer("inputs samples", base.samples, head.samples)
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
    yield from _fewer("methods", old, new)
    yield from (Loosening("method", NONE, name, permits=True) for name in new if name not in old)
    for name, options in new.items():
        if options != old.get(name, options):
            yield Loosening(f"method {name}", str(old[name] or NONE), str(options or NONE), permits=True)


def _strictness(base: Rule, head: Rule) -> Iterator[Loosening]:
    yield from _steps(base, head, _SEVERITIES)
    if base.load_check and not head.load_check:
        yield Loosening("load_check", "on", "off")
    if head.only_new and not base.only_new:
        yield Loosening("only_new", "false", "true")
    # Without a word of it, a budget that is new changes how far to go, and that is no loosening.
    if head.shrink and _DEMANDS.index(head.shrink) > _DEMANDS.index(base.mode):
        yield Loosening("shrink", base.mode, head.shrink)
    yield from _limits("", base, head, ["minimum_gain"])
    yield from _fewer("runtimes", base.runtimes, head.runtimes)


def _number(value: float) -> str:
    return f"{value:.10g}"


def _percent(value: float) -> str:
    return f"{value * 100:.10g}%"


_BUDGETS = [item.name for item in fields(Budget)]
_WORDS = {
    **dict.fromkeys(("size", "gzip", "brotli", "zstd", "budget", "lfs"), exact_size),
    **dict.fromkeys(("growth", "latency", "minimum_gain"), _percent),
    "params": "{:,}".format,
}
