"""The choice among a model's candidates, kept and found again: the facts and the proven candidate."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import platform
import secrets
import stat
import struct
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, distributions, version
from itertools import repeat
from pathlib import Path
from types import NoneType, UnionType
from typing import IO, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from onnx_ci.gate.candidates import Candidate, Choice, Held, Staged
from onnx_ci.gate.subject import Subject, Task
from onnx_ci.inputs.sample_paths import sample_files
from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Run
from onnx_ci.model.load import adopt_model
from onnx_ci.model.measure import files_of
from onnx_ci.model.model import Model
from onnx_ci.model.store import file_sha256, file_state
from onnx_ci.policy.schema import Rule
from onnx_ci.results import Measure, Step
from onnx_ci.sandbox.versions import Libraries
from onnx_ci.util.advice import Hint
from onnx_ci.util.files import cache_home, create, remove_dead, state_home, sweep_files, temporary_name
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
APPLIED_LATER = ("pattern", "line", "severity", "ignore", "only_new", "load_check")


def identity(task: Task, content: str, limits: Mapping[str, int]) -> str:
    """The name of the entry for this work; none where the outcome depends on more than can be told."""
    if not content or not is_repeatable(task.rule):
        return ""
    parts = {
        "content": content,
        "name": task.path.name,  # data files are called after it, and the receipt lists them
        "rule": {key: value for key, value in asdict(task.rule).items() if key not in APPLIED_LATER},
        **_user_files(task),
        "limits": dict(limits),
        "compressed": task.compressed,
        "insists": task.insists,
        "made by": _makers(),
    }
    return _digest(parts)


def _digest(parts: Mapping[str, object]) -> str:
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _user_files(task: Task) -> dict[str, list[str]]:
    libraries = Libraries(task.rule.libraries, task.home).found()
    return {"samples": list(_samples(task)), "libraries": [file_sha256(file) for file in libraries]}


def run_identity(task: Task, content: str, *against: str) -> str:
    """The name of the entry for what running a model showed: as it is, or against other contents."""
    if not content:
        return ""
    parts = {
        "contents": [content, *against],
        "name": task.path.name,  # onnxruntime's complaints have it
        "inputs": asdict(task.rule.inputs),
        "limits": asdict(task.rule.limits),
        **_user_files(task),
        "made by": _makers(),
    }
    return _digest(parts)


def is_repeatable(rule: Rule) -> bool:
    """The user's own score may depend on anything, and time on everything."""
    return rule.evaluate is None and rule.budget.latency is None


def _samples(task: Task) -> Iterator[str]:
    """The contents of the user's inputs, in the order in which they are fed."""
    for file in sample_files(task.rule.inputs.samples, task.home):
        yield f"{file.suffix} {file_sha256(file)}"


@cache
def _makers() -> tuple[str, ...]:
    installed = (f"{name} {_version(name)}" for name in PACKAGES)
    return (
        f"onnx-ci {__version__} {_own_code()}",
        *_runtimes(),
        *installed,
        f"{sys.platform} {platform.machine()} Python {sys.version_info[0]}.{sys.version_info[1]}",
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _runtimes() -> list[str]:
    """onnxruntime comes in several packages, one for each kind of hardware."""
    if found := _version("onnxruntime"):
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


Kind = TypeVar("Kind")


def plain(value: Any, *, leave_out: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a dataclass, but for those that are kept in another way."""
    found = {item.name: getattr(value, item.name) for item in fields(value) if item.name not in leave_out}
    return {name: _plain(item) for name, item in found.items()}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value, dict_factory=_with_hints)
    if isinstance(value, Hint):
        return {"policy": str(value), **vars(value)}
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def _with_hints(items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in items}


def read(kind: type[Kind], values: dict[str, Any], **given: Any) -> Kind:
    """A dataclass from its fields, the ones that were left out given by hand."""
    hints = get_type_hints(kind)
    return kind(**{name: _read(hints[name], value) for name, value in values.items()}, **given)


def _read(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if get_origin(hint) in (Union, UnionType):
        return _read(next(one for one in get_args(hint) if one is not NoneType), value)
    if get_origin(hint) is tuple:
        kinds = get_args(hint)
        every = repeat(kinds[0]) if kinds[-1] is Ellipsis else kinds
        return tuple(_read(kind, item) for kind, item in zip(every, value, strict=False))
    if hint is str and isinstance(value, dict):
        return Hint(**value)
    return read(hint, value) if is_dataclass(hint) and isinstance(hint, type) else value


LARGEST = "2 GB"
SUFFIX = ".outcome"
UNFINISHED = ".part"
LEAST = 1 << 16  # what an entry counts for at least, so that there are never too many of them


def folder() -> Path:
    return cache_home() / "outcomes"


def limit() -> int:
    """How many bytes all entries may take together; 0 turns the cache off."""
    return size_setting("ONNX_CI_CACHE_SIZE", LARGEST, example="4 GB")


@contextlib.contextmanager
def opened(name: str, place: Path | None = None) -> Iterator[IO[bytes] | None]:
    """An entry to read, as it was when it was opened, whoever replaces or removes it meanwhile."""
    try:
        path = (place or folder()) / f"{name}{SUFFIX}"
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - Path.open takes no opener
    except (OSError, RuntimeError):
        yield None
        return
    with file:
        yield file if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None


def _without_waiting(path: str, flags: int) -> int:
    """Opening a FIFO would wait for somebody who writes to it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def used(name: str) -> None:
    """The entry was of use: it goes later than others."""
    with contextlib.suppress(OSError):
        os.utime(folder() / f"{name}{SUFFIX}")


def put(name: str, pieces: Iterable[bytes | Path], size: int) -> None:
    """Keep an entry made of bytes and of the contents of files; where that fails, it is not kept."""
    if size > limit():
        return
    with contextlib.suppress(OSError, RuntimeError):
        place = folder()
        place.mkdir(parents=True, exist_ok=True)
        _write(place / f"{name}{SUFFIX}", pieces)
        _trim(place, limit())


def _write(path: Path, pieces: Iterable[bytes | Path]) -> None:
    import shutil

    temporary = path.with_name(f"{os.urandom(8).hex()}{UNFINISHED}")
    try:
        with os.fdopen(create(temporary, 0o600), "wb") as file:
            for piece in pieces:
                if isinstance(piece, bytes):
                    file.write(piece)
                    continue
                with piece.open("rb") as source:
                    shutil.copyfileobj(source, file, 1 << 20)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _trim(place: Path, most: int) -> None:
    """Remove what was not used for longest. Another run may be doing the same: what is gone is gone."""
    entries = sorted(_entries(place), reverse=True)
    total = 0
    for _, size, path in entries:
        total += max(size, LEAST)
        if total > most:
            Path(path).unlink(missing_ok=True)


def _entries(place: Path) -> Iterator[tuple[float, int, str]]:
    """When each was last used, its size and its path. What a killed run left half written is removed."""
    for found in os.scandir(place):
        try:
            info = found.stat(follow_symlinks=False)
        except OSError:
            continue
        if found.name.endswith(SUFFIX):
            yield info.st_mtime, info.st_size, found.path
        elif found.name.endswith(UNFINISHED):
            remove_dead(Path(found.path))


MAGIC = b"onnx-ci outcome 1\n"
HEAD = struct.Struct("<32sI")  # the signature, and how long the header is
LONGEST = 1 << 24
CHUNK = 1 << 20


def load(name: str, key: bytes, scratch: Path, place: Path | None = None) -> dict[str, Any] | None:
    """The facts of an entry. Its files are copied to `scratch` and compared there: nobody can change
    them after that. `place` is a folder of this run, in place of the cache."""
    with opened(name, place) as file:
        header = _header(file, name, key) if file else None
        if file is None or header is None:
            return None
        for title, size, digest in header["files"]:
            if not _copy(file, scratch, title, size, digest):
                return None
    if place is None:
        used(name)
    facts: dict[str, Any] = header["facts"]
    return facts


def save(
    name: str, key: bytes, facts: Mapping[str, Any], files: Mapping[str, Path], place: Path | None = None
) -> None:
    listed = [(title, path.stat().st_size, file_sha256(path)) for title, path in files.items()]
    header = json.dumps({"name": name, "facts": facts, "files": listed}).encode()
    start = MAGIC + HEAD.pack(_sign(key, header), len(header)) + header
    size = len(start) + sum(length for _, length, _ in listed)
    if place is None:
        put(name, [start, *files.values()], size)
    else:
        _write(place / f"{name}{SUFFIX}", [start, *files.values()])


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
        for chunk in _chunks(source, size):
            found.update(chunk)
            file.write(chunk)
    return found.hexdigest() == digest


def _chunks(source: IO[bytes], size: int) -> Iterator[bytes]:
    while size and (chunk := source.read(min(CHUNK, size))):
        size -= len(chunk)
        yield chunk


NAME = "ONNX_CI_CACHE_KEY"
LENGTH = 32


def signing_key() -> bytes | None:
    """The key that was given, or this user's own on this machine; None where none can be kept."""
    given = os.environ.get(NAME)
    if given:
        return given.encode(errors="surrogateescape")
    try:
        path = state_home() / "cache.key"
        return _read_key(path) or _make(path)
    except (OSError, RuntimeError):  # no home folder, or it can't be written
        return None


def _read_key(path: Path) -> bytes | None:
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return None
    return found if len(found) == LENGTH else None


def _make(path: Path) -> bytes | None:
    """Of two runs that make one at once, one may sign what nobody believes: that costs time, no more."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    sweep_files(path.parent, lambda _: False, of=path.name)
    temporary = temporary_name(path)
    with os.fdopen(create(temporary, 0o600), "wb", buffering=0) as file:
        file.write(secrets.token_bytes(LENGTH))
    temporary.replace(path)
    return _read_key(path)


OF_ITS_ORIGIN = ("missing", "notes", "original", "derived_from")  # found out after a choice is kept


@dataclass(frozen=True)
class Memory:
    """Where the choice for one model is kept: in the cache, under a name that is empty where it is not to be
    kept, and for the time of this run where the model is looked at twice."""

    name: str
    key: bytes
    subject: Subject
    noted: str = ""  # its name in the folder of this run

    def recall(self) -> Recalled | None:
        """The choice that was made for this content, and the steps that gained nothing."""
        facts = self._load()
        if facts is None:
            return None
        place = self.subject.scratch / "remembered" / self.noted
        staged = _staged(facts["staged"], self.subject.model, place) if "staged" in facts else None
        return Recalled(
            choice=read(Choice, facts["choice"], staged=staged),
            idle=tuple(read(Step, step) for step in facts["idle"]),
            by_chance=facts.get("by_chance", False),
        )

    def keep(self, choice: Choice, idle: Sequence[Step], *, by_chance: bool) -> None:
        """Remember a choice that another run would make as well; within this run, any."""
        found = choice.verification
        steady = found.status != "not_run" or not found.needed
        lasting = steady and not by_chance and not any(step.failed for step in idle)
        kept = plain(choice, leave_out=("staged", *OF_ITS_ORIGIN))
        facts = {"choice": kept, "idle": [plain(step) for step in idle], "by_chance": by_chance}
        files: dict[str, Path] = {}
        if choice.staged is not None:
            facts["staged"] = _described(choice.staged)
            folder = choice.staged.path.parent
            files = {file.relative_to(folder).as_posix(): file for file in _files(choice.staged)}
        self._save(facts, files, lasting=lasting)

    def recall_held(self) -> Held | None:
        """What was found of the model as it is and its original."""
        facts = self._load()
        return None if facts is None else read(Held, facts["held"])

    def keep_held(self, held: Held, *, by_chance: bool) -> None:
        lasting = held.proof.verification.status in ("passed", "failed") and not by_chance
        self._save({"held": plain(held)}, {}, lasting=lasting)

    def _load(self) -> dict[str, Any] | None:
        look, place = self.subject.task.look, self.subject.scratch / "remembered" / self.noted
        facts = load(self.noted, b"", place, look.folder) if look else None
        if facts is None and self.name:
            facts = load(self.name, self.key, place)
        return facts

    def _save(self, facts: Mapping[str, Any], files: Mapping[str, Path], *, lasting: bool) -> None:
        look = self.subject.task.look
        if look is not None and look.first:
            with contextlib.suppress(OSError):  # then it is proven again
                save(self.noted, b"", facts, files, look.folder)
        if self.name and lasting and untouched(self.subject.model):
            save(self.name, self.key, facts, files)


@dataclass(frozen=True)
class Recalled:
    """A choice as it was kept."""

    choice: Choice
    idle: tuple[Step, ...]
    by_chance: bool


def memory(subject: Subject, content: str, limits: Mapping[str, int]) -> Memory:
    """`content` is the digest of the model's files. It counts if they are still those that were opened."""
    key = key_for(subject)
    name = ""
    if key:
        with contextlib.suppress(OSError, ValueError, NotImplementedError, IndexError):
            # What is wrong with samples is told where they are read.
            name = identity(subject.task, content, limits)
    noted = _digest({"name": subject.task.name, "content": content, "limits": dict(limits)})
    return Memory(name, key or b"", subject, noted)


def key_for(subject: Subject) -> bytes | None:
    """What an entry about this model is signed with; None where none can be kept or believed."""
    task, model, hashing = subject.task, subject.model, subject.hashing
    key = signing_key() if task.cache and limit() else None
    same = hashing is not None and hashing.state == model.seen.get(task.path) and untouched(model)
    return key if same else None


def untouched(model: Model) -> bool:
    return all(file_state(path) == state for path, state in model.seen.items())


def _files(staged: Staged) -> list[Path]:
    return files_of(staged.path, staged.model.proto)


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
