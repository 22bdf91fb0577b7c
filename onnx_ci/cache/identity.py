"""What an outcome depends on, as one digest: content, the rule as far as it counts, and who worked on it."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

from onnx_ci.inputs.sample_paths import sample_files
from onnx_ci.job import Job
from onnx_ci.model.hashing import file_sha256
from onnx_ci.policy.schema import Rule
from onnx_ci.sandbox.versions import Libraries
from onnx_ci.version import __version__

# All that has a part in what is written or measured. What is not installed has a part as well.
PACKAGES = (
    "onnx",
    "numpy",
    "protobuf",
    "onnxslim",
    "onnxsim",
    "onnxoptimizer",
    "brotli",
    "zstandard",
    "sympy",
)
# Parts of a rule that have no say in what a model becomes, only in what is said about it.
APPLIED_LATER = ("pattern", "line", "severity", "ignore", "only_new", "load_check")


def identity(job: Job, content: str, limits: Mapping[str, int]) -> str:
    """The name of the entry for this work; none where the outcome depends on more than can be told."""
    if not content or not is_repeatable(job.rule):
        return ""
    parts = {
        "content": content,
        "name": job.path.name,  # data files are called after it, and the receipt lists them
        "rule": {key: value for key, value in asdict(job.rule).items() if key not in APPLIED_LATER},
        **_user_files(job),
        "limits": dict(limits),
        "compressed": job.compressed,
        "insists": job.insists,
        "made by": _makers(),
    }
    return _digest(parts)


def _digest(parts: Mapping[str, object]) -> str:
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _user_files(job: Job) -> dict[str, list[str]]:
    libraries = Libraries(job.rule.libraries, job.home).found()
    return {"samples": list(_samples(job)), "libraries": [file_sha256(file) for file in libraries]}


def run_identity(job: Job, content: str, *against: str) -> str:
    """The name of the entry for what running a model showed: as it is, or against other contents."""
    if not content:
        return ""
    parts = {
        "contents": [content, *against],
        "name": job.path.name,  # onnxruntime's complaints have it
        "inputs": asdict(job.rule.inputs),
        "limits": asdict(job.rule.limits),
        **_user_files(job),
        "made by": _makers(),
    }
    return _digest(parts)


def is_repeatable(rule: Rule) -> bool:
    """The user's own score may depend on anything, and time on everything."""
    return rule.evaluate is None and rule.budget.latency is None


def _samples(job: Job) -> Iterator[str]:
    """The contents of the user's inputs, in the order in which they are fed."""
    for file in sample_files(job.rule.inputs.samples, job.home):
        yield f"{file.suffix} {file_sha256(file)}"


@cache
def _makers() -> tuple[str, ...]:
    installed = (f"{name} {_version(name)}" for name in PACKAGES)
    return (
        f"onnx-ci {__version__} {_own_code()}",
        *_runtimes(),
        *installed,
        f"{sys.platform} {platform.machine()} Python {sys.version_info[0]}.{sys.version_info[1]}",
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _runtimes() -> list[str]:
    """onnxruntime comes in several packages, one for each kind of hardware."""
    if found := _version("onnxruntime"):
        return [f"onnxruntime {found}"]
    names = ((found.metadata["Name"], found.version) for found in distributions())
    return sorted(f"{name} {number}" for name, number in names if str(name).startswith("onnxruntime"))


def _own_code() -> str:
    """Between two releases, the version says little: a checkout changes every day."""
    home = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for file in sorted(home.rglob("*.py")):
        digest.update(f"{file.relative_to(home).as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]
