"""One model under the rule that a policy has for it, written elsewhere: `shrink --policy`, for builds."""

from __future__ import annotations

from pathlib import Path

from onnx_ci.entry.context import Context, open_context
from onnx_ci.entry.packing import build_plan
from onnx_ci.errors import ModelError, UsageError
from onnx_ci.inputs.sample_paths import sample_files, sample_folders
from onnx_ci.model.ownership import data_of, shared_data
from onnx_ci.model.replace import orphaned_data, replaceable_data
from onnx_ci.pipeline import judge_each
from onnx_ci.policy.match import rule_for
from onnx_ci.results import RunReport
from onnx_ci.shipping import shipped
from onnx_ci.single import copy_model


class ByRule:
    """`source` as its rule in `policy` wants it, at `target`; a copy where the rule changes nothing."""

    def __init__(self, source: Path, target: Path, policy: str) -> None:
        self.policy = Path(policy)
        if not self.policy.is_file():
            raise UsageError(
                f"there is no policy file {policy!r}", hint="`onnx-ci init` writes .onnx-ci.yaml"
            )
        # Seen from where the policy is, as `check` sees it: a build may run anywhere.
        self.context: Context = open_context(self.policy.name, self.policy.resolve().parent)
        near = source.parent.resolve() / source.name
        # A sandbox is made of links: the policy it shows is somewhere else, and so is the model.
        self.source = near if near.is_relative_to(self.context.folder) else source.resolve()
        if not self.source.is_relative_to(self.context.folder):
            raise UsageError(
                f"{source} is not below {self.context.folder}, the folder of the policy,"
                " and rules reach no further",
                hint="name a policy that is in the model's folder or above it",
            )
        self.target = target
        if target.exists() and target.samefile(source):
            raise UsageError(
                f"{target} is the model itself", hint=f"to shrink it in place: onnx-ci fix {target}"
            )

    def run(self, *, cache: bool) -> RunReport:
        shared = self._shared()
        earlier = replaceable_data(self.target)
        for file in orphaned_data(self.target):
            if file.name not in shared:
                file.unlink(missing_ok=True)
        plan = build_plan(self.context, (self.source,), cache=cache)
        (outcome,) = judge_each([shipped(plan, self.source, self.target, shared)])
        report = RunReport(command="build", outcomes=(outcome,), policy=plan.policy.file)
        if not report.exit_code:
            if not outcome.written:
                copy_model(self.source, self.target, over_orphans=True)
            for name in earlier - set(data_of(self.target)):
                (self.target.parent / name).unlink(missing_ok=True)
        return report

    def _shared(self) -> list[str]:
        """Data that another model of its folder ships with, perhaps to the same place."""
        try:
            return shared_data(self.source, self.context.root)
        except ModelError:
            return []  # it can't be read, and the report will say so

    def samples(self) -> list[Path]:
        """The files that verification read, and the folders in which more samples may appear. A folder
        that is written to by the build itself would never be old enough."""
        folder = self.context.folder
        rule = rule_for(self.context.policy, self.source.relative_to(folder).as_posix())
        if rule is None:
            return []
        files = sample_files(rule.inputs.samples, folder)
        folders = sample_folders(rule.inputs.samples, folder)
        libraries = (folder / name for name in rule.libraries)
        return [*files, *libraries, *(path for path in folders if path != self.target.resolve().parent)]
