"""Models that draw random numbers: seeded alike, compared by distribution, or said to be beyond comparing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnx_ci.errors import ModelError
from onnx_ci.methods.catalogue import METHODS, Method
from onnx_ci.methods.chain import Run, run_chain
from onnx_ci.model.load import open_model
from onnx_ci.model.save import write_model
from onnx_ci.policy.schema import InputSpec, Limits, Tolerance
from onnx_ci.results import Verification
from onnx_ci.sandbox.runner import Runner
from onnx_ci.verify.reference import Reference
from onnx_ci.verify.verifier import Claim, Verifier
from tests.support.text_models import HEAD, model, save
from tests.traps.noisy import random_everywhere

pytestmark = pytest.mark.sampled(8)

WITH_F = HEAD.replace('"": 17', '"": 17, "f": 1')
USUAL = Tolerance(cosine=0.999)
CLOSE = Tolerance(cosine=0.999, max_rel=1e-3)
Check = Callable[..., Verification]


def text(body: str, outputs: str = "float[4,16] y", more: str = "") -> str:
    constants = "<float r = {0.5}, float one = {1.0}, bool on = {1}>"
    return f"g (float[4,16] x) => ({outputs}) {constants} {{ h = MatMul(x, W) {body} }}{more}"


def made(body: str, *, scale: float = 1.0, bent: bool = False, **more: str) -> onnx.ModelProto:
    """A product with a weight and what is done to it; `bent` damages one column of the weight."""
    proto = model(text(body, **more), WITH_F)
    weight = np.random.default_rng(5).standard_normal((16, 16)).astype(np.float32) * np.float32(scale)
    if bent:
        weight[:, 3] *= -1
    proto.graph.initializer.append(numpy_helper.from_array(weight, "W"))
    return proto


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as one:
        yield one


@pytest.fixture
def check(runner: Runner, tmp_path: Path) -> Check:
    def run(
        original: onnx.ModelProto, candidate: onnx.ModelProto, tolerance: Tolerance = USUAL, **spec: Any
    ) -> Verification:
        path = save(original, tmp_path / "original.onnx")
        before = path.read_bytes()
        root = tmp_path
        reference = Reference(
            runner, path, original, spec=InputSpec(**spec), limits=Limits(seconds=60), root=root
        )
        other = save(candidate, tmp_path / "candidate.onnx")
        found = Verifier(reference).check(Claim(path=other, proto=candidate, tolerance=tolerance))
        assert path.read_bytes() == before
        assert {file.name for file in tmp_path.iterdir()} == {"original.onnx", "candidate.onnx"}
        return found

    return run


BRANCH = (
    "s = ReduceSum<keepdims=0>(x) c = Equal(s, s) y = If(c)"
    " <then_branch = a () => (float[4,16] n) { m = RandomNormalLike(h) n = Add(h, m) },"
    " else_branch = b () => (float[4,16] n) { m = RandomUniformLike(h) n = Add(h, m) }>"
)
REPEAT = (
    "n = Constant<value_int=3>() y = Loop(n, on, h) <body = b (int64 i, bool c, float[4,16] a) =>"
    " (bool d, float[4,16] s) { d = Identity(c) u = RandomUniformLike(a) s = Add(a, u) }>"
)
IN_F = "noise (a) => (b) { n = RandomNormalLike(a) b = Add(a, n) }"
FUNCTION: dict[str, Any] = {"more": f'\n<domain: "f", opset_import: ["": 17]> {IN_F}'}
KINDS = {
    "normal": "n = RandomNormal<shape=[4,16]>() y = Add(h, n)",
    "normal like": "n = RandomNormalLike<scale=3.0>(h) y = Add(h, n)",
    "uniform": "n = RandomUniform<shape=[4,16]>() y = Mul(h, n)",
    "two": "n = RandomUniformLike(h) m = RandomUniformLike(h) a = Mul(h, n) y = Sub(a, m)",
    "coin": "p = Sigmoid(h) b = Bernoulli(p) y = Mul(h, b)",
    "multinomial": "m = Multinomial<sample_size=16>(h) f = Cast<to=1>(m) y = Add(h, f)",
    "dropout": "y = Dropout(h, r, on)",
    "branch": BRANCH,
    "loop": REPEAT,
}


@pytest.mark.parametrize("kind", KINDS)
def test_random_nodes_are_seeded_alike(check: Check, kind: str) -> None:
    original = made(KINDS[kind])
    found = check(original, original, Tolerance(exact=True))
    assert (found.status, found.reason, found.method) == ("passed", "", "seeded")
    assert all(one.exact for one in found.noise)
    found = check(original, made(KINDS[kind], bent=True), CLOSE)
    assert (found.status, found.method) == ("failed", "seeded")


def test_in_a_function(check: Check) -> None:
    original, bent = (made("y = f.noise(h)", bent=bent, **FUNCTION) for bent in (False, True))
    assert check(original, original, Tolerance(exact=True)).method == "seeded"
    assert check(original, bent, CLOSE).status == "failed"


def test_rounding_is_measured_as_if_nothing_were_random(check: Check) -> None:
    original, tolerance = made(KINDS["normal like"]), Tolerance(sqnr=50.0)
    found = check(original, made(KINDS["normal like"], scale=1.01), tolerance)
    assert (found.status, found.method) == ("failed", "seeded")
    assert check(original, made(KINDS["normal like"], scale=1.0001), tolerance).status == "passed"


def test_nodes_around_random_ones_do_not_matter(check: Check) -> None:
    """onnxruntime's own seeds go by a node's place in the graph; ours do not."""
    original = made("a = Neg(h) b = Neg(a) c = Relu(x) n = RandomNormalLike(b) y = Add(b, n)")
    other = made("b = Identity(h) n = RandomNormalLike(b) y = Add(b, n)")
    assert check(original, other, Tolerance(exact=True)).status == "passed"


def test_a_random_node_that_nothing_needs_may_go(check: Check) -> None:
    original = made("u = RandomUniformLike(h) n = RandomNormalLike(h) y = Add(h, n)")
    assert check(original, made("n = RandomNormalLike(h) y = Add(h, n)"), CLOSE).method == "seeded"


def test_renamed_values_are_matched_by_order(check: Check) -> None:
    original = made("n = RandomNormalLike(h) u = RandomUniformLike(h) a = Add(h, n) y = Mul(a, u)")
    other = made("n2 = RandomNormalLike(h) u2 = RandomUniformLike(h) a = Add(h, n2) y = Mul(a, u2)")
    found = check(original, other, Tolerance(exact=True))
    assert (found.status, found.method) == ("passed", "seeded")


@pytest.mark.parametrize(
    "body",
    [
        "n = RandomNormalLike<seed=1.0>(h) y = Add(h, n)",  # the same numbers every time
        "n = Mul(h, r) y = Add(h, n)",  # none at all
        "n = RandomNormalLike<scale=1.2>(h) y = Add(h, n)",
        "n = RandomNormalLike<mean=0.5>(h) y = Add(h, n)",
    ],
)
def test_what_is_random_stays_as_random(check: Check, body: str) -> None:
    found = check(made("n = RandomNormalLike(h) y = Add(h, n)"), made(body), CLOSE)
    assert found.status == "failed"


def test_two_random_nodes_that_became_one(check: Check) -> None:
    original = made("n = RandomNormalLike(h) m = RandomNormalLike(h) a = Add(h, n) y = Sub(a, m)")
    found = check(original, made("n = RandomNormalLike(h) a = Add(h, n) y = Sub(a, n)"))
    assert found.status == "failed"


def test_noise_that_an_input_scales_to_nothing(check: Check) -> None:
    def scaled(kind: str, offset: str = "0.0") -> onnx.ModelProto:
        graph = (
            f"g (float[2] x, float noise_scale) => (float[2] y) <float b = {{{offset}}}>"
            f" {{ r = {kind}(x) n = Mul(r, noise_scale) a = Add(x, n) y = Add(a, b) }}"
        )
        return model(graph)

    quiet = {"ranges": {"noise_scale": (0, 0)}}
    found = check(scaled("RandomNormalLike"), scaled("RandomUniformLike"), Tolerance(exact=True), **quiet)
    assert (found.status, found.method) == ("passed", "plain")
    other = scaled("RandomUniformLike", "0.5")
    assert check(scaled("RandomNormalLike"), other, Tolerance(max_abs=0.1), **quiet).status == "failed"


def test_seeds_of_the_model_itself_are_left_alone(check: Check) -> None:
    proto = made("n = RandomNormalLike<seed=7.0>(h) y = Add(h, n)")
    found = check(proto, proto, Tolerance(exact=True))
    assert (found.status, found.method) == ("passed", "plain")
    other = made("n = RandomNormalLike<seed=8.0>(h) y = Add(h, n)")
    assert check(proto, other, CLOSE).status == "failed"


HUM = "n = RandomNormalLike<scale=0.25>(h) y = Add(h, n)"
# What onnxruntime makes of a Bernoulli: one where a uniform number is above p.
COIN = "p = Sigmoid(h) b = Bernoulli(p) y = Mul(h, b)"
DRAWN = "p = Sigmoid(h) u = RandomUniformLike(p) l = Greater(u, p) b = Cast<to=1>(l) y = Mul(h, b)"


def test_other_random_nodes_are_compared_by_distribution(check: Check) -> None:
    found = check(made(COIN), made(DRAWN), USUAL)
    assert (found.status, found.reason, found.method) == ("passed", "", "distribution")
    assert 0.999 < found.outputs[0].cosine < 1
    assert not found.outputs[0].exact


@pytest.mark.parametrize(
    ("body", "damage"),
    [
        (DRAWN, {"bent": True}),
        (DRAWN, {"scale": 1.2}),
        (DRAWN.replace("Sigmoid(h)", "Sigmoid(x)"), {}),
        (DRAWN.replace("= Greater(u, p)", "= Less(u, p)"), {}),
        ("u = RandomUniformLike(h) p = Sigmoid(h) b = Sub(one, p) y = Mul(h, b)", {}),  # the mean alone
    ],
)
def test_damage_shows_in_the_distribution(check: Check, body: str, damage: dict[str, Any]) -> None:
    found = check(made(COIN), made(body, **damage), USUAL)
    assert (found.status, found.method) == ("failed", "distribution")


@pytest.mark.parametrize(
    "body",
    [
        "n = RandomNormal<shape=[4,16], scale=0.1>() y = Add(h, n)",
        "n = RandomNormal<shape=[4,16]>() m = Mul(n, r) k = Mul(m, r) y = Add(h, k)",
        "n = RandomUniform<shape=[4,16], low=-0.433, high=0.433>() y = Add(h, n)",  # mean and variance alike
        "n = RandomNormal<shape=[1,16], scale=0.25>() y = Add(h, n)",  # the same for every row
    ],
)
def test_the_spread_counts_too(check: Check, body: str) -> None:
    original = made(HUM)
    found = check(original, made(body), USUAL)
    same = body.startswith("n = RandomNormal<shape=[4,16]>()")
    assert (found.status, found.method) == ("passed" if same else "failed", "distribution")


def test_too_noisy_for_the_tolerance(check: Check) -> None:
    original = made("n = RandomNormalLike<scale=50.0>(h) y = Add(h, n)")
    other = made("n = RandomNormal<shape=[4,16], scale=50.0>() y = Add(h, n)")
    found = check(original, other, Tolerance(cosine=0.9999))
    assert (found.status, found.code) == ("not_run", "OCI005")
    assert "4096 runs of it are too few to tell: output 'y'" in found.reason
    assert "seed" in found.hint
    assert "ranges" in found.hint
    assert "methods: []" in found.hint


def test_exact_outputs_of_other_random_nodes(check: Check) -> None:
    found = check(made(COIN), made(DRAWN), Tolerance(exact=True))
    assert (found.status, found.code) == ("not_run", "OCI005")
    assert "random" in found.reason


def test_outputs_of_random_length(check: Check) -> None:
    body = "u = {}(h) c = Greater(u, r) i = NonZero(c) y = Cast<to=1>(i)"
    original = made(body.format("RandomUniformLike"), outputs="float[2,n] y")
    found = check(original, original, Tolerance(exact=True))
    assert (found.status, found.method) == ("passed", "seeded")
    found = check(original, made(body.format("RandomNormalLike"), outputs="float[2,n] y"))
    assert (found.status, found.code) == ("not_run", "OCI005")
    assert "output 'y' has another shape each run" in found.reason


def test_integers_that_do_not_change_from_run_to_run_must_be_equal(check: Check) -> None:
    where = " k = ArgMax<axis=1, keepdims=0>({})"
    outputs = "float[4,16] y, int64[4] k"
    original = made(COIN + where.format("h"), outputs=outputs)
    assert check(original, made(DRAWN + where.format("h"), outputs=outputs)).status == "passed"
    found = check(original, made(DRAWN + where.format("x"), outputs=outputs))
    assert (found.status, found.method) == ("failed", "distribution")
    assert "output 'k': " in found.reason
    assert "int64 must not" in found.reason


@pytest.mark.parametrize("method", [one for one in METHODS if one.exact], ids=lambda method: method.name)
def test_exact_methods_leave_random_nodes_alone(runner: Runner, tmp_path: Path, method: Method) -> None:
    """None is merged with another, folded or given a seed; those that go are not needed."""
    path, target = save(random_everywhere(), tmp_path / "original.onnx"), tmp_path / "candidate.onnx"
    with open_model(path) as opened:
        chained = run_chain(opened, [Run(method, {})], size=path.stat().st_size, feeds=list)
        write_model(chained.model, target)
        limits = Limits(seconds=60)
        reference = Reference(runner, path, opened.proto, spec=InputSpec(), limits=limits, root=tmp_path)
        claim = Claim(path=target, proto=chained.model.proto, tolerance=CLOSE, allowed=method.changes)
        found = Verifier(reference).check(claim)
    assert (found.status, found.reason, found.method) == ("passed", "", "seeded")


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        (
            "a = Mul(h, r) l = Mul(a, r) p = Sigmoid(l) k = Bernoulli(p) y = Tanh(h)",
            "float[4,16] y, float[4,16] k",
        ),
        ("l = Mul(h, r) k = Multinomial<sample_size=8>(l) y = Tanh(h)", "float[4,16] y, int32[4,8] k"),
    ],
)
def test_throws_that_rounding_turns_are_compared_by_how_often_they_fall(
    check: Check, body: str, outputs: str
) -> None:
    original = made(body, outputs=outputs)
    assert check(original, original).method == "seeded"
    rounded = made(body, outputs=outputs, scale=1.02)
    found = check(original, rounded)
    assert (found.status, found.reason, found.method) == ("passed", "", "distribution")
    assert found.outputs[0].sqnr > 30  # what is no throw is compared number by number
    assert check(original, made(body, outputs=outputs, bent=True)).status == "failed"
    only = outputs.split(", ")[1]
    bent = made(body.replace(" y = Tanh(h)", ""), outputs=only, bent=True)
    found = check(made(body.replace(" y = Tanh(h)", ""), outputs=only), bent)
    assert (found.status, found.method) == ("failed", "distribution")


@pytest.fixture
def stranger(runner: Runner, tmp_path: Path) -> Verifier:
    """A verifier for a model whose noise comes from a node that nobody knows how to seed, as of a library."""
    original = made(HUM)
    path = save(original, tmp_path / "original.onnx")
    limits = Limits(seconds=60)
    reference = Reference(runner, path, original, spec=InputSpec(), limits=limits, root=tmp_path)
    reference.seeding.seeds.clear()
    return Verifier(reference)


def claim(proto: onnx.ModelProto, path: Path, tolerance: Tolerance = USUAL) -> Claim:
    return Claim(path=save(proto, path), proto=proto, tolerance=tolerance)


def test_noise_that_can_not_be_seeded_is_found_by_running_twice(stranger: Verifier, tmp_path: Path) -> None:
    same, bent = (
        made("n = RandomNormalLike<scale=0.25>(h) y = Add(h, n)", bent=bent) for bent in (False, True)
    )
    found = stranger.check(claim(same, tmp_path / "same.onnx"))
    assert (found.status, found.reason, found.method) == ("passed", "", "distribution")
    assert [one.source for one in found.noise] == ["runs"]
    assert stranger.check(claim(bent, tmp_path / "bent.onnx")).status == "failed"
    with pytest.raises(ModelError, match="differ from run to run"):
        stranger.reference.usable_outputs()


def test_a_damaged_model_is_told_apart_by_distribution(stranger: Verifier, tmp_path: Path) -> None:

    assert stranger.sensitivity(claim(made(HUM), tmp_path / "same.onnx")) == {"y": "unmoved"}
    bent = claim(made(HUM, bent=True), tmp_path / "bent.onnx")
    assert stranger.sensitivity(bent) == {"y": "noticed"}
    slightly = claim(made(HUM, scale=1.02), tmp_path / "slightly.onnx", Tolerance(cosine=0.99))
    assert stranger.sensitivity(slightly) == {"y": "missed"}


def test_too_strict_for_a_random_model(stranger: Verifier, tmp_path: Path) -> None:
    same = made(HUM)
    found = stranger.check(claim(same, tmp_path / "same.onnx", Tolerance(max_abs=1e-6)))
    assert (found.status, found.code) == ("not_run", "OCI005")
    assert "runs of it are too few to tell: output 'y': max_abs" in found.reason
    assert "methods: []" in found.hint
