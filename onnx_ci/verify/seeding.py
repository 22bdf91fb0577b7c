"""Random nodes of original and candidate given the same seeds, in copies that exist only to be run.

A seeded node repeats its numbers in every new session, whatever nodes are around it. onnxruntime's own
`set_seed` would not do: there a node's numbers depend on its place in the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import NodeProto, helper

from onnx_ci.model.load import open_model
from onnx_ci.model.proto import PROTOBUF_LIMIT
from onnx_ci.model.save import write_model
from onnx_ci.verify.randomness import label, seeded, unseeded

_PRIME = 16_777_213  # below 2^24: most seeds are stored as float32
_INTEGER = {"Dropout"}  # whose seed is an integer
Key = tuple[str, str, int]


class Unmatched(Exception):
    """It draws other random numbers than the original: which node is which can't be told."""


class Baked(Exception):
    """A node that drew other numbers each time has a seed now."""


class Seeding:
    """The seeds for the random nodes of one original. False where it has none that lack one."""

    def __init__(self, proto: onnx.ModelProto, offset: int = 0) -> None:
        nodes = unseeded(proto)
        self.kinds = [node.op_type for node in nodes]
        self.seeds = {key: _seed(number, offset) for number, key in enumerate(_keys(nodes))}

    def __bool__(self) -> bool:
        return bool(self.seeds)

    def write(self, model: Path, target: Path, root: Path | None = None) -> bool:
        """Write the copy with seeds; whether it is certain which node is which."""
        inside = root is not None and model.resolve().is_relative_to(root.resolve())
        with open_model(model, root=root if inside else None) as opened:
            certain = self._give(opened.proto)
            large = model.stat().st_size > PROTOBUF_LIMIT
            write_model(opened, target, all_to="seeded.data" if large else "")
        return certain

    def _give(self, proto: onnx.ModelProto) -> bool:
        """Give seeds to the nodes of a copy; whether it is certain which is which."""
        fixed = [label(node) for node in seeded(proto) if (node.op_type, *node.output[:1], 0) in self.seeds]
        if fixed:
            raise Baked(f"{fixed[0]} draws the same numbers in every session now: it has a seed")
        nodes = unseeded(proto)
        keys = _keys(nodes)
        if self._all_known(keys):
            for node, key in zip(nodes, keys, strict=True):
                _give_seed(node, self.seeds[key])
            return True
        if [node.op_type for node in nodes] == self.kinds:
            for node, seed in zip(nodes, self.seeds.values(), strict=True):
                _give_seed(node, seed)
            return False
        raise Unmatched(f"it has {_counted(nodes)} that draw numbers, the original has {_listed(self.kinds)}")

    def _all_known(self, keys: Sequence[Key]) -> bool:
        """Whether each is one of the original's, and of those that share a name none is missing."""
        ours, theirs = (Counter(key[:2] for key in some) for some in (self.seeds, keys))
        return all(ours[name] == count for name, count in theirs.items())


def _keys(nodes: Sequence[NodeProto]) -> list[Key]:
    """Operator and first output; two branches may both have an output of a name."""
    seen: Counter[tuple[str, str]] = Counter()
    keys = []
    for node in nodes:
        name = (node.op_type, node.output[0] if node.output else "")
        keys.append((*name, seen[name]))
        seen[name] += 1
    return keys


def _seed(number: int, offset: int) -> int:
    """No small number: a candidate with a seed of its own must not have this one by chance."""
    return (1_000_003 * (number + 1) + 7_368_787 * (offset + 1)) % _PRIME


def _give_seed(node: NodeProto, seed: int) -> None:
    kept = [attribute for attribute in node.attribute if attribute.name != "seed"]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.append(helper.make_attribute("seed", seed if node.op_type in _INTEGER else float(seed)))


def _counted(nodes: Sequence[NodeProto]) -> str:
    return _listed([node.op_type for node in nodes])


def _listed(kinds: Sequence[str]) -> str:
    counts = Counter(kinds)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "none"
