"""Advice in the words of a policy, put into those of the commands that have none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from onnx_ci.results import Outcome

# Each is said in one place of the gate; what is no flag stays as it is, for a policy has it.
_FLAGS = (
    (r"inputs: \{samples: \[\.\.\.\]\}", "--samples F.npz"),
    (r"inputs: \{dims: \{NAME: SIZE\}\}", "--dims NAME=SIZE"),
    (r"inputs\.samples\b", "--samples"),
    (r"tolerance: \{(\w+): ([^,{}]+)\}", r"--tolerance \1=\2"),
    (r" in the rule \(for example methods: \[([\w-]+), ([\w-]+), ([\w-]+)\]\)", r" (--methods \1,\2,\3)"),
    (r",? or accept this content with an override", ""),
    (r"loosen the tolerance", "loosen the --tolerance"),
    (r"raise the budget", "raise the --budget"),
)


def in_flags(outcome: Outcome, samples: Iterable[str]) -> Outcome:
    """The outcome as `compare` and `shrink` tell it: flags in hints, samples called as they were."""
    given = tuple(samples)
    found = outcome.verification
    verification = replace(found, reason=_as_given(found.reason, given), hint=_flagged(found.hint))
    findings = (
        replace(finding, message=_as_given(finding.message, given), hint=_flagged(finding.hint))
        for finding in outcome.findings
    )
    return replace(outcome, verification=verification, findings=tuple(findings))


def _flagged(hint: str) -> str:
    for words, flag in _FLAGS:
        hint = re.sub(words, flag, hint)
    return hint


def _as_given(text: str, samples: Iterable[str]) -> str:
    for sample in samples:
        text = text.replace(str(Path(sample).absolute()), sample)
    return text
