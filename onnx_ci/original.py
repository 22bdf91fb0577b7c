"""The original of a shrunk model: kept before it is replaced, found again by the sha256 in its receipt."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from onnx_ci.errors import EnvironmentFault, ModelError
from onnx_ci.model.container import display_path
from onnx_ci.model.digest import model_digest
from onnx_ci.model.external import opened_files
from onnx_ci.model.hashing import combined_sha256, file_sha256
from onnx_ci.model.load import open_model, read_skeleton
from onnx_ci.model.locations import is_inside
from onnx_ci.model.measure import by_name, files_of
from onnx_ci.model.ownership import data_of
from onnx_ci.model.receipt import Receipt, read_receipt
from onnx_ci.model.replace import put_files, writable_target
from onnx_ci.results import OriginalState
from onnx_ci.scratch import scratch_folder
from onnx_ci.shell import shell_path, shell_word
from onnx_ci.targets.git import run_git
from onnx_ci.targets.keep import keep, kept_content
from onnx_ci.targets.origin import Content, find_content

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
        place, where = keep(repository, dict(zip(files, digests.values(), strict=True)), sha256)
    except (OSError, RuntimeError, EnvironmentFault) as error:
        raise ModelError(
            f"{display_path(files[0])}: was not replaced, since its original could not be kept: {error}",
            hint="put it into git (git add), or name a folder for originals: ONNX_CI_ORIGINALS",
            code="OCI051",
        ) from None
    return OriginalState(sha256=sha256, place=place, where=where)


@dataclass
class _Search:
    """One file after the other, each checked against the sha256 that the receipt gives it."""

    repository: Path | None
    place: Path  # where the model is now
    sha256: str  # of the whole
    left: int  # bytes not found yet
    found: list[Content] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    def get(self, name: str, sha256: str, target: Path, *, exact: bool) -> bool:
        if not re.fullmatch("[0-9a-f]{64}", sha256):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        content = self._content(name, sha256, target, exact=exact)
        if content is None:
            return False
        self.left -= target.stat().st_size
        self.found.append(content)
        beside = self.place.parent / name
        self.commands.append(f"{content.command} > {shell_word(os.path.relpath(beside))}")
        return True

    def _content(self, name: str, sha256: str, target: Path, *, exact: bool) -> Content | None:
        kept = kept_content(self.repository, self.sha256, sha256, target)
        if kept is not None:
            place, where = kept
            if place == "folder":
                return Content(place, where, f"cat {shell_path(Path(where) / sha256)}")
            return Content(place, where, f"git cat-file blob {where}:{sha256}")
        if self.repository is None:
            return None
        beside = self.place.parent / name
        inside = beside.is_relative_to(self.repository)
        known = beside.relative_to(self.repository).as_posix() if inside else name
        return find_content(self.repository, known, sha256, target, size=self.left, exact=exact)

    @property
    def state(self) -> OriginalState:
        """The place of the whole: that of the file which is kept least well."""
        last = next((one for one in self.found if one.place != "history"), self.found[0])
        return OriginalState(sha256=self.sha256, place=last.place, where=last.where)


def find_original(receipt: Receipt, place: Path, repository: Path | None, folder: Path) -> Original | str:
    """The original in `folder`, or why there is none, in words."""
    digests = receipt.source_data or {"model.onnx": receipt.source_sha256}
    name, *others = digests
    plain = is_inside(name) and PurePosixPath(name).name == name
    if not plain or combined_sha256(digests) != receipt.source_sha256:
        return "can't be told from its receipt"
    search = _Search(repository, place, receipt.source_sha256, receipt.source_size)
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


def _get_data(search: _Search, path: Path, digests: Mapping[str, str]) -> bool:
    """The data files that the original names; the size of the last one is what is left of the whole."""
    try:
        names: Sequence[str] = data_of(path)
    except ModelError:
        return False
    known = {name: digests.get(name) or digests.get(PurePosixPath(name).name, "") for name in names}
    return all(
        search.get(name, digest, path.parent / name, exact=position == len(known))
        for position, (name, digest) in enumerate(known.items(), 1)
    )


def _not_found(repository: Path) -> str:
    shallow = run_git(repository, "rev-parse", "--is-shallow-repository") == "true\n"
    more = "; this clone is shallow: git fetch --unshallow brings the rest" if shallow else ""
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
        found = find_original(receipt, source.resolve(), repository, scratch)
        if isinstance(found, str):
            raise ModelError(
                f"{name}: its original (sha256 {receipt.source_sha256},"
                f" {receipt.source_size:,} bytes) {found}",
                hint="bring it here (git fetch, git lfs fetch --all), or set ONNX_CI_ORIGINALS to where it"
                " was kept",
            )
        files = by_name(files_of(found.path, read_skeleton(found.path)))
        final = writable_target(target, _root(target, repository))
        put_files(files, final, also_ours=data)
        return found.state, sum(file.stat().st_size for file in files.values())


def _root(target: Path, repository: Path | None) -> Path:
    """A link that leads out of the repository, or outside of one out of its folder, is not followed."""
    folder = target.parent.resolve()
    return repository if repository and folder.is_relative_to(repository) else folder
