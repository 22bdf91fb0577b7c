"""A policy that was written to do harm is refused at once."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from onnx_ci.errors import PolicyError
from onnx_ci.policy.load import parse_policy
from tests.support.good_policies import HEAD, Registry, in_rule


def refusal(text: str) -> str:
    start = time.process_time()
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, file="p.yaml", methods=Registry())
    assert time.process_time() - start < 60  # of this processor, however busy: it takes one at most
    assert "for example" in caught.value.hint
    return caught.value.message


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_depth_is_refused_before_it_overflows_the_stack(opening: str) -> None:
    assert "p.yaml:1: found more than 50 levels" in refusal(opening * (2**20 // len(opening)))


def test_a_flood_of_values() -> None:
    assert "more than 100,000 values" in refusal("a: [" + "1," * 200_000 + "]")


@pytest.mark.sampled(0)
def test_aliases_of_aliases_of_rules() -> None:
    many = ", ".join(["dedupe"] * 1000)
    rules = "".join("  - {path: n, methods: *m}\n" for _ in range(1000))
    assert "p.yaml:4: found more than 100,000 values behind aliases" in refusal(
        in_rule(f"methods: &m [{many}]") + rules
    )


def test_merges_of_merges() -> None:
    lines = ["budget: &b0 {size: 1 MB}"]
    text = in_rule(*lines)
    for n in range(1, 8):
        text += f"  - {{path: n, budget: &b{n} {{<<: [{', '.join([f'*b{n - 1}'] * 9)}]}}}}\n"
    assert "behind aliases" in refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "    budget: &a {<<: *a}\n",
        HEAD + "    methods: &a [*a]\n",
        "&a {version: 1, models: [*a]}\n",
        "version: 1\nmodels: &a [*a]\n",
    ],
)
def test_values_inside_themselves(text: str) -> None:
    assert refusal(text).startswith("p.yaml:")


def test_too_long_a_text() -> None:
    assert "more than 1 MiB" in refusal("#" * (2**20 + 1))


@pytest.mark.parametrize(
    "value", ["9" * 500_000, "1" * 500_000 + "x", "1." + "0" * 500_000 + "x", "_" * 500_000]
)
@pytest.mark.parametrize("line", ["budget: {size: %s}", "tolerance: {cosine: %s}", "inputs: {count: %s}"])
def test_endless_numbers(line: str, value: str) -> None:
    assert len(refusal(in_rule(line % value))) < 300


def test_loading_is_light() -> None:
    """What only the error path needs, or another layer, is not there after a right policy was read."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1].split('|')\n"
        "from tests.support.good_policies import CONTRACT, Registry\n"
        "from onnx_ci.policy.load import parse_policy\n"
        "parse_policy(CONTRACT, file='p', methods=Registry())\n"
        "heavy = ('difflib', 'json', 'numpy', 'onnx', 'onnx_ci.methods', 'subprocess')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "|".join(sys.path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
