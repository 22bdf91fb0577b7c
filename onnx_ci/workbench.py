"""One open model with all that is known of it, and candidates for it as files in a scratch folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_ci.decide import limits_of
from onnx_ci.job import Job, Say, Staged
from onnx_ci.lineage import lineage, stamp
from onnx_ci.methods.chain import no_feeds
from onnx_ci.model.container import Model
from onnx_ci.model.hashing import BackgroundHash
from onnx_ci.model.layout import lay_out
from onnx_ci.model.measure import files_of, measure, parameters
from onnx_ci.model.save import write_model
from onnx_ci.plan import Candidate
from onnx_ci.results import Measure, OriginalState, Planned, Step

if TYPE_CHECKING:
    from onnx_ci.sandbox.runner import Runner
    from onnx_ci.verify.prove import Prover


class Workbench:
    """What is measured and made is measured and made once."""

    def __init__(
        self,
        job: Job,
        model: Model,
        hashing: BackgroundHash | None,
        scratch: Path,
        say: Say,
        runner: Runner | None,
    ) -> None:
        self.job = job
        self.model = model
        self.runner = runner
        self.hashing = hashing
        self.scratch = scratch
        self.say = say
        self.size = sum(file.stat().st_size for file in files_of(job.path, model.proto))
        self.limits = limits_of(job.rule, job.base_size)
        self.aims = {**self.limits, **({} if job.target is None else {"group": job.target})}
        self.lineage = lineage(model, job.rule)
        self.count = 0
        self.idle: dict[tuple[str, str], Step] = {}  # methods that gained nothing, and why
        self.plan: Planned | None = None  # what the planner found out, whether anything came of it or not
        self.original: OriginalState | None = None  # where it is, as far as that was asked
        self.by_chance = False  # whether another run may find otherwise: time or memory ran out

    @cached_property
    def before(self) -> Measure:
        """Asked for late: until then the file is hashed while other work goes on."""
        self.say("measuring")
        return measure(self.job.path, self.model.proto, hashing=self.hashing, compressed=self.job.compressed)

    @cached_property
    def prover(self) -> Prover | None:
        """Loaded with all it needs when it is first asked for; None where nothing is to be verified."""
        if self.runner is None:
            return None
        from onnx_ci.verify.prove import Prover

        return Prover(self.job.rule, self.model, self.runner, self.scratch, home=self.job.home)

    def feeds(self) -> Sequence[Mapping[str, Any]]:
        """Inputs for methods that calibrate; what makes them is loaded when one asks."""
        return self.prover.feeds() if self.prover else no_feeds()

    def compressed(self, found: Measure) -> int:
        return sum(getattr(found, name) for name in self.job.compressed)

    def stage(self, candidate: Candidate) -> Staged:
        """Write the candidate, receipt included, into the scratch folder and measure it there."""
        self.say(f"trying {', '.join(candidate.names)}")
        model = candidate.model.copy()
        digest = stamp(model, candidate.runs, self.lineage, self.before, verified=self.runner is not None)
        if self.runner is None and not self.job.compressed:
            # Nothing will be run or compressed, so no scratch copy is needed either.
            found = Measure(size=lay_out(model).size, params=parameters(model.proto))
            return Staged(candidate, model, digest, self.scratch, found)
        self.count += 1
        path = self.scratch / f"candidate-{self.count}" / "model.onnx"
        path.parent.mkdir()
        write_model(model, path)
        found = measure(path, model.proto, hashing=BackgroundHash(path), compressed=self.job.compressed)
        return Staged(candidate, model, digest, path, found)
