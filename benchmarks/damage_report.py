"""Tables of the damage bench: what passed although it is damaged, and what failed although it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from checkers import OURS, Verdict
from truth import BEYOND, BROKEN, LOUDER, SAME, SLICE, SLIGHT, Truth

REAL = (BROKEN, BEYOND)  # damage by the tolerance that holds: for every output and every sample
HIDDEN = (SLICE, LOUDER)  # what the default tolerance allows, and a user may not expect


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A model and what was made of it; seconds are what each checker took."""

    model: str
    kind: str  # "damage" | "harmless"
    change: str
    place: str
    truth: Truth
    verdicts: Mapping[str, Verdict]
    seconds: Mapping[str, float]

    @property
    def words(self) -> str:
        what = f"{self.change} ({self.place})" if self.place else self.change
        it = self.truth
        numbers = f"cosine {it.cosine:.5f}, row {it.row:.5f}, peak {it.peak:.3f}, {it.sqnr:.0f} dB"
        return f"{self.model}: {what}: {it.kind}, {numbers}, {it.where}"


def is_real(pair: Pair) -> bool:
    """Beyond the tolerance, whatever was meant: a tool's rewrite can be wrong as well."""
    return pair.truth.kind in REAL


def is_hidden(pair: Pair) -> bool:
    return pair.truth.kind in HIDDEN


def is_harmless(pair: Pair) -> bool:
    return pair.kind == "harmless" and pair.truth.kind in (SAME, SLIGHT)


def report(pairs: Sequence[Pair], judges: Sequence[str]) -> str:
    names = list(dict.fromkeys(pair.model for pair in pairs))
    parts = [
        table("Real damage that passes", pairs, names, judges, is_real, "pass"),
        table("Harmless change that fails", pairs, names, judges, is_harmless, "fail"),
        table("Harmless change without a verdict", pairs, names, judges, is_harmless, "unverified"),
        table("Damage within the tolerance that passes", pairs, [], judges, is_hidden, "pass"),
        seconds(pairs, judges),
        *listing(pairs, judges),
    ]
    return "\n\n".join(parts)


def table(
    title: str,
    pairs: Sequence[Pair],
    names: Sequence[str],
    judges: Sequence[str],
    counts: Callable[[Pair], bool],
    word: str,
) -> str:
    """A line a model and one for all; each cell is the number of pairs with this verdict."""
    kept = [pair for pair in pairs if counts(pair)]
    lines = [f"### {title}", "", f"| model | of | {' | '.join(judges)} |", "|---" * (len(judges) + 2) + "|"]
    for name in (*names, "all"):
        own = [pair for pair in kept if name in (pair.model, "all")]
        cells = (sum(pair.verdicts[judge].word == word for pair in own) for judge in judges)
        lines.append(f"| {name} | {len(own)} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def seconds(pairs: Sequence[Pair], judges: Sequence[str]) -> str:
    totals = ", ".join(f"{judge} {sum(pair.seconds[judge] for pair in pairs):.0f}" for judge in judges)
    return f"Seconds taken by each: {totals}"


def listing(pairs: Sequence[Pair], judges: Sequence[str]) -> Iterator[str]:
    """By name what our check got wrong, so that it can be mended."""
    if OURS not in judges:
        return
    wrong = (
        ("Real damage that onnx-ci passes", is_real, ("pass",)),
        ("Harmless change that onnx-ci does not pass", is_harmless, ("fail", "unverified")),
        ("Damage within the tolerance that onnx-ci passes", is_hidden, ("pass",)),
    )
    for title, counts, words in wrong:
        found = [pair for pair in pairs if counts(pair) and pair.verdicts[OURS].word in words]
        lines = [f"- {pair.words} [{pair.verdicts[OURS].reason}]" for pair in found]
        yield "\n".join([f"### {title}: {len(found)}", "", *lines])
