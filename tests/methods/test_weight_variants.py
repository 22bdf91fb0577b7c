"""The promises of the weight methods on every trap, with options that the contract test does not use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Run, run_chain
from onnx_ci.model.interface import contract_breaks
from onnx_ci.model.load import open_model
from onnx_ci.model.measure import files_of, parameters
from onnx_ci.model.receipt import model_digest
from onnx_ci.model.save import lay_out, write_model
from tests.support.run_model import outputs
from tests.support.weight_models import applied, weights_model
from tests.traps import TRAPS, Trap, feeds_for

pytestmark = pytest.mark.sampled(16)

VARIANTS: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("int8-weights", {"granularity": "block", "block_size": 32}),
    ("int8-weights", {"steps": 5}),
    ("int8-weights", {"steps": 80}),
    ("int8-weights", {"encoding": "dq"}),
    ("int8-weights", {"encoding": "dq", "granularity": "block"}),
    ("int4-weights", {"encoding": "dq", "raise_opset": True, "min_elements": 1024}),
)
# Shapes that depend on what was rounded, and variances that are rounded to zero.
TOO_MUCH = {"shape_from_values", "variance_under_a_root"}


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_options_keep_the_promises_too(
    name: str, options: Mapping[str, object], trap: Trap, tmp_path: Path
) -> None:
    path, made = trap.build(tmp_path), tmp_path / "made" / "model.onnx"
    run = Run(method(name), options)
    with open_model(path) as model:
        size = sum(file.stat().st_size for file in files_of(path, model.proto))
        chained = run_chain(model, [run], size=size)
        assert chained.size <= size
        assert not contract_breaks(model.proto, chained.model.proto, allow=run.method.changes)
        made.parent.mkdir()
        write_model(chained.model, made)
    if not chained.steps[0].kept:
        return
    with open_model(made) as model:
        again = run_chain(model, [run], size=lay_out(model).size)
        assert model_digest(again.model) == model_digest(model), "a second run changed the model"
    if trap.runs and trap.repeats and trap.name not in TOO_MUCH:
        feeds = feeds_for(trap, path)
        for wanted, found in zip(outputs(path, feeds), outputs(made, feeds), strict=True):
            for one, other in zip(map(np.asarray, wanted), map(np.asarray, found), strict=True):
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                assert one.dtype.kind != "f" or np.array_equal(np.isfinite(one), np.isfinite(other))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fp16-weights", {}),
        ("int8-weights", {}),
        ("int8-weights", {"encoding": "dq"}),
        ("int8-weights", {"granularity": "block"}),
        ("int8-weights", {"steps": 5}),
        ("int8-weights", {"steps": 20}),
        ("int8-weights", {"steps": 640}),
        ("int4-weights", {}),
        ("int4-weights", {"bits": 3}),
        ("compact", {}),
    ],
)
def test_a_model_has_as_many_parameters_as_before(
    tmp_path: Path, name: str, options: dict[str, object]
) -> None:
    rng = np.random.default_rng(0)
    few = rng.integers(0, 9, (96, 140)) / 7 if name == "compact" else rng.normal(size=(96, 141))
    path, chained = applied(weights_model({"w": few, "v": rng.normal(size=(7,))}), tmp_path, name, **options)
    assert path.stat().st_size < 0.8 * (tmp_path / "in.onnx").stat().st_size
    assert parameters(chained.model.proto) == few.size + 7


def test_a_table_that_is_stored_as_codes_itself_counts_no_less(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(96, 160))
    onnx.save(weights_model({"w": values}), tmp_path / "in.onnx")
    runs = [Run(method("int4-weights"), {}), Run(method("compact"), {})]
    with open_model(tmp_path / "in.onnx") as opened:
        size = (tmp_path / "in.onnx").stat().st_size
        proto = run_chain(opened, runs, size=size).model.proto
        assert any(tensor.name.endswith("pairs.codes") for tensor in proto.graph.initializer)
        assert parameters(proto) == values.size
