"""All races in one command, as one Markdown page with a plot: every ratio that has a limit, over that limit.

    python benchmarks/page.py --output DIR [--base COMMIT] [--only foundation,git]

Each bench runs by itself and prints its tables; this script only collects them. Exit 1 where one fails.
"""

from __future__ import annotations

import argparse
import html
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMITED = re.compile(r"([\d.]+)x? \(limit ([\d.]+): (within|MISSED)\)")
WIDTH, ROW, LABEL = 720, 22, 330
HOW_TO_READ = """A ratio is ours over a peer's, a floor's or another commit's figure, measured in turns in
one run, so that a busy machine slows both. The plot shows each ratio over its limit: bars that end left of
the line keep it. Absolute seconds say more of the machine than of the tool."""


@dataclass(frozen=True)
class Bench:
    name: str
    title: str
    arguments: tuple[str, ...] = ()


BENCHES = (
    Bench(
        "foundation", "dedupe, int8 and an idle check, against scs4onnx, onnx_shrink_ray and `import yaml`"
    ),
    Bench("git", "commits with the hook, against check-added-large-files"),
    Bench(
        "large",
        "large models, many nodes, short starts, against what is least needed",
        ("--gigabytes", "1", "2"),
    ),
    Bench("jobs", "two models at a time, against one"),
    Bench("methods", "every method and every peer", ("--models", "magika,nsnet2")),
    Bench("planner", "bytes at the same tolerance, against the best peer", ("--models", "magika,ppocr-cls")),
    Bench("speed", "processor time of `shrink`, against another commit"),
)


@dataclass(frozen=True)
class Limited:
    """A ratio with its limit; `label` is the row it stands in."""

    label: str
    ratio: float
    limit: float

    @property
    def kept(self) -> bool:
        return self.ratio <= self.limit


def limited(bench: str, printed: str) -> Iterator[Limited]:
    for line in printed.splitlines():
        label = line.strip("| ").split("|")[0].split(":")[0].strip()
        for ratio, limit, _ in LIMITED.findall(line):
            yield Limited(f"{bench}: {label}", float(ratio), float(limit))


def plot(figures: Sequence[Limited]) -> str:
    """Bars of ratio over limit; the line is the limit."""
    most = max(2.0, *(figure.ratio / figure.limit for figure in figures))
    unit = (WIDTH - LABEL - 60) / most
    rows = []
    for number, figure in enumerate(figures):
        top, share = number * ROW, figure.ratio / figure.limit
        colour = "#2a7f4f" if figure.kept else "#b3261e"
        rows.append(
            f'<text x="{LABEL - 8}" y="{top + 15}" text-anchor="end">{html.escape(figure.label[:52])}</text>'
            f'<rect x="{LABEL}" y="{top + 4}" width="{share * unit:.1f}" height="{ROW - 8}" fill="{colour}"/>'
            f'<text x="{LABEL + share * unit + 5:.1f}" y="{top + 15}">{figure.ratio:g}</text>'
        )
    height, line = len(figures) * ROW, LABEL + unit
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif"'
        f' font-size="11"><rect width="100%" height="100%" fill="white"/>{"".join(rows)}'
        f'<line x1="{line:.1f}" x2="{line:.1f}" y1="0" y2="{height}" stroke="black"/></svg>\n'
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--base", default="HEAD~1", metavar="COMMIT", help="what speed.py races against")
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=[bench.name for bench in BENCHES]
    )
    options = parser.parse_args(argv)
    options.output.mkdir(parents=True, exist_ok=True)
    sections: list[str] = []
    figures: list[Limited] = []
    failed: list[str] = []
    for bench in BENCHES:
        if bench.name not in options.only:
            continue
        more = ("--base", options.base) if bench.name == "speed" else ()
        command = [sys.executable, str(HERE / f"{bench.name}.py"), *bench.arguments, *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        figures += limited(bench.name, done.stdout)
        if done.returncode:
            failed.append(bench.name)
        trouble = f"\n```\n{done.stderr[-2000:]}\n```\n" if done.returncode and not done.stdout else ""
        sections.append(f"## {bench.name}: {bench.title}\n\n{done.stdout.strip()}\n{trouble}")
        print(f"{bench.name}: {'exit ' + str(done.returncode) if done.returncode else 'done'}", flush=True)
    if figures:
        (options.output / "limits.svg").write_text(plot(figures))
    kept = sum(figure.kept for figure in figures)
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    head = f"# Benchmarks\n\n{kept} of {len(figures)} limits are kept ({machine}).\n\n{HOW_TO_READ}\n"
    picture = "\n![every ratio over its limit](limits.svg)\n" if figures else ""
    (options.output / "README.md").write_text("\n".join([head + picture, *sections]))
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
