"""The choice among a model's candidates, kept and found again: the facts and the proven candidate."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from onnx_ci.cache.entry import load, save
from onnx_ci.cache.facts import plain, read
from onnx_ci.cache.folder import limit
from onnx_ci.cache.identity import identity
from onnx_ci.cache.secret import signing_key
from onnx_ci.job import Choice, Held, Job, Staged
from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Run
from onnx_ci.model.container import Model
from onnx_ci.model.hashing import BackgroundHash, file_state
from onnx_ci.model.load import adopt_model
from onnx_ci.model.measure import files_of
from onnx_ci.plan import Candidate
from onnx_ci.results import Measure, Step


@dataclass(frozen=True)
class Memory:
    """Where the outcome for one model is kept; `name` is empty where it is not to be kept."""

    name: str
    key: bytes
    model: Model
    scratch: Path

    def recall(self) -> tuple[Choice, tuple[Step, ...]] | None:
        """The choice that was made for this content, and the steps that gained nothing."""
        place = self.scratch / "remembered"
        facts = load(self.name, self.key, place) if self.name else None
        if facts is None:
            return None
        staged = _staged(facts["staged"], self.model, place) if "staged" in facts else None
        idle = tuple(read(Step, step) for step in facts["idle"])
        return read(Choice, facts["choice"], staged=staged), idle

    def keep(self, choice: Choice, idle: Sequence[Step], *, by_chance: bool) -> None:
        """Remember a choice that another run would make as well."""
        found = choice.verification
        steady = found.status != "not_run" or not found.needed
        by_chance = by_chance or any(step.failed for step in idle)
        if not self.name or not steady or by_chance or not untouched(self.model):
            return
        facts = {"choice": plain(choice, leave_out=("staged",)), "idle": [plain(step) for step in idle]}
        if choice.staged is None:
            save(self.name, self.key, facts, {})
            return
        path = choice.staged.path
        files = {file.relative_to(path.parent).as_posix(): file for file in _files(choice.staged)}
        save(self.name, self.key, {**facts, "staged": _described(choice.staged)}, files)

    def recall_held(self) -> Held | None:
        """What was found of the model as it is and its original."""
        facts = load(self.name, self.key, self.scratch / "remembered") if self.name else None
        return None if facts is None else read(Held, facts["held"])

    def keep_held(self, held: Held) -> None:
        if self.name and held.proof.verification.status in ("passed", "failed") and untouched(self.model):
            save(self.name, self.key, {"held": plain(held)}, {})


def memory(
    job: Job,
    model: Model,
    hashing: BackgroundHash | None,
    content: str,
    limits: Mapping[str, int],
    scratch: Path,
) -> Memory:
    """`content` is the digest of the model's files. It counts if they are still those that were opened."""
    key = key_for(job, model, hashing)
    name = ""
    if key:
        with contextlib.suppress(OSError, ValueError, NotImplementedError, IndexError):
            name = identity(job, content, limits)  # what is wrong with samples is told where they are read
    return Memory(name, key or b"", model, scratch)


def key_for(job: Job, model: Model, hashing: BackgroundHash | None) -> bytes | None:
    """What an entry about this model is signed with; None where none can be kept or believed."""
    key = signing_key() if job.cache and limit() else None
    same = hashing is not None and hashing.state == model.seen.get(job.path) and untouched(model)
    return key if same else None


def untouched(model: Model) -> bool:
    return all(file_state(path) == state for path, state in model.seen.items())


def _files(staged: Staged) -> list[Path]:
    return files_of(staged.path, staged.model.proto)


def _described(staged: Staged) -> dict[str, Any]:
    return {
        "file": staged.path.name,
        "digest": staged.digest,
        "measure": plain(staged.measure),
        "candidate": plain(staged.candidate, leave_out=("model", "runs", "rounded", "again")),
        "runs": [[run.method.name, dict(run.options)] for run in staged.candidate.runs],
    }


def _staged(facts: dict[str, Any], original: Model, place: Path) -> Staged:
    """The candidate over the original's store, as if it had just been made from it."""
    path = place / facts["file"]
    model = replace(adopt_model(original.store, path), path=original.path, seen=original.seen)
    runs = tuple(Run(method(name), options) for name, options in facts["runs"])
    candidate = read(Candidate, facts["candidate"], model=model, runs=runs)
    return Staged(candidate, model, facts["digest"], path, read(Measure, facts["measure"]))
