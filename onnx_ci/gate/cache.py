"""What was found out about a model, kept and found again: its choice with the proven candidate, and what
running it showed."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import math
import os
import platform
import shutil
import stat
import struct
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import IO, Any, TypeVar

from onnx_ci.errors import EnvironmentFault
from onnx_ci.gate.candidates import Candidate, Choice, Staged
from onnx_ci.gate.subject import Ledger, Subject, Task
from onnx_ci.inputs.sample_paths import sample_files
from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Run
from onnx_ci.model.load import adopt_model
from onnx_ci.model.measure import by_name, files_of
from onnx_ci.model.model import Model
from onnx_ci.model.store import file_sha256, file_state
from onnx_ci.results import Measure, Step
from onnx_ci.sandbox.versions import Libraries
from onnx_ci.util.advice import Hint
from onnx_ci.util.codec import build
from onnx_ci.util.files import atomic_write, cache_home, cache_url, package_version, state_home, sweep_files
from onnx_ci.util.sizes import size_setting
from onnx_ci.version import __version__

# All that has a part in what is written or measured. What is not installed has a part as well.
PACKAGES = (
    "onnx",
    "numpy",
    "protobuf",
    "onnxslim",
    "onnxsim",
    "onnxoptimizer",
    "brotli",
    "zstandard",
    "sympy",
)
# Parts of a rule that have no say in what a model becomes, only in what is said about it.
APPLIED_LATER = ("pattern", "line", "named", "lines", "severity", "ignore", "only_new", "load_check")
OF_ITS_ORIGIN = ("missing", "notes", "original", "derived_from")  # found out after a choice is kept
Kind = TypeVar("Kind")


def choice_memory(subject: Subject, content: str, limits: Mapping[str, int]) -> Memory:
    """Where the choice for a model of this content is kept."""
    task, rule = subject.task, subject.rule
    parts = {
        "content": content,
        "rule": {key: value for key, value in asdict(rule).items() if key not in APPLIED_LATER},
        "limits": dict(limits),
        "compressed": task.compressed,
        "insists": task.insists,
    }
    # The user's own score may depend on anything, and time on everything.
    return _memory(subject, parts, repeatable=rule.evaluate is None and not rule.budget.timed)


def run_memory(subject: Subject, *what: str) -> Memory:
    """Where it is kept what running a model showed: as it is, or against other contents."""
    inputs, limits = asdict(subject.rule.inputs), asdict(subject.rule.limits)
    return _memory(subject, {"content": [subject.before.sha256, *what], "inputs": inputs, "limits": limits})


def _memory(subject: Subject, parts: Mapping[str, object], *, repeatable: bool = True) -> Memory:
    task, key = subject.task, _key_for(subject)
    title = _digest({"name": task.name, **parts})
    entry = None
    if key and repeatable:
        # What is wrong with samples is told where they are read; and there may be no home folder.
        with contextlib.suppress(OSError, ValueError, RuntimeError, IndexError):
            entry = folder() / f"{_identity(task, parts)}{SUFFIX}"
    noted = task.look.folder / f"{title}{SUFFIX}" if task.look else None
    return Memory(subject, key or b"", entry, noted, subject.scratch / "remembered" / title)


def _key_for(subject: Subject) -> bytes | None:
    """What an entry about this model is signed with; None where none can be kept or believed."""
    task, model, hashing = subject.task, subject.model, subject.hashing
    key = signing_key() if task.cache and limit() else None
    same = hashing is not None and hashing.state == model.seen.get(task.path) and _untouched(model)
    return key if same else None


def _untouched(model: Model) -> bool:
    """Whether its files are still those that were opened."""
    return all(file_state(path) == state for path, state in model.seen.items())


def _identity(task: Task, parts: Mapping[str, object]) -> str:
    """The name of an entry: all that has a say in it."""
    samples = sample_files(task.rule.inputs.samples, task.home)
    libraries = Libraries(task.rule.libraries, task.home).found()
    everything = {
        **parts,
        "name": task.path.name,  # data files are called after it; the receipt and onnxruntime name it
        "samples": [f"{file.suffix} {file_sha256(file)}" for file in samples],  # in the order they are fed
        "libraries": [file_sha256(file) for file in libraries],
        "made by": makers(),
    }
    return _digest(everything)


def _digest(parts: Mapping[str, object]) -> str:
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


@cache
def makers() -> tuple[str, ...]:
    """Our own code, and all else that has a part in what comes of a model."""
    installed = (f"{name} {package_version(name)}" for name in PACKAGES)
    return (
        f"onnx-ci {__version__} {_own_code()}",
        *_runtimes(),
        *installed,
        f"{sys.platform} {platform.machine()} Python {sys.version_info[0]}.{sys.version_info[1]}",
    )


def versions() -> tuple[str, ...]:
    """What made a report, for whoever wants to make it again."""
    found = [f"{name} {package_version(name)}" for name in ("onnx", "numpy")]
    return (f"onnx-ci {__version__}", *_runtimes(), *found, f"Python {platform.python_version()}")


def _runtimes() -> list[str]:
    """onnxruntime comes in several packages, one for each kind of hardware."""
    if found := package_version("onnxruntime"):
        return [f"onnxruntime {found}"]
    names = ((found.metadata["Name"], found.version) for found in distributions())
    return sorted(f"{name} {number}" for name, number in names if str(name).startswith("onnxruntime"))


def _own_code() -> str:
    """Between two releases, the version says little: a checkout changes every day."""
    home = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for file in sorted(home.rglob("*.py")):
        digest.update(f"{file.relative_to(home).as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Memory:
    """Where something about one model is kept."""

    subject: Subject
    key: bytes
    entry: Path | None  # in the cache; None where nothing is to be kept or believed
    noted: Path | None  # in the folder of this run, where the model is looked at twice
    place: Path  # for the files of an entry, once they are found to be right

    def recall(self, kind: type[Kind]) -> Kind | None:
        facts = self._load()
        return None if facts is None else read(kind, facts)

    @property
    def here(self) -> Path | None:
        """Where something is kept that another machine may find otherwise."""
        machine = hashlib.sha256(f"{platform.node()} {os.cpu_count()}".encode()).hexdigest()[:16]
        return self.entry and self.entry.with_name(f"{self.entry.stem}-{machine}{SUFFIX}")

    def keep(self, value: Any, *, lasting: bool) -> None:
        """Remember what another run would find as well, if it is `lasting`; within this run, anything."""
        self._save(plain(value), {}, lasting=lasting)

    def recall_choice(self) -> tuple[Choice, Ledger] | None:
        """The choice that was made, and the ledger's steps that gained nothing."""
        facts = self._load()
        if facts is None:
            return None
        staged = _staged(facts["staged"], self.subject.model, self.place) if "staged" in facts else None
        steps = [read(Step, step) for step in facts["idle"]]
        idle = {(step.method, step.note): step for step in steps}
        return read(Choice, facts["choice"], staged=staged), Ledger(idle=idle, by_chance=facts["by_chance"])

    def keep_choice(self, choice: Choice, ledger: Ledger) -> None:
        found, staged, idle = choice.verification, choice.staged, list(ledger.idle.values())
        steady = found.status != "not_run" or not found.needed
        lasting = steady and not ledger.by_chance and not any(step.failed for step in idle)
        facts = {
            "choice": plain(choice, leave_out=("staged", *OF_ITS_ORIGIN)),
            "idle": plain(idle),
            "by_chance": ledger.by_chance,
        }
        if staged is None:
            self._save(facts, {}, lasting=lasting)
        else:
            facts["staged"] = _described(staged)
            files = by_name(files_of(staged.path, staged.model.proto))
            self._save(facts, files, lasting=lasting, proven=found.status == "passed")

    def _load(self) -> dict[str, Any] | None:
        facts = load(self.noted, b"", self.place) if self.noted else None
        for entry in (self.entry, self.here):
            if facts is None and entry:
                facts = load(entry, self.key, self.place)
        if facts is None and self.entry and store().fetch(self.entry):
            facts = load(self.entry, self.key, self.place)
        return facts

    def _save(
        self, facts: Mapping[str, Any], files: Mapping[str, Path], *, lasting: bool, proven: bool = False
    ) -> None:
        """What is not lasting is kept for this machine alone, if it is proven."""
        look = self.subject.task.look
        if self.noted and look and look.first:
            save(self.noted, b"", facts, files)
        entry = self.entry if lasting else self.here
        if entry and (lasting or proven) and _untouched(self.subject.model):
            save(entry, self.key, facts, files, most=limit())
            if lasting:
                store().send(entry)


def _described(staged: Staged) -> dict[str, Any]:
    return {
        "file": staged.path.name,
        "digest": staged.digest,
        "measure": plain(staged.measure),
        "candidate": plain(staged.candidate, leave_out=("model", "runs", "rounded", "origin")),
        "runs": [[run.method.name, dict(run.options)] for run in staged.candidate.runs],
    }


def _staged(facts: dict[str, Any], original: Model, place: Path) -> Staged:
    """The candidate over the original's store, as if it had just been made from it."""
    path = place / facts["file"]
    model = replace(adopt_model(original.store, path), path=original.path, seen=original.seen)
    runs = tuple(Run(method(name), options) for name, options in facts["runs"])
    candidate = read(Candidate, facts["candidate"], model=model, runs=runs)
    return Staged(candidate, model, facts["digest"], path, read(Measure, facts["measure"]))


def plain(value: Any, *, leave_out: Collection[str] = ()) -> Any:
    """A result as JSON has it: dataclasses as their fields, but for those that are kept in another way."""
    if is_dataclass(value):
        names = [item.name for item in fields(value) if item.name not in leave_out]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Hint):
        return {"policy": str(value), **vars(value)}
    return [plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def read(kind: type[Kind], values: dict[str, Any], **given: Any) -> Kind:
    """A dataclass from its fields, the ones that were left out given by hand."""
    result: Kind = build(kind, {**values, **given}, _with_hints)
    return result


def _with_hints(kind: Any, value: Any, _where: str) -> Any:
    return Hint(**value) if kind is str and isinstance(value, dict) else value


class SharedStore:
    """A store behind the cache's own folder that others use as well, by its URL. Entries come from it as
    files of the folder and are believed as little: each has to have the right signature. One that does not
    do what it is asked to is not asked again by this process."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.troubles: dict[str, str] = {}  # what can't be done, and why

    def fetch(self, entry: Path) -> bool:
        """Whether the store has an entry, which is then in the folder."""
        sizes: list[int] = []
        self._try("read", ANSWER_SECONDS, lambda fs, name: sizes.append(int(fs.info(name)["size"])), entry)
        if not sizes or sizes[0] > limit():
            return False
        with contextlib.suppress(OSError, EnvironmentFault):
            entry.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(entry, mode=0o600) as temporary:
                seconds = ANSWER_SECONDS + sizes[0] / SLOWEST
                if not self._try("read", seconds, lambda fs, name: fs.get_file(name, str(temporary)), entry):
                    raise FileNotFoundError
            return True
        return False

    def send(self, entry: Path) -> None:
        """Keep an entry of the folder in the store as well, if the folder has it."""
        with contextlib.suppress(OSError):
            seconds = ANSWER_SECONDS + entry.stat().st_size / SLOWEST
            self._try("written", seconds, lambda fs, name: fs.put_file(str(entry), name), entry)

    def _try(self, verb: str, seconds: float, work: Callable[[Any, str], object], entry: Path) -> bool:
        """Whether it was done in time. A thread does it, which nobody waits for any longer than that."""
        if not self.url or verb in self.troubles:
            return False
        failures: list[str] = []

        def run() -> None:
            try:
                from fsspec.core import url_to_fs

                fs, root = url_to_fs(self.url)
                fs.auto_mkdir = True  # where there are folders
                work(fs, f"{root}/{entry.name}")
            except FileNotFoundError as error:
                failures.append("" if verb == "read" else str(error))
            except Exception as error:  # noqa: BLE001 - each kind of store has its own; none is worth a run
                failures.append(f"{type(error).__name__}: {error}")

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            failures.append(f"no answer within {seconds:.0f} s")
        if any(failures):
            self.troubles[verb] = failures[0].splitlines()[0][:200]
        return not failures

    def notes(self) -> list[str]:
        """What went wrong, for the report: it cost time, and nothing else."""
        return [f"the cache {self.url} could not be {verb}: {why}" for verb, why in self.troubles.items()]


@cache
def _store(url: str, _process: int) -> SharedStore:
    return SharedStore(url)


def store() -> SharedStore:
    """The store of this process: a fork has connections of its own."""
    return _store(cache_url(), os.getpid())


ANSWER_SECONDS = 15.0
SLOWEST = 1_000_000  # bytes a second that a store has to manage
LARGEST = "2 GB"
SUFFIX = ".outcome"
TIMES, MOST_TIMES = "times.json", 100_000
UNFINISHED = ".part"  # what killed runs of earlier versions left
LEAST = 1 << 16  # what an entry counts for at least, so that there are never too many of them
MAGIC = b"onnx-ci outcome 1\n"
HEAD = struct.Struct("<32sI")  # the signature, and how long the header is
LONGEST = 1 << 24
CHUNK = 1 << 20


def folder() -> Path:
    return cache_home() / "outcomes"


def limit() -> int:
    """How many bytes all entries may take together; 0 turns the cache off."""
    return size_setting("ONNX_CI_CACHE_SIZE", LARGEST, example="4 GB")


def load(path: Path, key: bytes, scratch: Path) -> dict[str, Any] | None:
    """The facts of an entry as it was when it was opened, whoever replaces or removes it meanwhile. Its
    files are copied to `scratch` and compared there: nobody can change them after that."""
    try:
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - Path.open takes no opener
    except OSError:
        return None
    with file:
        is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        header = _header(file, path.stem, key) if is_file else None
        if header is None or not all(_copy(file, scratch, *listed) for listed in header["files"]):
            return None
    with contextlib.suppress(OSError):
        os.utime(path)  # it was of use: it goes later than others
    facts: dict[str, Any] = header["facts"]
    return facts


def save(
    path: Path, key: bytes, facts: Mapping[str, Any], files: Mapping[str, Path], most: float = math.inf
) -> None:
    """Keep an entry, and no more than `most` bytes in its folder; where that fails, it is not kept."""
    with contextlib.suppress(OSError, EnvironmentFault):
        listed = [(title, file.stat().st_size, file_sha256(file)) for title, file in files.items()]
        header = json.dumps({"name": path.stem, "facts": facts, "files": listed}).encode()
        start = MAGIC + HEAD.pack(_sign(key, header), len(header)) + header
        if len(start) + sum(length for _, length, _ in listed) > most:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path, mode=0o600) as temporary, temporary.open("wb") as target:
            target.write(start)
            for file in files.values():
                with file.open("rb") as source:
                    shutil.copyfileobj(source, target, CHUNK)
        _trim(path.parent, most)


def times() -> dict[str, float]:
    """Seconds that models took, by name, for the next split of a run. Not signed: no verdict hangs on it."""
    try:
        with open(folder() / TIMES, "rb", opener=_without_waiting) as file:
            found = json.loads(file.read(LONGEST))
        return {str(name): float(seconds) for name, seconds in found.items() if 0 <= float(seconds) < 1e6}
    except (OSError, ValueError, TypeError, AttributeError, RuntimeError):  # none, or not ours
        return {}


def keep_times(seconds: Mapping[str, float]) -> None:
    """What is found in the cache takes no time and says little, so what is known goes down but slowly."""
    known = times()
    merged = {**known, **{name: max(took, 0.9 * known.get(name, 0)) for name, took in seconds.items()}}
    latest = list(merged)[-MOST_TIMES:]
    with contextlib.suppress(OSError, EnvironmentFault, RuntimeError):
        folder().mkdir(parents=True, exist_ok=True)
        with atomic_write(folder() / TIMES) as temporary:
            temporary.write_text(json.dumps({name: round(merged[name], 3) for name in latest}))


def _trim(place: Path, most: float) -> None:
    """Remove what killed runs left half written, and what was not used for longest. Another run may be doing
    the same: what is gone is gone."""
    sweep_files(place, lambda _: False)
    entries = []
    for found in os.scandir(place):
        with contextlib.suppress(OSError):
            if found.name.endswith((SUFFIX, UNFINISHED)):
                info = found.stat(follow_symlinks=False)
                entries.append((info.st_mtime, info.st_size, found.path))
    total = 0
    for _, size, path in sorted(entries, reverse=True):
        total += max(size, LEAST)
        if total > most:
            Path(path).unlink(missing_ok=True)


def _without_waiting(path: str, flags: int) -> int:
    """Opening a FIFO would wait for somebody who writes to it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _sign(key: bytes, header: bytes) -> bytes:
    return hmac.digest(key, MAGIC + header, "sha256")


def _header(file: IO[bytes], name: str, key: bytes) -> Any:
    """Nothing of it is looked at before the signature has been found to be right."""
    start = file.read(len(MAGIC) + HEAD.size)
    if len(start) != len(MAGIC) + HEAD.size or not start.startswith(MAGIC):
        return None
    signature, length = HEAD.unpack(start[len(MAGIC) :])
    header = file.read(length) if length <= LONGEST else b""
    if not hmac.compare_digest(signature, _sign(key, header)):
        return None
    found = json.loads(header)
    return found if found["name"] == name else None


def _copy(source: IO[bytes], scratch: Path, title: str, size: int, digest: str) -> bool:
    """Whether as many bytes were there as there should be, and the right ones."""
    found = hashlib.sha256()
    target = scratch / title
    if not target.resolve().is_relative_to(scratch.resolve()):
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        while size and (chunk := source.read(min(CHUNK, size))):
            size -= len(chunk)
            found.update(chunk)
            file.write(chunk)
    return found.hexdigest() == digest


NAME = "ONNX_CI_CACHE_KEY"
LENGTH = 32


def signing_key() -> bytes | None:
    """The key that was given, or this user's own on this machine; None where none can be kept."""
    if given := os.environ.get(NAME):
        return given.encode(errors="surrogateescape")
    try:
        path = state_home() / "cache.key"
        if key := _read_key(path):
            return key
        # Of two runs that make one at once, one may sign what nobody believes: that costs time, no more.
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with atomic_write(path, mode=0o600) as temporary:
            temporary.write_bytes(os.urandom(LENGTH))
        return _read_key(path)
    except (OSError, RuntimeError, EnvironmentFault):  # no home folder, or it can't be written
        return None


def _read_key(path: Path) -> bytes | None:
    key = path.read_bytes() if path.exists() else b""
    return key if len(key) == LENGTH else None
