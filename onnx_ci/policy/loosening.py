"""What one policy asks less of a model than another: field by field, with the old value and the new one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from operator import attrgetter, gt, lt, ne
from typing import Any

from onnx_ci.policy import schema
from onnx_ci.policy.edit import exact_size
from onnx_ci.policy.fields import NONE

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


def loosenings(
    base: schema.Rule | None, head: schema.Rule | None, *, unmatched: schema.Unmatched = "error"
) -> list[Loosening]:
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
    limits = () if head.tolerance.exact else ("exact", *schema.AT_MOST, *schema.AT_LEAST)
    generated = () if head.inputs.samples else ("count", "seed")
    return [
        *_looser("budget", base.budget, head.budget, _BUDGETS),
        *_looser("require", base.require, head.require, [item.name for item in fields(schema.Require)]),
        *_looser("tolerance", base.tolerance, head.tolerance, limits),
        *_evaluate(base.evaluate, head.evaluate),
        # Other inputs may show less: which do, nobody knows before.
        *_looser("inputs", base.inputs, head.inputs, ("samples", *generated, "dims", "ranges")),
        *_methods(base, head),
        *_strictness(base, head),
    ]


def setting_loosenings(base: schema.Policy, head: schema.Policy) -> list[Loosening]:
    """The same for what a policy says of all its models."""
    settings = ("unmatched", "policy_changes", "new_commands")
    return [*_looser("", base, head, settings), *_looser("lfs", base.lfs, head.lfs, ["missing"])]


def history_loosenings(base: schema.History | None, head: schema.History | None) -> list[Loosening]:
    """What a branch may add more to the history."""
    if base is None:
        return []
    return list(_looser("history", base, head, ("budget", "lfs"), head.line if head else 0))


def group_loosenings(base: schema.Group, head: schema.Group | None) -> list[Loosening]:
    """What the budget of a group allows more."""
    if head is None:
        return [Loosening(f"group {base.name!r}", "a budget", NONE)]
    return list(_looser(f"group {base.name!r}, budget", base.budget, head.budget, _BUDGETS, head.line))


def new_overrides(base: Iterable[schema.Override], head: Sequence[schema.Override]) -> Iterator[Loosening]:
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


def _unasked(head: schema.Rule) -> list[Loosening]:
    """What a rule leaves out for a model that had none, where that is an error."""
    unruled = "no rule, which is an error"
    if head.ignore:
        return [Loosening("ignore", unruled, "true")]
    if not head.load_check:
        return [Loosening("load_check", unruled, "off")]
    if not head.methods and head.budget == schema.Budget():
        return [Loosening("rule", unruled, "one without methods and budget")]
    return []


def _looser(
    section: str, base: object, head: object, names: Iterable[str], line: int = 0
) -> Iterator[Loosening]:
    """The fields that ask less, or are gone."""
    for name in names:
        asks_less, words = _FIELDS[name]
        old, new = getattr(base, name), getattr(head, name, None)
        if asks_less(old, new):
            after = NONE if new is None else words(new)
            yield Loosening(f"{section} {name}".strip(), words(old), after, line)


def _evaluate(base: schema.Evaluate | None, head: schema.Evaluate | None) -> Iterator[Loosening]:
    if base is not None and head is None:
        yield Loosening("evaluate", repr(base.command), NONE)
    elif base is not None:
        names = ("env", "command", "metric", "max_increase", "max_decrease")
        yield from _looser("evaluate", base, head, names)


def _methods(base: schema.Rule, head: schema.Rule) -> Iterator[Loosening]:
    """A method that is gone no longer finds savings; one that is new may be used by `fix`."""
    old = {choice.name: choice.options for choice in base.methods}
    new = {choice.name: choice.options for choice in head.methods}
    if _lacks(old, new):
        yield Loosening("methods", _list(old), _list(new))
    yield from (Loosening("method", NONE, name, permits=True) for name in new if name not in old)
    for name, options in new.items():
        if options != old.get(name, options):
            yield Loosening(f"method {name}", _mapping(old[name]), _mapping(options), permits=True)


def _strictness(base: schema.Rule, head: schema.Rule) -> Iterator[Loosening]:
    yield from _looser("", base, head, ("severity", "load_check", "only_new"))
    # Without a word of it, a budget that is new changes how far to go, and that is no loosening.
    if head.shrink and _DEMANDS.index(head.shrink) > _DEMANDS.index(base.mode):
        yield Loosening("shrink", base.mode, head.shrink)
    yield from _looser("", base, head, ("minimum_gain", "runtimes"))


def _gone_or(beyond: Callable[[float, float], bool]) -> Callable[[float | None, float | None], bool]:
    """A limit that was there is gone, or is beyond what it was."""
    return lambda old, new: old is not None and (new is None or beyond(new, old))


def _wider(old: schema.Versions | None, new: schema.Versions | None) -> bool:
    return old is not None and (new is None or not new.within(old))


def _fewer_denied(old: schema.Operators, new: schema.Operators) -> bool:
    allowed = old.allow is not None and (new.allow is None or _lacks(new.allow, old.allow))
    return _lacks(old.deny, new.deny) or allowed


def _operators(operators: schema.Operators) -> str:
    allow = NONE if operators.allow is None else _list(operators.allow)
    return f"deny {_list(operators.deny)}, allow {allow}"


def _lacks(old: Collection[str], new: Collection[str]) -> bool:
    return not set(old) <= set(new)


def _further(*order: str) -> Callable[[str, str], bool]:
    """Words from the strictest to the loosest."""
    return lambda old, new: order.index(new) > order.index(old)


def _number(value: float) -> str:
    return f"{value:.10g}"


def _percent(value: float) -> str:
    return f"{value * 100:.10g}%"


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"


def _mapping(values: Mapping[str, object]) -> str:
    return str(dict(values) or NONE)


_BUDGETS = [item.name for item in fields(schema.Budget)]
# When a field asks less than it did, and how its values are shown.
_FIELDS: dict[str, tuple[Callable[[Any, Any], bool], Callable[[Any], str]]] = {
    **dict.fromkeys(
        ("size", "gzip", "brotli", "zstd", "load_memory", "budget", "lfs"), (_gone_or(gt), exact_size)
    ),
    **dict.fromkeys(("growth", "latency"), (_gone_or(gt), _percent)),
    "minimum_gain": (lambda old, new: new.share > old.share or new.size > old.size, attrgetter("words")),
    "load_seconds": (_gone_or(gt), _number),
    "params": (_gone_or(gt), "{:,}".format),
    **dict.fromkeys((*schema.AT_MOST, "max_increase", "max_decrease"), (_gone_or(gt), _number)),
    **dict.fromkeys(schema.AT_LEAST, (_gone_or(lt), _number)),
    **dict.fromkeys(("opset", "ir"), (_wider, attrgetter("words"))),
    "domains": (lambda old, new: old is not None and (new is None or _lacks(new, old)), _list),
    "operators": (_fewer_denied, _operators),
    "dynamic_batch": (lambda old, new: old not in (None, new), {True: "true", False: "false"}.__getitem__),
    "exact": (gt, {True: "true", False: "false"}.__getitem__),
    **dict.fromkeys(("command", "metric"), (ne, repr)),
    "env": (lambda old, new: _lacks(new, old), _list),
    **dict.fromkeys(("samples", "runtimes", "fits", "metadata"), (_lacks, _list)),
    "count": (gt, str),
    "seed": (ne, str),
    **dict.fromkeys(("dims", "ranges"), (ne, _mapping)),
    "load_check": (gt, {True: "on", False: "off"}.__getitem__),
    "only_new": (lt, {True: "true", False: "false"}.__getitem__),
    **dict.fromkeys(("severity", "policy_changes"), (_further("error", "warning"), str)),
    "unmatched": (_further("error", "warning", "ignore"), str),
    "new_commands": (_further("refuse", "run"), str),
    "missing": (lambda old, new: new == "warning" != old, str),
}
