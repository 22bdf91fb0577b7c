"""What a model was in the commit that a run is compared with: its size then, and whether it changed since."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from onnx_ci.repo.changes import renamed_since
from onnx_ci.repo.content import Part, Sources
from onnx_ci.repo.tree import Tree


class Baseline:
    """The models of one commit; `judged` is where the models of this run are."""

    def __init__(self, judged: Sources, base: str) -> None:
        self.judged = judged
        self.base = base
        self.repository = judged.repository
        self.tree = Tree(self.repository or judged.root, base)
        self.sources = Sources(self.tree.repository, self.tree)

    @property
    def name(self) -> str:
        """The commit, as messages call it."""
        return "the last commit" if self.base == "HEAD" else self.base[:10]

    def __enter__(self) -> Baseline:
        return self

    def __exit__(self, *_: object) -> None:
        self.sources.close()

    def all_sources(self) -> list[Sources]:
        """Where the models of this run are, and those of the commit."""
        return [self.judged, self.sources]

    @cached_property
    def renames(self) -> dict[str, str]:
        if self.repository is None:
            return {}
        tree = self.judged.tree
        return renamed_since(self.repository, self.base, tree.commit if tree else None)

    def look_up(self, models: Sequence[Path]) -> None:
        """Ask git for all models at once."""
        if self.repository is not None and self.base:
            self.tree.look_up_files(models)

    def former_name(self, model: Path) -> Path | None:
        """Where a model was then: under its own name, under another, or nowhere."""
        if self.repository is None or not self.base or not model.is_relative_to(self.repository):
            return None
        if self.tree.has(model):
            return model
        name = model.relative_to(self.repository).as_posix()
        former = self.renames.get(name) or self.renames.get(f"{name}.dvc", "").removesuffix(".dvc")
        return self._same_model(model, self.repository / former) if former else None

    def _same_model(self, model: Path, former: Path) -> Path | None:
        """Pointers all look alike to git: for two of them only the same content or file name counts."""
        now, then = self.judged.of(model).parts[0].pointer, self.sources.of(former).parts[0].pointer
        if now is None or then is None or now.digest == then.digest or model.name == former.name:
            return former
        return None

    def size(self, model: Path) -> int | None:
        former = self.former_name(model)
        return self.sources.of(former).size if former else None

    def unchanged(self, model: Path) -> bool:
        """Whether the model and all its data are what they were, if under other names."""
        former = self.former_name(model)
        if former is None:
            return False
        now, then = self.judged.of(model).parts, self.sources.of(former).parts
        return len(now) == len(then) and all(map(self._is_same, now, then))

    def _is_same(self, now: Part, then: Part) -> bool:
        entry = self.tree.entry(then.tracked)
        if entry is None:
            return False
        if self.judged.tree is not None:
            judged = self.judged.tree.entry(now.tracked)
            return judged is not None and judged.blob == entry.blob
        comparable = then.pointer is None or then.pointer.keeper != "DVC" or then.content == then.path
        if now.tracked == then.tracked:
            return comparable and self.tree.is_in_work_tree(then.tracked)
        return comparable and self.tree.would_be(now.tracked) == entry.blob
