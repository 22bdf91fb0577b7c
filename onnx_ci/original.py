"""The original of a shrunk model: found by the sha256 in its receipt, laid out in a scratch folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from onnx_ci.errors import EnvironmentFault, ModelError
from onnx_ci.model.hashing import combined_sha256
from onnx_ci.model.locations import is_inside
from onnx_ci.model.ownership import data_of
from onnx_ci.model.receipt import Receipt
from onnx_ci.shell import shell_word
from onnx_ci.targets.git import run_git
from onnx_ci.targets.origin import find_content


@dataclass(frozen=True)
class Original:
    """Its files, byte for byte as they were; `restore` is how to put them back."""

    path: Path
    restore: str


@dataclass
class _Search:
    """One file after the other, each checked against the sha256 that the receipt gives it."""

    repository: Path
    place: Path  # where the model is now
    left: int  # bytes not found yet
    commands: list[str] = field(default_factory=list)

    def get(self, name: str, sha256: str, target: Path, *, exact: bool) -> bool:
        beside = self.place.parent / name
        inside = beside.is_relative_to(self.repository)
        known = beside.relative_to(self.repository).as_posix() if inside else name
        shown = find_content(self.repository, known, sha256, target, size=self.left, exact=exact)
        if shown is None:
            return False
        self.left -= target.stat().st_size
        self.commands.append(f"{shown} > {shell_word(os.path.relpath(beside))}")
        return True


def find_original(receipt: Receipt, place: Path, repository: Path | None, folder: Path) -> Original | str:
    """The original in `folder`, or why there is none, in words."""
    if repository is None:
        return "can't be looked for outside of git"
    digests = receipt.source_data or {"model.onnx": receipt.source_sha256}
    name, *others = digests
    plain = is_inside(name) and PurePosixPath(name).name == name
    if not plain or combined_sha256(digests) != receipt.source_sha256:
        return "can't be told from its receipt"
    search = _Search(repository, place, receipt.source_size)
    path = folder / name
    try:
        found = search.get(place.name, digests[name], path, exact=not others) and (
            not others or _get_data(search, path, digests)
        )
        return Original(path, " && ".join(search.commands)) if found else _not_found(repository)
    except EnvironmentFault as fault:
        return f"can't be looked for: {fault.message}"


def _get_data(search: _Search, path: Path, digests: dict[str, str]) -> bool:
    """The data files that the original names; the size of the last one is what is left of the whole."""
    try:
        names: Sequence[str] = data_of(path)
    except ModelError:
        return False
    known = {name: digests.get(PurePosixPath(name).name, "") for name in names}
    return all(
        search.get(name, digest, path.parent / name, exact=position == len(known))
        for position, (name, digest) in enumerate(known.items(), 1)
    )


def _not_found(repository: Path) -> str:
    shallow = run_git(repository, "rev-parse", "--is-shallow-repository") == "true\n"
    more = "; this clone is shallow: git fetch --unshallow brings the rest" if shallow else ""
    return f"was not found in git history or in the local Git LFS store{more}"
