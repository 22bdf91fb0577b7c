"""One model through the gate: opened, worked on, and whatever goes wrong turned into an outcome."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING

from onnx_ci.errors import ModelError
from onnx_ci.findings import Finding
from onnx_ci.model.digest import model_digest
from onnx_ci.model.hashing import BackgroundHash
from onnx_ci.model.load import open_model
from onnx_ci.model.replace import is_unfinished
from onnx_ci.results import Outcome
from onnx_ci.scratch import scratch_folder

if TYPE_CHECKING:
    from onnx_ci.sandbox.runner import Runner
from onnx_ci.anew import AnewGate
from onnx_ci.job import Job, Say


def judge(job: Job, runner: Runner | None, say: Say = lambda _: None) -> Outcome:
    """The outcome for one model; without a runner nothing is verified.

    A model that can't be handled is an outcome too, never an exception.
    """
    outcome = Outcome(
        path=job.name, verdict="unreadable", rule_pattern=job.rule.pattern, rule_line=job.rule.line
    )
    try:
        hashing = job.hashing or (BackgroundHash(job.path) if job.identify else None)
        with open_model(job.path, root=job.root) as model, scratch_folder() as scratch:
            if not is_unfinished(model):
                return AnewGate(job, model, hashing, scratch, say, runner).run(outcome)
            if job.write is None:
                return replace(outcome, verdict="would_shrink", findings=(_unfinished(job),))
            job.write(model.copy(), model, model_digest(model))
        return judge(replace(job, hashing=None), runner, say)
    except ModelError as error:
        finding = Finding(code=error.code, severity=job.rule.severity, message=error.message, hint=error.hint)
        return replace(outcome, findings=(finding,))
    except OSError as error:
        return replace(outcome, verdict="unverified", findings=(disk_trouble(job.name, error),))


def disk_trouble(name: str, error: OSError) -> Finding:
    return Finding(
        code="OCI017",
        severity="error",
        message=f"{name}: could not be worked on: {error.strerror or error}",
        hint=f"candidates are tried out in {tempfile.gettempdir()}: make room there, or set TMPDIR",
    )


def _unfinished(job: Job) -> Finding:
    return Finding(
        code="OCI018",
        severity=job.rule.severity,
        message=f"{job.name}: a fix was interrupted before its data file got its name; the model still loads",
        hint=f"run: onnx-ci fix {job.call}",
    )
