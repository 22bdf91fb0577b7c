"""One session of one model, run again and again with other weights in place of its own."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from onnx_ci.policy.schema import Limits
from onnx_ci.verify.client import Feeds, Runner, write_feeds
from onnx_ci.verify.dtypes import Array
from onnx_ci.verify.exchange import read_samples


class Bench:
    """The inputs are written once, the session is kept by the worker. A context manager."""

    def __init__(
        self,
        runner: Runner,
        model: Path,
        feeds: Sequence[Feeds],
        *,
        limits: Limits,
        spare: Collection[str],
        fresh: bool = False,
    ) -> None:
        """`fresh` asks for a new session each time: random nodes begin anew only there."""
        self.fresh = fresh
        self.runner = runner
        self.model = model
        self.limits = limits
        self.spare = sorted(spare)
        self.folder = runner.folder()
        write_feeds(self.folder / "feeds", feeds)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, weights: Mapping[str, Path]) -> list[dict[str, Array]]:
        """Outputs with these weights, in files by the name of the input they are fed to."""
        outputs = self.folder / "outputs"
        shutil.rmtree(outputs, ignore_errors=True)
        self.runner.ask(
            "try",
            [self.model],
            self.limits,
            spare=self.spare,
            fresh=self.fresh,
            feeds=str(self.folder / "feeds"),
            outputs=str(outputs),
            weights={name: str(file) for name, file in weights.items()},
        )
        return read_samples(outputs)
