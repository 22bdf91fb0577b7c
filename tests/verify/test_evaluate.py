"""The user's own score: one argument for the model, the metric read, failures told plainly."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onnx_ci.errors import ModelError
from onnx_ci.policy.schema import Evaluate, Limits
from onnx_ci.verify.score import Score, arguments, evaluate, read_metric


def spec(script: Path, **more: Any) -> Evaluate:
    return Evaluate(command=f'"{sys.executable}" "{script}" {{model}}', metric="wer", **more)


@pytest.fixture
def score(tmp_path: Path) -> Callable[..., Score]:
    """Scores a pair of files by the number that each holds."""
    script = tmp_path / "eval.py"
    script.write_text("import sys; print('wer:', open(sys.argv[1]).read())")

    def run(before: str, after: str, **more: Any) -> Score:
        (tmp_path / "a b'$(x).onnx").write_text(before)
        (tmp_path / "c.onnx").write_text(after)
        return evaluate(
            spec(script, **more),
            original=tmp_path / "a b'$(x).onnx",
            candidate=tmp_path / "c.onnx",
            root=tmp_path,
            limits=Limits(seconds=20),
        )

    return run


@pytest.mark.parametrize(
    ("after", "limits", "problem"),
    [
        ("5.2", {"max_increase": 0.2}, ""),
        ("5.3", {"max_increase": 0.2}, "wer rose from 5 to 5.3, by 0.3; 0.2 is allowed"),
        ("1", {"max_increase": 0.2}, ""),
        ("4", {"max_decrease": 0.5}, "wer fell from 5 to 4, by 1; 0.5 is allowed"),
        ("99", {}, ""),
    ],
)
def test_scores(score: Callable[..., Score], after: str, limits: dict[str, float], problem: str) -> None:
    found = score("5.0", after, **limits)
    assert (found.before, found.after) == (5.0, float(after))
    assert found.problem == problem


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("wer: 12.5", 12.5),
        ("wer=1e-3", 1e-3),
        ("final wer = -4", -4.0),
        ("wer: 9.5%", 9.5),
        ('{"wer": 7, "cer": 1}', 7.0),
        ("wer: 1\nwer: 2\ndone", 2.0),
        ('{"wer": 1}\n{"other": 2}', 1.0),
        ("wer: 1\n{not json", 1.0),
        ("power: 3", None),
        ('{"wer": true}', None),
        ('{"wer": "text"}', None),
        ("wer: 1.2.3", None),
        ("", None),
    ],
)
def test_reading_the_metric(text: str, value: float | None) -> None:
    assert read_metric(text, "wer") == value


def test_the_model_stays_one_argument() -> None:
    assert arguments("run --model={model} 'a b'", Path("/x y/m;rm.onnx")) == [
        "run",
        "--model=/x y/m;rm.onnx",
        "a b",
    ]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import sys; sys.exit('it broke')", "exit code 1: it broke"),
        ("print('nothing')", "printed no 'wer'"),
        ("print('wer: nan')", "printed `wer: nan`, which is no score"),
        ("print('wer: 5'); print('wer = -Inf')", "printed `wer: -inf`, which is no score"),
        ("print('{\"wer\": NaN}')", "printed `wer: nan`, which is no score"),
        ("import time; time.sleep(60)", "did not finish within 1 s"),
    ],
)
def test_failures(tmp_path: Path, code: str, says: str) -> None:
    script = tmp_path / "eval.py"
    script.write_text(code)
    began = time.monotonic()
    with pytest.raises(ModelError) as caught:
        evaluate(spec(script), original=script, candidate=script, root=tmp_path, limits=Limits(seconds=1))
    assert says in caught.value.message
    assert caught.value.code == "OCI016"
    assert caught.value.hint
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "command", ["python eval.py", "no-such-program-here {model}", "'unclosed {model}", ""]
)
def test_commands_that_make_no_sense(tmp_path: Path, command: str) -> None:
    with pytest.raises(ModelError) as caught:
        evaluate(
            Evaluate(command=command, metric="wer"),
            original=tmp_path / "a",
            candidate=tmp_path / "b",
            root=tmp_path,
            limits=Limits(seconds=5),
        )
    assert caught.value.code == "OCI016"


def test_it_runs_in_the_root_with_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    root.mkdir()
    script = tmp_path / "eval.py"
    script.write_text(
        "import os, sys; print('wer:', int(os.getcwd() == sys.argv[2] and os.path.isabs(sys.argv[1])))"
    )
    monkeypatch.chdir(tmp_path)
    command = f'"{sys.executable}" "{script}" {{model}} "{root}"'
    found = evaluate(
        Evaluate(command=command, metric="wer"),
        original=Path("eval.py"),
        candidate=Path("eval.py"),
        root=root,
        limits=Limits(),
    )
    assert found.after == 1.0
