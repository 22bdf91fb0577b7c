"""How much damage passes and how much harmless change fails: our check and the peers', pair by pair."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import models
from checkers import CHECKERS, checker
from damage_report import Pair, report
from damage_selftest import problems
from damages import DAMAGES, PLACES, damaged
from environments import SetupError
from methods import listed
from rewrites import PEERS, REWRITES
from truth import SAME, SLIGHT, Witness

from onnx_ci.sandbox.runner import Runner

SMALL = 20 << 20  # bytes; larger models are struck in fewer places
HUGE = 200 << 20  # of these, only every third damage is tried
SLOW = {item.name for item in PEERS}  # rewrites that take long for large models


def changes(source: Path, wanted: Sequence[str], scratch: Path) -> Iterator[tuple[str, str, str, Path]]:
    """What is done to a model: kind, name, place, and where the result is until the next one is asked for."""
    import onnx

    model = onnx.load(source)
    size = source.stat().st_size
    for number, damage in enumerate(DAMAGES):
        if damage.name not in wanted or (size > HUGE and number % 3):
            continue
        for place in places(source.stem, damage.name, 1 if damage.once or size > SMALL else 2):
            target = scratch / "damaged.onnx"
            changed = damaged(model, damage, place)
            if changed is not None:
                onnx.save(changed, target)
                yield "damage", damage.name, place, target
    for rewrite in REWRITES:
        folder = Path(tempfile.mkdtemp(dir=scratch))
        if size > SMALL and rewrite.name in SLOW:
            continue
        if rewrite.name in wanted and rewrite.write(source, model, folder / "model.onnx"):
            yield "harmless", rewrite.name, "", folder / "model.onnx"
        for file in folder.iterdir():
            file.unlink()


def places(model: str, damage: str, count: int) -> list[str]:
    """Other places for other models, the same in every run."""
    first = zlib.crc32(f"{model} {damage}".encode()) % len(PLACES)
    return [PLACES[(first + at) % len(PLACES)] for at in range(count)]


def judged(name: str, wanted: Sequence[str], judges: Sequence[str]) -> list[Pair]:
    """All pairs of one model, and what each checker says of them."""
    source = models.fetch(name)
    pairs: list[Pair] = []
    with ExitStack() as stack:
        witness = Witness(name, source, stack.enter_context(Runner()))
        shapes = {key: list(array.shape) for key, array in witness.feeds[-1].items()}
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="onnx-ci-bench-")))
        asked = {one: checker(one, source, shapes) for one in judges}
        for judge in asked.values():
            stack.enter_context(judge)
        for kind, change, place, target in changes(source, wanted, scratch):
            truth = witness.truth(target)
            if kind == "damage" and truth.kind in (SAME, SLIGHT):
                continue  # it does no harm here, and it is no mistake to say so
            verdicts, seconds = {}, {}
            for one, judge in asked.items():
                began = time.monotonic()
                verdicts[one] = judge.verdict(target)
                seconds[one] = time.monotonic() - began
            about = {"model": name, "kind": kind, "change": change, "place": place}
            pairs.append(Pair(**about, truth=truth, verdicts=verdicts, seconds=seconds))
    return pairs


def main(argv: Sequence[str] | None = None) -> int:
    changes = [damage.name for damage in DAMAGES] + [rewrite.name for rewrite in REWRITES]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(models.NAMES), metavar="a,b", help="default: all")
    parser.add_argument("--damages", default="", metavar="a;b", help="damages and rewrites; default: all")
    parser.add_argument("--checkers", default=",".join(CHECKERS), metavar="a,b", help="default: all")
    parser.add_argument("--jobs", type=int, default=2, help="models looked at side by side (default 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every pair with its truth and verdicts")
    parser.add_argument("--self-test", action="store_true", help="whether damages damage and rewrites do not")
    args = parser.parse_args(argv)
    if args.self_test:
        found = list(problems())
        print("\n".join([*found, f"{len(found)} problems"]))
        return int(bool(found))
    try:
        names = listed(args.models, models.NAMES, "model")
        judges = listed(args.checkers, CHECKERS, "checker")
        wanted = listed(args.damages.replace(";", ","), changes, "damage") or changes
        pairs: list[Pair] = []
        for of_one in everything(names, wanted, judges, args.jobs):
            pairs += of_one
            if args.json:  # after each model: all of them take a while
                args.json.write_text(json.dumps([asdict(pair) for pair in pairs], indent=1) + "\n")
    except SetupError as error:
        print(f"damage: {error}", file=sys.stderr)
        return 3
    print(report(sorted(pairs, key=lambda pair: names.index(pair.model)), judges))
    return 0


def everything(
    names: Sequence[str], wanted: Sequence[str], judges: Sequence[str], jobs: int
) -> Iterator[list[Pair]]:
    """The pairs of one model after another, as they are done."""
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        work = {pool.submit(judged, name, wanted, judges): name for name in names}
        for done in as_completed(work):
            print(f"{work[done]}: {len(done.result())} pairs", file=sys.stderr, flush=True)
            yield done.result()


if __name__ == "__main__":
    sys.exit(main())
