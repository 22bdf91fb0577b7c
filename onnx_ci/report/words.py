"""What every report calls things: verdicts, proofs and changes in a few words."""

from __future__ import annotations

from onnx_ci.report.style import one_line
from onnx_ci.results import Outcome, RunReport, gain
from onnx_ci.shown import KINDS, OutputDelta, RuntimeRun, Verification
from onnx_ci.sizes import format_percent, format_size

WORDS = {
    "ok": "ok",
    "shrunk": "shrunk",
    "would_shrink": "would shrink",
    "over_budget": "over budget",
    "outputs_changed": "outputs changed",
    "unverified": "not verified",
    "unreadable": "not readable",
    "ignored": "ignored",
}
PLACES = {
    "history": "git history",
    "objects": "git's object store",
    "lfs": "the store of Git LFS",
    "dvc": "DVC's cache",
    "folder": "the folder of originals",
}
UNMOVED = "did not move when the weights were damaged"
MOVED = {"shrunk": "changed", "would_shrink": "would change"}
LONGEST = 4_000  # characters of one message: nobody reads more, and services cut it off
OUTPUT_COLUMNS = ("output", "max_abs", "max_rel", "cosine", "sqnr", "")


def model_row(outcome: Outcome) -> tuple[str, str, str, str, str, str]:
    before, after = outcome.before, outcome.after
    name, old, new = gain(before, after) if before and after else ("size", 0, 0)
    saved = f"{change(old, new)}{'' if name == 'size' else f' {name}'}" if old else ""
    return (
        one_line(outcome.path),
        format_size(before.size) if before else "",
        format_size(after.size) if after else "",
        saved,
        proof_words(outcome.verification) + (f", {outcome.latency.words}" if outcome.latency else ""),
        verdict_word(outcome),
    )


def change(before: int, after: int) -> str:
    return f"-{format_percent(1 - after / before)}" if after < before else f"+{after - before:,} B"


def verdict_word(outcome: Outcome) -> str:
    """Moving bytes elsewhere is no shrinking, and is not called so."""
    before, after = outcome.before, outcome.after
    grew = before is not None and after is not None and after.size >= before.size
    return MOVED.get(outcome.verdict, WORDS[outcome.verdict]) if grew else WORDS[outcome.verdict]


def proof_words(verification: Verification) -> str:
    """What running the models showed, in a few words."""
    if verification.status == "not_run":
        return "not verified" if verification.code else ""
    if verification.status == "failed":
        return {"OCI010": "too slow", "OCI016": "scores worse"}.get(verification.code, "outside tolerance")
    telling = [output for output in verification.outputs if output.sensitive]
    if all(output.exact for output in telling):
        return "identical"
    worst = min(telling, key=lambda output: output.cosine)
    return f"cosine {worst.cosine:.6f}, {min(output.sqnr for output in telling):.0f} dB"


def proof_reason(verification: Verification) -> str:
    if verification.reason:
        return f": {one_line(verification.reason)}"
    kind = "generated input" if verification.inputs == "generated" else "sample"
    return f" on {counted(verification.samples, kind)}" if verification.samples else ""


def runtime_row(run: RuntimeRun) -> tuple[str, ...]:
    """One version and setting that both models were run with, and what came of it."""
    status = run.status.replace("_", " ")
    if run.reason or run.cosine is None:
        return run.setting, status, "", one_line(run.reason)
    same = run.max_abs == 0
    moved = "identical" if same else f"cosine {run.cosine:.6f}, {run.sqnr:.0f} dB"
    return run.setting, status, f"{run.samples} samples" if run.samples != 1 else "1 sample", moved


def output_row(output: OutputDelta) -> tuple[str, ...]:
    return (
        one_line(output.name),
        f"{output.max_abs:.3g}",
        f"{output.max_rel:.3g}",
        f"{output.cosine:.6f}",
        "identical" if output.exact else f"{output.sqnr:.1f} dB",
        one_line(output.problem) or _little(output),
    )


def _little(output: OutputDelta) -> str:
    """Why an output shows little or nothing, whatever its numbers are."""
    if output.sensitive:
        return KINDS.get(output.kind, "")
    why = KINDS.get(output.kind, "")
    return UNMOVED + (f": it {why}" if why else "")


def coverage_words(verification: Verification) -> str:
    """Which of the changed tensors a pass speaks for."""
    found = verification.coverage
    if found is None or not found.changed:
        return ""
    how = "damaged on purpose" if found.changed == 1 else "each damaged on purpose"
    how = how if found.alone else "damaged on purpose, some with their neighbours"
    told = [f"{found.noticed} noticed"]
    told += [f"{len(found.faint)} seen but within the tolerance"] if found.faint else []
    told += [f"{len(found.blind)} that may be anything within the tolerance"] if found.blind else []
    told += [f"{len(found.unseen)} not seen by any output"] if found.unseen else []
    return (
        f"{counted(found.changed, 'changed tensor')}, {how}: {', '.join(told)} ({counted(found.runs, 'run')})"
    )


def clipped(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def saved_words(report: RunReport) -> str:
    """How much of how much, if anything; empty where nothing is to be gained."""
    saved = report.size_before - report.size_after
    verb = "could be saved" if report.command == "check" else "saved"
    return f"{format_size(saved)} of {format_size(report.size_before)} {verb}" if saved > 0 else ""


def judged(report: RunReport) -> int:
    return sum(outcome.verdict != "ignored" for outcome in report.outcomes)


def remarks(report: RunReport) -> list[str]:
    """What there is to know of the run as a whole; of a shard also what it leaves to others."""
    names = dict.fromkeys(group.name for group in report.groups)
    left = [f"group {name!r} is judged when the reports of all shards are merged" for name in names]
    return [*report.notes, *([f"this is shard {report.shard}", *left] if report.shard else [])]


def original_words(outcome: Outcome) -> str:
    """Where the original of a model is, and whether that speaks for it; empty where nobody asked."""
    found = outcome.original
    if found is None:
        return ""
    if not found.place:
        alone = any(finding.code == "OCI050" for finding in outcome.findings)
        return "" if alone else "its original was not found, so it was judged as a model of its own"
    place = f"{PLACES[found.place]} ({one_line(found.where)})"
    return (
        f"verified against its original, which is in {place}"
        if found.verified
        else (f"its original is in {place}; onnx-ci restore --original brings it back")
    )
