"""Runs methods one after another on a copy of a model; a step that gains nothing is undone."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from glob import escape
from typing import TYPE_CHECKING, Any

import xxhash

from onnx_ci.errors import ModelError
from onnx_ci.methods.catalogue import Applied, Method
from onnx_ci.methods.drop_unused import freeze_inputs, inputs_too
from onnx_ci.methods.options import FreezeInputs
from onnx_ci.model.graph import default_inputs
from onnx_ci.model.model import Model
from onnx_ci.model.save import lay_out
from onnx_ci.results import Step
from onnx_ci.util.advice import GIVE_SAMPLES

if TYPE_CHECKING:
    from onnx_ci.methods.catalogue import Feeds
    from onnx_ci.methods.compensation import Moments
    from onnx_ci.methods.weights import Encode


def no_feeds() -> Sequence[Mapping[str, Any]]:
    raise ModelError(
        "no inputs to calibrate on", hint="give samples: " + GIVE_SAMPLES + ", or leave verification on"
    )


@dataclass(frozen=True)
class RunPart:
    """Some tensors, by name, that a method stores in its own way; `label` says in short which."""

    label: str
    options: Mapping[str, object]
    tensors: tuple[str, ...]
    moments: Mapping[str, Moments] | None = field(default=None, compare=False, repr=False)  # by tensor


@dataclass(frozen=True)
class Run:
    """A method with the options it is to be run with, or with parts that each have their own."""

    method: Method
    options: Mapping[str, object]
    parts: tuple[RunPart, ...] = ()

    def apply(self, model: Model, feeds: Feeds) -> Applied:
        if not self.parts:
            return self.method.apply(model, self.options, feeds)
        from onnx_ci.methods.weights import encode_named

        encodings: dict[str, Encode] = {}
        moments: dict[str, Moments] = {}
        for part in self.parts:
            encode = self.method.encoding(model, part.options)
            if encode is not None:
                encodings.update(dict.fromkeys(part.tensors, encode))
                known = part.moments or {}
                moments.update({name: known[name] for name in part.tensors if name in known})
        done = encode_named(model, encodings, moments)
        counts = [f"{part.label}: {len(done.intersection(part.tensors))}" for part in self.parts]
        return Applied(len(done), ", ".join(counts))

    @property
    def moments_digest(self) -> str:
        """What tells the second moments that tensors were rounded by from others; empty where there are
        none."""
        used = [(part.moments or {}).get(name) for part in self.parts for name in part.tensors]
        digest = xxhash.xxh3_64("".join(one.digest for one in used if one).encode())
        return f"xxh3:{digest.hexdigest()}" if any(used) else ""

    def sparing(self, names: Collection[str]) -> Run | None:
        """The same without touching these tensors, as far as the method can be told so; None where
        nothing is left to do."""
        if self.parts:
            left = ((part, tuple(name for name in part.tensors if name not in names)) for part in self.parts)
            parts = tuple(replace(part, tensors=tensors) for part, tensors in left if tensors)
            return replace(self, parts=parts) if parts else None
        known = self.method.read_options(self.options)
        if not hasattr(known, "skip"):
            return self
        skip = dict.fromkeys([*known.skip, *map(escape, names)])  # a name may look like a pattern
        return replace(self, options={**self.options, "skip": [*skip]})


@dataclass(frozen=True)
class Chained:
    """The model after the runs that were kept; `steps` tells of all of them, the undone ones too."""

    model: Model
    steps: tuple[Step, ...]
    kept: tuple[Run, ...]
    size: int


def run_chain(model: Model, runs: Iterable[Run], *, size: int, feeds: Feeds = no_feeds) -> Chained:
    """`size` is what the model takes on disk now; the model itself is left as it is."""
    steps: list[Step] = []
    kept: list[Run] = []
    trial = _Trial(model)
    for run in runs:
        began = time.perf_counter()
        tried = trial.model
        applied = run.apply(tried, feeds)
        if trial.defaults:
            held_back = _held_back(run, applied, trial.original, feeds)
            applied.note = "; ".join(filter(None, [applied.note, held_back]))
        after = trial.size()
        keep = _gained(run.method, applied, size, after)
        steps.append(_step(run, applied, size, after, time.perf_counter() - began, keep=keep))
        if keep:
            size = after
            kept.append(run)
            trial = _Trial(tried)
    return Chained(trial.original, tuple(steps), tuple(kept), size)


class _Trial:
    """A copy of a model to try methods on: the same one, as long as they leave it as it is."""

    def __init__(self, original: Model) -> None:
        self.original = original
        self._copy: Model | None = None
        self._size: int | None = None  # of the model as it is

    @property
    def model(self) -> Model:
        self._copy = self._copy or self.original.copy()
        return self._copy

    @cached_property
    def defaults(self) -> list[str]:
        return default_inputs(self.original.proto.graph)

    @cached_property
    def _content(self) -> bytes:
        return bytes(self.original.proto.SerializeToString())

    def size(self) -> int:
        """What the copy takes on disk, after a method was run on it; it is given away if that changed it."""
        tried = self.model
        if tried.proto.SerializeToString() != self._content or tried.beside != self.original.beside:
            self._copy = None
            return lay_out(tried).size
        if self._size is None:
            self._size = lay_out(tried).size
        return self._size


def _held_back(run: Run, applied: Applied, model: Model, feeds: Feeds) -> str:
    """Say how much more a method would do if no weight were a graph input too. Another library does not even
    look at such a model, and has said so."""
    frozen = model.copy()
    if run.method.foreign or not freeze_inputs(frozen, FreezeInputs()).tensors:
        return ""
    whole = replace(run, parts=())
    done = whole.apply(model.copy(), feeds).tensors if run.parts else applied.tensors
    more = whole.apply(frozen, feeds).tensors - done
    return inputs_too(more) if more > 0 else ""


def _gained(method: Method, applied: Applied, before: int, after: int) -> bool:
    """Whether a step is kept. Layout moves bytes and saves none; methods for compressed size touch only
    what then compresses better, and the file may stay as large."""
    if method.gains == "layout":
        return applied.tensors > 0
    if method.gains == "compressed":
        return bool(applied.tensors) and after <= before
    return after < before


def _step(run: Run, applied: Applied, before: int, after: int, seconds: float, *, keep: bool) -> Step:
    note = applied.note
    if not keep and run.method.gains == "layout":
        note = note or "nothing to move"
    elif not keep:
        grew = applied.tensors and after > before
        undone = f"undone: it would have added {after - before:,} bytes"
        note = undone if grew else note or "nothing to gain"
    return Step(
        method=run.method.name,
        size_before=before,
        size_after=after if keep else before,
        tensors=applied.tensors if keep else 0,
        seconds=round(seconds, 3),
        note=note,
        failed=applied.failed,
    )
