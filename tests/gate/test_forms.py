"""What a form is said to stand for is what onnxruntime makes of it, and a probe runs as the model does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_ci.gate.planner_trials import Form, Shelf, forms_of
from onnx_ci.gate.subject import Task
from onnx_ci.methods.chain import Run, RunPart, run_chain
from onnx_ci.methods.edit import probe
from onnx_ci.model.load import open_model
from onnx_ci.model.measure import compressed_size
from onnx_ci.model.save import write_model
from onnx_ci.policy.schema import Budget, MethodChoice, Rule
from tests.support.run_model import identical, outputs
from tests.traps.base import model, weight, write

BRANCHES = """g (bool c, float[2,64] x) => (float[2,64] y) { h = MatMul(x, U)
    y = If (c) <then_branch = t () => (float[2,64] a) { a = MatMul(h, W) },
    else_branch = e () => (float[2,64] b) { b = MatMul(h, W) }> }"""
CHOICES = [
    MethodChoice(name="fp16-weights"),
    MethodChoice(name="int8-weights"),
    MethodChoice(name="int4-weights"),
    MethodChoice(name="int8-weights", options={"encoding": "dq"}),
    MethodChoice(name="int8-weights", options={"encoding": "dq", "granularity": "block"}),
    MethodChoice(name="int4-weights", options={"encoding": "dq"}),
]
FORMS = [*forms_of(CHOICES), *forms_of(CHOICES[1:2], compressible=True)[2:]]
FEEDS = [{"c": np.array(which), "x": weight(2, 64, seed=5, scale=1.0)} for which in (True, False)]


def branches() -> onnx.ModelProto:
    """Two tensors of one name, seen from nowhere but their own branch, and one that all see."""
    inside = {"t": {"W": weight(64, 64, seed=1)}, "e": {"W": weight(64, 64, seed=2)}}
    return model(BRANCHES, {"U": weight(64, 64, seed=3)}, inside=inside, opset=21, ir=10)


def test_the_forms_of_a_rule_are_its_methods_with_what_lies_between() -> None:
    labels = [form.label for form in forms_of(CHOICES[:3])]
    assert labels[:5] == ["fp16", "int8 by channel", "int8 by block", "int4", "int2 by 16"]
    bits = {form.options.bits for form in forms_of(CHOICES[2:3])}  # type: ignore[attr-defined]
    blocks = {form.options.block_size for form in forms_of(CHOICES[2:3])}  # type: ignore[attr-defined]
    assert (bits, blocks) == ({2, 3, 4, 5, 6, 7, 8, 9, 10, 12}, {16, 32, 64, 128})
    fixed = [MethodChoice(name="int4-weights", options={"bits": 6})]
    assert [form.options.bits for form in forms_of(fixed)] == [6]  # type: ignore[attr-defined]


def test_forms_for_compressors_are_there_where_compressed_sizes_count_alone() -> None:
    plain, more = forms_of(CHOICES[:3]), forms_of(CHOICES[:3], compressible=True)
    labels = [form.label for form in plain]
    assert [form.label for form in more if form.label in labels] == labels
    further = [form for form in more if form.label not in labels]
    assert {form.run.method.name for form in further} == {"int8-weights"}
    assert all(form.variant and form.label.startswith("steps of rms/") for form in further)
    for options in ({"granularity": "block"}, {"steps": 20}, {"encoding": "dq"}):
        named = MethodChoice(name="int8-weights", options=options)
        assert [form.label for form in forms_of([named], compressible=True)] == ["int8"]
        assert [form.label for form in forms_of([named])] == ["int8"]


@pytest.mark.parametrize(
    ("budget", "counted"),
    [
        (Budget(gzip=10), True),
        (Budget(brotli=10, params=5), True),
        (Budget(size=10), False),
        (Budget(gzip=10, size=20), False),
        (Budget(gzip=10, growth=0.1), False),
        (Budget(), False),
    ],
)
def test_a_limit_on_disk_leaves_no_room_for_them(budget: Budget, counted: bool, tmp_path: Path) -> None:
    rule = Rule(pattern="*", budget=budget)
    task = Task(path=tmp_path / "a.onnx", name="a", rule=rule, root=tmp_path, home=tmp_path, base_size=100)
    assert task.only_compressed == counted
    assert not replace(task, share=50).only_compressed  # of a group


@pytest.mark.sampled(3)
@pytest.mark.parametrize("index", range(len(FORMS)), ids=[form.label for form in FORMS])
def test_a_trial_gives_what_the_candidate_gives(index: int, tmp_path: Path) -> None:
    form: Form = FORMS[index]
    path = write(branches, tmp_path)
    with open_model(path) as opened:
        shelf = Shelf(opened, [form], tmp_path, compressed=False)
        assert set(shelf.tensors) == {"U", "W"}
        made, inputs = probe(opened, shelf.tensors)
        write_model(made, tmp_path / "probe.onnx")
        run = Run(form.run.method, form.run.options, (RunPart(form.label, form.run.options, ("U", "W")),))
        chained = run_chain(opened, [run], size=path.stat().st_size)
        write_model(chained.model, tmp_path / "candidate.onnx")
        files = shelf.files(dict.fromkeys(shelf.tensors, 0))
    fed = {
        entry: np.load(file)
        for name, values in files.items()
        for entry, file in zip(inputs[name], values, strict=True)
    }
    assert chained.steps[0].tensors == 2
    candidate = outputs(tmp_path / "candidate.onnx", FEEDS)
    trial = outputs(tmp_path / "probe.onnx", [{**feed, **fed} for feed in FEEDS])
    # onnxruntime may round what DequantizeLinear's result is multiplied with, too.
    close = 0.05 if "encoding" in form.run.options else 1e-5
    np.testing.assert_allclose(np.array(trial), np.array(candidate), rtol=1e-4, atol=close)
    assert not np.allclose(np.array(trial), np.array(outputs(path, FEEDS)), rtol=1e-6, atol=0)


def test_a_probe_without_other_weights_is_the_model(tmp_path: Path) -> None:
    path = write(branches, tmp_path)
    with open_model(path) as opened:
        made, inputs = probe(opened, ["U", "W"])
        write_model(made, tmp_path / "probe.onnx")
    assert {name: len(entries) for name, entries in inputs.items()} == {"U": 1, "W": 2}
    assert identical(outputs(tmp_path / "probe.onnx", FEEDS), outputs(path, FEEDS))


@pytest.mark.sampled(0)
def test_estimates_are_near_what_is_written(tmp_path: Path) -> None:
    text = "g (float[1,512] x) => (float[1,512] y) { y = MatMul(x, W) }"
    path = write(lambda: model(text, {"W": weight(512, 512)}), tmp_path)
    with open_model(path) as opened:
        shelf = Shelf(opened, forms_of(CHOICES[:3]), tmp_path, compressed=False)
        tensor = shelf.tensors["W"]
        for index, form in enumerate(shelf.forms):
            run = Run(form.run.method, form.run.options, (RunPart(form.label, form.run.options, ("W",)),))
            chained = run_chain(opened, [run], size=path.stat().st_size)
            saved = path.stat().st_size - chained.size
            assert tensor.nbytes - tensor.forms[index].nbytes == pytest.approx(saved, abs=16000), form.label
            values = np.load(shelf.files({"W": index})["W"][0])
            error = float(((values - weight(512, 512)) ** 2).sum())
            assert tensor.forms[index].error == pytest.approx(error, rel=0.3), form.label


def test_compressed_estimates_are_near_what_a_real_compressor_makes(tmp_path: Path) -> None:
    text = "g (float[1,512] x) => (float[1,512] y) { y = MatMul(x, W) }"
    path = write(lambda: model(text, {"W": weight(512, 512)}), tmp_path)
    with open_model(path) as opened:
        forms = forms_of(CHOICES[:3], compressible=True)
        shelf = Shelf(opened, forms, tmp_path, compressed=True)
        tensor = shelf.tensors["W"]
        assert len(tensor.forms) == len(forms)
        for index, form in enumerate(forms):
            run = Run(form.run.method, form.run.options, (RunPart(form.label, form.run.options, ("W",)),))
            chained = run_chain(opened, [run], size=path.stat().st_size)
            write_model(chained.model, tmp_path / "candidate.onnx")
            made = compressed_size("gzip", [tmp_path / "candidate.onnx"])
            said = tensor.forms[index].nbytes + shelf.tables[index]
            # Channels of a sample are shorter than those of all of it, and hold fewer extremes.
            near = 0.06 if form.label == "int8 by channel" else 0.03
            assert said == pytest.approx(made, rel=near, abs=600), form.label
