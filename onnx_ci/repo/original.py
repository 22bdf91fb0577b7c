"""The original of a shrunk model: kept before it is replaced, found again by the sha256 in its receipt."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from onnx_ci.errors import EnvironmentFault, ModelError
from onnx_ci.model.load import open_model, opened_files, read_skeleton
from onnx_ci.model.locations import LARGEST, is_inside, read_pointer
from onnx_ci.model.measure import by_name, files_of
from onnx_ci.model.model import display_path
from onnx_ci.model.receipt import Receipt, model_digest, read_receipt
from onnx_ci.model.replace import data_of, put_files, writable_target
from onnx_ci.model.store import combined_sha256, file_sha256
from onnx_ci.repo.changes import is_shallow
from onnx_ci.repo.content import downloaded, object_path, read_dvc, tracks
from onnx_ci.repo.git import git_into, git_or_none, run_git
from onnx_ci.results import OriginalState, Place
from onnx_ci.util.files import atomic_write, originals_home, scratch_folder
from onnx_ci.util.sizes import size_setting
from onnx_ci.util.text import shell_path, shell_word

REFS = "refs/onnx-ci/originals"
MOST = "10 GB"  # of the folder; what was kept last stays whatever its size

KeptAt = tuple[Place, str]  # and what a file is called there


def _keep(repository: Path | None, files: Mapping[Path, str], sha256: str) -> KeptAt:
    """See to it that the files, each with its sha256, can be had again. An OSError where they can't."""
    if repository is not None:
        with contextlib.suppress(OSError, EnvironmentFault):  # no git, or one that can't be written
            return _in_git(repository, files, sha256)
    return "folder", str(_in_folder(files, sha256))


def _in_git(repository: Path, files: Mapping[Path, str], sha256: str) -> KeptAt:
    places = {file: _kept_already(repository, file, digest) for file, digest in files.items()}
    loose = {file: digest for file, digest in files.items() if places[file] is None}
    if loose:
        ref = f"{REFS}/{sha256}"
        _hold(repository, ref, {digest: _hashed(repository, file, "-w") for file, digest in loose.items()})
        return "objects", ref
    kept = [place for place in places.values() if place is not None]
    return next((place for place in kept if place[0] != "history"), kept[0])


def _kept_already(repository: Path, file: Path, sha256: str) -> KeptAt | None:
    """Where a file is without our doing: in the last commit, with Git LFS, or with DVC."""
    if not file.is_relative_to(repository):
        return None
    name = file.relative_to(repository).as_posix()
    blob = _blob_of(repository, f"HEAD:{name}")
    if blob and blob == _hashed(repository, file):
        return "history", f"HEAD:{name}"
    pointer = read_pointer(_small(repository, blob)) if blob else None
    if (pointer is not None and pointer.digest == sha256) or tracks(repository, name):
        return "lfs", _in_lfs(repository, file, sha256)
    text = _small(repository, _blob_of(repository, f"HEAD:{name}.dvc"))
    by_dvc = downloaded(repository, read_dvc(text, file.name))
    if by_dvc is not None and file_sha256(by_dvc) == sha256:
        return "dvc", by_dvc.relative_to(repository).as_posix()
    return None


def _blob_of(repository: Path, revision: str) -> str:
    return (git_or_none(repository, "rev-parse", "--verify", "--quiet", revision) or "").strip()


def _small(repository: Path, blob: str) -> str:
    """The text of a small content of git; nothing of one that is not small, or not there."""
    size = (git_or_none(repository, "cat-file", "-s", blob) or "").strip() if blob else ""
    small = size.isdigit() and int(size) <= 4 * LARGEST
    return (git_or_none(repository, "cat-file", "blob", blob) or "") if small else ""


def _hashed(repository: Path, file: Path, *how: str) -> str:
    return run_git(repository, "hash-object", *how, "--no-filters", "--", str(file)).strip()


def _hold(repository: Path, ref: str, blobs: Mapping[str, str]) -> None:
    """A ref to a tree of the contents, each called by its sha256: `git log --all` shows no tree."""
    entries = [word for digest, blob in blobs.items() for word in ("--cacheinfo", f"100644,{blob},{digest}")]
    with scratch_folder() as folder:
        index = {"GIT_INDEX_FILE": str(folder / "index")}
        run_git(repository, "update-index", "--add", *entries, also=index)
        tree = run_git(repository, "write-tree", also=index).strip()
    run_git(repository, "update-ref", ref, tree)


def _in_lfs(repository: Path, file: Path, sha256: str) -> str:
    """Into the store of Git LFS, where `git lfs` itself would put it."""
    path = object_path(repository, sha256)
    if not path.is_file() or file_sha256(path) != sha256:
        path.parent.mkdir(parents=True, exist_ok=True)
        _copy(file, path)
    return os.path.relpath(path, repository)


def _copy(file: Path, path: Path) -> None:
    with atomic_write(path) as temporary:
        shutil.copyfile(file, temporary)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())


def _in_folder(files: Mapping[Path, str], sha256: str) -> Path:
    """Into the folder of originals. What was kept for longest goes when that is full."""
    place = originals_home() / sha256
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    for file, digest in files.items():
        _copy(file, place / digest)
    os.utime(place)
    _trim(place)
    return place


def _trim(newest: Path) -> None:
    total = 0
    limit = size_setting("ONNX_CI_ORIGINALS_SIZE", MOST, example="20 GB")
    others = [path for path in newest.parent.iterdir() if path.is_dir() and path != newest]
    for path in [newest, *sorted(others, key=lambda path: -path.stat().st_mtime)]:
        total += sum(file.stat().st_size for file in path.iterdir())
        if total > limit and path != newest:
            shutil.rmtree(path, ignore_errors=True)


MOST_BLOBS = 64  # that are read to see whether they are it
MOST_BYTES = 8 << 30  # of them together, the first excepted
_CHANGE = re.compile(r"(?:^|\0):\d{6} \d{6} ([0-9a-f]{40,64}) ([0-9a-f]{40,64}) ")


@dataclass(frozen=True)
class Content:
    """What may be the content looked for: where it is, the command that prints it, and what holds it."""

    place: Place
    where: str
    command: str
    holder: Path | str  # a file, or a blob of git

    def copy(self, repository: Path | None, target: Path) -> bool:
        """Write it to `target`, if it can be read."""
        if isinstance(self.holder, str):
            return repository is not None and git_into(target, repository, "cat-file", "blob", self.holder)
        with contextlib.suppress(OSError):
            shutil.copyfile(self.holder, target)
            return True
        return False


def _versions(repository: Path, name: str) -> list[str]:
    """Every content a file had in any branch, renames followed (those that changed nothing else)."""
    log = run_git(
        repository,
        "--literal-pathspecs",
        *("log", "--all", "--follow", "--find-renames=100%", "--raw", "--no-abbrev", "-z", "--format="),
        *("--", name),
    )
    pairs = _CHANGE.findall(log)
    return list(dict.fromkeys(blob for old, new in pairs for blob in (new, old)))


def _objects(repository: Path, scratch: Path) -> Iterator[tuple[str, int]]:
    """All blobs that are here, with their sizes: one call, whether they are many or few."""
    form = "--batch-check=%(objecttype) %(objectname) %(objectsize)"
    if not git_into(scratch, repository, "cat-file", "--batch-all-objects", "--unordered", form):
        raise EnvironmentFault("git can't list the contents that it has")
    with scratch.open(encoding="ascii") as lines:
        for line in lines:
            kind, blob, size = line.split()
            if kind == "blob":
                yield blob, int(size)


OUTSIDE = "was not found in the folder of originals, and can't be looked for outside of git"


@dataclass(frozen=True)
class Original:
    """Its files, byte for byte as they were; `restore` is how to put them back."""

    path: Path
    restore: str
    state: OriginalState


def keep_original(repository: Path | None, files: Sequence[Path]) -> OriginalState:
    """Keep a model that is about to be replaced by one that is not the same bit for bit."""
    digests = {name: file_sha256(file) for name, file in by_name(files).items()}
    sha256 = combined_sha256(digests)
    try:
        place, where = _keep(repository, dict(zip(files, digests.values(), strict=True)), sha256)
    except (OSError, RuntimeError, EnvironmentFault) as error:
        raise ModelError(
            f"{display_path(files[0])}: was not replaced, since its original could not be kept: {error}",
            hint="put it into git (git add), or name a folder for originals: ONNX_CI_ORIGINALS",
            code="OCI051",
        ) from None
    return OriginalState(sha256=sha256, place=place, where=where)


@dataclass
class _OriginalSearch:
    """One file after the other, each checked against the sha256 that the receipt gives it.

    Nothing is downloaded, and nothing counts but the digest of what was written."""

    repository: Path | None
    place: Path  # where the model is now
    sha256: str  # of the whole
    left: int  # bytes not found yet
    found: list[Content] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    def get(self, name: str, sha256: str, target: Path, *, exact: bool) -> bool:
        """Write a file to `target`. Its size is all that is left if that is `exact`, or else at most that."""
        if not re.fullmatch("[0-9a-f]{64}", sha256):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = self.place.parent / name
        for content in self._contents(name, sha256, target, exact):
            if content.copy(self.repository, target) and file_sha256(target) == sha256:
                self.left -= target.stat().st_size
                self.found.append(content)
                self.commands.append(f"{content.command} > {shell_word(os.path.relpath(beside))}")
                return True
        target.unlink(missing_ok=True)
        return False

    def _contents(self, name: str, sha256: str, scratch: Path, exact: bool) -> Iterator[Content]:
        """What was kept, then what Git LFS and DVC have, then what git has."""
        if self.repository is not None:
            ref = f"{REFS}/{self.sha256}"
            blob = _blob_of(self.repository, f"{ref}:{sha256}")
            if blob:
                yield Content("objects", ref, f"git cat-file blob {ref}:{sha256}", blob)
        with contextlib.suppress(OSError, RuntimeError):  # no home folder, or it can't be read
            file = originals_home() / self.sha256 / sha256
            if file.is_file():
                yield Content("folder", str(file.parent), f"cat {shell_path(file)}", file)
        if self.repository is None:
            return
        beside = self.place.parent / name
        if beside.is_relative_to(self.repository):
            name = beside.relative_to(self.repository).as_posix()
        for place, file in _files(self.repository, name, sha256):
            if file.is_file() and file.stat().st_size <= self.left:
                shown = os.path.relpath(file)
                yield Content(place, shown, f"cat {shell_word(shown)}", file)
        yield from self._blobs(self.repository, _versions(self.repository, name), scratch, exact)

    def _blobs(
        self, repository: Path, versions: Sequence[str], scratch: Path, exact: bool
    ) -> Iterator[Content]:
        """Versions of the file first, the newest before older ones. Where the size is known, whatever else is
        as large: it may have had another name, or been staged and never committed."""
        ages = {blob: age for age, blob in enumerate(versions)}
        sizes = {
            blob: size
            for blob, size in _objects(repository, scratch)
            if (size == self.left if exact else size <= self.left and blob in ages)
        }
        read = 0
        for blob in sorted(sizes, key=lambda blob: (ages.get(blob, len(ages)), blob))[:MOST_BLOBS]:
            read += sizes[blob]
            if read == sizes[blob] or read <= MOST_BYTES:
                place: Place = "history" if blob in ages else "objects"
                yield Content(place, f"blob {blob[:12]}", f"git cat-file blob {blob}", blob)

    @property
    def state(self) -> OriginalState:
        """The place of the whole: that of the file which is kept least well."""
        last = next((content for content in self.found if content.place != "history"), self.found[0])
        return OriginalState(sha256=self.sha256, place=last.place, where=last.where)


def _files(repository: Path, name: str, sha256: str) -> Iterator[tuple[Place, Path]]:
    """Where Git LFS has it, and what DVC has of every version that git knows of."""
    yield "lfs", object_path(repository, sha256)
    by_dvc = _versions(repository, f"{name}.dvc") if (repository / ".dvc").is_dir() else []
    for blob in by_dvc[:MOST_BLOBS]:
        text = git_or_none(repository, "cat-file", "blob", blob) or ""
        file = downloaded(repository, read_dvc(text, PurePosixPath(name).name))
        if file is not None:
            yield "dvc", file


def find_original(receipt: Receipt, place: Path, repository: Path | None, folder: Path) -> Original | str:
    """The original in `folder`, or why there is none, in words."""
    digests = receipt.source_data or {"model.onnx": receipt.source_sha256}
    name, *others = digests
    plain = is_inside(name) and PurePosixPath(name).name == name
    if not plain or combined_sha256(digests) != receipt.source_sha256:
        return "can't be told from its receipt"
    search = _OriginalSearch(repository, place, receipt.source_sha256, receipt.source_size)
    path = folder / name
    try:
        found = search.get(place.name, digests[name], path, exact=not others) and (
            not others or _get_data(search, path, digests)
        )
        if found:
            return Original(path, " && ".join(search.commands), search.state)
        return OUTSIDE if repository is None else _not_found(repository)
    except EnvironmentFault as fault:
        return f"can't be looked for: {fault.message}"


def _get_data(search: _OriginalSearch, path: Path, digests: Mapping[str, str]) -> bool:
    """The data files that the original names; the size of the last one is what is left of the whole."""
    try:
        names: Sequence[str] = data_of(path)
    except ModelError:
        return False
    sha256_of = {name: digests.get(name) or digests.get(PurePosixPath(name).name, "") for name in names}
    return all(
        search.get(name, digest, path.parent / name, exact=position == len(sha256_of))
        for position, (name, digest) in enumerate(sha256_of.items(), 1)
    )


def _not_found(repository: Path) -> str:
    more = "; this clone is shallow: git fetch --unshallow brings the rest" if is_shallow(repository) else ""
    return (
        "was not found in git history, among git's other objects, in the local store of Git LFS,"
        f" in DVC's cache or in the folder of originals{more}"
    )


def restore_original(source: Path, target: Path, repository: Path | None) -> tuple[OriginalState, int]:
    """Write a model as it was before it was shrunk, byte for byte: where it was found, and its size."""
    name = display_path(source)
    with open_model(source) as model:
        receipt = read_receipt(model.proto)
        if receipt is None:
            raise ModelError(
                f"{name}: has no receipt of onnx-ci, so nothing tells what it was made from",
                hint="look for it in git: git log --follow -- " + shell_path(source),
            )
        in_place = target.exists() and target.samefile(source)
        if in_place and receipt.digest != model_digest(model):
            raise ModelError(
                f"{name}: was changed after onnx-ci shrank it, and that would be lost",
                hint=f"name another file: onnx-ci restore --original {shell_path(source)} OUT",
            )
        data = opened_files(model) if in_place else []
    with scratch_folder() as scratch:
        original = find_original(receipt, source.resolve(), repository, scratch)
        if isinstance(original, str):
            raise ModelError(
                f"{name}: its original (sha256 {receipt.source_sha256},"
                f" {receipt.source_size:,} bytes) {original}",
                hint="bring it here (git fetch, git lfs fetch --all), or set ONNX_CI_ORIGINALS to where it"
                " was kept",
            )
        files = by_name(files_of(original.path, read_skeleton(original.path)))
        # A link that leads out of the repository, or outside of one out of its folder, is not followed.
        folder = target.parent.resolve()
        root = repository if repository and folder.is_relative_to(repository) else folder
        put_files(files, writable_target(target, root), also_ours=data)
        return original.state, sum(file.stat().st_size for file in files.values())
