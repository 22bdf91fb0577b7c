"""Findings: what is wrong with a model, each with a stable code that users may filter on."""

from __future__ import annotations

from dataclasses import dataclass

CODES = {
    "OCI001": "over its size budget",
    "OCI002": "grew more than allowed",
    "OCI003": "savings left on the table",
    "OCI004": "outputs outside the tolerance",
    "OCI005": "could not be verified",
    "OCI006": "not a readable model",
    "OCI007": "a Git LFS or DVC pointer, not a model",
    "OCI008": "a group of models is over its budget",
    "OCI009": "accepted by an override, or an override has ended",
    "OCI010": "slower than allowed",
    "OCI011": "shrunk under another policy",
    "OCI012": "external data missing, damaged or outside the repository",
    "OCI013": "crashed or ran out of limits while being run",
    "OCI014": "too many parameters",
    "OCI015": "not covered by any rule",
    "OCI016": "the user's own score got worse",
    "OCI017": "could not be written",
    "OCI018": "an interrupted fix has to be finished",
    "OCI019": "unpacked by another tool after it was shrunk",
    "OCI020": "stored otherwise than its rule asks",
    "OCI021": "data files that are shared, or left behind",
    "OCI022": "a method failed on it and was left out",
    "OCI023": "the work tree does not hold what was judged",
    "OCI024": "kept by DVC, which has to be told of a change",
    "OCI025": "as it was before, so no more than a warning",
    "OCI026": "a branch adds more to the history than allowed",
    "OCI027": "compared with the version under its former name",
    "OCI028": "changed by git when it is added",
    "OCI029": "fixed in the work tree, and still to be staged",
    "OCI030": "onnxruntime makes less of its graph than of its original's",
    "OCI040": "a part of the run is missing",
    "OCI041": "the models could not be judged",
    "OCI044": "a change loosens the policy",
    "OCI045": "fails under the policy of the base",
    "OCI046": "a rule matches no model",
    "OCI047": "not run: the change itself brings the command or library",
    "OCI049": "not what its receipt says it was made from",
    "OCI050": "taken at its receipt's word, without its original",
    "OCI051": "its original could not be kept, so it was not replaced",
    "OCI052": "a bug in onnx-ci kept it from being judged",
    "OCI053": "can't be loaded or run as it is",
    "OCI054": "puts out nothing but NaN or infinity",
    "OCI055": "its outputs moved with its weights",
}
BUG = "OCI052"  # about one model: the run goes on, and ends with exit code 4
COULD_NOT = "OCI041"  # about the run: it has no verdict on any model


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One sentence about one model, and what to do next."""

    code: str
    severity: str  # "error" | "warning" | "note"
    message: str
    hint: str = ""
    file: str = ""  # of the policy, where it is not the rule of a model that is broken
    line: int = 0
