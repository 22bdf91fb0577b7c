"""One run as several: which models each shard judges, the same on every machine."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from onnx_ci.errors import UsageError
from onnx_ci.gate.groups import Groups, Unit, joined, split
from onnx_ci.gate.project import MOST_SHARDS, Context
from onnx_ci.gate.shares import Share, shares
from onnx_ci.repo.content import Sources
from onnx_ci.repo.select import Selection
from onnx_ci.results import Shard
from onnx_ci.util.text import relative_name

EXAMPLE = "for example: --shard 1/3"


class Parts:
    """A selection in parts, and what is in each."""

    def __init__(self, context: Context, selection: Selection, count: int) -> None:
        self._paths = {relative_name(path, context.root): path for path in selection.models}
        self.parts = split(list(_units(context, selection)), count)
        self.count = count

    def models(self, index: int) -> list[Path]:
        return sorted(self._paths[name] for unit in self.parts[index - 1] for name in unit.names)

    def size(self, index: int) -> int:
        return sum(unit.size for unit in self.parts[index - 1])

    def shard(self, index: int) -> Shard:
        """All shards of a run have the same digest, unless a machine saw other models or sizes."""
        told = [[[*unit.names, unit.size] for unit in part] for part in self.parts]
        digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()
        return Shard(index=index, count=self.count, split=digest[:32])


def part_of(context: Context, selection: Selection, asked: str) -> tuple[Selection, Shard]:
    """What `--shard I/N` leaves of a selection."""
    found = re.fullmatch(r"([0-9]{1,3})/([0-9]{1,3})", asked)
    index, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= index <= count <= MOST_SHARDS:
        raise UsageError(f"--shard: expected I/N with I from 1 to N, found {asked!r}", hint=EXAMPLE)
    parts = Parts(context, selection, count)
    models = parts.models(index)
    note = selection.note or ("" if models else f"there is no model for shard {asked}")
    part = Selection(models=models, base=selection.base, note=note, named=selection.named)
    return part, parts.shard(index)


def _units(context: Context, selection: Selection) -> Iterator[Unit]:
    for share in shares(context, selection):
        with Sources(context.root, share.tree, share.everything, repository=share.repository) as sources:
            yield from _together(context, share, sources)


def _together(context: Context, share: Share, sources: Sources) -> Iterable[Unit]:
    """What each model of a group that is too large has to give depends on the others of it."""
    folder = share.context.folder
    groups = Groups(
        policy=share.context.policy,
        judged={relative_name(path, folder): path for path in share.models},
        everything=lambda: {relative_name(path, folder): path for path in share.everything()},
        sources=sources,
    )
    sizes = {relative_name(path, context.root): sources.of(path).size for path in share.models}
    bound: list[Sequence[str]] = [
        [relative_name(path, context.root) for path in paths] for paths in groups.dependent()
    ]
    return joined(sizes, bound)
