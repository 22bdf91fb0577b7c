"""The report for people, and the words that all reports use for verdicts, proofs and sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from onnx_ci import results
from onnx_ci.util.sizes import format_percent, format_size
from onnx_ci.util.text import Style, one_line
from onnx_ci.util.text import counted as counted

WORDS: dict[results.Verdict, str] = {"unverified": "not verified", "unreadable": "not readable"}
PLACES: dict[results.Place, str] = {
    "history": "git history",
    "objects": "git's object store",
    "lfs": "the store of Git LFS",
    "dvc": "DVC's cache",
    "folder": "the folder of originals",
}
UNMOVED = "did not move when the weights were damaged"
MOVED: dict[results.Verdict, str] = {"shrunk": "changed", "would_shrink": "would change"}
ABOUT = " (about: an estimate from trials, without the receipt that a written model has)"
LONGEST = 4_000  # characters of one message: nobody reads more, and services cut it off
OUTPUT_COLUMNS = ("output", "max_abs", "max_rel", "cosine", "sqnr", "")
TONES: dict[results.Verdict, str] = {"ok": "good", "shrunk": "good", "would_shrink": "warn", "ignored": "dim"}
COLOURS = {"good": "green", "warn": "yellow", "dim": "dim", "bad": "red"}
SHOWN = 5  # tensors named of each model
ROWS = 10  # models that are well, and commands, that a person at a terminal wants to see
# The columns that show what an error is about.
FAILING: dict[str, tuple[str, ...]] = {
    "OCI001": ("now", "budget"),
    "OCI002": ("change", "budget"),
    "OCI003": ("saved",),
    "OCI004": ("outputs",),
    "OCI010": ("outputs",),
    "OCI014": ("budget",),
    "OCI016": ("outputs",),
}
MARKS: dict[results.Severity, str] = {"error": "red", "warning": "yellow", "note": "dim"}


def render_run(report: results.RunReport, style: Style) -> str:
    shown, folded = worth_a_row(report.outcomes)
    lines = list(_table(report, shown, style))
    if folded:
        lines.append(style.paint(folded_words(folded), "dim"))
    for outcome in shown:
        lines += [style.paint(line, "dim") for line in _how(outcome)]
    findings = [finding for outcome in shown for finding in outcome.findings]
    for finding in [*findings, *report.findings]:
        lines += ["", *_finding(finding, style)] if finding.hint else _finding(finding, style)
    lines += ["", *_summary(report, style)]
    if report.exit_code and len(findings) + len(report.findings) > 1:
        lines += [*_to_do(report, style)]
    return "\n".join(lines).strip("\n") + "\n"


def worth_a_row(
    outcomes: Sequence[results.Outcome],
) -> tuple[list[results.Outcome], list[results.Outcome]]:
    """Models that are well have a row while there are few; the others always do."""
    room = ROWS - sum(not outcome.is_well for outcome in outcomes)
    shown: list[results.Outcome] = []
    folded: list[results.Outcome] = []
    for outcome in outcomes:
        room -= outcome.is_well
        (shown if not outcome.is_well or room >= 0 else folded).append(outcome)
    return shown, folded


def folded_words(outcomes: Sequence[results.Outcome]) -> str:
    size = format_size(sum(outcome.now.size for outcome in outcomes if outcome.now))
    notes = sum(len(outcome.findings) for outcome in outcomes)
    told = f", with {counted(notes, 'note')}" if notes else ""
    return f"and {counted(len(outcomes), 'more model')}, {size}: nothing is wrong with them{told}"


def _to_do(report: results.RunReport, style: Style) -> Iterator[str]:
    commands = report.commands
    if commands:
        yield style.paint("to do:", "bold")
        yield from (f"  {one_line(command)}" for command in commands[:ROWS])
    if len(commands) > ROWS:
        yield f"  and {len(commands) - ROWS} more"


def _table(report: results.RunReport, shown: Sequence[results.Outcome], style: Style) -> Iterator[str]:
    outcomes: list[results.Outcome | None] = [*shown, *(None for _ in report.gone)]
    rows = [*map(model_cells, shown), *map(gone_cells, report.gone)]
    columns = filled_columns(report, rows)
    if not rows:
        return
    widths = {key: max(len(title), *(len(row[key]) for row in rows)) for key, title in columns.items()}
    stacked = 0 < style.width < sum(widths.values()) + 2 * len(widths) - 2
    if not stacked:
        yield style.paint("  ".join(_padded(columns, widths)), "bold")
    for outcome, row in zip(outcomes, rows, strict=True):
        colours = _colours(outcome)
        if stacked:
            yield from _stacked(row, columns, colours, style)
            continue
        cells = zip(columns, _padded(row, widths), strict=False)
        yield "  ".join(style.paint(cell, colours.get(key, "")) for key, cell in cells)


def _padded(row: Mapping[str, str], widths: Mapping[str, int]) -> list[str]:
    """The cells of a row, each as wide as its column; nothing after the last that is filled."""
    cells = [row[key].rjust(wide) if key in NUMBERS else row[key].ljust(wide) for key, wide in widths.items()]
    while not cells[-1].strip():
        cells.pop()
    return [*cells[:-1], cells[-1].rstrip()]


def _stacked(
    row: Mapping[str, str], columns: Mapping[str, str], colours: Mapping[str, str], style: Style
) -> Iterator[str]:
    """One model below the other, where a terminal has no room for the table."""
    verdict = style.paint(row["verdict"], colours.get("verdict", ""))
    yield f"{row['model']}  {verdict}".rstrip()
    others = [(title, key) for key, title in columns.items() if key not in ("model", "verdict")]
    yield from flowed(((title, row[key], colours.get(key, "")) for title, key in others), style.width, style)


def flowed(cells: Iterable[tuple[str, str, str]], width: int, style: Style) -> Iterator[str]:
    """Cells with their titles and colours, as many on a line as fit; empty ones are left out."""
    line, length = "", 0
    for title, cell, colour in cells:
        if not cell:
            continue
        words = f"{title} " if title else ""
        taken = 2 + len(words) + len(cell)
        if line and length + taken > width:
            yield line
            line, length = "", 0
        line += f"  {words}{style.paint(cell, colour)}"
        length += taken
    if line:
        yield line


def _colours(outcome: results.Outcome | None) -> dict[str, str]:
    """The verdict in its colour, and what is wrong in red."""
    if outcome is None:
        return {}
    failing = [column for code in outcome.errors for column in FAILING.get(code, ())]
    return {"verdict": COLOURS[tone(outcome)], **dict.fromkeys(failing, "red")}


def _finding(finding: results.Finding, style: Style) -> list[str]:
    mark = style.paint(f"{finding.severity} {finding.code}", MARKS[finding.severity])
    hint = [f"  {one_line(finding.hint)}"] if finding.hint else []
    return [f"{mark} {one_line(finding.message)}", *hint]


def _summary(report: results.RunReport, style: Style) -> Iterator[str]:
    yield from (style.paint(one_line(note), "dim") for note in remarks(report))
    if not report.outcomes and not report.gone:
        return
    state = style.paint("failed", "red") if report.exit_code else style.paint("passed", "green")
    yield f"{headline(report)}: {state}"


def headline(report: results.RunReport) -> str:
    """The figures of a run: how many models, what changed, what is to be gained."""
    words = [f"{counted(judged(report), 'model')} checked"]
    if report.gone:
        words.append(f"{len(report.gone)} gone")
    if report.compared is not None:
        was, now = report.compared
        all_new = f"{format_size(now)} new"
        words.append(f"{format_size(was)} -> {format_size(now)} ({difference(was, now)})" if was else all_new)
    return ", ".join([*words, *filter(None, [saved_words(report)])])


def render_outcome(outcome: results.Outcome, style: Style, *, title: str) -> str:
    """One model in full: for shrink and compare."""
    lines = [
        style.paint(one_line(title), "bold"),
        *_sizes(outcome),
        *_steps(outcome),
        *_plan(outcome),
        *_outputs(outcome),
    ]
    if original := original_words(outcome):
        lines.append(f"  {original}")
    if outcome.work is not None:
        lines.append(f"  work     {outcome.work.words}")
    for finding in outcome.findings:
        lines += _finding(finding, style)
    return "\n".join(lines) + "\n"


def _sizes(outcome: results.Outcome) -> Iterator[str]:
    before, after = outcome.before, outcome.after
    if before is None:
        return
    for name, old, new in sizes_of(before, after):
        change = f" -> {format_size(new)} ({new / old - 1:+.1%})" if new is not None and old else ""
        yield f"  {name:<8} {format_size(old)}{change}"
    if before.params is not None:
        changed = after is not None and after.params not in (before.params, None)
        change = f" -> {after.params:,}" if after and changed else ""
        yield f"  params   {before.params:,}{change}"
    if outcome.latency is not None:
        notes = {"latency": f" ({outcome.latency.words})", "memory": " to load it"}
        for name, was, now in latency_rows(outcome.latency):
            yield f"  {name:<8} {was} -> {now}{notes.get(name, '')}"


def latency_rows(latency: results.Latency) -> Iterator[tuple[str, str, str]]:
    """What was measured of running and loading a model: its name, before and after."""
    yield "latency", f"{latency.before * 1e3:.2f} ms", f"{latency.after * 1e3:.2f} ms"
    if latency.load_before is not None and latency.load_after is not None:
        yield "load", f"{latency.load_before * 1e3:.1f} ms", f"{latency.load_after * 1e3:.1f} ms"
    if latency.memory_before is not None and latency.memory_after is not None:
        yield "memory", format_size(latency.memory_before), format_size(latency.memory_after)


def _how(outcome: results.Outcome) -> Iterator[str]:
    """What was done to one model of many, and what else was tried; `explain` tells the rest."""
    if original := original_words(outcome):
        yield f"{one_line(outcome.path)}: {original}"
    proof = outcome.verification
    if proof.inputs == "samples" and proof.samples:
        yield f"{one_line(outcome.path)}: verification {proof.status}{proof_reason(proof)}"
    if outcome.plan is None:
        return
    kept = [step for step in outcome.steps if step.kept]
    done = "; ".join(f"{step.method} ({one_line(step.note)})" if step.note else step.method for step in kept)
    yield f"{one_line(outcome.path)}: {done or 'nothing was taken'}"
    tried = [
        f"{', '.join(other.methods)} {other.size_words} at {other.sqnr:.0f} dB"
        + (" (refused)" if other.state == "refused" else "")
        for other in outcome.alternatives
        if other.sqnr is not None
    ]
    if tried:
        yield f"  also tried: {', '.join(tried)}"


def _steps(outcome: results.Outcome) -> Iterator[str]:
    for step in outcome.steps:
        note = f"  ({one_line(step.note)})" if step.note else ""
        tensors = f", {counted(step.tensors, 'tensor')}" if step.tensors else ""
        sizes = f"{format_size(step.size_before)} -> {format_size(step.size_after)}"
        yield f"  {step.method}: {sizes}{tensors}{note}"


def _plan(outcome: results.Outcome) -> Iterator[str]:
    """Which tensors are stored larger than others, and why; what else was tried."""
    plan = outcome.plan
    if plan is not None:
        forms = ", ".join(f"{label} {count}" for label, count in plan.forms) or "no mix was taken"
        trials = f"{counted(plan.tensors, 'tensor')} in {counted(plan.trials, 'trial')}"
        yield f"  planned {trials}, {plan.seconds:.1f} s: {forms}"
        for kept in plan.kept[:SHOWN]:
            yield f"    {one_line(kept.name)} ({format_size(kept.size)}) {kept.form}: {kept.why}"
        more = len(plan.kept) + plan.unnamed - SHOWN
        if more > 0:
            yield f"    and {more} more that are not in the smallest form"
        if plan.untried:
            yield f"    not all was tried: {plan.untried}"
    if outcome.alternatives:
        yield f"  also tried{ABOUT if any(each.estimated for each in outcome.alternatives) else ''}"
        yield from aligned([_alternative_row(each) for each in outcome.alternatives], indent=4)


def _alternative_row(alternative: results.Alternative) -> tuple[str, ...]:
    measured = alternative.cosine is not None and alternative.sqnr is not None
    error = f"cosine {alternative.cosine:.6f}, {alternative.sqnr:.0f} dB" if measured else ""
    methods = ", ".join(alternative.methods)
    return methods, alternative.size_words, error, one_line(alternative.verdict)


def _outputs(outcome: results.Outcome) -> Iterator[str]:
    verification = outcome.verification
    yield f"  verification {verification.status}{proof_reason(verification)}"
    if coverage := coverage_words(verification):
        yield f"    {coverage}"
    yield from (f"    {line}" for line in noise_words(verification))
    rows = [output_row(output) for output in verification.outputs]
    if rows:
        yield from aligned([OUTPUT_COLUMNS, *rows], indent=4)
    yield from aligned([runtime_row(run) for run in verification.runtimes], indent=4)


def aligned(rows: Sequence[Sequence[str]], *, right: Collection[int] = (), indent: int = 0) -> Iterator[str]:
    """The lines of a table, each column as wide as its widest cell; `right` are those aligned there."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        padded = [cell.rjust(n) if at in right else cell.ljust(n) for at, (cell, n) in enumerate(cells)]
        yield " " * indent + "  ".join(padded).rstrip()


# The columns of a table of models, by what they hold; those for numbers are aligned at the right.
COLUMNS = ("model", "was", "now", "change", "budget", "after", "saved", "outputs", "verdict")
NUMBERS = ("was", "now", "after", "saved")
BAR = 10  # characters


def filled_columns(report: results.RunReport, rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The columns that have something in them, and what they are called."""
    filled = [key for key in COLUMNS if key == "model" or any(row[key] for row in rows)]
    titles = column_titles(report, compared=bool({"was", "change"} & {*filled}))
    return {key: titles.get(key, key) for key in filled}


def column_titles(report: results.RunReport, *, compared: bool) -> dict[str, str]:
    """What columns are called that go by other names than their own."""
    after = after_word(report)
    now = "now" if after == "could be" else "before"
    return {"after": after, "now": now if compared else "size"}


def model_cells(outcome: results.Outcome, bars: str = "[#-]") -> dict[str, str]:
    """What a table says of one model; `bars` are the four signs that a bar is made of."""
    before, after, base = outcome.before, outcome.after, outcome.base
    name, old, new = results.gain(before, after) if before and after else ("size", 0, 0)
    saved = f"{change(old, new)}{'' if name == 'size' else f' {name}'}" if old else ""
    changed = base.measure if base and base.state == "changed" else None
    return {
        "model": one_line(outcome.path),
        "was": format_size(changed.size) if changed else "",
        "now": format_size(before.size) if before else "",
        "change": change_words(outcome),
        "budget": budget_words(outcome, bars),
        "after": format_size(after.size) if after else "",
        "saved": saved,
        "outputs": proof_words(outcome) + (f", {outcome.latency.words}" if outcome.latency else ""),
        "verdict": verdict_word(outcome),
    }


def gone_cells(model: results.GoneModel) -> dict[str, str]:
    cells = {"model": one_line(model.path), "was": format_size(model.size), "change": "gone"}
    return {**dict.fromkeys(COLUMNS, ""), **cells}


def change_words(outcome: results.Outcome) -> str:
    """What became of a model since the base: nothing, if it is as it was."""
    base, now, moved = outcome.base, outcome.now, outcome.moved
    if base is None or now is None:
        return ""
    if base.state == "new":
        return "new"
    if base.state == "unchanged" or base.measure is None:
        return f"was {one_line(base.path)}" if base.path else ""
    parts = [
        difference(old, new) + ("" if name == "size" else f" {name}")
        for name, old, new in sizes_of(base.measure, now)
        if new is not None and new != old
    ]
    if moved is not None:
        parts.append(f"weights only, {moved_words(moved)}")
    return "; ".join(parts) or "other content"


def moved_words(moved: results.Moved) -> str:
    if moved.odd:
        return "NaN at other places"
    return f"outputs cosine {moved.cosine:.5f}" if moved.output else "outputs the same"


def difference(was: int, now: int) -> str:
    """A change of size: "+225 kB, +150%"."""
    sign = "+" if now >= was else "-"
    share = f", {sign}{format_percent(abs(now / was - 1))}" if was and now != was else ""
    return f"{sign}{format_size(abs(now - was))}{share}"


Use = tuple[str, int, int]  # of a limit: what it is on, how much is used, and how much is allowed


def budget_uses(outcome: results.Outcome) -> list[Use]:
    """How much of each limit a model uses, the tightest first. Of growth that is what it grew by."""
    base, now, uses = outcome.base, outcome.now, []
    for limit in outcome.limits if now else ():
        used, allowed = limit.used(now) if now else None, limit.limit
        if limit.name == "growth":
            was = base.measure.size if base and base.measure else None
            used, allowed = (None, 0) if used is None or was is None else (max(0, used - was), allowed - was)
        if used is not None and allowed > 0:
            uses.append((limit.name, used, allowed))
    return sorted(uses, key=lambda use: -use[1] / use[2])


def budget_words(outcome: results.Outcome, bars: str) -> str:
    """A bar of the tightest limit, and how much of each is used."""
    uses = budget_uses(outcome)
    if not uses:
        return ""
    _, used, allowed = uses[0]
    filled = min(BAR, BAR * used // allowed)
    bar = f"{bars[0]}{bars[1] * filled}{bars[2] * (BAR - filled)}{bars[3]}".strip()
    return f"{bar} {', '.join(use_words(*use) for use in uses)}"


def use_words(name: str, used: int, allowed: int) -> str:
    of = f"{allowed:,}" if name == "params" else format_size(allowed)
    return f"{format_percent(used / allowed)} of {of}{'' if name == 'size' else f' {name}'}"


def sizes_of(before: results.Measure, after: results.Measure | None) -> Iterator[tuple[str, int, int | None]]:
    """Each size that was measured, on disk and compressed: its name, before, and after if there is one."""
    for name in ("size", "gzip", "brotli", "zstd"):
        old = getattr(before, name)
        if old is not None:
            yield name, old, getattr(after, name, None)


def change(before: int, after: int) -> str:
    return f"-{format_percent(1 - after / before)}" if after < before else f"+{after - before:,} B"


def tone(outcome: results.Outcome) -> str:
    """Good, warn, dim or bad: what a verdict is to whoever reads it."""
    return TONES.get(outcome.verdict, "bad")


def verdict_word(outcome: results.Outcome) -> str:
    """Moving bytes elsewhere is no shrinking, and is not called so."""
    before, after = outcome.before, outcome.after
    grew = before is not None and after is not None and after.size >= before.size
    word = WORDS.get(outcome.verdict, outcome.verdict.replace("_", " "))
    return MOVED.get(outcome.verdict, word) if grew else word


def proof_words(outcome: results.Outcome) -> str:
    """What running the models showed, in a few words."""
    verification = outcome.verification
    if verification.status == "not_run":
        return "not verified" if verification.code else ""
    if verification.status == "failed":
        words = {"OCI010": "too slow", "OCI016": "scores worse"}.get(verification.code, "outside tolerance")
        return words if outcome.verdict == "outputs_changed" else f"smaller form: {words}"
    telling = [output for output in verification.outputs if output.sensitive]
    if all(output.exact for output in telling):
        return "identical"
    worst = min(telling, key=lambda output: output.cosine)
    return f"cosine {worst.cosine:.6f}, {min(output.sqnr for output in telling):.0f} dB"


def proof_reason(verification: results.Verification) -> str:
    if verification.reason:
        return f": {one_line(verification.reason)}"
    if not verification.samples:
        return ""
    if verification.inputs == "generated":
        return f" on {counted(verification.samples, 'generated input')}"
    where = f" recorded in {one_line(verification.recorded)}" if verification.recorded else ""
    told = f" on {counted(verification.samples, 'sample')}{where}"
    if verification.made_up:
        told += f" and {counted(verification.made_up, 'generated input')}"
    few = results.ENOUGH - verification.samples
    return f"{told}; {few} more samples would vouch for more" if few > 0 else told


def runtime_row(run: results.RuntimeRun) -> tuple[str, ...]:
    """One version and setting that both models were run with, and what came of it."""
    status = run.status.replace("_", " ")
    if run.reason or run.cosine is None or run.sqnr is None:
        return run.setting, status, "", one_line(run.reason)
    moved = "identical" if run.max_abs == 0 else f"cosine {run.cosine:.6f}, {run.sqnr:.0f} dB"
    return run.setting, status, counted(run.samples, "sample"), moved


def output_row(output: results.OutputDelta) -> tuple[str, ...]:
    return (
        one_line(output.name),
        f"{output.max_abs:.3g}",
        f"{output.max_rel:.3g}",
        f"{output.cosine:.6f}",
        "identical" if output.exact else f"{output.sqnr:.1f} dB",
        one_line(output.problem) or _little(output) or _behind(output),
    )


def _little(output: results.OutputDelta) -> str:
    """Why an output shows little or nothing, whatever its numbers are."""
    why = results.KINDS.get(output.kind, "")
    if output.sensitive:
        return why
    return f"{UNMOVED}: it {why}" if why else UNMOVED


def _behind(output: results.OutputDelta) -> str:
    """What the numbers are of, where that is not the output alone."""
    if not output.behind or output.exact:
        return ""
    picks = output.behind in results.PICKS
    return f"behind its {output.behind}" + (f"; picks are the same in {output.top1:.1%}" if picks else "")


def coverage_words(verification: results.Verification) -> str:
    """Which of the changed tensors a pass speaks for."""
    coverage = verification.coverage
    if coverage is None or not coverage.changed:
        return ""
    how = "damaged on purpose" if coverage.changed == 1 else "each damaged on purpose"
    if not coverage.alone:
        how = "damaged on purpose, some with their neighbours"
    if coverage.runs < coverage.changed and coverage.alone:
        how = "damaged on purpose, or rounded alone when they were planned"
    if not coverage.runs:
        how = "as damage by rounding told when they were planned"
    counts = [f"{coverage.noticed} noticed"]
    unnoticed = (
        (coverage.faint, "seen but within the tolerance"),
        (coverage.blind, "that may be anything within the tolerance"),
        (coverage.unseen, "not seen by any output"),
    )
    counts += [f"{len(tensors)} {what}" for tensors, what in unnoticed if tensors]
    changed, runs = counted(coverage.changed, "changed tensor"), counted(coverage.runs, "run")
    return f"{changed}, {how}: {', '.join(counts)} ({runs})"


def clipped(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def finding_counts(report: results.RunReport) -> list[str]:
    """How many errors and warnings there are, in words."""
    severities = [finding.severity for finding in report.all_findings]
    return [counted(severities.count(kind), kind) for kind in ("error", "warning") if kind in severities]


def saved_words(report: results.RunReport) -> str:
    """How much of how much, if anything; empty where nothing is to be gained."""
    saved = report.size_before - report.size_after
    verb = "could be saved" if report.command == "check" else "saved"
    return f"{format_size(saved)} of {format_size(report.size_before)} {verb}" if saved > 0 else ""


def after_word(report: results.RunReport) -> str:
    """What the new size of a model is called."""
    return "could be" if report.command == "check" else "after"


def judged(report: results.RunReport) -> int:
    return sum(outcome.verdict != "ignored" for outcome in report.outcomes)


def remarks(report: results.RunReport) -> list[str]:
    """What there is to know of the run as a whole; of a shard also what it leaves to others."""
    names = dict.fromkeys(group.name for group in report.groups)
    left = [f"group {name!r} is judged when the reports of all shards are merged" for name in names]
    return [*report.notes, *([f"this is shard {report.shard}", *left] if report.shard else [])]


def original_words(outcome: results.Outcome) -> str:
    """Where the original of a model is, and whether that speaks for it; empty where nobody asked."""
    original = outcome.original
    if original is None:
        return ""
    if not original.place:
        alone = any(finding.code == "OCI050" for finding in outcome.findings)
        return "" if alone else "its original was not found, so it was judged as a model of its own"
    place = f"{PLACES[original.place]} ({one_line(original.where)})"
    if original.verified:
        return f"verified against its original, which is in {place}"
    return f"its original is in {place}; onnx-ci restore --original brings it back"


_METHODS = {
    "seeded": "its random nodes were given the same seeds in copies of both models, made to be run",
    "distribution": "its outputs are random, and were compared by how they are distributed over many runs",
}
_SOURCES = {"runs": "from run to run", "threads": "with another number of threads"}
_SHOWN = 3


def noise_words(verification: results.Verification) -> Iterator[str]:
    if verification.method in _METHODS:
        yield _METHODS[verification.method]
    moved = [output for output in verification.noise if output.source]
    if verification.noise and not moved:
        yield "noise: none; a second run with another number of threads gave the same outputs"
    for output in moved[:_SHOWN]:
        far = one_line(output.problem) or f"max_abs {output.max_abs:.3g}, {output.sqnr:.0f} dB"
        itself = f"of the original differs from itself {_SOURCES[output.source]}"
        yield f"noise: output {one_line(output.name)} {itself}: {far}"
    if len(moved) > _SHOWN:
        yield f"noise: and {len(moved) - _SHOWN} outputs more"
