"""What `compare`, `shrink` and `samples` say of their flags: in the user's words, and before any work."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_ci.gate.cache import plain, read
from onnx_ci.results import Verification
from onnx_ci.util.advice import CHECK_SAMPLES, GIVE_SAMPLES, hint_for, set_dims, set_tolerance
from onnx_ci.util.text import one_line
from tests.support.cli import call
from tests.support.models import lean


@pytest.fixture
def here(tmp_path: Path) -> Path:
    onnx.save(lean(), tmp_path / "a.onnx")
    onnx.save(lean(seed=1), tmp_path / "c.onnx")
    return tmp_path


@pytest.mark.parametrize(
    "command", [("compare", "a.onnx", "c.onnx"), ("shrink", "a.onnx", "o.onnx"), ("samples", "a.onnx")]
)
def test_a_dim_that_the_model_has_not_is_refused_with_those_it_has(here: Path, command: tuple[str]) -> None:
    model = onnx.load(here / "a.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    onnx.save(model, here / "a.onnx")
    more = ("--output", "s.npz") if command[0] == "samples" else ()
    done = call(*command, "--dims", "Q=7", *more, cwd=here)
    assert done.code == 2
    assert "no dim of the model is called 'Q'; its inputs leave open: rows" in done.err


@pytest.mark.parametrize(("pattern", "severity"), [("a.onnx", "warning"), ("*.onnx", "note")])
def test_a_dim_of_the_policy_that_the_model_has_not_is_told(here: Path, pattern: str, severity: str) -> None:
    rule = f"version: 1\nmodels:\n  - path: '{pattern}'\n    inputs: {{dims: {{Q: 7}}}}\n"
    (here / ".onnx-ci.yaml").write_text(rule)
    done = call("check", "a.onnx", "--format", "json", cwd=here)
    found = [one for outcome in done.json["models"] for one in outcome["findings"]]
    assert [(one["code"], one["severity"]) for one in found] == [("OCI005", severity)]
    assert "called 'Q'" in found[0]["message"]


@pytest.mark.parametrize("command", [("compare", "a.onnx", "c.onnx"), ("shrink", "a.onnx", "o.onnx")])
def test_a_sample_that_is_not_there_is_refused(here: Path, command: tuple[str]) -> None:
    done = call(*command, "--samples", here / "no.npz", cwd=here)
    assert done.code == 2
    assert f"there is no file '{here / 'no.npz'}'" in done.err
    assert not (here / "o.onnx").exists()


def test_a_sample_is_called_as_it_was_given(here: Path) -> None:
    (here / "s").mkdir()
    np.savez(here / "s" / "bad.npz", z=np.zeros(1))
    near = call("compare", "a.onnx", "c.onnx", "--samples", "s/bad.npz", cwd=here)
    assert ": s/bad.npz: the model has no input 'z'" in near.out
    far = call("compare", "a.onnx", "c.onnx", "--samples", here / "s" / "bad.npz", cwd=here)
    assert f" {here / 's' / 'bad.npz'}: the model has no input 'z'" in far.out


def test_hints_name_flags(here: Path) -> None:
    np.savez(here / "zeros.npz", x=np.zeros((1, 64), np.float32))
    done = call("compare", "a.onnx", "c.onnx", "--samples", "zeros.npz", cwd=here)
    assert "verification failed: on inputs made up for it, output" in done.out
    assert "inputs: {" not in done.out
    unfit = call("compare", "a.onnx", "c.onnx", "--tolerance", "max_abs=1e6", cwd=here)
    assert "give other inputs" in unfit.out
    assert "--tolerance max_abs=..." in unfit.out


def test_one_sample_is_one_sample(here: Path) -> None:
    np.savez(here / "one.npz", x=np.random.default_rng(0).normal(size=(1, 64)).astype(np.float32))
    done = call("compare", "a.onnx", "a.onnx", "--samples", "one.npz", cwd=here)
    assert "passed on 1 sample and 8 generated inputs; 15 more samples would vouch for more\n" in done.out


def test_a_gain_that_the_receipt_takes_is_told(here: Path) -> None:
    onnx.save(lean(width=8), here / "tiny.onnx")
    done = call("shrink", "tiny.onnx", "o.onnx", "--methods", "fp16-weights:min_elements=1", cwd=here)
    size = (here / "tiny.onnx").stat().st_size
    assert f"its receipt included, instead of {size:,}\n" in done.out
    assert (here / "o.onnx").read_bytes() == (here / "tiny.onnx").read_bytes()


def test_a_name_that_is_no_text_is_shown_by_its_bytes() -> None:
    assert one_line("bad\udcff\x1b.onnx") == r"bad\xff\x1b.onnx"


def test_a_budget_that_is_not_met_names_flags(here: Path) -> None:
    exact = call("shrink", "a.onnx", "o.onnx", "--methods", "dedupe", "--budget", "1KB", cwd=here)
    assert "  allow a stronger method (--methods exact,int8-weights), raise the --budget" in exact.out
    lossy = call("shrink", "a.onnx", "o.onnx", "--methods", "int8-weights", "--budget", "1KB", cwd=here)
    assert "(--methods exact,int8-weights,int4-weights), raise the --budget, loosen the --toler" in lossy.out
    assert "override" not in exact.out + lossy.out


def test_a_file_of_a_folder_of_samples_is_called_by_both(here: Path) -> None:
    (here / "s" / "test_data_set_0").mkdir(parents=True)
    (here / "s" / "test_data_set_0" / "input_0.pb").write_bytes(b"none")
    done = call("compare", "a.onnx", "c.onnx", "--samples", "s", cwd=here)
    assert ": s/test_data_set_0/input_0.pb: " in done.out


HINTS = [  # in the words of a policy, and of flags
    ("give it: " + GIVE_SAMPLES, "give it: inputs: {samples: [...]}", "give it: --samples F.npz"),
    (CHECK_SAMPLES + "; or not", "check inputs.samples; or not", "check --samples; or not"),
    ("by " + set_dims({"n": 2}) + ".", "by inputs: {dims: {n: 2}}.", "by --dims n=2."),
    (set_tolerance("max_abs", "2"), "tolerance: {max_abs: 2}", "--tolerance max_abs=2"),
]


@pytest.mark.parametrize(("hint", "policy", "flags"), HINTS)
def test_a_hint_has_words_for_each_audience_however_it_comes(hint: str, policy: str, flags: str) -> None:
    kept = read(Verification, json.loads(json.dumps(plain(Verification(status="failed", hint=hint)))))
    for same in (hint, kept.hint, copy.deepcopy(hint)):
        assert same == policy
        assert hint_for("policy", same) == hint_for("workflow", same) == policy
        assert hint_for("flags", same) == flags
