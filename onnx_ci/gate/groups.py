"""Budgets over several models together: who belongs to one, what they take, what each may still take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx_ci.methods.catalogue import method
from onnx_ci.model.measure import compressed_size
from onnx_ci.policy.load import group_members, rule_for
from onnx_ci.policy.schema import Group, Policy
from onnx_ci.repo.content import Part, Sources
from onnx_ci.results import GroupSize


@dataclass(frozen=True, kw_only=True)
class Groups:
    """The groups of a policy that a run has to do with: those of which a member is judged."""

    policy: Policy
    judged: Mapping[str, Path]  # by name, relative to the policy
    everything: Callable[[], Mapping[str, Path]]
    sources: Sources

    def sizes(self, before: Mapping[tuple[str, str], int]) -> Iterator[GroupSize]:
        """What the groups take now against their budgets; `before` is what they took when the run began, by
        name and measure."""
        for group, members in self._concerned():
            for measure, limit in group.budget.size_like.items():
                after = self._total(measure, members)
                yield GroupSize(
                    name=group.name,
                    policy=self.policy.file,
                    line=group.line,
                    measure=measure,
                    limit=limit,
                    members=len(members),
                    before=before.get((group.name, measure), after),
                    after=after,
                )

    def dependent(self) -> Iterator[list[Path]]:
        """Judged models of which one's share depends on the others': those of a group that is too large."""
        for _, members in self._too_large():
            yield [path for name, path in members.items() if name in self.judged]

    def targets(self, by_rule: Mapping[Path, int]) -> dict[Path, int]:
        """What members under to-budget may take so that their group fits. `by_rule` is what becomes of
        judged models by their own rules. What is too much is taken from each in proportion to its size."""
        found: dict[Path, int] = {}
        for limit, members in self._too_large():
            sizes = {path: by_rule.get(path, self.sources.of(path).size) for path in members.values()}
            flexible = [path for name, path in members.items() if self._gives(name)]
            total = sum(sizes[path] for path in flexible)
            share = (limit - (sum(sizes.values()) - total)) / max(1, total)
            if 0 < share < 1:
                judged = [path for path in flexible if path in self.judged.values()]
                found.update({p: min(int(sizes[p] * share), found.get(p, sizes[p])) for p in judged})
        return found

    def _gives(self, name: str) -> bool:
        """Whether a member may become smaller than exact methods make it."""
        rule = rule_for(self.policy, name)
        if rule is None or rule.ignore or rule.mode != "to-budget":
            return False
        return not all(method(choice.name).exact for choice in rule.methods)

    def _concerned(self) -> Iterator[tuple[Group, dict[str, Path]]]:
        for group in self.policy.groups:
            everything = self.everything()
            members = group_members(group, tuple(everything))
            if self.judged.keys() & set(members):
                yield group, {name: everything[name] for name in members}

    def _too_large(self) -> Iterator[tuple[int, dict[str, Path]]]:
        """The budgets for size that do not hold, with the members of their groups."""
        for group, members in self._concerned():
            limit = group.budget.size_like.get("size")
            if limit is not None and self._total("size", members) > limit:
                yield limit, members

    def _total(self, measure: str, members: Mapping[str, Path]) -> int:
        """Of what is not here counts the size that its pointer names."""
        parts = parts_of(self.sources, members.values())
        return sum(stored_size(measure, part) or part.size for part in parts)


def parts_of(sources: Sources, models: Iterable[Path]) -> list[Part]:
    """The files of models; data that two of them share counts once."""
    return list({part.path: part for path in models for part in sources.of(path).parts}.values())


def stored_size(measure: str, part: Part) -> int | None:
    """The size of one file, as it is or compressed; None where it can't be known, since it is not here."""
    if part.content is not None and not part.content.is_file():
        return None
    if measure == "size":
        return part.size
    return compressed_size(measure, [part.content]) if part.content else None


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Models that have to be judged together, most often one; and what that is likely to cost, in seconds."""

    names: tuple[str, ...]
    size: int
    cost: float


def joined(
    sizes: Mapping[str, int], bound: Iterable[Sequence[str]], costs: Mapping[str, float]
) -> Iterator[Unit]:
    """Units of the models in `sizes`; those of each sequence in `bound` are in one."""
    together = {name: {name} for name in sizes}
    for names in bound:
        merged = set().union(*(together[name] for name in names))
        together.update(dict.fromkeys(merged, merged))
    for names in sorted({tuple(sorted(unit)) for unit in together.values()}):
        size, cost = sum(sizes[name] for name in names), sum(costs[name] for name in names)
        yield Unit(names=names, size=size, cost=cost)


def split(units: Iterable[Unit], count: int) -> list[list[Unit]]:
    """As even as the largest first, each to whoever has least, makes it; the same for any order of units."""
    parts: list[list[Unit]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for unit in sorted(units, key=lambda unit: (-unit.cost, unit.names)):
        lightest = loads.index(min(loads))
        parts[lightest].append(unit)
        loads[lightest] += unit.cost
    return parts
