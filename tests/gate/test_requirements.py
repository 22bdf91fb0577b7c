"""What a rule requires of a model without running it."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from onnx_ci.gate.requirements import unmet
from onnx_ci.methods.catalogue import Catalogue
from onnx_ci.policy.load import parse_policy
from onnx_ci.policy.loosening import loosenings
from onnx_ci.policy.schema import Rule
from tests.support.cli import call as onnx_ci
from tests.support.git_repo import write_policy
from tests.support.models import lean


def model(*dims: str | int, ir: int = 9, opset: int = 17, domain: str = "") -> onnx.ModelProto:
    """One node; inputs x of these sizes and a state with the batch second."""
    graph = helper.make_graph(
        [helper.make_node("Gelu" if domain else "Relu", ["x"], ["y"], domain=domain)],
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, dims or ["batch", 4]),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [2, "batch", 8]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=imports, ir_version=ir)
    helper.set_model_props(made, {"license": "MIT", "author": " "})
    return made


def rule(require: str) -> Rule:
    text = f'version: 1\nmodels:\n  - path: "*"\n    require: {require}\n'
    return parse_policy(text, file="p.yaml", methods=Catalogue()).rules[0]


@pytest.mark.parametrize(
    ("require", "made", "said"),
    [
        ('{opset: "<=17", ir: 9, metadata: [license], dynamic_batch: true}', model(), ""),
        ("{domains: [], operators: {deny: [Loop], allow: [Re*, Gemm]}}", model(), ""),
        ("{domains: [com.microsoft]}", model(domain="com.microsoft"), ""),
        ("{runtimes: [onnxruntime@1.17, onnxruntime-web@1.20]}", model(), ""),
        ('{opset: "<17"}', model(), "has opset 17, its rule requires <=16"),
        ('{opset: ">=13, <=16"}', model(), "its rule requires >=13, <=16"),
        ('{ir: "<=8"}', model(), "has IR version 9, its rule requires <=8"),
        (
            "{domains: [ai.onnx.ml]}",
            model(domain="com.microsoft"),
            "of com.microsoft, its rule allows those of",
        ),
        ("{operators: {deny: [ai.onnx.Relu]}}", model(), "has Relu, which its rule denies"),
        (
            '{operators: {deny: ["com.microsoft.*"]}}',
            model(domain="com.microsoft"),
            "has com.microsoft.Gelu,",
        ),
        ("{operators: {allow: [Conv]}}", model(), "has Relu, which its rule does not allow"),
        ("{metadata: [author, license]}", model(), "has no author in its metadata"),
        ("{dynamic_batch: true}", model(1, 4), "the batch of x, state is fixed"),
        ("{dynamic_batch: false}", model(), "the batch of x is open"),
        (
            "{runtimes: [onnxruntime-web@1.20]}",
            model(opset=22),
            "has opset 22, onnxruntime-web@1.20 takes up to 21",
        ),
        ("{runtimes: [onnxruntime@1.17]}", model(ir=10), "has IR version 10, onnxruntime@1.17 takes up to 9"),
    ],
)
def test_what_is_not_met_is_said(require: str, made: onnx.ModelProto, said: str) -> None:
    found = [one.said for one in unmet(rule(require).require, made)]
    assert len(found) == bool(said)
    assert said in "".join(found)


def test_a_model_that_is_not_what_its_rule_requires(tmp_path: Path) -> None:
    onnx.save(lean(), tmp_path / "m.onnx")
    write_policy(tmp_path, "    require:\n      opset: '<=11'\n      metadata: [license]\n")
    done = onnx_ci("check", "--format", "json", cwd=tmp_path)
    (outcome,) = done.json["models"]
    assert (done.code, outcome["verdict"]) == (1, "unfit")
    assert [finding["code"] for finding in outcome["findings"]] == ["OCI061", "OCI061"]
    assert ".onnx-ci.yaml:5)" in outcome["findings"][0]["message"]


def test_no_method_takes_a_model_beyond_what_is_required(tmp_path: Path) -> None:
    onnx.save(lean(), tmp_path / "m.onnx")
    before = (tmp_path / "m.onnx").read_bytes()
    method = "{int4-weights: {encoding: dq, raise_opset: true, min_elements: 1024}}"
    allowed = f"    methods: [{method}]\n    tolerance: {{cosine: 0.5}}\n    plan_runs: 0\n"
    write_policy(tmp_path, f"{allowed}    require: {{opset: '<=20'}}\n")
    assert onnx_ci("fix", cwd=tmp_path).code == 0
    assert (tmp_path / "m.onnx").read_bytes() == before
    write_policy(tmp_path, allowed)
    assert onnx_ci("fix", cwd=tmp_path).code == 0
    assert (tmp_path / "m.onnx").read_bytes() != before


@pytest.mark.parametrize(
    ("base", "head", "looser"),
    [
        ('{opset: "<=17"}', '{opset: ">=13, <=17"}', False),
        ('{opset: "<=17"}', '{opset: "<=18"}', True),
        ('{opset: "<=17"}', "{ir: 9}", True),
        ("{domains: []}", "{domains: [com.microsoft]}", True),
        ("{operators: {deny: [Loop]}}", "{operators: {deny: [Loop, If]}}", False),
        ("{operators: {deny: [Loop]}}", "{operators: {allow: [Conv]}}", True),
        ("{dynamic_batch: true}", "{dynamic_batch: false}", True),
    ],
)
def test_what_is_required_less_is_a_loosening(base: str, head: str, looser: bool) -> None:
    assert bool(loosenings(rule(base), rule(head))) == looser
