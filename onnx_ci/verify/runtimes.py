"""A candidate in the runtimes that users have: without optimizations, in other versions of onnxruntime."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from onnx_ci.policy.schema import Tolerance
from onnx_ci.shown import RuntimeRun, Verification
from onnx_ci.verify.client import Feeds
from onnx_ci.verify.environments import installed
from onnx_ci.verify.verifier import Verifier

_FIRST = 1  # samples that are run without optimizations: slower, and what breaks there breaks at once


@dataclass(frozen=True)
class _Setting:
    version: str
    asked: bool  # by the user, by its number
    verifier: Verifier
    optimized: bool


class Runtimes:
    """All settings that candidates of one original are run under; what the original does there is
    computed once."""

    def __init__(self, verifier: Verifier, versions: Sequence[str] = ()) -> None:
        self.verifier = verifier
        self.versions = tuple(dict.fromkeys(versions))
        self._settings: list[_Setting] | None = None

    def check(
        self,
        passed: Verification,
        candidate: Path,
        proto: onnx.ModelProto,
        tolerance: Tolerance,
        *,
        allow: Collection[str] = (),
        extra: Feeds | None = None,
    ) -> Verification:
        """What held under default optimizations here, held against the original under each other setting."""
        runs = [_summary(passed, installed(), optimized=True)]
        for setting in self.settings():
            found = setting.verifier.check(candidate, proto, tolerance, allow=allow, extra=extra)
            runs.append(_summary(found, setting.version, optimized=setting.optimized))
            if found.status == "failed":
                return replace(found, reason=f"in {runs[-1].setting}: {found.reason}", runtimes=tuple(runs))
            if found.status == "not_run" and setting.asked:
                return _unknown(found, runs, setting)
        return replace(passed, runtimes=tuple(runs))

    def settings(self) -> list[_Setting]:
        if self._settings is None:
            ours = self.verifier.runner
            bare = self.verifier.under(ours.using(optimize=False), samples=_FIRST)
            self._settings = [_Setting(installed(), False, bare, False)]
            for wanted in self.versions:
                self._settings += self._of_version(wanted)
        return self._settings

    def _of_version(self, wanted: str) -> list[_Setting]:
        """Nothing for the version that is run anyway."""
        other = self.verifier.runner.of_version(wanted)
        if other is None:
            return []
        bare = other.runner.using(optimize=False)
        return [
            _Setting(other.version, True, self.verifier.under(other.runner), True),
            _Setting(other.version, False, self.verifier.under(bare, samples=_FIRST), False),
        ]


def _summary(found: Verification, version: str, *, optimized: bool) -> RuntimeRun:
    run = RuntimeRun(
        version=version,
        optimizations="default" if optimized else "disabled",
        status=found.status,
        samples=found.samples,
        reason=found.reason,
    )
    if not found.outputs:
        return run
    return replace(
        run,
        max_abs=max(output.max_abs for output in found.outputs),
        cosine=min(output.cosine for output in found.outputs),
        sqnr=min(output.sqnr for output in found.outputs),
    )


def _unknown(found: Verification, runs: Sequence[RuntimeRun], setting: _Setting) -> Verification:
    """The original itself does not run there: nobody can tell what the candidate does."""
    version = setting.version
    return replace(
        found,
        reason=f"nothing is known of onnxruntime {version}, which can't run the original: {found.reason}",
        hint=f"leave {version} out of runtimes, or export the model so that it runs there",
        code="OCI005",
        runtimes=tuple(runs),
    )
