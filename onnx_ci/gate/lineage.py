"""What a model was made from, by the receipt it carries, and the receipt that a candidate gets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from onnx_ci.gate.decide import STORES_SMALL
from onnx_ci.methods.chain import Run
from onnx_ci.methods.selection import encoding_parts
from onnx_ci.model.measure import by_name, files_of
from onnx_ci.model.model import Model
from onnx_ci.model.receipt import KEY, Receipt, attach_receipt, model_digest, read_receipt
from onnx_ci.model.store import file_sha256
from onnx_ci.policy.schema import DEFAULT_GAIN, Rule
from onnx_ci.results import Finding, Measure
from onnx_ci.version import __version__

NEWER = ("load_seconds", "load_memory", "fits")  # budgets
SHRINK_LAST = "simplify a model before it is shrunk, not after: restore the original and run onnx-ci fix last"
RESTORE_IT = (
    "restore it (git restore); or see what it does now: onnx-ci restore --original {call} original.onnx &&"
    " onnx-ci compare original.onnx {call}; or, if it is a new model, take {key} out of its metadata"
)


@dataclass(frozen=True)
class Lineage:
    """`receipt` is the one the model carries, if it is valid; `files` are its own."""

    policy: str
    files: tuple[Path, ...]
    receipt: Receipt | None = None
    unpacked: tuple[str, ...] = ()  # methods whose encodings are no longer there
    edited: bool = False  # it has a receipt of ours, and was changed since
    former: Receipt | None = None  # that receipt
    foreign: bool = False  # it has a receipt that is not believed

    @cached_property
    def data(self) -> dict[str, str]:
        """The sha256 of each of its files, where it has more than one."""
        if len(self.files) == 1:
            return {}
        return {name: file_sha256(file) for name, file in by_name(self.files).items()}

    @property
    def disowned(self) -> Lineage:
        """The same model as if it had no receipt: a source of its own."""
        return Lineage(self.policy, self.files, foreign=True)

    @property
    def current(self) -> bool:
        """Shrunk under this very rule and not touched since: there is nothing left to do."""
        return self.receipt is not None and self.receipt.policy == self.policy

    @property
    def lossy(self) -> bool:
        """Values were rounded once: no approximate method may run on them again."""
        return self.receipt is not None and self.receipt.lossy

    @property
    def outdated(self) -> Receipt | None:
        """The receipt of a model that was rounded under another rule: what this one asks for, only the
        original can give."""
        return self.receipt if self.lossy and not self.current else None

    def findings(
        self, name: str, *, over: bool, missing: str = "", forbidden: str = ""
    ) -> tuple[Finding, ...]:
        """What to say where the rule asks for something that only the original can give; `missing` is
        why there is none, `forbidden` why it may not stay as it is."""
        if self.unpacked:
            how = f"was shrunk with {', '.join(self.unpacked)}; another tool has unpacked its weights"
            return (Finding(code="OCI019", severity="warning", message=f"{name}: {how}", hint=SHRINK_LAST),)
        if self.edited:
            how = "was changed after onnx-ci shrank it; nothing vouches for what it computes now"
            hint = RESTORE_IT.format(call=name, key=KEY)
            return (Finding(code="OCI019", severity="warning", message=f"{name}: {how}", hint=hint),)
        receipt = self.outdated
        if receipt is None:
            return ()
        finding = Finding(
            code="OCI011",
            severity="error" if forbidden else "warning" if over else "note",
            message=f"{name}: {forbidden and f'{forbidden}; '}it was shrunk with {', '.join(receipt.names)}"
            " under another rule;"
            f" what is rounded once is not rounded again{missing and f', and its original {missing}'}",
            hint=f"to apply this rule, restore the original (sha256 {receipt.source_sha256[:12]}…,"
            f" {receipt.source_size:,} bytes) and run: onnx-ci fix {name}",
        )
        return (finding,)


def fingerprint(rule: Rule) -> str:
    """The part of a rule that decides what a model becomes, as a short digest."""
    content = {
        "methods": [[choice.name, dict(choice.options)] for choice in rule.methods],
        "mode": rule.mode,
        "tolerance": asdict(rule.tolerance),
        # What receipts of older versions did not know counts where it is given.
        "budget": {key: value for key, value in asdict(rule.budget).items() if value or key not in NEWER},
        "minimum_gain": rule.minimum_gain.share,
    }
    if rule.minimum_gain.size not in (0, DEFAULT_GAIN.size):
        content["minimum_saving"] = rule.minimum_gain.size
    if rule.limits.total_seconds is not None:  # what was cut short is looked at again without it
        content["total_seconds"] = rule.limits.total_seconds
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def lineage(model: Model, rule: Rule) -> Lineage:
    """Read the receipt, and believe it only if the model is still as it was when that was written."""
    receipt = read_receipt(model.proto)
    valid = receipt is not None and receipt.digest == model_digest(model)
    files = tuple(files_of(model.path, model.proto))
    if receipt is None or valid:
        return Lineage(fingerprint(rule), files, receipt)
    # The methods that stored weights small, if no weight is stored that way any more.
    small = tuple(name for name in receipt.names if name in STORES_SMALL)
    unpacked = small if small and not encoding_parts(model.proto) else ()
    return Lineage(fingerprint(rule), files, unpacked=unpacked, edited=not unpacked, former=receipt)


def _entry(run: Run) -> dict[str, Any]:
    """A method as the receipt tells of it; of a mix, how many tensors there are of each kind, and by which
    second moments they were rounded."""
    mix = {part.label: len(part.tensors) for part in run.parts}
    told = {"options": dict(run.options), "mix": mix, "moments": run.moments_digest}
    return {"name": run.method.name, **{key: value for key, value in told.items() if value}}


def stamp(model: Model, runs: Sequence[Run], line: Lineage, source: Measure, *, verified: bool) -> str:
    """Give a candidate its receipt, and return the digest in it. What an earlier one says of the original is
    carried on, unless this is where something is lost first: then the original is what is there now."""
    bitwise = all(run.method.bitwise for run in runs)
    earlier = line.receipt if line.lossy or bitwise else None
    receipt = Receipt(
        tool=__version__,
        policy=line.policy,
        source_sha256=earlier.source_sha256 if earlier else source.sha256,
        source_size=earlier.source_size if earlier else source.size,
        source_data=earlier.source_data if earlier else line.data,
        methods=[*(earlier.methods if earlier else []), *map(_entry, runs)],
        lossy=line.lossy or any(not run.method.exact for run in runs),
        verified=verified,
        digest=model_digest(model),
    )
    attach_receipt(model.proto, receipt)
    return receipt.digest
