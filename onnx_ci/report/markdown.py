"""The report as Markdown for job summaries and comments, shortened to what these take."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from onnx_ci.report import text
from onnx_ci.report.annotations import Placed, placed
from onnx_ci.report.sheet import SHOWN as ROWS_OF_A_SHEET
from onnx_ci.report.sheet import Sheet, base_sheet
from onnx_ci.report.text import after_word, clipped, counted, remarks
from onnx_ci.results import COULD_NOT, Outcome, RunReport, Severity
from onnx_ci.util.sizes import SIZE_UNITS, size_unit
from onnx_ci.util.text import Style, clipped_start, first_of, one_line

COMMENT = 65_536  # characters of a comment
SUMMARY = 2**20  # bytes of a job summary
MARKS: dict[Severity, str] = {"error": "❌", "warning": "⚠️", "note": "ℹ️"}  # noqa: RUF001 - it is the sign that is meant
BARS = " █░ "
TONE_MARKS = {"good": "✅", "warn": "⚠️", "dim": "", "bad": "❌"}

# What is dropped last has the lowest number.
ERRORS, ROWS, WARNINGS, PASSING, PICTURE, REMARKS, DETAILS, DIFFERENCES = range(1, 9)
FINDING_RANKS: dict[Severity, int] = {"error": ERRORS, "warning": WARNINGS, "note": REMARKS}
LEFT_OUT = (
    "error",
    "row",
    "warning",
    "passing row",
    "picture",
    "note",
    "model's detail",
    "folded difference",
)
DIFFERENT = 10  # rows of each table of a folded difference


def render_run(report: RunReport, limit: int = COMMENT) -> str:
    """Never more than `limit` bytes, and so never more characters than that either."""
    pieces = [Piece(f"### {_headline(report)}\n\n"), *_table(report)]
    pieces += [Piece(shown, PICTURE) for shown in [picture(report.outcomes, after_word(report))] if shown]
    pieces += [Piece(_finding(place), FINDING_RANKS[place.finding.severity]) for place in placed(report)]
    pieces += [Piece(f"> {prose(note)}\n\n", REMARKS) for note in remarks(report)]
    for outcome in report.outcomes:
        if outcome.steps or outcome.alternatives or outcome.verification.outputs:
            pieces.append(Piece(_details(outcome), DETAILS))
    pieces += [Piece(each, DIFFERENCES) for each in (*_differences(report), *_undiffed(report))]
    return fitted(pieces, limit, LEFT_OUT)


def _mark(outcome: Outcome) -> str:
    """As severe as the worst that was found, else by the verdict."""
    found = {finding.severity for finding in outcome.findings}
    worst = next((severity for severity in MARKS if severity in found and severity != "note"), None)
    return MARKS[worst] if worst else TONE_MARKS[text.tone(outcome)]


def _headline(report: RunReport) -> str:
    if any(finding.code == COULD_NOT for finding in report.findings):
        return "❌ onnx-ci could not run: no model was judged"
    mark, state = ("❌", "failed") if report.exit_code else ("✅", "passed")
    if not report.outcomes and not report.gone:
        return f"{mark} onnx-ci {state}: there was no model to look at"
    return f"{mark} onnx-ci {state}: {prose(text.headline(report))}"


def _table(report: RunReport) -> Iterator[Piece]:
    rows = [text.model_cells(outcome, BARS) for outcome in report.outcomes]
    gone = [text.gone_cells(model) for model in report.gone]
    columns = text.filled_columns(report, [*rows, *gone])
    if not rows and not gone:
        return
    head = f"| | {' | '.join(columns.values())} |\n|---|"
    head += f"{'|'.join('--:' if key in text.NUMBERS else '---' for key in columns)}|\n"
    yield Piece(head)
    shown, folded = text.worth_a_row(report.outcomes)
    by_outcome = dict(zip(map(id, report.outcomes), rows, strict=True))

    def of(outcomes: Iterable[Outcome]) -> Iterator[Piece]:
        for outcome in outcomes:
            row = _row(_mark(outcome), by_outcome[id(outcome)], columns)
            yield Piece(row, PASSING if outcome.is_well else ROWS)

    yield from of(shown)
    yield from (Piece(_row("", row, columns), PASSING) for row in gone)
    yield Piece("\n")
    if folded:
        yield Piece(f"<details><summary>{prose(text.folded_words(folded))}</summary>\n\n{head}")
        yield from of(folded)
        yield Piece("\n</details>\n\n")


def _row(mark: str, row: Mapping[str, str], columns: Iterable[str]) -> str:
    _, *others = columns
    shown = [mark, name(row["model"]), *(prose(row[key]) for key in others)]
    return f"| {' | '.join(shown)} |\n"


def _finding(place: Placed) -> str:
    finding = place.finding
    # A command can be copied.
    advice = f"run {code(finding.command)}" if finding.command else prose(finding.hint)
    hint = f"  \n  → {advice}" if finding.hint else ""
    return f"- {MARKS[finding.severity]} **{finding.code}** {prose(finding.message)}{hint}\n\n"


def _details(outcome: Outcome) -> str:
    content = text.render_outcome(replace(outcome, findings=()), Style(), title=outcome.path)
    return f"<details><summary>{name(outcome.path)}</summary>\n\n{block(content)}\n</details>\n\n"


def _differences(report: RunReport) -> Iterator[str]:
    """What changed in each model since the base, folded."""
    for outcome in report.outcomes:
        if outcome.base is not None and outcome.base.diff is not None:
            parts = "".join(_sheet_parts(base_sheet(outcome.base.diff), DIFFERENT))
            summary = f"<summary>what changed in {name(outcome.path)}</summary>"
            yield f"<details>{summary}\n\n{parts}\n</details>\n\n"


def _undiffed(report: RunReport) -> Iterator[str]:
    """Many models have one reason: a clone without the old content."""
    reasons: dict[str, list[str]] = {}
    for outcome in report.outcomes:
        if outcome.base is not None and outcome.base.undiffed:
            reasons.setdefault(outcome.base.undiffed, []).append(outcome.path)
    for reason, paths in reasons.items():
        yield f"> what changed in {prose(first_of(paths, 3))} is not shown: {prose(reason)}\n\n"


def render_sheet(sheet: Sheet, limit: int = COMMENT) -> str:
    title = Piece(f"### {prose(sheet.title)}\n\n")
    return fitted([title, *_sheet_parts(sheet, ROWS_OF_A_SHEET)], limit, ("line", "table"))


def _sheet_parts(sheet: Sheet, shown: int) -> Iterator[Piece]:
    yield from (Piece(f"- {prose(line)}\n", 1) for line in sheet.lines)
    for section in (each.filled() for each in sheet.sections):
        rules = ("--:" if column in section.numbers else "---" for column in section.columns)
        head = [
            f"\n**{prose(section.title)}**\n",
            _cells(map(prose, section.columns)),
            f"|{'|'.join(rules)}|",
        ]
        rows = [_cells([name(row[0]), *map(prose, row[1:])]) for row in section.rows[:shown]]
        left_out = [f"\n{prose(line)}" for line in section.left_out(shown)]
        yield Piece("\n".join([*head, *rows, *left_out]) + "\n", 2)


def _cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


SHOWN = 12  # models: more bars can't be told apart
LONGEST = 28  # characters of a label
# Grey and blue, which can be seen on white and on black.
COLOURS = "#9aa7b5, #1f6feb"


def picture(outcomes: Sequence[Outcome], after: str) -> str:
    """Empty where no model would change; `after` is what the new size is called."""
    both = [(o.path, o.before.size, o.after.size) for o in outcomes if o.before and o.after]
    shown = sorted(both, key=lambda row: -row[1])[:SHOWN]
    if not any(old != new for _, old, new in shown):
        return ""
    largest = max(size for _, *sizes in shown for size in sizes)
    unit = size_unit(largest)
    labels = ", ".join(f'"{label}"' for label in _labels([path for path, _, _ in shown]))
    more = f", the {SHOWN} largest" if len(both) > SHOWN else ""
    height = 100 + 40 * len(shown)
    look = {"xyChart": {"height": height}, "themeVariables": {"xyChart": {"plotColorPalette": COLOURS}}}
    lines = [
        f"%%{{init: {json.dumps(look)}}}%%",
        "xychart-beta horizontal",
        f'  title "{unit} before (grey), {after} (blue){more}"',
        f"  x-axis [{labels}]",
        f'  y-axis "{unit}" 0 --> {_number(largest, unit)}',
        f"  bar [{', '.join(_number(old, unit) for _, old, _ in shown)}]",
        f"  bar [{', '.join(_number(new, unit) for _, _, new in shown)}]",
    ]
    return "\n".join(["```mermaid", *lines, "```\n\n"])


def _labels(paths: Sequence[str]) -> list[str]:
    """Plain letters only: a quote would end a label. A number keeps two of the same name apart."""
    labels: list[str] = []
    for number, path in enumerate(paths, 1):
        plain = re.sub(r"[^A-Za-z0-9._/ -]", "_", path)
        label = clipped_start(plain, LONGEST)
        labels.append(f"{label} {number}" if label in labels else label)
    return labels


def _number(size: int, unit: str) -> str:
    return f"{size / SIZE_UNITS[unit]:.3f}".rstrip("0").rstrip(".")


RESERVE = 300  # bytes for the line that says what is missing


class Piece(str):
    """Some text with its rank; 0 is never left out."""

    rank: int

    def __new__(cls, text: str, rank: int = 0) -> Piece:
        piece = super().__new__(cls, text)
        piece.rank = rank
        return piece

    @property
    def length(self) -> int:
        """In bytes: some services count these, and no text has more characters than bytes."""
        return len(self.encode(errors="backslashreplace"))


def fitted(pieces: Sequence[Piece], limit: int, things: Sequence[str]) -> str:
    """In their order, as many as fit. The first that does not fit takes all that matter less with it;
    `things` is what pieces of each rank are called, from rank 1."""
    if sum(piece.length for piece in pieces) <= limit:
        return "".join(pieces)
    room = limit - RESERVE - sum(piece.length for piece in pieces if not piece.rank)
    ranked = sorted((piece for piece in pieces if piece.rank), key=lambda piece: piece.rank)
    lengths = accumulate(piece.length for piece in ranked)
    missing = ranked[sum(length <= room for length in lengths) :]
    left_out = {id(piece) for piece in missing}
    shown = [piece for piece in pieces if id(piece) not in left_out]
    counts = Counter(piece.rank for piece in missing)
    names = ", ".join(counted(counts[rank], thing) for rank, thing in enumerate(things, 1) if counts[rank])
    return "".join([*shown, f"*Shortened: {names} left out; the JSON or HTML report has all.*\n"])


# What can begin markup, a table cell, an autolink or a formula. It becomes a character reference, which means
# the same in Markdown and in the HTML within it.
_MARKUP = r"[&<>`*_~|\\\[\]$]|:(?=//)|(?<=www)\."
# People, issues, addresses and signs like :+1: are looked for in the finished text: only another character
# keeps them apart.
_CALLS = r"[@#]|(?<![a-z0-9])gh-|:(?=[a-z0-9_+-]+:)"
_SPECIAL = re.compile(f"(?P<markup>{_MARKUP})|{_CALLS}", re.IGNORECASE)
_APART = "&#8203;"  # a space of no width


def prose(text: str) -> str:
    """One line of running text, to stand after something else: never at the beginning of a line."""
    return _SPECIAL.sub(_harmless, clipped(one_line(text)))


def name(text: str) -> str:
    """A name within running text or a table."""
    return f"<code>{prose(text)}</code>"


def code(text: str) -> str:
    """To be copied as it is: a code span, which holds no markup. Not for tables: a bar ends their cells."""
    shown = clipped(one_line(text))
    fence = "`" * (_longest_run(shown) + 1)
    return f"{fence} {shown} {fence}" if "`" in shown else f"`{shown}`"


def block(text: str) -> str:
    """Lines to be shown as they are, one below the other."""
    lines = "\n".join(map(one_line, text.rstrip("\n").split("\n")))
    fence = "`" * max(3, _longest_run(lines) + 1)
    return f"{fence}text\n{lines}\n{fence}\n"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _harmless(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};" if match["markup"] else f"{match[0]}{_APART}"
