"""Many runs of one model in one session of the worker, which hands back means and some draws."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from onnx_ci.policy.schema import Limits
from onnx_ci.verify.client import Feeds, Runner, write_feeds
from onnx_ci.verify.distribution import Lot
from onnx_ci.verify.dtypes import Array
from onnx_ci.verify.exchange import read_samples


def drawn(
    runner: Runner,
    model: Path,
    feeds: Sequence[Feeds],
    *,
    runs: int,
    seed: int,
    limits: Limits,
    spare: Collection[str],
) -> Lot:
    """Random nodes without a seed begin with `seed`, and draw on from run to run."""
    folder = runner.folder()
    try:
        write_feeds(folder / "feeds", feeds)
        places = {"feeds": str(folder / "feeds"), "outputs": str(folder / "outputs")}
        more = {"runs": runs, "seed": seed, "spare": sorted(spare), **places}
        answer = runner.ask("draw", [model], limits, **more)
        samples = read_samples(folder / "outputs")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    means = [_named(sample, "mean ") for sample in samples]
    return Lot(means, [_named(sample, "draws ") for sample in samples], answer["left_out"])


def _named(sample: dict[str, Array], kind: str) -> dict[str, Array]:
    return {name.removeprefix(kind): value for name, value in sample.items() if name.startswith(kind)}
