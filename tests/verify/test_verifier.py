"""Original against candidate, from the files to the verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnx_ci.errors import ModelError
from onnx_ci.policy.schema import InputSpec, Limits, Tolerance
from onnx_ci.results import Verification
from onnx_ci.sandbox.runner import RunFailed, Runner
from onnx_ci.verify.reference import Reference
from onnx_ci.verify.verifier import Claim, Verifier
from tests.support.text_models import HEAD, LINEAR, LOOP, model, save

pytestmark = pytest.mark.sampled(2)

EMBED = (
    "g (int64[b,s] ids) => (float[b,s,2] y, int64[b,s] echo) <float[9,2] t = {"
    + ",".join(f"{i}.25" for i in range(18))
    + "}> { y = Gather(t, ids) echo = Identity(ids) }"
)
TIGHT = Tolerance(cosine=0.999, max_rel=1e-3)
Make = Callable[..., Verifier]


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as one:
        yield one


@pytest.fixture
def make(runner: Runner, tmp_path: Path) -> Make:
    def build(proto: onnx.ModelProto, seconds: float = 30, **spec: Any) -> Verifier:
        path = save(proto, tmp_path / "original.onnx")
        limits = Limits(seconds=seconds)
        inputs = InputSpec(**spec)
        return Verifier(Reference(runner, path, proto, spec=inputs, limits=limits, root=tmp_path))

    return build


def scaled(proto: onnx.ModelProto, factor: float) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    tensor = copy.graph.initializer[0]
    array = numpy_helper.to_array(tensor)
    array = (array * np.linspace(1, factor, array.size).reshape(array.shape)).astype(array.dtype)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return copy


def claim(path: Path, proto: onnx.ModelProto | None = None, **more: Any) -> Claim:
    return Claim(path=path, proto=proto or model(EMBED), **{"tolerance": TIGHT, **more})


def check(
    verifier: Verifier, proto: onnx.ModelProto, folder: Path, tolerance: Tolerance = TIGHT
) -> Verification:
    found = verifier.check(claim(save(proto, folder / "candidate.onnx"), proto, tolerance=tolerance))
    json.dumps(asdict(found), allow_nan=False)
    return found


def test_the_same_model_passes(make: Make, tmp_path: Path) -> None:
    found = check(make(model(EMBED)), model(EMBED), tmp_path, Tolerance(exact=True))
    assert (found.status, found.reason, found.inputs, found.samples) == ("passed", "", "generated", 2)
    assert [(delta.name, delta.exact) for delta in found.outputs] == [("y", True), ("echo", True)]


def test_a_small_change_passes_and_a_large_one_fails(make: Make, tmp_path: Path) -> None:
    verifier = make(model(EMBED))
    assert check(verifier, scaled(model(EMBED), 1.0001), tmp_path).status == "passed"
    failed = check(verifier, scaled(model(EMBED), 3), tmp_path)
    assert failed.status == "failed"
    assert {delta.name: delta.breaches for delta in failed.outputs} == {"y": ("limit",), "echo": ()}
    assert failed.reason.startswith("output 'y': ")
    assert "max_rel" in failed.reason
    assert "is above 0.001" in failed.reason
    assert len(failed.outputs) == 2


def test_the_reference_is_computed_once(make: Make, tmp_path: Path) -> None:
    verifier = make(model(EMBED))
    outputs = verifier.reference.outputs()
    assert all(one.exact for one in verifier.reference.noise)
    (tmp_path / "original.onnx").unlink()
    assert verifier.reference.outputs() is outputs
    assert check(verifier, model(EMBED), tmp_path).status == "passed"


def test_sensitivity_tells_echoes_apart(make: Make, tmp_path: Path) -> None:
    verifier = make(model(EMBED))
    damaged = save(scaled(model(EMBED), -5), tmp_path / "damaged.onnx")
    assert verifier.sensitivity(claim(damaged)) == {"y": "noticed", "echo": "unmoved"}
    (tmp_path / "broken.onnx").write_bytes(b"junk")
    with pytest.raises(RunFailed):
        verifier.sensitivity(claim(tmp_path / "broken.onnx"))


def test_latency(make: Make, tmp_path: Path) -> None:
    verifier = make(model(EMBED))
    found = verifier.latency(claim(save(model(EMBED), tmp_path / "candidate.onnx")))
    assert found.before > 0
    (tmp_path / "candidate.onnx").write_bytes(b"junk")
    with pytest.raises(RunFailed):
        verifier.latency(claim(tmp_path / "candidate.onnx"))


def test_samples_are_used(make: Make, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((5, 4), np.float32))
    found = check(make(model(LINEAR), samples=("*.npz",)), model(LINEAR), tmp_path)
    assert (found.status, found.inputs, found.samples) == ("passed", "samples", 1)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.npz", np.ones((5, 3), np.float32), "a.npz"),
        ("b.npz", np.ones((5, 4), np.float32), "no sample matches"),
    ],
)
def test_samples_that_do_not_fit_are_final(
    make: Make, tmp_path: Path, name: str, data: np.ndarray, says: str
) -> None:
    np.savez(tmp_path / name, x=data)
    found = check(make(model(LINEAR), samples=("a.npz",)), model(LINEAR), tmp_path)
    assert (found.status, found.code) == ("not_run", "OCI005")
    assert says in found.reason
    assert found.hint


def test_samples_that_do_not_run_are_final(make: Make, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", ids=np.array([[99]]))
    found = check(make(model(EMBED), samples=("a.npz",)), model(EMBED), tmp_path)
    assert (found.status, found.code) == ("not_run", "OCI005")
    assert "on the sample a.npz" in found.reason


def test_a_changed_interface_fails(make: Make, tmp_path: Path) -> None:
    other = model(EMBED, HEAD.replace("17", "18"))
    verifier = make(model(EMBED))
    found = check(verifier, other, tmp_path)
    assert found.status == "failed"
    assert "opset of ai.onnx was 17 and is now 18" in found.reason
    path = save(other, tmp_path / "candidate.onnx")
    assert verifier.check(claim(path, other, allowed=["opset"])).status == "passed"


def test_a_candidate_that_does_not_run_fails(make: Make, tmp_path: Path) -> None:
    verifier = make(model(EMBED))
    small = model(EMBED)
    del small.graph.initializer[0].dims[:]
    small.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((1, 2), np.float32), "t"))
    found = check(verifier, small, tmp_path)
    assert found.status == "failed"
    assert "could not be run" in found.reason
    (tmp_path / "candidate.onnx").write_bytes(b"junk")
    assert verifier.check(claim(tmp_path / "candidate.onnx")).status == "failed"


def test_a_candidate_that_hangs_fails(make: Make, tmp_path: Path) -> None:
    good = model(LOOP.replace("4611686018427387904", "2"))
    verifier = make(good, seconds=2)
    assert check(verifier, good, tmp_path).status == "passed"
    found = check(verifier, model(LOOP), tmp_path)
    assert (found.status, found.code) == ("failed", "OCI013")
    assert "within 2 s" in found.reason


def test_an_original_that_hangs_is_not_run(make: Make, tmp_path: Path) -> None:
    verifier = make(model(LOOP), seconds=1)
    found = check(verifier, model(LOOP), tmp_path)
    assert (found.status, found.code) == ("not_run", "OCI013")
    with pytest.raises(ModelError) as caught:  # remembered: no second wait
        verifier.reference.outputs()
    assert caught.value.code == "OCI013"


def test_an_original_that_can_not_be_loaded_is_not_run(make: Make, tmp_path: Path) -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) { y = my.Op(x) }", '<ir_version: 8, opset_import: ["my": 1]>'
    )
    found = check(make(proto), proto, tmp_path)
    assert (found.status, found.code) == ("not_run", "OCI005")
    assert "no library was given for them: my.Op" in found.reason


def test_an_original_that_never_runs_names_the_way_out(make: Make, tmp_path: Path) -> None:
    proto = model(
        "g (float[N,3] x, float[M,3] z) => (float y) { a = Constant<value_ints=[7,7]>() y = Reshape(x, a) }"
    )
    found = check(make(proto), proto, tmp_path)
    assert (found.status, found.code) == ("not_run", "OCI005")
    assert "Reshape" in found.reason
    assert "samples" in found.hint
    assert "dims" in found.hint
    fixed = make(
        model("g (float[N,7] x) => (float y) { a = Constant<value_ints=[7,7]>() y = Reshape(x, a) }"),
        dims={"N": 7},
    )
    assert fixed.reference.outputs()


@pytest.mark.parametrize(
    "body",
    [
        "z = Sub(x, x) y = Div(z, z)",
        "s = Constant<value_ints=[0]>() e = Constant<value_ints=[0]>() y = Slice(x, s, e)",
    ],
)
def test_an_original_that_says_nothing_is_no_evidence(make: Make, tmp_path: Path, body: str) -> None:
    proto = model(f"g (float[2] x) => (float[M] y) {{ {body} }}")
    found = check(make(proto), proto, tmp_path)
    assert (found.status, found.code) == ("not_run", "OCI005")
    assert "empty or NaN" in found.reason


def test_hostile_inputs_are_not_run(make: Make, tmp_path: Path) -> None:
    proto = model("g (float[1000000,1000000] x) => (float y) { y = ReduceSum(x) }")
    found = check(make(proto), proto, tmp_path)
    assert (found.status, found.code) == ("not_run", "OCI005")
    assert "'x'" in found.reason
    assert "samples" in found.hint


def test_sequences_are_made_up_or_given(make: Make, tmp_path: Path) -> None:
    proto = model("g (seq(float[2]) s) => (float[2] y) { i = Constant<value_int=0>() y = SequenceAt(s, i) }")
    assert check(make(proto), proto, tmp_path).status == "passed"
    named: dict[str, Any] = {"s[0]": np.ones(2, np.float32)}
    np.savez(tmp_path / "a.npz", **named)
    assert check(make(proto, samples=("a.npz",)), proto, tmp_path).status == "passed"
