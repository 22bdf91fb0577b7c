"""Real inputs: what the sessions of a program were fed, matched to the models of the repository and kept as
samples of their rules."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from onnx_ci.errors import EnvironmentFault, ModelError, UsageError
from onnx_ci.gate.project import Context, open_context, ruling_context
from onnx_ci.inputs import recorder
from onnx_ci.inputs.sample_paths import RECORDED, recorded_folder, recorded_from
from onnx_ci.inputs.samples import entries, overridden_inputs, read_recorded, sample_digest, write_npz
from onnx_ci.model.load import read_skeleton
from onnx_ci.model.receipt import read_receipt
from onnx_ci.model.store import file_sha256
from onnx_ci.repo.select import all_models
from onnx_ci.util.files import scratch_folder
from onnx_ci.util.sizes import format_size
from onnx_ci.util.text import relative_name
from onnx_ci.verify.reference import has_no_number

COUNT = 8  # samples of a model
LIMIT = 25_000_000  # bytes of them
_MODELS = 4  # how many times that all models may take together
_SPOOL = 40  # and all that is kept while a program runs
_OURS = re.compile(r"[0-9a-f]{12}\.npz")
_WAIT = 20.0  # seconds that a program has to end once it was told to

# "unknown": no model of the repository; "ignored": by its rule; "none": nothing of it could be kept
State = Literal["kept", "unknown", "ignored", "none"]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What is known of a model that was run, by one process: where it was, its content, what it was fed."""

    path: str
    sha256: str
    size: int
    source: str  # the sha256 of what it was made from, by its receipt
    runs: int  # that went well
    largest: int  # bytes of the largest sample that was too large, if any was
    samples: tuple[Path, ...]

    @property
    def name(self) -> str:
        return self.path or f"a model from memory, {format_size(self.size)}, sha256 {self.sha256[:12]}"


@dataclass(frozen=True, kw_only=True)
class RecordedModel:
    """What became of the inputs of one model."""

    model: str  # named from here, or what is known of it if it is none of the repository's
    state: State
    runs: int
    folder: str = ""  # of the samples, named from here
    samples: tuple[Path, ...] = ()
    size: int = 0  # bytes of their files
    too_large: int = 0  # bytes of the largest that was not kept for its size
    unfit: str = ""  # why some were not kept
    ruled: bool = True  # a rule matches it
    named: bool = False  # and names samples of its own
    pattern: str = ""  # what a rule would call them; nothing where no rule can
    overridden: tuple[str, ...] = ()  # inputs that were fed though the model has a value for them


@dataclass
class Recording:
    """What a program fed to its models; filled in when it ended."""

    models: tuple[RecordedModel, ...] = ()
    troubles: tuple[str, ...] = ()  # what went wrong while recording
    watched: bool = True  # whether any Python that could be watched was started
    exit_code: int = 0  # of the program
    failed: tuple[str, ...] = ()  # models of which no run went well, named from here

    @property
    def kept(self) -> list[RecordedModel]:
        return [model for model in self.models if model.state == "kept"]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """How much is kept, and where."""

    output: str = ""  # a folder; usually the place where rules find samples by themselves
    count: int = COUNT
    limit: int = LIMIT
    add: bool = False  # to what was recorded before, instead of replacing it
    here: Path = field(default_factory=Path.cwd)

    def settings(self, spool: Path) -> dict[str, Any]:
        most = max(16, 4 * self.count)
        return {"folder": str(spool), "most": most, "limit": self.limit, "spool": _SPOOL * self.limit}


@contextlib.contextmanager
def record(
    *, output: str | Path = "", count: int = COUNT, limit: int = LIMIT, add: bool = False
) -> Iterator[Recording]:
    """Keep what the sessions of this process are fed inside the block, as `onnx-ci record` does."""
    how = Recorded(output=str(output), count=count, limit=limit, add=add)
    context = _place_to_write(how)
    recording = Recording()
    with scratch_folder() as spool:
        watching = recorder.Recorder(str(spool), how.settings(spool))
        watching.install()
        try:
            yield recording
        finally:
            watching.remove()
            _keep(recording, spool, how, context)


def record_command(command: Sequence[str], how: Recorded) -> Recording:
    """Run a command, and keep what the sessions of every Python in it are fed."""
    context = _place_to_write(how)
    recording = Recording()
    with scratch_folder() as scratch:
        spool, site = scratch / "spool", scratch / "site"
        spool.mkdir()
        site.mkdir()
        (site / recorder.SETTINGS).write_text(json.dumps(how.settings(spool)), encoding="utf-8")
        shutil.copyfile(recorder.__file__, site / "sitecustomize.py")
        before = os.environ.get("PYTHONPATH")
        paths = os.pathsep.join([str(site), before] if before else [str(site)])
        recording.exit_code = _run(command, {**os.environ, "PYTHONPATH": paths})
        recording.watched = (spool / recorder.STARTED).exists()
        _keep(recording, spool, how, context)
    return recording


def _place_to_write(how: Recorded) -> Context:
    """Find out whether samples can be written, before a program takes its time; nothing stays behind."""
    context = open_context(None, how.here)
    folder = how.here / how.output if how.output else context.root / RECORDED
    there = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
    try:
        Path(tempfile.mkdtemp(prefix=".onnx-ci-", dir=there)).rmdir()
    except OSError as error:
        name = os.path.relpath(there, how.here)
        raise EnvironmentFault(
            f"samples can't be written to {how.output or RECORDED}: {name}: {error.strerror}",
            hint="name another folder: onnx-ci record --output DIR -- COMMAND",
        ) from None
    return context


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program to its end; whoever stops us stops it, and what it did until then counts."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        program = subprocess.Popen(list(command), env=environment)
    except OSError as error:
        quoted = "; give it as words, not in quotes" if " " in command[0] else ""
        hint = f"check its name{quoted}: onnx-ci record -- pytest tests/"
        raise UsageError(f"{command[0]!r} can't be run: {error.strerror}", hint=hint) from None
    try:
        code = program.wait()
    except KeyboardInterrupt as stop:
        number = stop.args[0] if stop.args else signal.SIGINT
        if stop.args:  # by a signal to us alone; Ctrl-C it got itself
            program.terminate()
        try:
            program.wait(_WAIT)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            program.kill()
            program.wait()
        return 128 + int(number)
    return code if code >= 0 else 128 - code


def _keep(recording: Recording, spool: Path, how: Recorded, context: Context) -> None:
    seen, recording.troubles = _read_spool(spool)
    names = {
        os.path.relpath(each.path, how.here) if each.path else each.name for each in seen if not each.runs
    }
    ran = [each for each in seen if each.runs]
    recording.failed = tuple(sorted(names))
    models = _Models(context)
    matched: defaultdict[Path, list[Seen]] = defaultdict(list)
    unknown: defaultdict[str, list[Seen]] = defaultdict(list)
    for each in ran:
        paths = models.of(each)
        for path in paths:
            matched[path].append(each)
        if not paths:
            unknown[each.name].append(each)
    limit = min(how.limit, _MODELS * how.limit // max(1, len(matched)))
    results = [_keep_one(path, matched[path], replace(how, limit=limit), context) for path in sorted(matched)]
    for name, parts in sorted(unknown.items()):
        results.append(RecordedModel(model=name, state="unknown", runs=sum(part.runs for part in parts)))
    recording.models = tuple(results)


def _read_spool(spool: Path) -> tuple[list[Seen], tuple[str, ...]]:
    """Read what all processes wrote; one that was killed may have left less than it meant to."""
    seen = []
    for about in sorted(spool.glob(f"*/*/{recorder.ABOUT}")):
        folder = about.parent
        with contextlib.suppress(OSError, ValueError, TypeError):
            known = json.loads(about.read_text(encoding="utf-8"))
            runs, largest = folder / recorder.RUNS, folder / recorder.LARGEST
            seen.append(
                Seen(
                    **known,
                    runs=runs.stat().st_size if runs.exists() else 0,
                    largest=int(largest.read_text(encoding="utf-8")) if largest.exists() else 0,
                    samples=tuple(sorted(folder.glob("*.npz"))),
                )
            )
    files = sorted(spool.glob(f"*/{recorder.TROUBLE}"))
    troubles = dict.fromkeys(file.read_text(encoding="utf-8", errors="replace") for file in files)
    return seen, tuple(troubles)


class _Models:
    """The models of the repository, by place, content and origin."""

    def __init__(self, context: Context) -> None:
        found = [path for path in all_models(context.root, context.repository) if path.is_file()]
        self.sizes = {path: path.stat().st_size for path in found}
        self.real = {path.resolve(): path for path in found}
        self._sha256 = cache(file_sha256)
        self._origin = cache(_origin)

    def of(self, seen: Seen) -> list[Path]:
        """Return the models that a session ran: the very file, else all of its content, else those of which
        one was made from the other."""
        if seen.path and Path(seen.path) in self.real:
            return [self.real[Path(seen.path)]]
        same = [
            path
            for path, size in self.sizes.items()
            if size == seen.size and self._sha256(path) == seen.sha256
        ]
        if same or not seen.sha256:
            return same
        if seen.source:
            same = [path for path in self.sizes if seen.source in (self._origin(path), self._sha256(path))]
        return same or [path for path in self.sizes if self._origin(path) == seen.sha256]


def _origin(path: Path) -> str:
    """Return what a model was made from, by its receipt."""
    receipt = None
    with contextlib.suppress(ModelError, OSError):
        receipt = read_receipt(read_skeleton(path))
    return receipt.source_sha256 if receipt else ""


def _keep_one(path: Path, parts: Sequence[Seen], how: Recorded, context: Context) -> RecordedModel:
    ruling = ruling_context(context, path)
    rule = ruling.rule_of(path)
    top = ruling.folder if path.is_relative_to(ruling.folder) else context.root
    home = how.here / how.output if how.output else top / RECORDED
    folder = Path(recorded_folder(relative_name(path, top), home.as_posix()))
    runs, too_large = sum(part.runs for part in parts), max(part.largest for part in parts)
    result = RecordedModel(
        model=os.path.relpath(path, how.here),
        state="none",
        runs=runs,
        folder=os.path.relpath(folder, how.here),
        too_large=too_large,
        ruled=rule is not None,
        named=rule is not None and bool(rule.inputs.samples) and not recorded_from(rule.inputs.samples),
    )
    if rule is not None and rule.ignore:
        return replace(result, state="ignored")
    if folder.resolve().is_relative_to(context.root.resolve()):
        result = replace(result, pattern=f"{os.path.relpath(folder, ruling.folder)}/*.npz")
    elif not how.output:
        return replace(result, unfit=f"{result.folder} leads outside of the repository")
    earlier = sorted(file for file in folder.glob("*.npz") if _OURS.fullmatch(file.name))
    files = [file for part in parts for file in part.samples]
    candidates, unfit = _candidates([*files, *(earlier if how.add else ())], path)
    chosen = choose(candidates, how.count, how.limit)
    if not chosen:
        return replace(result, unfit=unfit)
    folder.mkdir(parents=True, exist_ok=True)
    proto = read_skeleton(path)
    overridden = {name for digest in chosen for name in overridden_inputs(candidates[digest].file, proto)}
    result = replace(result, overridden=tuple(sorted(overridden)))
    targets = {folder / f"{digest[:12]}.npz": candidates[digest].file for digest in chosen}
    for target, file in targets.items():
        if not target.exists():  # its name says what it holds
            write_npz(target, read_recorded(file, proto))
    for file in earlier:
        if file not in targets:
            file.unlink(missing_ok=True)
    size = sum(target.stat().st_size for target in targets)
    return replace(result, state="kept", samples=tuple(sorted(targets)), size=size, unfit=unfit)


@dataclass(frozen=True)
class RecordedSample:
    """A sample that fits its model; it stays in its file until it is chosen."""

    file: Path
    fingerprint: recorder.Print
    size: int

    def distance(self, other: RecordedSample) -> float:
        return recorder.distance(self.fingerprint, other.fingerprint)


def _candidates(files: Sequence[Path], model: Path) -> tuple[dict[str, RecordedSample], str]:
    """Return the samples that fit the model as it is in the repository, by digest, and why others do not."""
    candidates, unfit = {}, ""
    try:
        proto = read_skeleton(model)
    except ModelError as error:
        return {}, error.message
    for file in files:
        try:
            sample = read_recorded(file, proto)
        except ModelError as error:
            unfit = error.message.partition(": ")[2] or error.message
            continue
        arrays = dict(entries(sample))
        if not any(array.size for array in arrays.values()) or any(map(has_no_number, arrays.values())):
            unfit = "inputs that are empty, or hold no number, were left out"
            continue
        size = sum(array.nbytes for array in arrays.values())
        candidates[sample_digest(sample)] = RecordedSample(file, recorder.fingerprint(arrays), size)
    return candidates, unfit


def choose(candidates: Mapping[str, RecordedSample], count: int, limit: int) -> list[str]:
    """Choose those that differ most, within `limit` bytes: the most usual one first, then always the one that
    is furthest from those chosen. The order in which they were seen has no part in it."""
    names = [name for name in sorted(candidates) if candidates[name].size <= limit]
    if not names:
        return []
    total = {a: sum(candidates[a].distance(candidates[b]) for b in names) for a in names}
    best, chosen, left = min(names, key=lambda name: total[name]), list[str](), limit
    nearest = dict.fromkeys(names, math.inf)
    while True:
        chosen.append(best)
        left -= candidates[best].size
        for name in names:
            nearest[name] = min(nearest[name], candidates[name].distance(candidates[best]))
        fitting = [name for name in names if nearest[name] > 0 and candidates[name].size <= left]
        if len(chosen) == count or not fitting:
            return chosen
        best = max(fitting, key=lambda name: nearest[name])
