"""A kept session of one model, run again and again with other weights in place of its own."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from onnx_ci.policy.schema import Limits
from onnx_ci.sandbox.exchange import Array, read_samples
from onnx_ci.sandbox.runner import Feeds, RunFailed, Runner, write_feeds
from onnx_ci.verify.noise import Baked, Seeding, Unmatched


@dataclass(eq=False, repr=False)
class WeightSwapSession:
    """Write the inputs once, and let the worker keep the session. A context manager."""

    runner: Runner
    model: Path
    feeds: Sequence[Feeds]
    _: KW_ONLY
    limits: Limits
    spare: Collection[str]
    seeding: Seeding  # for random nodes; they begin anew only in a session of their own

    def __post_init__(self) -> None:
        self.seeded: Path | None = None  # the model that there is a copy of
        self.folder = self.runner.folder()
        write_feeds(self.folder / "feeds", self.feeds)

    def __enter__(self) -> WeightSwapSession:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, weights: Mapping[str, Path], model: Path | None = None) -> list[dict[str, Array]]:
        """Outputs with these weights, in files by the name of the input they are fed to; of another model
        on the same inputs, where one is named."""
        outputs = self.folder / "outputs"
        shutil.rmtree(outputs, ignore_errors=True)
        self.runner.ask(
            "try",
            [self._ready(model or self.model)],
            self.limits,
            spare=sorted(self.spare),
            fresh=bool(self.seeding),
            feeds=str(self.folder / "feeds"),
            outputs=str(outputs),
            weights={name: str(file) for name, file in weights.items()},
        )
        return read_samples(outputs)

    def _ready(self, model: Path) -> Path:
        """The model as it is run: a copy with seeds where nodes draw random numbers."""
        if not self.seeding:
            return model
        copy = self.folder / "seeded.onnx"
        if model != self.seeded:
            try:
                self.seeding.write(model, copy)
            except (Unmatched, Baked) as error:
                reason = f"its random nodes are no longer the original's: {error}"
                raise RunFailed("error", reason, stage="load") from None
            self.seeded = model
        return copy
