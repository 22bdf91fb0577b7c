"""Runs of one model with some of its tensors damaged: in one session where that works, else anew."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from onnx_ci.doubt.stored import Stored, stored
from onnx_ci.methods.edit import probe
from onnx_ci.model.container import Model, values_beside
from onnx_ci.model.dtypes import NUMPY_TYPES
from onnx_ci.model.graph import Scope, fixed_names, sites
from onnx_ci.model.layout import lay_out
from onnx_ci.model.proto import PROTOBUF_LIMIT
from onnx_ci.model.save import write_model
from onnx_ci.verify.bench import Bench
from onnx_ci.verify.client import Feeds, RunFailed
from onnx_ci.verify.damage import put
from onnx_ci.verify.dtypes import Array
from onnx_ci.verify.verifier import Verifier

Damage = Callable[[Array], Array]
Outputs = list[dict[str, Array]]
Key = tuple[int, str]


class Trials:
    """A context manager. The model is one that `verifier` has inputs for; `folder` is for what is written."""

    def __init__(
        self,
        model: Model,
        items: Collection[Stored],
        verifier: Verifier,
        folder: Path,
        parts: Mapping[Key, Array] | None = None,
    ) -> None:
        """Of tensors in `parts` only these elements are damaged."""
        self.model = model.copy()
        self.parts = parts or {}
        self.verifier = verifier
        self.folder = folder
        self.runs = self.deaths = 0
        self._tried: bool | None = None
        self._stack = ExitStack()
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.path = folder / "probe.onnx"
        self.inputs = self._exchangeable(items)

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def on(self, feeds: Sequence[Feeds]) -> Bench:
        """These inputs, to run damaged models on."""
        own, verifier = values_beside(self.model), self.verifier
        given = [{**sample, **own} for sample in feeds]
        spare = {*verifier.stored, *own}
        return self._stack.enter_context(
            Bench(
                verifier.runner,
                self.path,
                given,
                limits=verifier.limits,
                spare=spare,
                seeding=verifier.seeding,
            )
        )

    def unharmed(self, bench: Bench) -> Outputs:
        """What all the others are compared with."""
        if self.inputs and not self._works(bench):
            # Some operators want their weights to be constants: then each trial is a model of its own.
            self.inputs, self.path = {}, self.folder / "plain.onnx"
            _write(self.model, self.path)
        return bench.run({}, self.path)

    def _works(self, bench: Bench) -> bool:
        """Whether the model runs when it is given the weights that it has: if not, that a damaged one does
        not run would say nothing of the damage."""
        if self._tried is None:
            items = [item for item in stored(self.model) if item.key in self.inputs]
            try:
                bench.run(self._files(items, lambda values: values), self.path)
                self._tried = True
            except RunFailed:
                self._tried = False
        return self._tried

    def run(self, bench: Bench, items: Sequence[Stored], how: Damage) -> Outputs:
        """The outputs with these tensors damaged; a RunFailed where it does not run that way."""
        self.runs += 1
        if all(item.key in self.inputs for item in items):
            return bench.run(self._files(items, how), self.path)
        return self._anew(bench, {item.key for item in items}, how)

    def _exchangeable(self, items: Collection[Stored]) -> Mapping[Key, str]:
        """The tensors that can be given as inputs, and what these are called; writes the model that takes
        them. Of a name that several graphs use, each has an input of its own."""
        graph, fixed = self.model.proto.graph, fixed_names(self.model.proto)
        wanted = {item.key for item in items if item.tensor.data_type in NUMPY_TYPES}
        found = [
            (number, site.name)
            for number, scope in enumerate(Scope(graph).nested())
            for site in sites(scope, fixed)
        ]
        names = {name for number, name in found if (number, name) in wanted}
        made, inputs = probe(self.model, names)
        _write(made, self.path)
        waiting = defaultdict(list, {name: list(given) for name, given in inputs.items()})
        known = {key: waiting[key[1]].pop(0) for key in found if key[1] in names}
        given = {value.name for value in graph.input}  # these a caller may override anyway
        known.update(((0, one.name), one.name) for one in graph.initializer if one.name in given)
        return {key: name for key, name in known.items() if key in wanted}

    def _files(self, items: Sequence[Stored], how: Damage) -> dict[str, Path]:
        made: dict[str, Path] = {}
        for number, item in enumerate(items):
            file = self.folder / f"{number}.npy"
            np.save(file, self._damaged(item.key, self.model.array(item.tensor), how), allow_pickle=False)
            made[self.inputs[item.key]] = file
        return made

    def _damaged(self, key: Key, values: Array, how: Damage) -> Array:
        part = self.parts.get(key)
        return how(values) if part is None else np.where(part, how(values), values)

    def _anew(self, bench: Bench, keys: Collection[Key], how: Damage) -> Outputs:
        copy = self.model.copy()
        for item in stored(copy):
            if item.key in keys:
                put(copy, item.tensor, self._damaged(item.key, copy.array(item.tensor), how))
        folder = self.folder / f"anew-{self.runs}"  # a session is known by the path of its model
        folder.mkdir()
        try:
            _write(copy, folder / "model.onnx")
            return bench.run({}, folder / "model.onnx")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _write(model: Model, path: Path) -> None:
    small = lay_out(model).size <= PROTOBUF_LIMIT
    write_model(model, path, all_to="" if small else f"{path.name}.data")
