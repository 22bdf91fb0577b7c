"""Models spread over shards by what they are expected to cost: a pure function of names and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

# What a model costs whatever its size, in bytes: two hundred small ones are no small matter.
EACH = 5_000_000


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Models that have to be judged together; most often one."""

    names: tuple[str, ...]
    size: int

    @property
    def cost(self) -> int:
        return self.size + EACH * len(self.names)


def joined(sizes: Mapping[str, int], bound: Iterable[Sequence[str]]) -> Iterator[Unit]:
    """Units of the models in `sizes`; those of each sequence in `bound` are in one."""
    together = {name: {name} for name in sizes}
    for names in bound:
        merged = set().union(*(together[name] for name in names))
        together.update(dict.fromkeys(merged, merged))
    for names in sorted({tuple(sorted(unit)) for unit in together.values()}):
        yield Unit(names=names, size=sum(sizes[name] for name in names))


def split(units: Iterable[Unit], count: int) -> list[list[Unit]]:
    """As even as the largest first, each to whoever has least, makes it; the same for any order of units."""
    parts: list[list[Unit]] = [[] for _ in range(count)]
    loads = [0] * count
    for unit in sorted(units, key=lambda unit: (-unit.cost, unit.names)):
        lightest = loads.index(min(loads))
        parts[lightest].append(unit)
        loads[lightest] += unit.cost
    return parts
