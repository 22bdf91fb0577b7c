"""States that a model hands on to its next call, and sizes that it was made for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_ci import compare
from onnx_ci.gate.single import make_samples
from onnx_ci.inputs.generate import state_outputs
from onnx_ci.policy.schema import InputSpec
from onnx_ci.sandbox.exchange import Array
from tests.traps.base import model

RNG = np.random.default_rng(0)
LOUD = (4 * np.eye(16)).astype(np.float32)
SOFT = (0.02 * RNG.standard_normal((16, 16))).astype(np.float32)


def remembering(soft: Array, output: str = "stateN") -> onnx.ModelProto:
    """A state that grows little from call to call; one that is noise drowns what the input does."""
    return model(
        f"g (float[1,16] x, float[1,16] state) => (float[1,16] {output})"
        "{ bounded = Tanh(x) heard = MatMul(bounded, soft) kept = MatMul(state, loud)"
        f" four = Constant<value_float = 4.0>() same = Div(kept, four) {output} = Add(same, heard) }}",
        {"soft": soft, "loud": LOUD},
    )


def test_states_are_what_the_model_has_left(tmp_path: Path) -> None:
    onnx.save(remembering(SOFT), tmp_path / "m.onnx")
    made = make_samples(tmp_path / "m.onnx", InputSpec(count=8))
    states = [np.asarray(sample["state"]) for sample in made.samples]
    inputs = [np.asarray(sample["x"]) for sample in made.samples]
    empty = [not state.any() for state in states]
    assert any(empty)
    assert not all(empty)
    assert max(float(np.abs(state).max()) for state in states) < max(float(np.abs(x).max()) for x in inputs)
    assert made.reasons[0]["state"] == "a state, by its name: nothing at first, then what the model left"


def test_an_error_does_not_drown_in_states_that_no_call_leaves() -> None:
    other = SOFT + (0.006 * RNG.standard_normal((16, 16))).astype(np.float32)
    assert compare(remembering(SOFT), remembering(other)).verdict == "outputs_changed"


def test_a_state_without_an_output_like_it_stays_noise(tmp_path: Path) -> None:
    onnx.save(remembering(SOFT, "action"), tmp_path / "m.onnx")
    made = make_samples(tmp_path / "m.onnx", InputSpec(count=4))
    assert made.reasons[0]["state"] == "noise"
    assert all(np.asarray(sample["state"]).any() for sample in made.samples)


@pytest.mark.parametrize(
    ("state", "outputs", "becomes"),
    [
        ("state", ["output", "stateN"], "stateN"),
        ("h", ["cn", "hn"], "hn"),
        ("cached_key_1", ["new_cached_key_0", "new_cached_key_1"], "new_cached_key_1"),
        ("conv_cache", ["enhanced", "conv_cache_out"], "conv_cache_out"),
        ("state", ["37", "35"], "37"),
        ("state", ["Identity", "state_out"], "state_out"),
        ("audio", ["audio_out"], None),
        ("state", ["action"], None),
    ],
)
def test_states_are_paired_by_name(state: str, outputs: list[str], becomes: str | None) -> None:
    value = np.zeros((1, 4), np.float32)
    assert state_outputs({state: value}, dict.fromkeys(outputs, value)).get(state) == becomes
    assert not state_outputs({state: value}, dict.fromkeys(outputs, np.zeros((2, 4), np.float32)))


def test_sizes_on_which_a_model_tells_inputs_apart_come_before_those_on_which_it_does_not(
    tmp_path: Path,
) -> None:
    """It takes 512 samples, and hears only what comes after them."""
    proto = model(
        "g (float[1,length] audio) => (float[1,1] y)"
        "{ shape = Shape(audio) one = Constant<value_ints = [1]>() count = Gather(shape, one)"
        " factor = Gather(table, count) from = Constant<value_ints = [520]>()"
        " to = Constant<value_ints = [552]>()"
        " part = Slice(audio, from, to, one) sum = ReduceSum(part, one) heard = Mul(sum, factor)"
        " y = Add(heard, factor) }",
        {"table": np.ones(4096, np.float32)},
    )
    onnx.save(proto, tmp_path / "m.onnx")
    made = make_samples(tmp_path / "m.onnx", InputSpec(count=4))
    assert {np.asarray(sample["audio"]).shape[1] for sample in made.samples} <= {576, 1024}
    many = make_samples(tmp_path / "m.onnx", InputSpec(count=8))
    assert {np.asarray(sample["audio"]).shape[1] for sample in many.samples} <= {576, 1024}
